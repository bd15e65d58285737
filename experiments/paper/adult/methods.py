"""Every method that is compared on Adult, with its default settings, and how one is run on a split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from sklearn.frozen import FrozenEstimator
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV

from experiments.harness.metrics import METRICS
from experiments.harness.runner import timed
from experiments.harness.store import Row
from experiments.paper.adult.splits import LARGEST, PROXY, TASKS, C, Data, logistic, quietly
from postshift import PostShiftClassifier
from postshift.baselines import (
    AdaptiveSurrogates,
    CoordinatePlugin,
    CrossEntropyOnTrain,
    CrossEntropyOnValidation,
    DirectSearch,
    FineTuned,
    ForwardCorrection,
    ImportanceWeighting,
    KernelMeanMatching,
    LearnToReweight,
    OptMetric,
    PriorCorrection,
    SoftmaxRegression,
)


@dataclass(frozen=True, kw_only=True)
class Method:
    """A classifier of ``fit(X, y, X_val, y_val)``, which takes groups too where it reads the metric."""

    name: str
    make: Callable[[Data], Any]
    reads_metric: bool = True
    tasks: tuple[str, ...] = TASKS
    quick: bool = True


def run(method: Method, data: Data) -> Row:
    """Fit a method to a split and score its labels of the test rows; the time is that of the fit."""
    train, val = data.split.train, data.split.validation

    def fitted() -> Any:
        with quietly():  # 163 rows are few: that is the task
            model = method.make(data)
            return model.fit(train.X, train.y, val.X, val.y, **(data.groups if method.reads_metric else {}))

    model, seconds = timed(fitted)
    test = data.score(model.predict(data.split.test.X))
    return Row(values={"test": test}, seconds=seconds, queries=int(getattr(model, "n_queries_", 0)))


class TunedThreshold:
    """scikit-learn's ``TunedThresholdClassifierCV``: logistic regression, its threshold tuned on validation rows.

    Parameters
    ----------
    metric : str
        A name of ``experiments.harness.metrics.METRICS``, which scikit-learn computes.
    """

    def __init__(self, *, metric: str) -> None:
        self.metric = metric

    def fit(self, X: Any, y: Any, X_val: Any, y_val: Any) -> Self:
        """Fit the model, then tune the threshold."""
        model = logistic().fit(X, y)
        scorer = make_scorer(METRICS[self.metric])
        tuned = TunedThresholdClassifierCV(FrozenEstimator(model), scoring=scorer, cv="prefit", refit=False)
        self.tuned_ = tuned.fit(X_val, y_val)
        return self

    def predict(self, X: Any) -> Any:
        """Return the labels above the threshold."""
        return self.tuned_.predict(X)


def work(data: Data) -> Callable[[Any], Any]:
    """Return the paper's second basis: private work or not."""
    return data.basis(LARGEST[PROXY][:2])


def largest(data: Data) -> Callable[[Any], Any]:
    """Return the paper's largest basis."""
    return data.basis(LARGEST[data.task])


def opt_metric_on_base(data: Data) -> OptMetric:
    """Return Opt-metric with the model of the training rows, as the authors' program has it."""
    train = data.split.train
    return OptMetric(FrozenEstimator(logistic().fit(train.X, train.y)), metric=data.metric)


def ours(name: str, method: str, basis: Callable[[Data], Any] = lambda _: "auto", **options: Any) -> Method:
    """Return one of our rules, or the choice among them."""
    return Method(
        name=f"ours: {name}",
        make=lambda data: PostShiftClassifier(logistic(), metric=data.metric, method=method, basis=basis(data)),
        quick=False,
        **options,
    )


ACCURATE = (  # methods that know nothing of the metric
    Method(name="cross-entropy [train]", make=lambda _: CrossEntropyOnTrain(logistic()), reads_metric=False),
    Method(name="cross-entropy [val]", make=lambda _: CrossEntropyOnValidation(logistic()), reads_metric=False),
    Method(
        name="fine-tuning",
        make=lambda data: FineTuned(logistic(), random_state=data.seed),
        reads_metric=False,
    ),
    Method(
        name="learn-to-reweight",
        make=lambda data: LearnToReweight(SoftmaxRegression(C=C), random_state=data.seed),
        reads_metric=False,
    ),
    Method(
        name="forward correction, anchors",
        make=lambda _: ForwardCorrection(SoftmaxRegression(C=C)),
        reads_metric=False,
    ),
    Method(
        name="forward correction, validation rows",
        make=lambda _: ForwardCorrection(SoftmaxRegression(C=C), transition="validation"),
        reads_metric=False,
    ),
    Method(
        name="importance weights",
        make=lambda data: ImportanceWeighting(logistic(), random_state=data.seed),
        reads_metric=False,
        quick=False,
    ),
    Method(
        name="kernel mean matching",
        make=lambda data: KernelMeanMatching(logistic(), random_state=data.seed),
        reads_metric=False,
        quick=False,
    ),
    Method(name="prior correction (EM)", make=lambda _: PriorCorrection(logistic()), reads_metric=False),
)
OF_THE_METRIC = (
    Method(name="opt-metric [val]", make=lambda data: OptMetric(logistic(), metric=data.metric)),
    Method(name="opt-metric [val], base model", make=opt_metric_on_base, tasks=(PROXY,)),
    Method(name="plug-in [train-val], exact", make=lambda data: CoordinatePlugin(logistic(), metric=data.metric)),
    Method(
        name="plug-in [train-val], spacing 1e-4",
        make=lambda data: CoordinatePlugin(logistic(), metric=data.metric, spacing=1e-4),
    ),
    Method(
        name="adaptive surrogates, constant basis",
        make=lambda data: AdaptiveSurrogates(metric=data.metric, random_state=data.seed),
        quick=False,
    ),
    Method(
        name="adaptive surrogates, largest basis",
        make=lambda data: AdaptiveSurrogates(metric=data.metric, basis=largest(data), random_state=data.seed),
        quick=False,
    ),
    Method(
        name="direct search",
        make=lambda data: DirectSearch(logistic(), metric=data.metric, random_state=data.seed),
    ),
)
OURS = (
    ours("paper's method, constant basis", "paper", lambda _: "constant"),
    ours("paper's method, private work or not", "paper", work),
    ours("paper's method, largest basis", "paper", largest),
    ours("inverse prior", "inverse prior"),
    ours("smoothed plug-in", "smoothed plug-in"),
    ours("stack", "stack"),
    ours("stack + smoothed plug-in", "stack + smoothed plug-in"),
    ours("stack + expected utility", "stack + expected utility", tasks=(PROXY,)),
    ours("influence regression", "influence"),
    ours("stack + influence regression", "stack + influence"),
    ours("best rule", "best"),
    ours("average of the rules (the default)", "auto"),
)
METHODS = (*ACCURATE, *OF_THE_METRIC, *OURS)

"""What ``experiments/baselines.py`` compares: the splits of Adult, and every method with its default settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from experiments.adult_paper import Score, group_recalls
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
from postshift.datasets import adult_fairness, adult_proxy
from postshift.datasets.adult import Split

C = 1.0
PROXY, FAIRNESS = "proxy", "fairness"
TASKS = (PROXY, FAIRNESS)
LOADERS = {PROXY: adult_proxy, FAIRNESS: adult_fairness}
METRICS = {PROXY: "g_mean", FAIRNESS: "group_g_mean"}
WORK = ("workclass=private", "workclass=non-private")
LARGEST = {  # of the paper's bases, by columns of X
    PROXY: (*WORK, "income=>50K"),
    FAIRNESS: (*WORK, "relationship=Wife", "relationship=Husband"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """One split of a task, and how labels of its test rows are scored."""

    task: str
    seed: int
    split: Split
    on_test: Score

    @property
    def metric(self) -> str:
        """The name of the task's metric."""
        return METRICS[self.task]

    @property
    def groups(self) -> dict[str, Any]:
        """What the metric reads about the validation rows, beside their labels."""
        group = self.split.validation.group
        return {} if group is None else {"groups": group}

    def columns(self, X: Any, *, names: tuple[str, ...]) -> np.ndarray:
        """Return columns of rows, which are indicators."""
        return np.asarray(X[:, [self.split.feature_names.index(name) for name in names]])

    def work(self) -> Callable[[Any], np.ndarray]:
        """Return the paper's second basis: private work or not."""
        return partial(self.columns, names=WORK)

    def largest(self) -> Callable[[Any], np.ndarray]:
        """Return the paper's largest basis."""
        return partial(self.columns, names=LARGEST[self.task])

    def score(self, labels: np.ndarray) -> float:
        """Return the test metric of labels."""
        return self.on_test(np.eye(2)[labels])


def load(task: str, seed: int) -> Data:
    """Return a split of a task."""
    split = LOADERS[task](seed=seed)
    return Data(task=task, seed=seed, split=split, on_test=group_recalls(split.test))


@dataclass(frozen=True, kw_only=True)
class Method:
    """A classifier of ``fit(X, y, X_val, y_val)``, which takes groups too where it reads the metric."""

    name: str
    make: Callable[[Data], Any]
    reads_metric: bool = True
    tasks: tuple[str, ...] = TASKS
    quick: bool = True


def logistic() -> LogisticRegression:
    """Return the base model, that of ``experiments/adult_paper.py``."""
    return LogisticRegression(C=C, max_iter=2000)


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
        make=lambda data: AdaptiveSurrogates(metric=data.metric, basis=data.largest(), random_state=data.seed),
        quick=False,
    ),
    Method(
        name="direct search",
        make=lambda data: DirectSearch(logistic(), metric=data.metric, random_state=data.seed),
    ),
)
OURS = (
    ours("paper's method, constant basis", "paper", lambda _: "constant"),
    ours("paper's method, private work or not", "paper", Data.work),
    ours("paper's method, largest basis", "paper", Data.largest),
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

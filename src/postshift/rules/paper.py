"""The paper's method as a function call: PI-EW (Algorithm 2) and FW-EG (Algorithm 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from postshift._validation import IntArray
from postshift.core.frank_wolfe import FrankWolfe
from postshift.core.mixture import Mixture
from postshift.core.psi import ConfusionMetric
from postshift.core.queries import Oracle, Query, converse
from postshift.core.records import FitResult, Settings
from postshift.core.rows import Rows
from postshift.core.statistics import Engine
from postshift.core.weighting import weighting_named
from postshift.engines.memory import MemoryEngine
from postshift.exceptions import LabelError, MetricError, SettingError
from postshift.metrics.confusion import maximised
from postshift.metrics.oracles import ConfusionOracle
from postshift.rules.conversation import Fit
from postshift.rules.fitted import LABELLING_QUERIES, FittedRule, with_best_labels
from postshift.rules.problem import Problem
from postshift.rules.table import CONSTANT, Table

ENOUGH_CELLS = 2_000_000  # rows times classes: with labels at hand, more of them change what is found by noise only
PER_COEFFICIENT = 10_000  # rows that are never too many
MANY_ROWS = 20_000  # validation rows from which the bias of distant probes counts for more than their smoothing


def fw_eg(
    train: Rows | Engine,
    val: Rows,
    metric: ConfusionMetric | Oracle,
    *,
    oracle: Oracle | None = None,
    start: Mixture | None = None,
    halves: tuple[IntArray, IntArray] | None = None,
    on_answer: Callable[[Query, Any], None] | None = None,
    **settings: Any,
) -> FitResult:
    """Fit a mixture of plug-in classifiers by Frank-Wolfe with elicited gradients (Algorithm 3).

    Parameters
    ----------
    train : Rows or Engine
        Training rows with labels, or an engine that holds them.
    val : Rows
        Validation rows; with labels where ``metric`` is a function of the confusion matrix.
    metric : ConfusionMetric or Oracle
        What to maximise: psi(C), or an oracle that answers queries about predictions. A cost is minimised: its values
        have a minus. An oracle owns labels and weights; those of ``val`` are for psi(C) alone.
    oracle : Oracle, optional
        With a psi(C): who answers with confusion matrices, where the labels are not in ``val``.
    start : Mixture, optional
        The first iterate; by default the inverse-prior plug-in.
    halves : pair of row arrays, optional
        Algorithm 3*: elicit on the first rows, take the gradient on the second.
    on_answer : callable, optional
        Called with every query and its answer.
    **settings
        Fields of :class:`~postshift.core.records.Settings`; ``weighting`` defaults to what the metric
        says it depends on.

    Returns
    -------
    FitResult
        The mixture, the trace and the number of queries.

    Examples
    --------
    >>> import numpy as np
    >>> from postshift import GMean, Rows, fw_eg
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 4, size=2000)
    >>> y = (rng.random(2000) < p).astype(int)
    >>> rows = Rows.of(np.column_stack([1 - p, p]), labels=y)
    >>> fit = fw_eg(rows, rows, GMean(), max_iter=10)
    >>> bool(fit.value > GMean().value(np.array([[(1 - y).sum(), 0], [y.sum(), 0]]) / 2000))
    True
    """
    engine = MemoryEngine(train) if isinstance(train, Rows) else train
    metric = maximised(metric) if isinstance(metric, ConfusionMetric) else metric
    psi = metric if isinstance(metric, ConfusionMetric) else None
    asked = _oracle(metric, oracle, val)
    if halves is not None and not asked.takes_subsets:
        raise MetricError("this oracle serves all validation rows or none, so they cannot be split in halves")
    chosen = Settings(**{"weighting": "diagonal" if psi is None else psi.weighting, **settings})
    run = FrankWolfe(engine, val, kind=asked.kind, metric=psi, settings=chosen, start=start, halves=halves)
    converse(run, asked, on_answer=on_answer)
    return run.result()


def pi_ew(train: Rows | Engine, val: Rows, metric: ConfusionMetric | Oracle, **options: Any) -> FitResult:
    """Fit one plug-in classifier with elicited weights (Algorithm 2), for linear metrics.

    It is the first iteration of :func:`fw_eg`, whose parameters it takes: the first step has size 1.
    """
    if "max_iter" in options:
        raise SettingError("pi_ew makes one iteration and takes no max_iter: use fw_eg")
    return fw_eg(train, val, metric, **options, max_iter=1)


@dataclass(frozen=True, slots=True)
class Paper:
    """FW-EG (or, with one iteration, PI-EW) over one basis as an entry of the menu.

    It needs labels of training rows; where there are no training rows, the validation rows serve as both.

    Parameters
    ----------
    basis : str
        The name of a basis of the tables.
    weighting : str, optional
        What the weights stand on; by default what the metric depends on ("diagonal" where only values are told).
    max_iter : int
        Frank-Wolfe iterations; 1 is PI-EW.
    """

    basis: str = CONSTANT
    weighting: str | None = None
    max_iter: int = 30

    @property
    def name(self) -> str:
        """What the entry is called."""
        return f"{'PI-EW' if self.max_iter == 1 else 'FW-EG'} [{self.basis}]"

    def usable(self, problem: Problem) -> bool:
        """Return whether there are training labels and the basis."""
        return _training(problem).labels is not None and self.basis in problem.val.bases

    def bound(self, problem: Problem) -> int:
        """Return one query per probe and iteration, and a few for the labels."""
        if problem.is_labelled:
            return 0
        n_probes = weighting_named(self._weighting(problem)).probes.n_probes(problem.n_classes)
        n_bases: int = problem.val.phi(self.basis).shape[1]
        return self.max_iter * (1 + n_bases * n_probes) + 1 + LABELLING_QUERIES

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Run the loop, then choose the way to deterministic labels; of very many rows a fixed draw is enough."""
        problem = problem.few_rows(self._n_enough(problem))
        train = _training(problem)
        if train.labels is None:
            raise LabelError(
                "the paper's method needs training rows with labels: give them, or use influence regression"
            )
        run = FrankWolfe(
            self._engine(problem, train),
            problem.val.sample(self.basis),
            kind=problem.kind,
            metric=problem.fitting_metric if problem.is_labelled else None,
            settings=Settings(weighting=self._weighting(problem), max_iter=self.max_iter, radius=self._radius(problem)),
            held=problem.held(self.basis),
        )
        found = yield from problem.fitted(run)
        rule = FittedRule(name=self.name, mixture=found.mixture, basis=self.basis, trace=found.trace)
        return (yield from with_best_labels(rule, problem))

    @staticmethod
    def _radius(problem: Problem) -> float:
        """Return how far the probes stand: nearer where exact answers about many rows allow it."""
        return 0.01 if problem.is_labelled and problem.val.n_rows >= MANY_ROWS else 0.1

    def _engine(self, problem: Problem, train: Table) -> Engine:
        """Return the engine of the training rows; where they are the validation rows, the one that holds these."""
        held = problem.held(self.basis)
        same = train is problem.val and problem.n_categories == problem.n_classes
        return held if held is not None and same else train.engine(self.basis)

    def _n_enough(self, problem: Problem) -> int:
        """Return how many rows of each sample tell all there is to tell about the coefficients."""
        n_bases: int = problem.val.phi(self.basis).shape[1]
        n_coefficients = n_bases * weighting_named(self._weighting(problem)).n_terms(problem.n_classes)
        return max(ENOUGH_CELLS // problem.n_classes, PER_COEFFICIENT * n_coefficients)

    def _weighting(self, problem: Problem) -> str:
        """Return what the weights stand on."""
        return self.weighting or ("diagonal" if problem.metric is None else problem.metric.weighting)


def _training(problem: Problem) -> Table:
    """Return the rows whose labels weigh the probes."""
    return problem.val if problem.train is None else problem.train


def _oracle(metric: ConfusionMetric | Oracle, oracle: Oracle | None, val: Rows) -> Oracle:
    """Return who answers: the oracle given, or one made of the validation labels."""
    if isinstance(metric, ConfusionMetric):
        return oracle or _label_oracle(metric, val)
    if isinstance(metric, type) or not hasattr(metric, "answer"):
        raise MetricError(
            "metric must be a function of the confusion matrix (GMean(), MacroF1(), ...) or an oracle "
            f"(SoftOracle(f), HardOracle(f), ...). Got {metric!r} instead"
        )
    if val.weights is not None:
        raise MetricError("validation weights belong to the oracle that answers: give them to it, not to val")
    return metric


def _label_oracle(metric: ConfusionMetric, val: Rows) -> Oracle:
    """Return an oracle made of the validation labels."""
    if val.labels is None:
        raise LabelError(
            f"metric {metric.name!r} is a function of the confusion matrix and needs validation labels: "
            "pass labels=... to Rows.of, or give an oracle"
        )
    return ConfusionOracle(val.labels, n_classes=val.n_classes, weights=val.weights, metric=metric)

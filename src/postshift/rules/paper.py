"""The paper's method as a function call: PI-EW (Algorithm 2) and FW-EG (Algorithm 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from postshift._validation import IntArray
from postshift.core.frank_wolfe import FrankWolfe
from postshift.core.inquiry import ConfusionMetric
from postshift.core.mixture import Mixture
from postshift.core.questions import Driver, Question, converse
from postshift.core.records import FitResult, Settings
from postshift.core.sample import Sample
from postshift.core.statistics import Statistics
from postshift.engines.memory import MemoryEngine
from postshift.exceptions import LabelError, MetricError
from postshift.metrics.drivers import ConfusionDriver


def fw_eg(
    train: Sample | Statistics,
    val: Sample,
    metric: ConfusionMetric | Driver,
    *,
    start: Mixture | None = None,
    halves: tuple[IntArray, IntArray] | None = None,
    on_answer: Callable[[Question, Any], None] | None = None,
    **settings: Any,
) -> FitResult:
    """Fit a mixture of plug-in classifiers by Frank-Wolfe with elicited gradients (Algorithm 3).

    Parameters
    ----------
    train : Sample or Statistics
        Training rows with labels, or an engine that holds them.
    val : Sample
        Validation rows; with labels where ``metric`` is a function of the confusion matrix.
    metric : ConfusionMetric or Driver
        What to maximise: psi(C), or a driver that answers questions about predictions.
    start : Mixture, optional
        The first iterate; by default the inverse-prior plug-in.
    halves : pair of row arrays, optional
        Algorithm 3*: elicit on the first rows, take the gradient on the second.
    on_answer : callable, optional
        Called with every question and its answer.
    **settings
        Fields of :class:`~postshift.core.records.Settings`; ``weighting`` defaults to what the metric
        says it depends on.

    Returns
    -------
    FitResult
        The mixture, the trace and the number of questions.

    Examples
    --------
    >>> import numpy as np
    >>> from postshift import GMean, Sample, fw_eg
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 4, size=2000)
    >>> y = (rng.random(2000) < p).astype(int)
    >>> rows = Sample.of(np.column_stack([1 - p, p]), labels=y)
    >>> fit = fw_eg(rows, rows, GMean(), max_iter=10)
    >>> bool(fit.value > GMean().value(np.array([[(1 - y).sum(), 0], [y.sum(), 0]]) / 2000))
    True
    """
    engine = MemoryEngine(train) if isinstance(train, Sample) else train
    psi = metric if isinstance(metric, ConfusionMetric) else None
    driver = _driver(metric, val)
    if halves is not None and not driver.takes_subsets:
        raise MetricError("this driver serves all validation rows or none, so they cannot be split in halves")
    chosen = Settings(**{"weighting": "diagonal" if psi is None else psi.weighting, **settings})
    run = FrankWolfe(engine, val, kind=driver.kind, metric=psi, settings=chosen, start=start, halves=halves)
    converse(run, driver, on_answer=on_answer)
    return run.result()


def pi_ew(train: Sample | Statistics, val: Sample, metric: ConfusionMetric | Driver, **options: Any) -> FitResult:
    """Fit one plug-in classifier with elicited weights (Algorithm 2), for linear metrics.

    It is the first iteration of :func:`fw_eg`, whose parameters it takes: the first step has size 1.
    """
    return fw_eg(train, val, metric, **{**options, "max_iter": 1})


def _driver(metric: ConfusionMetric | Driver, val: Sample) -> Driver:
    """Return who answers: the driver given, or one made of the validation labels."""
    if not isinstance(metric, ConfusionMetric):
        return metric
    if val.labels is None:
        raise LabelError(
            f"metric {metric.name!r} is a function of the confusion matrix and needs validation labels: "
            "pass labels=... to Sample.of, or give a driver"
        )
    return ConfusionDriver(val.labels, n_classes=val.n_classes, weights=val.weights, metric=metric)

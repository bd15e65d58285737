"""From anything a user may pass as ``metric`` to one of the three forms that the library works with.

*Metadata* are arguments with one value per row that a metric reads, other than labels and weights: groups, costs, ...
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from postshift.core.psi import ConfusionMetric, check_classes, maximised
from postshift.exceptions import MetricError, SettingError
from postshift.metrics.adapters import (
    ConfusionFunction,
    LabelFunction,
    OracleMetric,
    PredictionFunction,
    called,
    extra_parameters,
    from_labels,
    parameters_of,
    required_positionals,
)
from postshift.metrics.catalogue import METRICS
from postshift.metrics.cells import CellMetric
from postshift.metrics.named import is_over_groups, metric_of_classes
from postshift.metrics.scorers import from_scorer, is_of_ranking, is_scorer, is_scorer_name

ResolvedMetric = ConfusionMetric | LabelFunction | PredictionFunction | OracleMetric
GROUPS = "groups"
_LOSSES = ("loss", "error", "cost")  # endings of names of functions for which less is better
_OWN_CLASS = (
    "pos_label is for a metric by its name in the catalogue, such as 'f1': leave it out, and pass the class to the "
    "metric itself, as in make_scorer(f1_score, pos_label=...) or BinaryF1(positive=...)"
)


def resolve_metric(metric: Any, *, classes: Any, n_groups: int | None = None, pos_label: Any = None) -> ResolvedMetric:
    """Return the metric in one of the three forms that the library works with.

    Parameters
    ----------
    metric : str, ConfusionMetric, scorer, LabelFunction, PredictionFunction or callable
        A name from ``metric_catalogue()`` or of a scorer of scikit-learn, a metric of the confusion matrix, a scorer
        from ``make_scorer``, the result of an adapter (``from_confusion``, ``from_labels``, ``from_predictions``), or
        a function ``f(y_true, y_pred)`` for which greater is better.
    classes : array of shape (m,)
        The class labels. The positive class of a name such as "f1" is the one in brackets, "f1[spam]"; or else
        ``pos_label``; or else the label 1 or True, or the one label that is called "1", "true", "yes", "y", "positive"
        or "pos", case ignored. If that does not decide, an error is raised.
    n_groups : int, optional
        Number of groups, for metrics over groups.
    pos_label : label, optional
        The positive class, for a metric by name that has one. Scorers and other metrics have a parameter for it.

    Returns
    -------
    ConfusionMetric, LabelFunction, PredictionFunction or OracleMetric
        Greater is better for a ConfusionMetric. A function of labels that takes weights and no metadata becomes a
        ConfusionMetric too, a ``CellMetric``.

    Examples
    --------
    >>> resolve_metric("f1[spam]", classes=["ham", "spam"]), resolve_metric("f1", classes=["yes", "no"])
    (BinaryF1(positive=1), BinaryF1(positive=0))
    >>> resolve_metric(lambda y_true, y_pred: (y_true == y_pred).mean(), classes=[0, 1]).takes_weights
    False
    """
    classes = np.asarray(classes)
    if isinstance(metric, str) and (metric in METRICS or not is_scorer_name(metric)):
        return metric_of_classes(metric, classes=classes, n_groups=n_groups, pos_label=pos_label)
    if pos_label is not None:
        raise SettingError(_OWN_CLASS)
    if isinstance(metric, type):
        raise MetricError(f"metric must be an instance, not the class {metric.__name__}: write {metric.__name__}(...)")
    if hasattr(metric, "as_metric"):  # a service at a URL: the form depends on what it allows
        metric = metric.as_metric(classes)
    if isinstance(metric, str) or is_scorer(metric):
        metric = from_scorer(metric, classes=classes)
    elif not isinstance(metric, LabelFunction | PredictionFunction | ConfusionMetric | OracleMetric):
        metric = _from_callable(metric)
    return _maximised(metric, classes, n_groups)


def _maximised(metric: ResolvedMetric, classes: Any, n_groups: int | None) -> ResolvedMetric:
    """Return the metric so that greater is better, as a function of the confusion matrix if possible."""
    if isinstance(metric, PredictionFunction | OracleMetric):
        return metric
    if isinstance(metric, LabelFunction):
        return CellMetric(metric, classes) if metric.takes_weights and not metric.metadata else metric
    check_classes(metric, n_classes=len(classes))
    n_categories = int(getattr(metric, "n_categories", len(classes)))
    if n_categories not in (len(classes), len(classes) * (n_groups or 1)):
        remedy = "pass groups=..., one value per row" if n_groups is None else f"there are {n_groups} groups"
        raise SettingError(
            f"metric {metric.name!r} is for {n_categories} (group, class) pairs, but there are {len(classes)} classes: "
            f"{remedy}"
        )
    return maximised(metric)


def as_it_is(metric: Any, *, classes: Any) -> ConfusionMetric | LabelFunction:
    """Return a metric that is no name in one of two forms, with its own sign: it is to be bounded, not maximised.

    Examples
    --------
    >>> from postshift.metrics import from_labels
    >>> def miss_rate(y_true, y_pred):
    ...     return (y_true != y_pred).mean()
    >>> as_it_is(from_labels(miss_rate, greater_is_better=False), classes=[0, 1]).sign
    1.0
    """
    if isinstance(metric, type):
        raise MetricError(f"metric must be an instance, not the class {metric.__name__}: write {metric.__name__}(...)")
    if isinstance(metric, PredictionFunction | OracleMetric) or hasattr(metric, "as_metric"):
        raise MetricError(
            f"metric {getattr(metric, 'name', metric)!r} has its own labels, so it cannot be bounded: give a function "
            "of y_true and y_pred"
        )
    if is_scorer(metric):
        metric = from_scorer(metric, classes=classes)
    elif not isinstance(metric, LabelFunction | ConfusionMetric):
        metric = _from_callable(metric, may_be_loss=True)
    return replace(metric, greater_is_better=True) if isinstance(metric, LabelFunction) else metric


def _from_callable(function: Any, *, may_be_loss: bool = False) -> LabelFunction:
    """Return a function of two arguments as a function of labels; raise for anything else."""
    if not callable(function):
        raise MetricError(
            "metric must be a name (see metric_catalogue), a metric of the confusion matrix (wrap a cost matrix in "
            f"ExpectedCost), a scorer or a function. Got {function!r} instead"
        )
    name = called(function)
    required = required_positionals(parameters_of(function))
    if len(required) != 2:
        raise MetricError(_advice(name, required))
    if is_of_ranking(function):
        raise MetricError(f"metric {name!r} reads scores or probabilities, not labels: choose another metric")
    if name.rpartition("_")[2] in _LOSSES and not may_be_loss:
        raise MetricError(
            f"{name!r} has the name of a loss: use from_labels({name}, greater_is_better=False) if less is better, "
            "or True if greater is better"
        )
    return from_labels(function)


def _advice(name: str, required: list[str]) -> str:
    """Return the message that a function does not take two arguments, and which adapter it needs."""
    if len(required) == 1:
        how = f"use from_confusion({name}) if it takes a confusion matrix, else from_predictions({name})"
    elif len(required) == 3:
        how = (
            f"use from_labels({name}) if they are y_true, y_pred and one value per row; if they are (estimator, X, y), "
            "pass the function of y_true and y_pred that it calls"
        )
    else:
        how = f"use from_labels({name}), from_confusion({name}) or from_predictions({name})"
    return f"metric {name!r} takes {len(required)} arguments {required}, not (y_true, y_pred): {how}"


def metadata_names(metric: Any) -> frozenset[str]:
    """Return the names of the per-row arguments that a metric can read; any form of metric is accepted.

    Examples
    --------
    >>> sorted(metadata_names("worst_group_accuracy")), sorted(metadata_names("accuracy"))
    (['groups'], [])
    >>> def gain(y_true, y_pred, amount=None):
    ...     return 0.0
    >>> sorted(metadata_names(gain))
    ['amount']
    """
    if isinstance(metric, str):
        return frozenset([GROUPS] if is_over_groups(metric) else [])
    if isinstance(metric, LabelFunction):
        return frozenset(metric.metadata)
    if is_scorer(metric):
        return frozenset(extra_parameters(metric._score_func)) - set(metric._kwargs)  # noqa: SLF001
    if isinstance(metric, OracleMetric) or hasattr(metric, "as_metric"):
        return frozenset()
    if isinstance(metric, PredictionFunction | ConfusionFunction) or hasattr(metric, "value"):
        return frozenset([GROUPS] if hasattr(metric, "n_categories") else [])
    return frozenset(extra_parameters(metric) if callable(metric) else [])


def with_metadata(metric: ResolvedMetric, names: Iterable[str]) -> ResolvedMetric:
    """Return the metric as one that reads exactly these per-row arguments; raise if it needs others."""
    function = metric.function if isinstance(metric, CellMetric) else metric
    given = tuple(names)
    if not isinstance(function, LabelFunction):
        return metric
    missing = sorted(set(function.metadata) - set(given))
    if missing:
        raise SettingError(
            f"metric {function.name!r} needs {missing[0]!r}, one value for each validation row: pass it as fit(..., "
            f"{missing[0]}=...)"
        )
    return replace(function, metadata=given) if given else metric

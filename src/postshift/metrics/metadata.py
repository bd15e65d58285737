"""Which per-row arguments a metric reads beside labels and weights: groups, costs and the like."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from postshift.exceptions import SettingError
from postshift.metrics.adapters import ConfusionFunction, LabelFunction, PredictionFunction, parameters_of
from postshift.metrics.catalogue import is_over_groups
from postshift.metrics.cells import CellMetric
from postshift.metrics.resolve import Resolved
from postshift.metrics.scorers import is_scorer

GROUPS = "groups"
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def metadata_names(metric: Any) -> frozenset[str]:
    """Return the names of what a metric can read of each row, whatever form the metric is given in.

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
        return _further(metric._score_func) - set(metric._kwargs)  # noqa: SLF001
    if isinstance(metric, PredictionFunction | ConfusionFunction) or hasattr(metric, "value"):
        return frozenset([GROUPS] if hasattr(metric, "n_categories") else [])
    return _further(metric) if callable(metric) else frozenset()


def with_metadata(metric: Resolved, names: Iterable[str]) -> Resolved:
    """Return the metric as one that reads just these names; one that needs more is an error."""
    function = metric.function if isinstance(metric, CellMetric) else metric
    given = tuple(names)
    if not isinstance(function, LabelFunction):
        return metric
    missing = sorted(set(function.metadata) - set(given))
    if missing:
        raise SettingError(
            f"metric {function.name!r} needs {missing[0]!r}, one value for each validation row: give fit(..., "
            f"{missing[0]}=...)"
        )
    return replace(function, metadata=given) if given else metric


def _further(function: Any) -> frozenset[str]:
    """Return the parameters of a function after the first two, ``sample_weight`` excepted."""
    named = [name for name, each in parameters_of(function).items() if each.kind in _NAMED]
    return frozenset(named[2:]) - {"sample_weight"}

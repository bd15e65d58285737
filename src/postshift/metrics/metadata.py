"""The arguments with one value per row that a metric reads, other than labels and weights: groups, costs, ..."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from postshift.exceptions import SettingError
from postshift.metrics.adapters import ConfusionFunction, LabelFunction, PredictionFunction, extra_parameters
from postshift.metrics.cells import CellMetric
from postshift.metrics.named import is_over_groups
from postshift.metrics.resolve import ResolvedMetric
from postshift.metrics.scorers import is_scorer

GROUPS = "groups"


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

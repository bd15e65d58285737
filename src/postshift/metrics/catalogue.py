"""Metrics by name: those of the classes, those over groups, and ``"<metric> - <gap>"``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from postshift._validation import check_count, unknown
from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import SettingError
from postshift.metrics.gaps import GAPS, Penalised
from postshift.metrics.groups import GroupGMean, WorstGroup
from postshift.metrics.plain import plain_descriptions, plain_metric

_GROUPS: dict[str, tuple[Callable[..., DifferentiableMetric], str]] = {
    "group_g_mean": (GroupGMean, "geometric mean of the recalls of all (group, class) pairs"),
    "worst_group_accuracy": (partial(WorstGroup, "accuracy"), "lowest accuracy of a group"),
    "worst_group_balanced_accuracy": (partial(WorstGroup, "balanced_accuracy"), "lowest mean recall of a group"),
    "worst_group_g_mean": (partial(WorstGroup, "g_mean"), "lowest geometric mean of the recalls of a group"),
}
_GAPS = {
    "demographic_parity": "difference between groups of the share predicted to be of a class",
    "equal_opportunity": "difference between groups of the recall",
    "equalized_odds": "difference between groups of the share predicted to be of a class, given the true class",
}
_MINUS = " - "


def metric_catalogue() -> Mapping[str, str]:
    """Return the names that ``metric_named`` knows, each with a line on what it is.

    In ``"accuracy - demographic_parity"`` and its like, any metric of the classes may stand in place of the accuracy,
    and the gap may be weighed: ``"f1_macro - 0.5 * demographic_parity"``.

    Examples
    --------
    >>> metric_catalogue()["g_mean"]
    'geometric mean of the recalls'
    """
    groups = {name: text for name, (_, text) in _GROUPS.items()}
    gaps = {f"accuracy{_MINUS}{gap}": f"a metric less the largest {text}" for gap, text in _GAPS.items()}
    return plain_descriptions() | groups | gaps


def metric_named(name: str, *, n_classes: int, n_groups: int | None = None, positive: int = 1) -> DifferentiableMetric:
    """Return the metric of a name.

    Parameters
    ----------
    name : str
        One of ``metric_catalogue()``, or ``"<metric> - <gap>"`` or ``"<metric> - 0.5 * <gap>"``.
    n_classes : int
        Number of classes m.
    n_groups : int, optional
        Number of groups, for metrics over groups.
    positive : int, default=1
        The position of the positive class, for metrics of two classes. A gap is about it too; with more than two
        classes it is the largest gap over the classes.

    Examples
    --------
    >>> metric_named("f1", n_classes=2)
    BinaryF1(positive=1)
    >>> metric_named("f1_macro - 0.5 * equalized_odds", n_classes=3, n_groups=2).strength
    0.5
    """
    check_count(n_classes, name="n_classes", low=2)
    if not isinstance(name, str):
        raise SettingError(f"the name of a metric must be a str. Got {name!r} instead")
    if name in _GROUPS:
        return _GROUPS[name][0](n_groups=_checked(n_groups, name), n_classes=n_classes)
    inner, minus, penalty = name.partition(_MINUS)
    if inner not in plain_descriptions():
        raise SettingError(unknown(inner, plain_descriptions() if minus else metric_catalogue(), what="metric"))
    if not minus:
        return plain_metric(inner, n_classes=n_classes, positive=positive)
    strength, gap = _penalty(penalty)
    return Penalised(
        plain_metric(inner, n_classes=n_classes, positive=positive),
        gap,
        strength=strength,
        positive=positive if n_classes == 2 else None,
        n_groups=_checked(n_groups, name),
        n_classes=n_classes,
    )


def is_named(name: str) -> bool:
    """Return whether a name is one of the catalogue or an expression with a gap."""
    return name in _GROUPS or name in plain_descriptions() or _MINUS in name


def _penalty(text: str) -> tuple[float, str]:
    """Return strength and gap of ``"<gap>"`` or ``"<strength> * <gap>"``."""
    factor, times, gap = (part.strip() for part in text.rpartition("*"))
    if gap not in GAPS:
        raise SettingError(unknown(gap, GAPS, what="gap"))
    try:
        return (float(factor) if times else 1.0), gap
    except ValueError as error:
        raise SettingError(f"the strength before '* {gap}' must be a number. Got {factor!r} instead") from error


def _checked(n_groups: int | None, name: str) -> int:
    """Return the number of groups, refused where it is not known."""
    if n_groups is None:
        raise SettingError(f"metric {name!r} is over groups of rows: pass groups")
    return n_groups


def is_over_groups(name: str) -> bool:
    """Return whether the metric of a name reads groups of rows."""
    return name in _GROUPS or _MINUS in name

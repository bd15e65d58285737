"""From the text of a metric to the metric: the name is looked up in ``catalogue``, the text is read by ``grammar``.

Rates of one class (``f1``, ``precision``, ``recall``, ``jaccard``) and gaps have a positive class. It is the class in
brackets, ``f1[yes]``; or else ``pos_label``; or else, with two classes, the class that the other part of the text
names, the label 1 or True, or the one label that is called "1", "true", "yes", "y", "positive" or "pos".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from postshift._validation import check_count, unknown
from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import SettingError
from postshift.metrics.catalogue import GAPS, METRICS, find_metric, metric_catalogue
from postshift.metrics.grammar import POSITIVE_NAMES, MetricText, class_position, positive_position
from postshift.metrics.penalised import Penalised


def metric_named(
    name: str, *, n_classes: int, n_groups: int | None = None, positive: int | None = None
) -> DifferentiableMetric:
    """Return a metric by its name, for classes that are called by their positions 0 to m - 1.

    Parameters
    ----------
    name : str
        One of ``metric_catalogue()``, or ``"<metric> - <gap>"`` or ``"<metric> - 0.5 * <gap>"``. A metric of one class,
        and a gap, may have the class in brackets: ``"f1[2]"``.
    n_classes : int
        Number of classes m.
    n_groups : int, optional
        Number of groups, for metrics over groups.
    positive : int, optional
        The position of the positive class of two, for metrics that have one; 1 by default. A gap is about it too. With
        more than two classes a gap is the largest over the classes, unless it names one.

    Examples
    --------
    >>> metric_named("f1", n_classes=2)
    BinaryF1(positive=1)
    >>> metric_named("recall[2]", n_classes=3)
    Recall(average='one_vs_rest', positive=2)
    >>> metric_named("f1_macro - 0.5 * equalized_odds", n_classes=3, n_groups=2).strength
    0.5
    """
    check_count(n_classes, name="n_classes", low=2)
    if not isinstance(name, str):
        raise SettingError(f"the name of a metric must be a str. Got {name!r} instead")
    return _built(MetricText.read(name), range(n_classes), n_groups, usual=positive)


def metric_of_classes(
    text: str, *, classes: Any, n_groups: int | None = None, pos_label: Any = None
) -> DifferentiableMetric:
    """Return a metric by its text, for classes with these labels; ``pos_label`` is the positive class."""
    chosen = None if pos_label is None else class_position(pos_label, classes)
    parts = MetricText.read(text)
    metric = _built(parts, classes, n_groups, chosen=chosen)
    if chosen is not None and not any(parts.open_classes):
        raise SettingError(_without_pos_label(text))
    return metric


def with_positive_class(text: str, label: Any, *, classes: Any) -> str:
    """Return the text of a metric with its positive class in brackets.

    Examples
    --------
    >>> with_positive_class("f1 - 0.5 * equal_opportunity", "Ham", classes=["ham", "spam"])
    'f1[ham] - 0.5 * equal_opportunity[ham]'
    """
    place = class_position(label, classes)
    parts = MetricText.read(text)
    if not any(parts.open_classes):
        raise SettingError(_without_pos_label(text))
    written = parts.with_class(np.asarray(classes).tolist()[place])
    if MetricText.read(str(written)) != written:
        raise SettingError(f"class {label!r} cannot be written in brackets: rename it")
    return str(written)


def is_over_groups(text: str) -> bool:
    """Return whether the metric of a text reads groups of rows."""
    parts = MetricText.read(text)
    return parts.gap is not None or (parts.name in METRICS and METRICS[parts.name].is_over_groups)


def metric_about(text: str) -> str:
    """Return the line of the catalogue about a metric, with the class that it names; empty if it has none."""
    if text in metric_catalogue():
        return metric_catalogue()[text]
    parts = MetricText.read(text)
    entry = METRICS.get(parts.name)
    if parts.gap is not None or parts.label is None or entry is None or not entry.is_of_one_class:
        return ""
    return f"{entry.about.rpartition(', ')[0]}, of class {parts.label}"


def _built(
    parts: MetricText, labels: Any, n_groups: int | None, *, chosen: int | None = None, usual: int | None = None
) -> DifferentiableMetric:
    """Return the metric.

    The positive class is at position ``chosen`` unless the text names it. If neither says it, the positive one of two
    classes is at position ``usual``, by default the one that has a positive name.
    """
    entry = find_metric(parts.name, label=parts.label, with_gap=parts.gap is not None)
    if parts.gap is None and not entry.takes:
        return entry.build()
    strength = _strength(parts)
    of_metric, of_gap = _positions(parts, labels, chosen=chosen, usual=usual)
    given = {"n_classes": len(labels), "positive": of_metric}
    if entry.is_over_groups:
        given["n_groups"] = _known(n_groups, parts)
    metric = entry.metric(**given)
    if parts.gap is None:
        return metric
    return Penalised(
        metric,
        parts.gap,
        strength=strength,
        positive=of_gap,
        n_groups=_known(n_groups, parts),
        n_classes=len(labels),
    )


def _positions(
    parts: MetricText, labels: Any, *, chosen: int | None, usual: int | None
) -> tuple[int | None, int | None]:
    """Return the positions of the positive classes of the metric and of the gap; None if it has none."""
    has_class, has_gap = METRICS[parts.name].is_of_one_class, parts.gap is not None
    of_metric = _position(parts.label, labels, chosen) if has_class else None
    of_gap = _position(parts.gap_label, labels, chosen) if has_gap else None
    if len(labels) != 2:
        return of_metric, of_gap
    usual = positive_position(labels) if usual is None else usual
    found = next((place for place in (of_metric, of_gap, usual) if place is not None), None)
    if found is None and (has_class or (parts.gap is not None and not GAPS[parts.gap].is_symmetric)):
        raise SettingError(_ambiguous(parts, labels))
    return (found if has_class else None), (found if has_gap and of_gap is None else of_gap)


def _position(label: str | None, labels: Any, chosen: int | None) -> int | None:
    """Return the position of the class in brackets, or else the chosen one."""
    return chosen if label is None else class_position(label, labels)


def _strength(parts: MetricText) -> float:
    """Return the strength of the gap; raise if the gap is unknown or the strength is not a number."""
    if parts.gap is None:
        return 0.0
    if parts.gap not in GAPS:
        raise SettingError(unknown(parts.gap, GAPS, what="gap"))
    try:
        return 1.0 if parts.strength is None else float(parts.strength)
    except ValueError as error:
        raise SettingError(
            f"the strength before '* {parts.gap}' must be a number. Got {parts.strength!r} instead"
        ) from error


def _known(n_groups: int | None, parts: MetricText) -> int:
    """Return the number of groups; raise if it is not known."""
    if n_groups is None:
        raise SettingError(f"metric {str(parts)!r} is over groups of rows: pass groups")
    return n_groups


def _ambiguous(parts: MetricText, labels: Any) -> str:
    """Return the message that the positive one of two classes is not known, and how to name it."""
    names = [str(each) for each in np.asarray(labels).tolist()]
    first, second = (repr(str(parts.with_class(name))) for name in names)
    called = f"{', '.join(POSITIVE_NAMES[:-1])} or {POSITIVE_NAMES[-1]}"
    return (
        f"metric {str(parts)!r} is about the positive class, but the labels {names[0]!r} and {names[1]!r} do not show "
        f"which one that is (neither or both are called {called}): write {first} or {second}; PostShiftClassifier and "
        "PostShifter also take pos_label=, the command line --pos-label"
    )


def _without_pos_label(text: str) -> str:
    """Return the message that a metric takes no positive class."""
    return f"metric {text!r} is not about one class, or names it in brackets: leave pos_label (--pos-label) out"

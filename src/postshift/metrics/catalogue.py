"""Metrics by name: those of the classes, those over groups, and ``"<metric> - <gap>"`` (see ``grammar``).

Rates of one class (``f1``, ``precision``, ``recall``, ``jaccard``) and gaps have a positive class: the one in brackets,
``f1[yes]``; else ``pos_label``; else, of two classes, the one that the other part of the text names, or the label 1 or
True, or the one label that is called "1", "true", "yes", "y", "positive" or "pos".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from postshift._validation import check_count, unknown
from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import SettingError
from postshift.metrics.gaps import GAPS, Penalised
from postshift.metrics.grammar import MINUS, POSITIVE_NAMES, Expression, class_position, positive_position
from postshift.metrics.groups import GroupGMean, WorstGroup
from postshift.metrics.plain import check_takes_class, is_of_one_class, plain_descriptions, plain_metric

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
_SYMMETRIC = ("demographic_parity", "equalized_odds")  # of two classes, the same for either


def metric_catalogue() -> Mapping[str, str]:
    """Return the names that ``metric_named`` knows, each with a line on what it is.

    In ``"accuracy - demographic_parity"`` and its like, any metric of the classes may stand in place of the accuracy,
    and the gap may be weighed: ``"f1_macro - 0.5 * demographic_parity"``. A metric of one class and a gap may name the
    class: ``"recall[yes]"``, ``"accuracy - equal_opportunity[yes]"``.

    Examples
    --------
    >>> metric_catalogue()["g_mean"]
    'geometric mean of the recalls'
    """
    groups = {name: text for name, (_, text) in _GROUPS.items()}
    gaps = {f"accuracy{MINUS}{gap}": f"a metric less the largest {text}" for gap, text in _GAPS.items()}
    return plain_descriptions() | groups | gaps


def metric_named(
    name: str, *, n_classes: int, n_groups: int | None = None, positive: int | None = None
) -> DifferentiableMetric:
    """Return the metric of a name, of classes that are called by their positions 0 to m - 1.

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
        The position of the positive class of two, for metrics that have one; by default 1. A gap is about it too; with
        more than two classes it is the largest gap over the classes, unless it names one.

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
    return _built(name, _Classes(range(n_classes), usual=1 if positive is None else positive), n_groups)


def metric_of_classes(
    text: str, *, classes: Any, n_groups: int | None = None, pos_label: Any = None
) -> DifferentiableMetric:
    """Return the metric of a text for classes of these names; ``pos_label`` is its positive class."""
    chosen = None if pos_label is None else class_position(pos_label, classes)
    metric = _built(text, _Classes(classes, chosen=chosen, usual=positive_position(classes)), n_groups)
    if chosen is not None and not any(_takes_pos_label(text)):
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
    of_term, of_gap = _takes_pos_label(text)
    if not (of_term or of_gap):
        raise SettingError(_without_pos_label(text))
    written = _read(text).with_class(np.asarray(classes).tolist()[place], of_term=of_term, of_gap=of_gap)
    if _read(str(written)) != written:
        raise SettingError(f"class {label!r} cannot be written in brackets: rename it")
    return str(written)


@dataclass(frozen=True, slots=True)
class _Classes:
    """The classes: the position that was chosen for the positive one, and the one that is usual for two of them."""

    labels: Any
    chosen: int | None = None
    usual: int | None = None

    @property
    def are_two(self) -> bool:
        """Whether there are two."""
        return len(self.labels) == 2

    def position(self, label: str | None) -> int | None:
        """Return where the class in brackets is, else the one that was chosen."""
        return self.chosen if label is None else class_position(label, self.labels)


def _built(text: str, classes: _Classes, n_groups: int | None) -> DifferentiableMetric:
    """Return the metric of a text."""
    n_classes = len(classes.labels)
    if text in _GROUPS:
        return _GROUPS[text][0](n_groups=_checked(n_groups, text), n_classes=n_classes)
    said = _read(text)
    known = plain_descriptions() if said.gap is not None else metric_catalogue()
    if said.term.name not in known:
        raise SettingError(unknown(said.term.name, known, what="metric"))
    check_takes_class(said.term)
    strength = _strength(said)
    of_term, of_gap = _positions(said, classes)
    inner = plain_metric(said.term.name, n_classes=n_classes, positive=of_term)
    if said.gap is None:
        return inner
    n_groups = _checked(n_groups, text)
    return Penalised(inner, said.gap.name, strength=strength, positive=of_gap, n_groups=n_groups, n_classes=n_classes)


def _positions(said: Expression, classes: _Classes) -> tuple[int | None, int | None]:
    """Return the positions of the positive classes of the term and of the gap; None where there is none."""
    has_class = is_of_one_class(said.term.name)
    term = classes.position(said.term.label) if has_class else None
    gap = None if said.gap is None else classes.position(said.gap.label)
    if not classes.are_two:
        return term, gap
    found = next((place for place in (term, gap, classes.usual) if place is not None), None)
    needs_one = has_class or (said.gap is not None and said.gap.name not in _SYMMETRIC)
    if needs_one and found is None:
        raise SettingError(_ambiguous(said, classes.labels))
    return (found if term is None and has_class else term), (found if gap is None and said.gap is not None else gap)


def _ambiguous(said: Expression, labels: Any) -> str:
    """Say that the positive one of two classes is not known, and how to name it."""
    names = [str(each) for each in np.asarray(labels).tolist()]
    of_term, of_gap = _takes_pos_label(str(said))
    first, second = (repr(str(said.with_class(name, of_term=of_term, of_gap=of_gap))) for name in names)
    called = f"{', '.join(POSITIVE_NAMES[:-1])} or {POSITIVE_NAMES[-1]}"
    return (
        f"metric {str(said)!r} is about the positive class, and the labels {names[0]!r} and {names[1]!r} do not say "
        f"which that is (not exactly one of them is {called}): write {first} or {second}; PostShiftClassifier and "
        "PostShifter also take pos_label=, the command line --pos-label"
    )


def _without_pos_label(text: str) -> str:
    """Say that a metric takes no positive class."""
    return f"metric {text!r} is not about one class, or names it in brackets: leave pos_label (--pos-label) out"


def _takes_pos_label(text: str) -> tuple[bool, bool]:
    """Return whether the term and the gap of a text are about a class that is not in brackets."""
    if text in _GROUPS:
        return False, False
    said = _read(text)
    of_term = is_of_one_class(said.term.name) and said.term.label is None
    return of_term, said.gap is not None and said.gap.label is None


def _read(text: str) -> Expression:
    """Return what a text says."""
    return Expression.read(text, GAPS)


def _strength(said: Expression) -> float:
    """Return the strength of a gap, and refuse one that there is not."""
    gap = said.gap
    if gap is None:
        return 0.0
    if gap.name not in GAPS:
        raise SettingError(unknown(gap.name, GAPS, what="gap"))
    try:
        return 1.0 if said.strength is None else float(said.strength)
    except ValueError as error:
        raise SettingError(f"the strength before '* {gap}' must be a number. Got {said.strength!r} instead") from error


def is_named(name: str) -> bool:
    """Return whether a text is one of the catalogue's names, names a class in brackets, or has a gap."""
    if name in _GROUPS or name in plain_descriptions():
        return True
    said = _read(name)
    return said.term.label is not None or said.gap is not None


def metric_about(text: str) -> str:
    """Return the line of the catalogue on a metric, with the class that it names; empty for what is not there."""
    if text in metric_catalogue():
        return metric_catalogue()[text]
    said = _read(text)
    if said.gap is not None or said.term.label is None or not is_of_one_class(said.term.name):
        return ""
    return f"{metric_catalogue()[said.term.name].rpartition(', ')[0]}, of class {said.term.label}"


def _checked(n_groups: int | None, name: str) -> int:
    """Return the number of groups, refused where it is not known."""
    if n_groups is None:
        raise SettingError(f"metric {name!r} is over groups of rows: pass groups")
    return n_groups


def is_over_groups(name: str) -> bool:
    """Return whether the metric of a name reads groups of rows."""
    said = _read(name)
    return said.gap is not None or said.term.name in _GROUPS

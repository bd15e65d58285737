"""The text of a metric: a name, perhaps with a class in brackets, perhaps minus a gap between groups.

====================================  ==========================================================
text                                  meaning
====================================  ==========================================================
``NAME``                              a metric of the catalogue
``NAME[CLASS]``                       the metric of one class against the rest
``NAME - GAP``                        a metric minus a gap between groups
``NAME - STRENGTH * GAP[CLASS]``      the same with a strength, and the class that the gap is about
====================================  ==========================================================

A class is written as it is printed, and may contain any character: ``f1[a[0] - b]``. A number may be written in another
way (``f1[3]`` is class 3 or 3.0), and case is ignored if only one class matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np

from postshift._validation import unknown
from postshift.exceptions import SettingError
from postshift.metrics.catalogue import GAPS, METRICS, MINUS

POSITIVE_NAMES = ("1", "true", "yes", "y", "positive", "pos")  # of a class, case ignored


@dataclass(frozen=True, slots=True)
class MetricText:
    """The parts of the text of a metric: the name and its class, the gap, its class and the text of its strength."""

    name: str
    label: str | None = None
    gap: str | None = None
    gap_label: str | None = None
    strength: str | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the parts of a text. A class may contain a minus: one before the name of a gap is preferred."""
        splits = [cls._split(text, place) for place in range(len(text)) if text.startswith(MINUS, place)]
        whole = [each for each in splits if each is not None]
        known = [each for each in whole if each.gap in GAPS]
        doubtful = [each for each in whole if each.label is None or not text.endswith("]")]
        return next(iter(known + doubtful), None) or cls(*read_term(text))

    @classmethod
    def _split(cls, text: str, place: int) -> Self | None:
        """Return the parts if the minus at a place is the one before the gap; None if a bracket is then left open."""
        left, right = text[:place], text[place + len(MINUS) :]
        head, bracket, rest = right.partition("[")
        strength, star, name = (part.strip() for part in head.rpartition("*"))
        try:
            return cls(*read_term(left), *read_term(f"{name}{bracket}{rest}"), strength if star else None)
        except SettingError:
            return None

    @property
    def open_classes(self) -> tuple[bool, bool]:
        """Whether the metric, and whether the gap, is about a class that is not given in brackets."""
        of_metric = self.name in METRICS and METRICS[self.name].is_of_one_class and self.label is None
        return of_metric, self.gap is not None and self.gap_label is None

    def with_class(self, label: Any) -> Self:
        """Return the text with a class in brackets where one may be given."""
        of_metric, of_gap = self.open_classes
        return replace(
            self,
            label=str(label) if of_metric else self.label,
            gap_label=str(label) if of_gap else self.gap_label,
        )

    def __str__(self) -> str:
        text = _term(self.name, self.label)
        if self.gap is None:
            return text
        strength = "" if self.strength is None else f"{self.strength} * "
        return f"{text}{MINUS}{strength}{_term(self.gap, self.gap_label)}"


def read_term(text: str) -> tuple[str, str | None]:
    """Return a name and the class in the brackets after it, or None; raise if the bracket is not closed."""
    name, bracket, rest = text.partition("[")
    if not bracket:
        return text, None
    if not rest.endswith("]"):
        raise SettingError(f"the class in {text!r} must end with a bracket: write {name.strip()}[CLASS]")
    return name.strip(), rest[:-1]


def _term(name: str, label: str | None) -> str:
    """Return the text of a name and its class."""
    return name if label is None else f"{name}[{label}]"


def class_position(label: Any, classes: Any) -> int:
    """Return the position of a class, given the label itself or its text; raise if there is no such class.

    Examples
    --------
    >>> class_position("3", [1, 2, 3]), class_position(2.0, [1, 2, 3]), class_position("YES", ["no", "yes"])
    (2, 1, 1)
    """
    known = np.asarray(classes)
    labels = known.tolist()
    text = str(label)
    same = [] if isinstance(label, str) else [_are_equal(each, label) for each in labels]
    printed = [str(each) == text for each in labels]
    as_number = _equal_numbers(text, known)
    caseless = [str(each).strip().casefold() == text.strip().casefold() for each in labels]
    for found in (same, printed, as_number, caseless):
        places = np.flatnonzero(found).tolist()
        if len(places) == 1:
            return int(places[0])
    if sum(printed) > 1:
        raise SettingError(f"{sum(printed)} of the classes are printed as {text!r}: give pos_label, the label itself")
    raise SettingError(unknown(text, map(str, labels), what="class"))


def positive_position(classes: Any) -> int | None:
    """Return the position of the positive class: the label 1 or True, or else the one with a positive name.

    None if no label is positive, or more than one is.

    Examples
    --------
    >>> positive_position([1, 2]), positive_position(["no", "Yes"]), positive_position(["ham", "spam"])
    (0, 1, None)
    """
    labels = np.asarray(classes).tolist()
    numbers = [isinstance(each, Real) and each == 1 for each in labels]
    names = [isinstance(each, str) and each.casefold() in POSITIVE_NAMES for each in labels]
    for found in (numbers, names):
        if sum(found) == 1:
            return found.index(True)
    return None


def _are_equal(label: Any, other: Any) -> bool:
    """Return whether two labels are equal; labels that cannot be compared are not."""
    try:
        return bool(label == other)
    except (TypeError, ValueError):
        return False


def _equal_numbers(text: str, classes: Any) -> Sequence[bool]:
    """Return which classes are the number that a text writes; empty if either is not a number."""
    if classes.dtype.kind not in "biuf":
        return []
    try:
        number = np.float64(text)
    except ValueError:
        return []
    wanted = number.astype(classes.dtype) if classes.dtype.kind == "f" else number
    return (classes == wanted).tolist()  # type: ignore[no-any-return]

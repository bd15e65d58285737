"""The text of a metric: what stands for a metric, for one class against the rest, and for a gap between groups.

====================================  ==========================================================
text                                  what it is
====================================  ==========================================================
``NAME``                              a metric of the catalogue
``NAME[CLASS]``                       the metric of one class against the rest
``TERM - GAP``                        one of the two above less a gap between groups
``TERM - STRENGTH * GAP[CLASS]``      the same with a strength, and the class that the gap is about
====================================  ==========================================================

A class is written as it is printed, and may hold any character: ``f1[a[0] - b]``. A number may be written in another
way (``f1[3]`` is class 3 or 3.0), and case is ignored where that leaves one class.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np

from postshift._validation import unknown
from postshift.exceptions import SettingError

MINUS = " - "
POSITIVE_NAMES = ("1", "true", "yes", "y", "positive", "pos")  # of a class, case ignored


@dataclass(frozen=True, slots=True)
class Term:
    """A name, and the class in the brackets after it if there are any."""

    name: str
    label: str | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the term of a text, refused where its bracket is not closed."""
        name, bracket, rest = text.partition("[")
        if not bracket:
            return cls(text)
        if not rest.endswith("]"):
            raise SettingError(f"the class in {text!r} must end with a bracket: write {name.strip()}[CLASS]")
        return cls(name.strip(), rest[:-1])

    def __str__(self) -> str:
        return self.name if self.label is None else f"{self.name}[{self.label}]"


@dataclass(frozen=True, slots=True)
class Expression:
    """A term and, if there is one, the gap that it pays for, with the text of its strength."""

    term: Term
    gap: Term | None = None
    strength: str | None = None

    @classmethod
    def read(cls, text: str, gaps: Collection[str]) -> Self:
        """Return what a text says; ``gaps`` are the names of gaps, by which a minus is told from one in a class."""
        splits = [cls._split(text, place) for place in range(len(text)) if text.startswith(MINUS, place)]
        whole = [each for each in splits if each is not None]
        known = [each for each in whole if each.gap is not None and each.gap.name in gaps]
        doubtful = [each for each in whole if each.term.label is None or not text.endswith("]")]
        return next(iter(known + doubtful), None) or cls(Term.read(text))

    @classmethod
    def _split(cls, text: str, place: int) -> Self | None:
        """Return the expression if the minus at a place is its minus; None where that leaves a bracket open."""
        left, right = text[:place], text[place + len(MINUS) :]
        head, bracket, rest = right.partition("[")
        strength, star, name = (part.strip() for part in head.rpartition("*"))
        try:
            return cls(Term.read(left), Term.read(f"{name}{bracket}{rest}"), strength if star else None)
        except SettingError:
            return None

    def with_class(self, label: Any, *, of_term: bool, of_gap: bool) -> Self:
        """Return the expression with a class in the term, in the gap, or in both."""
        term = replace(self.term, label=str(label)) if of_term else self.term
        gap = replace(self.gap, label=str(label)) if of_gap and self.gap is not None else self.gap
        return replace(self, term=term, gap=gap)

    def __str__(self) -> str:
        if self.gap is None:
            return str(self.term)
        return f"{self.term}{MINUS}{'' if self.strength is None else self.strength + ' * '}{self.gap}"


def class_position(label: Any, classes: Any) -> int:
    """Return where a class is, given the label itself or as it is written; one that there is not is an error.

    Examples
    --------
    >>> class_position("3", [1, 2, 3]), class_position(2.0, [1, 2, 3]), class_position("YES", ["no", "yes"])
    (2, 1, 1)
    """
    known = np.asarray(classes)
    labels = known.tolist()
    text = str(label)
    same = [] if isinstance(label, str) else [_is(each, label) for each in labels]
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
    """Return where the positive of two classes is: the label 1 or True, else the one called so; None where none is.

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


def _is(label: Any, other: Any) -> bool:
    """Return whether two labels are equal; labels that cannot be compared are not."""
    try:
        return bool(label == other)
    except (TypeError, ValueError):
        return False


def _equal_numbers(text: str, classes: Any) -> Sequence[bool]:
    """Return which of the classes are the number that a text writes; none where either is no number."""
    if classes.dtype.kind not in "biuf":
        return []
    try:
        number = np.float64(text)
    except ValueError:
        return []
    wanted = number.astype(classes.dtype) if classes.dtype.kind == "f" else number
    return (classes == wanted).tolist()  # type: ignore[no-any-return]

"""Differences between groups: the rows of C are (group, class) pairs, as in ``over_groups``.

A gap is the highest minus the lowest rate among the groups, for the class ``positive`` or, if that is None, for the
class with the largest gap. Groups without rows are left out, and so are (group, class) pairs without rows if the rate
is a rate of that class.

===================  ====================================================================
gap                  rates
===================  ====================================================================
demographic_parity   P(predicted = j | group)
equal_opportunity    P(predicted = i | true = i, group)
equalized_odds       P(predicted = j | true = i, group), the largest gap over i
===================  ====================================================================

A gap is the difference of two linear functions of C. Its gradient is theirs; in case of ties, that of the first pair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from postshift._validation import FloatArray, IntArray, check_count
from postshift.exceptions import SettingError
from postshift.metrics.confusion import ratio
from postshift.metrics.over_groups import GroupMetric


@dataclass(frozen=True, slots=True, kw_only=True)
class GapMetric(GroupMetric, ABC):
    """A gap, less is better. ``terms``, ``slots`` and ``cells`` define its rates."""

    positive: int | None = None
    name: ClassVar[str]
    about: ClassVar[str]  # for the catalogue
    weighting: ClassVar[str]
    is_symmetric: ClassVar[bool] = False  # with two classes, the gap is the same for either of them
    needs_every_class: ClassVar[bool] = False
    greater_is_better: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Raise if the numbers of groups and classes are too low, or ``positive`` is not the position of a class."""
        GroupMetric.__post_init__(self)
        if self.positive is not None and check_count(self.positive, name="positive", low=0) >= self.n_classes:
            raise SettingError(
                f"positive must be None or a class position 0..{self.n_classes - 1}. Got {self.positive!r} instead"
            )

    @property
    def positive_classes(self) -> tuple[int, ...]:
        """The position of the class that the gap is about, if it is about one."""
        return () if self.positive is None else (self.positive,)

    @abstractmethod
    def terms(self, confusion: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return numerators and denominators (..., groups, rates) of the rates of matrices (..., groups, m, m)."""

    @abstractmethod
    def cells(self, slot: int) -> tuple[Any, Any]:
        """Return the rows and columns of the entries that are summed in the numerator of a rate."""

    def slots(self, chosen: IntArray) -> IntArray:
        """Return which of the rates are about the chosen classes; by default, one for each class."""
        return chosen

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the largest gap of each matrix."""
        highest, lowest = self._levels(confusion)
        return np.asarray(np.maximum(highest.max(axis=-2) - lowest.min(axis=-2), 0).max(axis=-1))

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the gradient of the first of the largest gaps."""
        highest, lowest = self._levels(confusion)
        place = int(np.argmax(highest.max(axis=-2) - lowest.min(axis=-2)))
        slot = int(self.slots(self._chosen)[place])
        table = self.by_group(confusion)
        slopes, sizes = np.zeros(table.shape), self.terms(table)[1][:, slot]
        for sign, group in ((1.0, np.argmax(highest[:, place])), (-1.0, np.argmin(lowest[:, place]))):
            slopes[(group, *self.cells(slot))] += sign * ratio(np.asarray(1.0), sizes[group])
        return slopes.reshape(confusion.shape)

    @property
    def _chosen(self) -> IntArray:
        """The classes that the gap is about."""
        return np.arange(self.n_classes) if self.positive is None else np.array([self.positive])

    def _levels(self, confusion: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the rates (..., groups, slots) twice; without rows they are -inf in the first, inf in the second."""
        above, below = self.terms(self.by_group(confusion))
        slots = self.slots(self._chosen)
        rates, present = ratio(above, below)[..., slots], below[..., slots] > 0
        return np.where(present, rates, -np.inf), np.where(present, rates, np.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemographicParityGap(GapMetric):
    """The largest difference between groups in the share of rows that are predicted as a class.

    Parameters
    ----------
    n_groups : int
        Number of groups.
    n_classes : int
        Number of classes m.
    positive : int, optional
        The position of the class; None for the largest difference over the classes.

    Examples
    --------
    >>> confusion = np.array([[0.2, 0.05], [0.05, 0.2], [0.2, 0.05], [0.1, 0.15]])
    >>> round(float(DemographicParityGap(n_groups=2, n_classes=2).value(confusion)), 4)
    0.1
    """

    name: ClassVar[str] = "demographic_parity"
    about: ClassVar[str] = "difference between groups in the share of rows predicted as a class"
    weighting: ClassVar[str] = "full"
    is_symmetric: ClassVar[bool] = True

    def terms(self, confusion: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the predictions of each class in each group, and the sizes of the groups."""
        above = confusion.sum(axis=-2)
        return above, np.broadcast_to(above.sum(axis=-1, keepdims=True), above.shape)

    def cells(self, slot: int) -> tuple[Any, Any]:
        """Return the rows and columns of the entries of a column."""
        return slice(None), slot


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualOpportunityGap(GapMetric):
    """The largest difference between groups in the recall of a class.

    The parameters are those of ``DemographicParityGap``.

    Examples
    --------
    >>> confusion = np.array([[0.2, 0.05], [0.05, 0.2], [0.2, 0.05], [0.1, 0.15]])
    >>> round(float(EqualOpportunityGap(n_groups=2, n_classes=2, positive=1).value(confusion)), 4)
    0.2
    """

    name: ClassVar[str] = "equal_opportunity"
    about: ClassVar[str] = "difference between groups in the recall"
    weighting: ClassVar[str] = "diagonal"

    def terms(self, confusion: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the hits and the sizes of the classes in each group."""
        return np.diagonal(confusion, axis1=-2, axis2=-1), confusion.sum(axis=-1)

    def cells(self, slot: int) -> tuple[Any, Any]:
        """Return the row and the column of an entry of the diagonal."""
        return slot, slot


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualizedOddsGap(GapMetric):
    """The largest difference between groups in the share of rows predicted as a class, among the rows of one class.

    The parameters are those of ``DemographicParityGap``.

    Examples
    --------
    >>> confusion = np.array([[0.2, 0.05], [0.05, 0.2], [0.2, 0.05], [0.1, 0.15]])
    >>> round(float(EqualizedOddsGap(n_groups=2, n_classes=2).value(confusion)), 4)
    0.2
    """

    name: ClassVar[str] = "equalized_odds"
    about: ClassVar[str] = "difference between groups in the share of rows predicted as a class, given the true class"
    weighting: ClassVar[str] = "full"
    is_symmetric: ClassVar[bool] = True

    def terms(self, confusion: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the entries, row after row, and the sizes of their rows."""
        sizes = np.broadcast_to(confusion.sum(axis=-1, keepdims=True), confusion.shape)
        flat = (*confusion.shape[:-2], self.n_classes**2)
        return confusion.reshape(flat), sizes.reshape(flat)

    def cells(self, slot: int) -> tuple[Any, Any]:
        """Return the row and the column of an entry."""
        return divmod(slot, self.n_classes)

    def slots(self, chosen: IntArray) -> IntArray:
        """Return the entries of the columns."""
        return np.add.outer(np.arange(self.n_classes) * self.n_classes, chosen).reshape(-1)

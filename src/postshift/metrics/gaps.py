"""Differences between groups, and metrics that pay for them: the rows of C are (group, class) pairs.

A row of group g and class i is counted in category ``g * n_classes + i``, as in ``groups``. A gap is the highest less
the lowest rate among the groups, for the class ``positive`` or, where that is None, for the class of the largest gap.
Groups without rows are left out, and so are (group, class) pairs without rows where the rate is one of that class.

===================  ====================================================================
gap                  of the rates
===================  ====================================================================
demographic_parity   P(predicted = j | group)
equal_opportunity    P(predicted = i | true = i, group)
equalized_odds       P(predicted = j | true = i, group), the largest gap over i
===================  ====================================================================

A gap is a difference of two linear functions of C at a time: its gradient is theirs, at a corner that of the first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from postshift._validation import FloatArray, IntArray, check_count, check_in_range, unknown
from postshift.core.psi import DifferentiableMetric, maximised
from postshift.exceptions import MetricError, SettingError
from postshift.metrics.confusion import ratio
from postshift.metrics.groups import check_shape, check_sizes
from postshift.metrics.plain import plain_metric


@dataclass(frozen=True, slots=True, kw_only=True)
class GapMetric(ABC):
    """A gap, less is better: ``parts``, ``slots`` and ``cells`` say of which rates.

    Parameters
    ----------
    n_groups : int
        Number of groups.
    n_classes : int
        Number of classes m.
    positive : int, optional
        The position of the class it is about; None for the largest gap over the classes.
    """

    n_groups: int
    n_classes: int
    positive: int | None = None
    name: ClassVar[str]
    weighting: ClassVar[str]
    needs_every_class: ClassVar[bool] = False
    greater_is_better: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse numbers of groups and classes that are none, and a position that is none."""
        check_sizes(self.n_groups, self.n_classes)
        if self.positive is not None and check_count(self.positive, name="positive", low=0) >= self.n_classes:
            raise SettingError(
                f"positive must be None or a class position 0..{self.n_classes - 1}. Got {self.positive!r} instead"
            )

    @property
    def n_categories(self) -> int:
        """The number of (group, class) pairs."""
        return self.n_groups * self.n_classes

    @property
    def positive_classes(self) -> tuple[int, ...]:
        """The positions of the classes that it is about, where it is about some only."""
        return () if self.positive is None else (self.positive,)

    @abstractmethod
    def parts(self, table: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return numerators and denominators (..., groups, rates) of the rates of matrices (..., groups, m, m)."""

    @abstractmethod
    def slots(self, chosen: IntArray) -> IntArray:
        """Return which of the rates are about these classes."""

    @abstractmethod
    def cells(self, slot: int) -> tuple[Any, Any]:
        """Return rows and columns of the entries that a rate sums."""

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the largest gap of each matrix."""
        highest, lowest = self._levels(confusion)
        return np.asarray(np.maximum(highest.max(axis=-2) - lowest.min(axis=-2), 0).max(axis=-1))

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the gradient of the first of the largest gaps."""
        highest, lowest = self._levels(confusion)
        place = int(np.argmax(highest.max(axis=-2) - lowest.min(axis=-2)))
        slot = int(self.slots(self._chosen)[place])
        table = confusion.reshape(self.n_groups, self.n_classes, self.n_classes)
        slopes, sizes = np.zeros(table.shape), self.parts(table)[1][:, slot]
        for sign, group in ((1.0, np.argmax(highest[:, place])), (-1.0, np.argmin(lowest[:, place]))):
            slopes[(group, *self.cells(slot))] += sign * ratio(np.asarray(1.0), sizes[group])
        return slopes.reshape(confusion.shape)

    @property
    def _chosen(self) -> IntArray:
        """The classes it is about."""
        return np.arange(self.n_classes) if self.positive is None else np.array([self.positive])

    def _levels(self, confusion: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the rates (..., groups, slots), to look for the highest and for the lowest of those with rows."""
        check_shape(confusion, self.n_groups, self.n_classes)
        square = (self.n_groups, self.n_classes, self.n_classes)
        above, below = self.parts(confusion.reshape(*confusion.shape[:-2], *square))
        slots = self.slots(self._chosen)
        rates, present = ratio(above, below)[..., slots], below[..., slots] > 0
        return np.where(present, rates, -np.inf), np.where(present, rates, np.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemographicParityGap(GapMetric):
    """The largest difference between groups of the share predicted to be of a class.

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
    weighting: ClassVar[str] = "full"

    def parts(self, table: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what is predicted in each group, and the groups' sizes."""
        above = table.sum(axis=-2)
        return above, np.broadcast_to(above.sum(axis=-1, keepdims=True), above.shape)

    def slots(self, chosen: IntArray) -> IntArray:
        """Return the classes."""
        return chosen

    def cells(self, slot: int) -> tuple[Any, Any]:
        """Return a column."""
        return slice(None), slot


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualOpportunityGap(GapMetric):
    """The largest difference between groups of the recall of a class.

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
    >>> round(float(EqualOpportunityGap(n_groups=2, n_classes=2, positive=1).value(confusion)), 4)
    0.2
    """

    name: ClassVar[str] = "equal_opportunity"
    weighting: ClassVar[str] = "diagonal"

    def parts(self, table: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the hits and the sizes of the classes in each group."""
        return np.diagonal(table, axis1=-2, axis2=-1), table.sum(axis=-1)

    def slots(self, chosen: IntArray) -> IntArray:
        """Return the classes."""
        return chosen

    def cells(self, slot: int) -> tuple[Any, Any]:
        """Return an entry of the diagonal."""
        return slot, slot


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualizedOddsGap(GapMetric):
    """The largest difference between groups of the share predicted to be of a class, among the rows of any one class.

    Parameters
    ----------
    n_groups : int
        Number of groups.
    n_classes : int
        Number of classes m.
    positive : int, optional
        The position of the class predicted; None for the largest difference over the classes.

    Examples
    --------
    >>> confusion = np.array([[0.2, 0.05], [0.05, 0.2], [0.2, 0.05], [0.1, 0.15]])
    >>> round(float(EqualizedOddsGap(n_groups=2, n_classes=2).value(confusion)), 4)
    0.2
    """

    name: ClassVar[str] = "equalized_odds"
    weighting: ClassVar[str] = "full"

    def parts(self, table: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the entries, row after row, and the sizes of their rows."""
        sizes = np.broadcast_to(table.sum(axis=-1, keepdims=True), table.shape)
        flat = (*table.shape[:-2], self.n_classes**2)
        return table.reshape(flat), sizes.reshape(flat)

    def slots(self, chosen: IntArray) -> IntArray:
        """Return the entries of the columns."""
        return np.add.outer(np.arange(self.n_classes) * self.n_classes, chosen).reshape(-1)

    def cells(self, slot: int) -> tuple[Any, Any]:
        """Return an entry."""
        return divmod(slot, self.n_classes)


GAPS: dict[str, type[GapMetric]] = {
    gap.name: gap for gap in (DemographicParityGap, EqualOpportunityGap, EqualizedOddsGap)
}


@dataclass(frozen=True, slots=True)
class Penalised:
    """A metric of all rows less ``strength`` times a gap between groups.

    Parameters
    ----------
    inner : ConfusionMetric or str
        The metric of the classes, or its name; it must have a gradient. A cost is turned around first. A name that is
        about one class is about ``positive``, unless it names the class at a position itself, as in ``"f1[2]"``.
    gap : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        The gap.
    strength : float, default=1.0
        What a gap of 1 costs.
    positive : int, optional
        The position of the class that the gap is about; None for the largest gap over the classes.
    n_groups : int
        Number of groups.
    n_classes : int
        Number of classes m.

    Examples
    --------
    >>> confusion = np.array([[0.2, 0.05], [0.05, 0.2], [0.2, 0.05], [0.1, 0.15]])
    >>> metric = Penalised("accuracy", "equal_opportunity", strength=0.5, positive=1, n_groups=2, n_classes=2)
    >>> metric.name, round(float(metric.value(confusion)), 4)
    ('accuracy - 0.5 * equal_opportunity', 0.65)
    """

    inner: Any
    gap: str
    _: KW_ONLY
    strength: float = 1.0
    positive: int | None = None
    n_groups: int
    n_classes: int
    weighting: ClassVar[str] = "full"
    needs_every_class: ClassVar[bool] = False
    greater_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Make the parts, and refuse what is none."""
        check_in_range(self.strength, name="strength", low=0, high=np.inf, open_high=True)
        if self.gap not in GAPS:
            raise SettingError(unknown(self.gap, GAPS, what="gap"))
        inner, positive = self.inner, self._gap.positive
        if isinstance(inner, str):
            inner = plain_metric(inner, n_classes=self.n_classes, positive=positive)
        if isinstance(inner, type) or not isinstance(inner, DifferentiableMetric):
            raise MetricError(
                "inner must be a metric of the confusion matrix that has a gradient, or the name of one. "
                f"Got {inner!r} instead; write the whole metric with from_confusion"
            )
        if getattr(inner, "n_categories", self.n_classes) != self.n_classes:
            raise MetricError(f"inner must be a metric of the {self.n_classes} classes. Got {inner.name!r} instead")
        object.__setattr__(self, "inner", maximised(inner))

    @property
    def name(self) -> str:
        """The inner metric, a minus, the strength unless it is 1, and the gap."""
        factor = "" if self.strength == 1 else f"{self.strength:g} * "
        return f"{self.inner.name} - {factor}{self.gap}"

    @property
    def n_categories(self) -> int:
        """The number of (group, class) pairs."""
        return self.n_groups * self.n_classes

    @property
    def positive_classes(self) -> tuple[int, ...]:
        """The positions of the classes that the metric and the gap are about, where they are about some only."""
        inner: tuple[int, ...] = getattr(self.inner, "positive_classes", ())
        return tuple(dict.fromkeys(inner + self._gap.positive_classes))

    @property
    def scale(self) -> float:
        """The width of the range of values."""
        return float(getattr(self.inner, "scale", 1.0)) + self.strength

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the penalised metric of each matrix."""
        gap = self._gap.value(confusion)
        return np.asarray(self.inner.value(self._by_group(confusion).sum(axis=-3)) - self.strength * gap)

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the inner metric's gradient, the same in each group, less that of the gap."""
        gap = self._gap.gradient(confusion)
        pooled = self.inner.gradient(self._by_group(confusion).sum(axis=-3))
        return np.asarray(np.tile(pooled, (self.n_groups, 1)) - self.strength * gap)

    @property
    def _gap(self) -> GapMetric:
        """The gap, refused where its numbers are none."""
        return GAPS[self.gap](n_groups=self.n_groups, n_classes=self.n_classes, positive=self.positive)

    def _by_group(self, confusion: FloatArray) -> FloatArray:
        """Return the matrices (..., groups, m, m)."""
        return confusion.reshape(*confusion.shape[:-2], self.n_groups, self.n_classes, self.n_classes)

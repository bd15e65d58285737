"""Metrics that are functions of the recalls ``r_i = C_ii / sum_j C_ij``, and smoothed minima of them.

The rows of C are categories: the m classes or, for the metrics of ``over_groups``, (group, class) pairs with the number
``group * m + class``. The class of a category is column ``category % m``. A category without rows has no recall and is
left out, as in scikit-learn's ``balanced_accuracy_score``.

A minimum is hard to fit: it has corners, and the lowest of many recalls of few rows each is mostly noise. ``smoothed``
returns the metric to fit in its place: a soft minimum of rates that are shrunk to their mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from postshift._validation import FloatArray, as_numbers, read_only
from postshift.exceptions import ShapeError, WeightError
from postshift.metrics.confusion import ratio

SHARPNESS = 20.0  # of the soft minimum, which exceeds the minimum of k values by at most log(k) / 20
PRIOR_ROWS = 2.0  # the number of rows that the mean counts for when a rate is shrunk to it


class RecallMetric(ABC):
    """A function of the recalls of the categories that have rows, defined by ``of_recalls`` and ``slopes``."""

    __slots__ = ()
    weighting: ClassVar[str] = "diagonal"
    needs_every_class: ClassVar[bool] = True
    skips_absent: ClassVar[bool] = True
    greater_is_better: ClassVar[bool] = True
    is_mean_over_all: ClassVar[bool] = False

    @abstractmethod
    def of_recalls(self, recalls: FloatArray) -> FloatArray:
        """Return the metric of the recalls (..., k)."""

    @abstractmethod
    def slopes(self, recalls: FloatArray) -> FloatArray:
        """Return the derivative by each of the recalls (..., k)."""

    def check_shape(self, confusion: FloatArray) -> None:  # noqa: B027 -- a hook
        """Raise if the matrices have a wrong shape; by default any number of classes is accepted."""

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the metric of each matrix, 0 for a matrix without rows."""
        self.check_shape(confusion)
        return self._of_hits(own_class(confusion), confusion.sum(axis=-1))

    def of_counts(self, hits: FloatArray, true: FloatArray, predicted: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the metric of the hits and row sums of each matrix, 0 without rows."""
        return self._of_hits(hits, true)

    def count_slopes(self, hits: FloatArray, true: FloatArray, predicted: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives by the hits, and 0."""
        slopes = slopes_of_present(self.slopes, ratio(hits, true), true > 0)
        return ratio(slopes, true), np.zeros(predicted.shape)

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the slopes in the column of the own class, with the class priors held fixed."""
        self.check_shape(confusion)
        sizes = confusion.sum(axis=-1)
        slopes = slopes_of_present(self.slopes, ratio(own_class(confusion), sizes), sizes > 0)
        return onto_own_class(ratio(slopes, sizes), confusion)

    def _of_hits(self, hits: FloatArray, true: FloatArray) -> FloatArray:
        """Return the metric of the recalls of the categories that have rows."""
        return of_present(self.of_recalls, ratio(hits, true), true > 0)


@dataclass(frozen=True, slots=True)
class BalancedAccuracy(RecallMetric):
    """The mean of the recalls.

    Examples
    --------
    >>> round(float(BalancedAccuracy().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.7
    """

    name: ClassVar[str] = "balanced_accuracy"

    def of_recalls(self, recalls: FloatArray) -> FloatArray:
        """Return the mean."""
        return np.asarray(recalls.mean(axis=-1))

    def slopes(self, recalls: FloatArray) -> FloatArray:
        """Return 1 / m."""
        return np.full(recalls.shape, 1 / recalls.shape[-1])


@dataclass(frozen=True, slots=True)
class GMean(RecallMetric):
    """The geometric mean of the recalls, ``(prod_i C_ii / sum_j C_ij)^(1/m)``; 0 if a recall is 0.

    Examples
    --------
    >>> round(float(GMean().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.6928
    """

    name: ClassVar[str] = "g_mean"

    def of_recalls(self, recalls: FloatArray) -> FloatArray:
        """Return the geometric mean."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.exp(np.log(recalls).mean(axis=-1)))

    def slopes(self, recalls: FloatArray) -> FloatArray:
        """Return psi / (m r_i); 0 where psi is 0, although the derivative is infinite there."""
        return ratio(self.of_recalls(recalls)[..., None], recalls.shape[-1] * recalls)


@dataclass(frozen=True, slots=True)
class HMean(RecallMetric):
    """The harmonic mean of the recalls, ``m / sum_i 1 / r_i``; 0 if a recall is 0.

    Examples
    --------
    >>> round(float(HMean().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.6857
    """

    name: ClassVar[str] = "h_mean"

    def of_recalls(self, recalls: FloatArray) -> FloatArray:
        """Return the harmonic mean."""
        return np.asarray((self._shares(recalls) * recalls).sum(axis=-1))

    def slopes(self, recalls: FloatArray) -> FloatArray:
        """Return psi^2 / (m r_i^2) or, where recalls are 0, its limit as they grow from 0 together."""
        return np.asarray(recalls.shape[-1] * self._shares(recalls) ** 2)

    @staticmethod
    def _shares(recalls: FloatArray) -> FloatArray:
        """Return ``(1 / r_i) / sum_j 1 / r_j``, scaled by the lowest recall so that nothing overflows."""
        lowest = recalls.min(axis=-1, keepdims=True)
        inverse = np.where(recalls == lowest, 1.0, ratio(lowest, recalls))
        return np.asarray(inverse / inverse.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, slots=True)
class QMean(RecallMetric):
    """1 - RMS of the miss rates, ``1 - sqrt(sum_i (1 - r_i)^2 / m)``.

    Examples
    --------
    >>> round(float(QMean().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.6838
    """

    name: ClassVar[str] = "q_mean"

    def of_recalls(self, recalls: FloatArray) -> FloatArray:
        """Return 1 - RMS of the miss rates."""
        return np.asarray(1 - np.sqrt(((1 - recalls) ** 2).mean(axis=-1)))

    def slopes(self, recalls: FloatArray) -> FloatArray:
        """Return (1 - r_i) / (m (1 - psi)); 0 where nothing is missed."""
        misses = 1 - recalls
        size = np.sqrt((misses**2).mean(axis=-1, keepdims=True))
        return ratio(misses, recalls.shape[-1] * size)


@dataclass(frozen=True, slots=True)
class MinRecall(RecallMetric):
    """The lowest recall of the classes that have rows.

    Examples
    --------
    >>> round(float(MinRecall().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.6
    """

    name: ClassVar[str] = "min_recall"

    def of_recalls(self, recalls: FloatArray) -> FloatArray:
        """Return the lowest."""
        return np.asarray(recalls.min(axis=-1))

    def slopes(self, recalls: FloatArray) -> FloatArray:
        """Return 1 for the lowest recall (the first if there are ties) and 0 for the others."""
        return np.asarray(np.eye(recalls.shape[-1])[np.argmin(recalls, axis=-1)])

    def smoothed(self, counts: Any) -> SmoothedMinimum:
        """Return the metric to fit in its place, given the number of validation rows of each class."""
        units = Units(width=1, inner=BalancedAccuracy())
        return SmoothedMinimum(metric=self.name, units=units, counts=counts, needs_every_class=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """The units that a minimum is taken over: ``width`` consecutive categories, valued by the rates of their cells.

    Each category of a unit is a cell and its rate is the recall. If ``pooled``, a unit has one cell and the rate is the
    accuracy of the unit. Arrays of cells have shape (..., units, cells).
    """

    width: int
    inner: RecallMetric
    pooled: bool = False

    def cells(self, numbers: FloatArray) -> FloatArray:
        """Return values of categories (..., R) as values of cells (..., units, cells)."""
        table = numbers.reshape(*numbers.shape[:-1], numbers.shape[-1] // self.width, self.width)
        return table.sum(axis=-1, keepdims=True) if self.pooled else table

    def rates(self, confusion: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the rate of each cell, 0 for a cell without rows, and its weight."""
        sizes = self.cells(confusion.sum(axis=-1))
        return ratio(self.cells(own_class(confusion)), sizes), sizes

    def gradient(self, slopes: FloatArray, confusion: FloatArray) -> FloatArray:
        """Return the gradient (R, m) of a function whose derivatives by the rates are ``slopes`` (units, cells)."""
        by_cell = ratio(slopes, self.cells(confusion.sum(axis=-1)))
        by_category = np.broadcast_to(by_cell, (len(by_cell), self.width))
        return onto_own_class(by_category.reshape(-1), confusion)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SmoothedMinimum:
    """A smooth replacement for a minimum over classes or groups, to fit on few rows.

    The value is ``-(1/20) log mean_u exp(-20 v_u)`` of the values ``v_u`` of the units, computed from shrunk rates: a
    rate r of n rows becomes ``(n r + 2 rbar) / (n + 2)``, where rbar is the mean rate of all cells that have rows. A
    cell without rows is left out; a unit without rows has the rate rbar. ``MinRecall.smoothed`` and
    ``WorstGroup.smoothed`` return it.

    Examples
    --------
    >>> smooth = MinRecall().smoothed([500, 500])
    >>> smooth.name, round(float(smooth.value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    ('min_recall_smoothed', 0.6341)
    """

    metric: str  # the name of the minimum
    units: Units
    counts: Any  # the number of validation rows of each category
    needs_every_class: bool
    skips_absent: ClassVar[bool] = True
    weighting: ClassVar[str] = "diagonal"
    greater_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise unless ``counts`` are the numbers of rows of whole units."""
        counts = as_numbers(self.counts, name="counts")
        if counts.ndim != 1 or not counts.size or counts.size % self.units.width:
            raise ShapeError(f"counts must hold one number for each category. Got shape {counts.shape} instead")
        if not (np.isfinite(counts).all() and (counts >= 0).all() and counts.any()):
            raise WeightError("counts must be finite and >= 0, and not all 0")
        object.__setattr__(self, "counts", read_only(counts.copy()))

    @property
    def name(self) -> str:
        """The name of the minimum, followed by ``_smoothed``."""
        return f"{self.metric}_smoothed"

    @property
    def n_categories(self) -> int:
        """The number of rows R of the matrices."""
        return len(self.counts)

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the soft minimum of each matrix."""
        levels = self._shrunk(confusion)[0]
        lowest = levels.min(axis=-1)
        above = np.exp(-SHARPNESS * (levels - lowest[..., None])).mean(axis=-1)
        return np.asarray(lowest - np.log(above) / SHARPNESS)

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the gradient; each rate also moves the mean to which the others are shrunk."""
        levels, shrunk, kept, has_rows = self._shrunk(confusion)
        shares = np.exp(-SHARPNESS * (levels - levels.min()))
        units = zip(shrunk, _counted(has_rows), strict=True)
        by_unit = np.stack([slopes_of_present(self.units.inner.slopes, *unit) for unit in units])
        slopes = (shares / shares.sum())[:, None] * by_unit
        present = has_rows.astype(np.float64)
        through_mean = ((1 - kept) * slopes).sum() * ratio(present, present.sum())
        return self.units.gradient(kept * slopes + through_mean, confusion)

    def _shrunk(self, confusion: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.bool_]]:
        """Return the values of the units, the shrunk rates, the share of each rate that is kept, and which count."""
        if confusion.shape[-2] != self.n_categories:
            raise ShapeError(
                f"matrices must have one row for each of the {self.n_categories} counts. Got {confusion.shape[-2]} rows"
            )
        rates, sizes = self.units.rates(confusion)
        counts = self.units.cells(self.counts) * (sizes > 0)
        kept, has_rows = counts / (counts + PRIOR_ROWS), counts > 0
        mean = ratio((rates * has_rows).sum(axis=(-2, -1)), has_rows.sum(axis=(-2, -1)))
        shrunk = np.asarray(kept * rates + (1 - kept) * mean[..., None, None])
        return of_present(self.units.inner.of_recalls, shrunk, _counted(has_rows)), shrunk, kept, has_rows


def of_present(
    function: Callable[[FloatArray], FloatArray], rates: FloatArray, present: NDArray[np.bool_]
) -> FloatArray:
    """Return a function of the rates (..., k) that are present; 0 if there are none."""
    if present.all():
        return function(rates)
    found = np.zeros(rates.shape[:-1])
    for pattern in np.unique(present.reshape(-1, present.shape[-1]), axis=0):
        alike = (present == pattern).all(axis=-1)
        if pattern.any():
            found[alike] = function(np.ascontiguousarray(rates[alike][:, pattern]))
    return found


def slopes_of_present(
    slopes: Callable[[FloatArray], FloatArray], rates: FloatArray, present: NDArray[np.bool_]
) -> FloatArray:
    """Return the derivatives by the rates (k,) that are present; 0 for the others."""
    found = np.zeros(rates.shape)
    if present.any():
        found[present] = slopes(rates[present])
    return found


def own_class(confusion: FloatArray) -> FloatArray:
    """Return the entries (..., R) of each category in the column of its own class."""
    categories = np.arange(confusion.shape[-2])
    return confusion[..., categories, categories % confusion.shape[-1]]


def onto_own_class(numbers: FloatArray, confusion: FloatArray) -> FloatArray:
    """Return a matrix like ``confusion`` (R, m) with ``numbers`` (R,) in the columns of the own classes."""
    table, categories = np.zeros(confusion.shape), np.arange(len(numbers))
    table[categories, categories % confusion.shape[-1]] = numbers
    return table


def _counted(has_rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which cells (..., units, cells) count: those with rows, and all cells of a unit without rows."""
    return has_rows | ~has_rows.any(axis=-1, keepdims=True)

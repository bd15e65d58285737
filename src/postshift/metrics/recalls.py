"""Metrics that are functions of the recalls ``r_i = C_ii / sum_j C_ij``, and smoothed minima of them.

The rows of C are categories: the m classes or, for the metrics of ``groups``, (group, class) pairs numbered
``group * m + class``. The recall of a category is that of its own class, column ``category % m``. A category without
rows has no recall: it is left out, as in scikit-learn's ``balanced_accuracy_score``.

A minimum is hard to fit: it has corners, and the lowest of many recalls of few rows each is mostly noise.
``smoothed`` gives what to fit in its place, a soft minimum of rates that are shrunk to their mean.
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

SHARPNESS = 20.0  # of the soft minimum, which is above the minimum of k values by at most log(k) / 20
PRIOR_ROWS = 2.0  # how many rows the mean counts for, in a rate that is shrunk to it


class RecallMetric(ABC):
    """A function of the recalls of the categories that have rows: ``of_recalls`` and ``slopes`` say which."""

    __slots__ = ()
    weighting: ClassVar[str] = "diagonal"
    needs_every_class: ClassVar[bool] = True
    skips_absent: ClassVar[bool] = True
    greater_is_better: ClassVar[bool] = True

    @abstractmethod
    def of_recalls(self, recalls: FloatArray) -> FloatArray:
        """Return the metric of the recalls (..., k)."""

    @abstractmethod
    def slopes(self, recalls: FloatArray) -> FloatArray:
        """Return its derivative by each of the recalls (..., k)."""

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the metric of each matrix; 0 of one without rows."""
        sizes = confusion.sum(axis=-1)
        return of_present(self.of_recalls, ratio(own_class(confusion), sizes), sizes > 0)

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the slopes on the diagonal, the class priors held fixed."""
        sizes = confusion.sum(axis=-1)
        slopes = slopes_of_present(self.slopes, ratio(own_class(confusion), sizes), sizes > 0)
        return onto_own_class(ratio(slopes, sizes), confusion)


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
    """The geometric mean of the recalls, ``(prod_i C_ii / sum_j C_ij)^(1/m)``; 0 where a recall is 0.

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
        """Return psi / (m r_i); 0 where psi is 0, though there it is infinite."""
        return ratio(self.of_recalls(recalls)[..., None], recalls.shape[-1] * recalls)


@dataclass(frozen=True, slots=True)
class HMean(RecallMetric):
    """The harmonic mean of the recalls, ``m / sum_i 1 / r_i``; 0 where a recall is 0.

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
    """One less the quadratic mean of the misses, ``1 - sqrt(sum_i (1 - r_i)^2 / m)``.

    Examples
    --------
    >>> round(float(QMean().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.6838
    """

    name: ClassVar[str] = "q_mean"

    def of_recalls(self, recalls: FloatArray) -> FloatArray:
        """Return one less the quadratic mean of the misses."""
        return np.asarray(1 - np.sqrt(((1 - recalls) ** 2).mean(axis=-1)))

    def slopes(self, recalls: FloatArray) -> FloatArray:
        """Return (1 - r_i) / (m (1 - psi)); 0 where nothing is missed."""
        misses = 1 - recalls
        size = np.sqrt((misses**2).mean(axis=-1, keepdims=True))
        return ratio(misses, recalls.shape[-1] * size)


@dataclass(frozen=True, slots=True)
class MinRecall:
    """The lowest recall, of the classes that have rows.

    Examples
    --------
    >>> round(float(MinRecall().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.6
    """

    name: ClassVar[str] = "min_recall"
    weighting: ClassVar[str] = "diagonal"
    needs_every_class: ClassVar[bool] = True
    skips_absent: ClassVar[bool] = True
    greater_is_better: ClassVar[bool] = True

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the lowest recall of each matrix."""
        return _EACH_CLASS.lowest(confusion)

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the gradient of the lowest recall; of several, of the first."""
        return _EACH_CLASS.lowest_gradient(confusion)

    def smoothed(self, counts: Any) -> SmoothedMinimum:
        """Return what to fit in its place, given the number of validation rows of each class."""
        return SmoothedMinimum(metric=self.name, units=_EACH_CLASS, counts=counts, needs_every_class=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """What a minimum is over: each unit is ``width`` categories in a row, valued by the rates of its cells.

    The cells of a unit are its categories and their rates the recalls or, where ``pooled``, all of them
    together and the rate its accuracy. Cells without rows are left out. Arrays of cells have shape
    (..., units, cells).
    """

    width: int
    inner: RecallMetric
    pooled: bool = False

    def cells(self, numbers: FloatArray) -> FloatArray:
        """Return numbers of categories (..., R) as those of cells."""
        table = numbers.reshape(*numbers.shape[:-1], numbers.shape[-1] // self.width, self.width)
        return table.sum(axis=-1, keepdims=True) if self.pooled else table

    def rates(self, confusion: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the rate of each cell, 0 where it has no rows, and its weight."""
        sizes = self.cells(confusion.sum(axis=-1))
        return ratio(self.cells(own_class(confusion)), sizes), sizes

    def pull(self, slopes: FloatArray, confusion: FloatArray) -> FloatArray:
        """Return the gradient (R, m) of what has these slopes (units, cells) by the rates."""
        by_cell = ratio(slopes, self.cells(confusion.sum(axis=-1)))
        by_category = np.broadcast_to(by_cell, (len(by_cell), self.width))
        return onto_own_class(by_category.reshape(-1), confusion)

    def lowest(self, confusion: FloatArray) -> FloatArray:
        """Return the lowest value of the units that have rows, 0 if none has."""
        lowest = self._levels(confusion).min(axis=-1)
        return np.where(np.isfinite(lowest), lowest, 0.0)

    def lowest_gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the gradient of the first unit that has the lowest value."""
        rates, sizes = self.rates(confusion)
        slopes, first = np.zeros_like(rates), int(np.argmin(self._levels(confusion)))
        slopes[first] = slopes_of_present(self.inner.slopes, rates[first], sizes[first] > 0)
        return self.pull(slopes, confusion)

    def _levels(self, confusion: FloatArray) -> FloatArray:
        """Return the value of each unit (..., units), infinite for units without rows."""
        rates, sizes = self.rates(confusion)
        return np.where(sizes.sum(axis=-1) > 0, of_present(self.inner.of_recalls, rates, sizes > 0), np.inf)


_EACH_CLASS = Units(width=1, inner=BalancedAccuracy())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SmoothedMinimum:
    """A smooth stand-in for a minimum over classes or groups, to fit on few rows.

    The value is ``-(1/20) log mean_u exp(-20 v_u)`` of the values ``v_u`` of the units, computed from shrunk
    rates: a rate r of n rows becomes ``(n r + 2 rbar) / (n + 2)``, rbar being the mean of the rates of all
    cells that have rows. A cell without rows is left out; a unit without rows has the rate rbar. Made by
    ``MinRecall.smoothed`` and ``WorstGroup.smoothed``.

    Parameters
    ----------
    metric : str
        The name of the minimum.
    units : Units
        What it is over.
    counts : array of shape (R,)
        The number of validation rows of each category.
    needs_every_class : bool
        Whether the minimum needs every category to have rows.

    Examples
    --------
    >>> smooth = MinRecall().smoothed([500, 500])
    >>> smooth.name, round(float(smooth.value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    ('min_recall_smoothed', 0.6341)
    """

    metric: str
    units: Units
    counts: Any
    needs_every_class: bool
    skips_absent: ClassVar[bool] = True
    weighting: ClassVar[str] = "diagonal"
    greater_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse counts that are not the numbers of rows of whole units."""
        counts = as_numbers(self.counts, name="counts")
        if counts.ndim != 1 or not counts.size or counts.size % self.units.width:
            raise ShapeError(f"counts must hold one number for each category. Got shape {counts.shape} instead")
        if not (np.isfinite(counts).all() and (counts >= 0).all() and counts.any()):
            raise WeightError("counts must be finite and >= 0, not all of them 0")
        object.__setattr__(self, "counts", read_only(counts.copy()))

    @property
    def name(self) -> str:
        """The name of the minimum, with ``_smoothed``."""
        return f"{self.metric}_smoothed"

    @property
    def n_categories(self) -> int:
        """The number of rows R of the matrices."""
        return len(self.counts)

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the soft minimum of each matrix."""
        rates, kept, present = self._parts(confusion)
        levels = of_present(self.units.inner.of_recalls, _shrunk(rates, kept, present), _counted(present))
        lowest = levels.min(axis=-1)
        above = np.exp(-SHARPNESS * (levels - lowest[..., None])).mean(axis=-1)
        return np.asarray(lowest - np.log(above) / SHARPNESS)

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return its gradient; each rate also moves the mean that the others are shrunk to."""
        rates, kept, present = self._parts(confusion)
        shrunk = _shrunk(rates, kept, present)
        inner, counted = self.units.inner, _counted(present)
        levels = of_present(inner.of_recalls, shrunk, counted)
        shares = np.exp(-SHARPNESS * (levels - levels.min()))
        by_unit = np.stack([slopes_of_present(inner.slopes, *unit) for unit in zip(shrunk, counted, strict=True)])
        slopes = (shares / shares.sum())[:, None] * by_unit
        through_mean = ((1 - kept) * slopes).sum() * ratio(present, present.sum())
        return self.units.pull(kept * slopes + through_mean, confusion)

    def _parts(self, confusion: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the rates, how much of each is kept, and 1 for the cells that have rows, here and in ``counts``."""
        if confusion.shape[-2] != self.n_categories:
            raise ShapeError(f"there are {self.n_categories} counts, and matrices of {confusion.shape[-2]} categories")
        rates, sizes = self.units.rates(confusion)
        counts = self.units.cells(self.counts) * (sizes > 0)
        return rates, counts / (counts + PRIOR_ROWS), (counts > 0).astype(np.float64)


def of_present(
    function: Callable[[FloatArray], FloatArray], rates: FloatArray, present: NDArray[np.bool_]
) -> FloatArray:
    """Return a function of the rates (..., k) that are present; 0 where none is."""
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
    """Return the slopes by the rates (k,) that are present, 0 for the others."""
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


def _counted(present: FloatArray) -> NDArray[np.bool_]:
    """Return which cells (..., units, cells) count: those with rows, and all of a unit that has none."""
    has_rows = present > 0
    return has_rows | ~has_rows.any(axis=-1, keepdims=True)


def _shrunk(rates: FloatArray, kept: FloatArray, present: FloatArray) -> FloatArray:
    """Return the rates, moved to the mean of those present as far as they are not kept."""
    mean = ratio((rates * present).sum(axis=(-2, -1)), present.sum(axis=(-2, -1)))
    return np.asarray(kept * rates + (1 - kept) * mean[..., None, None])

"""Two classes and hard clusters: rows sorted once by eta_1 / eta_0, then a binary search per cluster and label.

A row is given to class 1 where ``alpha_1 eta_1 > alpha_0 eta_0`` in floating point. Where the ratio is more than a few
roundings away from ``alpha_0 / alpha_1``, the ratio decides; the few rows in between are decided by the products
themselves. So the counts are those of a pass over all rows, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from postshift._validation import FloatArray
from postshift.engines.rows import CodeArray, Rows, RuleWeights

_BAND = 16 * np.finfo(np.float64).eps  # each product, the ratio and the threshold are off by eps / 2 at most
# Within these limits no product that matters under- or overflows: where eta_i < 1e-100, the other is near 1, and the
# ratio is on the right side of every threshold whatever the product is rounded to.
_WEIGHTS = (1e-120, 1e120)
_THRESHOLDS = (1e-60, 1e60)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """Rows of one cluster and label that count once each: their ratios sorted, and the rows as they lie."""

    sorted_ratio: FloatArray
    ratio: FloatArray
    eta: npt.NDArray[Any]

    @classmethod
    def of(cls, eta: npt.NDArray[Any]) -> _Counted:
        """Sort the ratios alone, which is several times faster than to order the rows."""
        ratio = _ratios(eta)
        return cls(sorted_ratio=np.sort(ratio), ratio=ratio, eta=eta)

    def split(self, weights: FloatArray) -> tuple[float, float]:
        """Return the number of rows given to class 0 and to class 1."""
        threshold = weights[0] / weights[1]
        band = threshold * (1 - _BAND), threshold * (1 + _BAND)
        low, high = np.searchsorted(self.sorted_ratio, band)
        moved = 0
        if low != high:
            near = self.eta[(self.ratio >= band[0]) & (self.ratio < band[1])].astype(np.float64, copy=False) * weights
            moved = int(np.count_nonzero(near[:, 1] > near[:, 0]))
        return float(high - moved), float(len(self.ratio) - high + moved)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    """The weighted rows of one cluster and label by ascending ratio, equal rows merged."""

    ratio: FloatArray
    eta: FloatArray
    weights: FloatArray
    below: FloatArray  # the weight of the first so many rows
    above: FloatArray  # the weight of all but the first so many

    @classmethod
    def of(cls, eta: npt.NDArray[Any], weights: FloatArray) -> _Segment:
        """Sort and merge rows; a model with few distinct answers leaves few rows."""
        table, ratio = eta.astype(np.float64, copy=False), _ratios(eta)
        order = np.argsort(ratio)
        table, ratio = table[order], ratio[order]
        new = np.ones(len(table), dtype=bool)
        new[1:] = (table[1:, 0] != table[:-1, 0]) | (table[1:, 1] != table[:-1, 1])
        starts = np.flatnonzero(new)
        merged = np.add.reduceat(weights[order], starts) if len(starts) else weights
        return cls(
            ratio=ratio[starts],
            eta=table[starts],
            weights=merged,
            below=_cumulated(merged),
            above=_cumulated(merged[::-1])[::-1],
        )

    def split(self, weights: FloatArray) -> tuple[float, float]:
        """Return the weight of the rows given to class 0 and to class 1."""
        threshold = weights[0] / weights[1]
        low, high = np.searchsorted(self.ratio, (threshold * (1 - _BAND), threshold * (1 + _BAND)))
        if low == high:
            return self.below[low], self.above[low]
        products = self.eta[low:high] * weights
        moved, near = products[:, 1] > products[:, 0], self.weights[low:high]
        return self.below[low] + near @ ~moved, self.above[high] + near @ moved


class SortedRatios:
    """Two classes, hard clusters: one segment per cluster and label."""

    def __init__(self, rows: Rows, clusters: CodeArray) -> None:
        self._shape = (rows.n_bases, rows.n_categories)
        codes = clusters.astype(np.intp) * rows.n_categories + rows.labels
        order = np.argsort(codes.astype(np.min_scalar_type(codes.max())), kind="stable")
        edges = np.cumsum(np.bincount(codes, minlength=rows.n_bases * rows.n_categories))
        parts, weights = np.split(order, edges[:-1]), rows.weights
        self._segments: list[_Counted | _Segment] = [
            _Counted.of(rows.eta[part]) if weights is None else _Segment.of(rows.eta[part], weights[part])
            for part in parts
        ]

    @classmethod
    def of(cls, rows: Rows) -> SortedRatios | None:
        """Return the sorted rows, or None where they are of another kind: more classes, another basis, odd sums."""
        if rows.clusters is None or rows.n_classes != 2 or not (rows.eta[:, 0] + rows.eta[:, 1] > 0.5).all():
            return None
        return cls(rows, rows.clusters)

    def cells(self, rule: RuleWeights) -> FloatArray:
        """Return the weight by cluster, label and predicted class (L, R, 2)."""
        n_categories = self._shape[1]
        found = [segment.split(rule.weights[code // n_categories]) for code, segment in enumerate(self._segments)]
        return np.array(found).reshape(*self._shape, 2)


def _ratios(eta: npt.NDArray[Any]) -> FloatArray:
    """Return eta_1 / eta_0, infinite where eta_0 is 0."""
    table = eta.astype(np.float64, copy=False)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(table[:, 1] / table[:, 0])


def decided_by_ratio(rule: RuleWeights) -> bool:
    """Say whether a rule of two classes is a threshold of the ratio: diagonal weights, positive, of sensible size."""
    if rule.full or rule.shift is not None or not _within(rule.weights, _WEIGHTS):
        return False
    return _within(rule.weights[:, 0] / rule.weights[:, 1], _THRESHOLDS)


def _within(values: FloatArray, limits: tuple[float, float]) -> bool:
    """Say whether all values lie between the limits."""
    return bool((values >= limits[0]).all() and (values <= limits[1]).all())


def _cumulated(values: FloatArray) -> FloatArray:
    """Return the sums of the first 0, 1, 2, ... values, added in long precision: there may be millions."""
    sums = np.zeros(len(values) + 1, dtype=np.longdouble)
    np.cumsum(values, out=sums[1:], dtype=np.longdouble)
    return sums.astype(np.float64)

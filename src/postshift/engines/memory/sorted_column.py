"""Two classes and hard clusters: rows are sorted once by eta_1; a pass is a binary search per cluster and label.

A rule gives a row to class 1 where ``w_1 eta_1 + v_1 > w_0 eta_0 + v_0`` in floating point. The probabilities of all
rows have nearly the same sum, so this is a threshold of eta_1 up to a narrow band, which covers the differences of the
sums and all roundings. Rows outside the band are decided by eta_1 alone; rows inside, mostly none, by the products
themselves. So the counts are exactly those of a pass over all rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from postshift._validation import FloatArray, IntArray
from postshift.engines.memory.kernel_rows import CodeArray, KernelRows, RuleWeights, stable_order

_ROUNDING = 16 * np.finfo(np.float64).eps  # each product, sum and threshold is off by a few halves of eps at most
_TINY = 1e-290  # far more than the error of products that underflow
_ALL = (-np.inf, np.inf)


class _Segment:
    """The rows ``rows`` of one cluster and label; ``eta`` and ``weights`` are those of all rows."""

    def __init__(self, eta: npt.NDArray[Any], weights: FloatArray | None, rows: IntArray) -> None:
        self._eta, self._weights, self._rows = eta, weights, rows
        self._sorted = np.sort(self._column(rows)) if weights is None else self._column(self._order)

    def _column(self, rows: IntArray) -> FloatArray:
        """Return eta_1 of some rows, in double precision, like the thresholds."""
        return np.asarray(self._eta[rows, 1], dtype=np.float64)

    @cached_property
    def _order(self) -> IntArray:
        """The rows by ascending eta_1; rows without weights need it only if some are inside a band."""
        return np.asarray(self._rows[np.argsort(self._column(self._rows))])

    @cached_property
    def _sums(self) -> tuple[FloatArray, FloatArray] | None:
        """The weight of the first k rows and of the others, for every k; None for rows without weights."""
        if self._weights is None:
            return None
        weights = self._weights[self._order]
        return _cumulated(weights), _cumulated(weights[::-1])[::-1]

    def _outside(self, low: int, high: int) -> tuple[float, float]:
        """Return the weight of the first ``low`` rows and of the rows from ``high`` on."""
        if self._sums is None:
            return float(low), float(len(self._rows) - high)
        return float(self._sums[0][low]), float(self._sums[1][high])

    def split(self, band: tuple[float, float], rule: RuleWeights, cluster: int) -> tuple[float, float]:
        """Return the weight of the rows below and above the band; the rule decides on which side rows inside count."""
        low = int(np.searchsorted(self._sorted, band[0]))
        high = int(np.searchsorted(self._sorted, band[1], side="right"))
        below, above = self._outside(low, high)
        if low == high:
            return below, above
        inside = self._order[low:high]
        scores = self._eta[inside].astype(np.float64, copy=False) * rule.weights[cluster]
        if rule.shift is not None:
            scores += rule.shift[cluster]
        moved = (scores[:, 1] > scores[:, 0]) == (_slope(rule, cluster) > 0)
        weights = np.ones(len(inside)) if self._weights is None else self._weights[inside]
        return below + float(weights @ ~moved), above + float(weights @ moved)


class SortedColumn:
    """Confusions of two classes in hard clusters: one sorted segment per cluster and label."""

    def __init__(self, rows: KernelRows, clusters: CodeArray) -> None:
        self._shape = (rows.n_bases, rows.n_categories)
        codes = clusters.astype(np.intp) * rows.n_categories + rows.labels
        order = stable_order(codes)
        edges = np.cumsum(np.bincount(codes, minlength=rows.n_bases * rows.n_categories))
        self._segments = [_Segment(rows.eta, rows.weights, part) for part in np.split(order, edges[:-1])]
        sums = rows.eta[:, 0].astype(np.float64) + rows.eta[:, 1]
        self._sums = float(sums.min(initial=1)) * (1 - _ROUNDING), float(sums.max(initial=1)) * (1 + _ROUNDING)

    def confusions(self, rule: RuleWeights) -> FloatArray:
        """Return the weight by cluster, label and predicted class (L, R, 2), for a rule with weights per class."""
        n_bases, n_categories = self._shape
        table = np.empty((n_bases, n_categories, 2))
        for cluster in range(n_bases):
            band = self._band(rule, cluster)
            order = slice(None) if _slope(rule, cluster) > 0 else slice(None, None, -1)
            for label in range(n_categories):
                segment = self._segments[cluster * n_categories + label]
                table[cluster, label, order] = segment.split(band, rule, cluster)
        return table

    def _band(self, rule: RuleWeights, cluster: int) -> tuple[float, float]:
        """Return the two values of eta_1 between which the products decide."""
        (first, last), shift = rule.weights[cluster], np.zeros(2) if rule.shift is None else rule.shift[cluster]
        size = abs(first) + abs(last) + abs(shift[0]) + abs(shift[1])
        margin = _ROUNDING * size * max(1.0, self._sums[1]) + _TINY
        ends = [first * total - (shift[1] - shift[0]) for total in self._sums]
        with np.errstate(all="ignore"):
            low, high = np.sort([(min(ends) - margin) / (first + last), (max(ends) + margin) / (first + last)])
        return (float(low), float(high)) if np.isfinite([low, high]).all() else _ALL


def _slope(rule: RuleWeights, cluster: int) -> float:
    """Return by how much the score of class 1 minus that of class 0 grows with eta_1."""
    return float(rule.weights[cluster].sum())


def _cumulated(values: FloatArray) -> FloatArray:
    """Return the sums of the first 0, 1, 2, ... values, added in long double precision: there may be millions."""
    sums = np.zeros(len(values) + 1, dtype=np.longdouble)
    np.cumsum(values, out=sums[1:], dtype=np.longdouble)
    return sums.astype(np.float64)

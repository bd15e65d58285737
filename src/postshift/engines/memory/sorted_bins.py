"""Many classes and hard clusters: rows are sorted once into bins by how clearly their likeliest class leads.

A bin holds rows of one cluster and one likeliest class k. The probability of k is between ``low`` and ``high``, and
that of every other class is at most the share ``reach`` of it. If the rule predicts k even for the worst row that a bin
could hold, it predicts k for all its rows: the bin is settled, and its counts by label are known. Only the rows of the
other bins are scored, class by class. So the counts are exactly those of a pass over all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from postshift._validation import FloatArray, IntArray
from postshift.engines.memory.kernel_rows import CodeArray, KernelRows, RuleWeights, row_slices, stable_order
from postshift.engines.memory.numpy_kernels import first_largest, runs_of, sorted_columns

MOST_LEVELS = 32  # bins of a cluster and class, by the ratio of the runner-up
_LEAST_ROWS = 8  # of a bin, on average: a test of a bin must be cheaper than scoring its rows
_MARGIN = 1e-12  # relative: the bounds and the products of a row are off by a few roundings
_CHUNK_ROWS = {False: 1 << 13, True: 1 << 15}  # scored at a time by NumPy and by compiled loops: they stay in a cache
_MANY_CHUNKS = 16  # fewer are done before other threads have started
_COPY_ROWS = 1 << 13  # rows whose leads are computed at a time

Each = Callable[[Callable[[IntArray], FloatArray], Iterable[IntArray]], Iterable[FloatArray]]


class SortedBins:
    """Confusions of many classes in hard clusters, by rows sorted into bins.

    Parameters
    ----------
    rows : KernelRows
        The rows.
    clusters : array of shape (n,)
        The cluster of each row.
    compiled : bool
        Whether numba's loops score the rows, not NumPy.
    each : callable
        Maps a function over parts of the rows, on one thread or several.
    """

    def __init__(self, rows: KernelRows, clusters: CodeArray, *, compiled: bool, each: Each) -> None:
        self._shape = (rows.n_bases, rows.n_categories, rows.n_classes)
        self._each, self._count = each, self._numba_count if compiled else self._numpy_count
        self._chunk = _CHUNK_ROWS[compiled]
        leader, value, ratio = _leads(rows.eta)
        n_levels = int(np.clip(rows.n_rows // (_LEAST_ROWS * rows.n_bases * rows.n_classes), 1, MOST_LEVELS))
        level = np.minimum((n_levels * np.sqrt(np.sqrt(ratio))).astype(np.intp), n_levels - 1)
        codes = (clusters.astype(np.intp) * rows.n_classes + leader) * n_levels + level
        order = stable_order(codes)
        self._eta, self._labels = sorted_columns(rows.eta, order), rows.labels[order]
        self._weights = None if rows.weights is None else rows.weights[order]
        codes = codes[order]
        starts = np.array([some.start for some in runs_of(codes, self._chunk)])
        self._starts, self._stops = starts, np.append(starts[1:], len(codes))
        self._cluster, self._place = np.divmod(codes[starts] // n_levels, rows.n_classes)
        self._low, self._high = (extreme.reduceat(value[order], starts) for extreme in (np.minimum, np.maximum))
        self._reach = np.maximum.reduceat(ratio[order], starts)
        self._counts = self._counted()

    def confusions(self, rule: RuleWeights) -> FloatArray:
        """Return the weight by cluster, label and predicted class (L, R, m), for a rule with weights per class."""
        contested = self._contested(rule)
        table, chunks = self._settled(contested), self._chunks(contested)
        each: Each = self._each if len(chunks) >= _MANY_CHUNKS else map
        for counted in each(lambda bins: self._count(bins, rule), chunks):
            table += counted
        return table

    def _contested(self, rule: RuleWeights) -> npt.NDArray[np.bool_]:
        """Return the bins in which the rule might predict another class than the likeliest for some row."""
        cluster, place = self._cluster, self._place
        margin = np.abs(rule.weights).max(axis=1)[cluster] * self._high
        if rule.shift is None:
            worst = self._least_lead(rule, strongest_other(rule.weights)[cluster, place])
        else:
            worst = self._least_lead(rule, rule.weights.T[:, cluster])
            worst += rule.shift[cluster, place] - rule.shift.T[:, cluster]
            worst[place, np.arange(len(place))] = np.inf
            worst = np.minimum.reduce(worst)
            margin += np.abs(rule.shift).max(axis=1)[cluster]
        return np.asarray(~(worst > _MARGIN * margin))

    def _least_lead(self, rule: RuleWeights, others: FloatArray) -> FloatArray:
        """Return the least lead of the likeliest class of each bin over classes of these weights."""
        lead = rule.weights[self._cluster, self._place] - np.maximum(others, 0) * self._reach
        return np.asarray(np.minimum(lead * self._low, lead * self._high))

    def _counted(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Return bin, cell of the table and weight of the rows of each bin and label that occurs."""
        n_categories, n_classes = self._shape[1:]
        bins = np.repeat(np.arange(len(self._starts)), self._stops - self._starts)
        counts = np.bincount(bins * n_categories + self._labels, self._weights)
        pairs = np.flatnonzero(counts)
        where, label = np.divmod(pairs, n_categories)
        cells = (self._cluster[where] * n_categories + label) * n_classes + self._place[where]
        return where, cells, counts[pairs].astype(np.float64)

    def _settled(self, contested: npt.NDArray[np.bool_]) -> FloatArray:
        """Return the counts of the settled bins: the rule predicts their likeliest class."""
        bins, cells, weights = self._counts
        counted = np.bincount(cells, weights * ~contested[bins], int(np.prod(self._shape)))
        return counted.astype(np.float64, copy=False).reshape(self._shape)

    def _chunks(self, contested: npt.NDArray[np.bool_]) -> list[IntArray]:
        """Return the contested bins in chunks of rows that are scored together."""
        bins = np.flatnonzero(contested)
        if len(bins) == 0:
            return []
        share = np.cumsum(self._stops[bins] - self._starts[bins]) // self._chunk
        return np.split(bins, np.flatnonzero(share[1:] != share[:-1]) + 1)

    def _numpy_count(self, bins: IntArray, rule: RuleWeights) -> FloatArray:
        """Return the counts of some bins by NumPy; adjacent bins of one cluster are scored as one run."""
        starts, stops, clusters = self._starts[bins], self._stops[bins], self._cluster[bins]
        apart = (starts[1:] != stops[:-1]) | (clusters[1:] != clusters[:-1])
        first, last = np.append(True, apart), np.append(apart, True)
        starts, stops, clusters = starts[first], stops[last], clusters[first]
        sizes = stops - starts
        scores, cells = np.empty((self._shape[2], sizes.sum())), np.empty(sizes.sum(), np.intp)
        end = 0
        for start, stop, cluster in zip(starts, stops, clusters, strict=True):
            place = slice(end, end := end + stop - start)
            np.multiply(self._eta[:, start:stop], rule.weights[cluster][:, None], out=scores[:, place])
            if rule.shift is not None:
                scores[:, place] += rule.shift[cluster][:, None]
            cells[place] = self._labels[start:stop] + np.uint32(cluster * self._shape[1])
        cells = cells * self._shape[2] + first_largest(scores)
        weights = None
        if self._weights is not None:
            weights = np.concatenate([self._weights[start:stop] for start, stop in zip(starts, stops, strict=True)])
        counted = np.bincount(cells, weights, int(np.prod(self._shape)))
        return counted.astype(np.float64).reshape(self._shape)

    def _numba_count(self, bins: IntArray, rule: RuleWeights) -> FloatArray:
        """Return the counts of some bins by compiled loops; numba is only imported here."""
        from postshift.engines.memory.numba_kernels import count_runs

        starts, stops, clusters = self._starts[bins], self._stops[bins], self._cluster[bins]
        table = np.zeros(self._shape, dtype=np.int64 if self._weights is None else np.float64)
        count_runs(self._eta, self._labels, self._weights, starts, stops, clusters, rule.weights, rule.shift, table)
        return table.astype(np.float64, copy=False)


def _leads(eta: npt.NDArray[Any]) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the likeliest class of every row, its probability, and the runner-up's as a share of it.

    The share is 1 in rows without any probability.
    """
    leader, value, second = np.empty(len(eta), np.intp), np.empty(len(eta)), np.zeros(len(eta))
    for some in row_slices(0, len(eta), _COPY_ROWS):
        columns = np.array(eta[some].T, dtype=np.float64, order="C")
        value[some], leader[some] = np.maximum.reduce(columns), first_largest(columns)
        columns[leader[some], np.arange(columns.shape[1])] = 0
        second[some] = np.maximum.reduce(columns)
    return leader, value, np.divide(second, value, out=np.ones(len(eta)), where=value > 0)


def strongest_other(weights: FloatArray) -> FloatArray:
    """Return for each class (..., m) the largest weight among the others.

    Examples
    --------
    >>> strongest_other(np.array([[1.0, 3.0, 2.0]]))
    array([[3., 2., 3.]])
    """
    second, best = np.moveaxis(np.partition(weights, -2, axis=-1)[..., -2:, None], -2, 0)
    return np.asarray(np.where(weights == best, second, best))

"""Many classes and hard clusters: rows sorted once by how clearly their likeliest class leads.

A bin holds rows of one cluster and one likeliest class k. Its runner-up has at most the share ``reach`` of the
probability of k, which lies between ``low`` and ``high``. Where the rule would leave class k even to the worst row that
a bin could hold, it leaves it to all of them: the bin is settled, and its counts by label are known. Only the rows of
the other bins are scored, class by class, so that the counts are those of a pass over all rows, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from postshift._validation import FloatArray, IntArray
from postshift.engines.plain import first_largest, runs_of, sorted_columns
from postshift.engines.rows import CodeArray, KernelRows, RuleWeights, row_slices, strongest_other

MOST_LEVELS = 32  # into which the rows of a cluster and class are parted by their ratio
_LEAST_ROWS = 8  # of a bin, on average: looking at bins must be cheaper than scoring their rows
_MARGIN = 1e-12  # relative: the bounds and the products of a row are off by a few roundings
_CHUNK_ROWS = {False: 1 << 13, True: 1 << 15}  # scored at a time by NumPy and by compiled loops, which keep to a cache
_MANY_RUNS = 16  # fewer are done before other threads have begun
_COPY_ROWS = 1 << 13  # whose leads are found at a time

Each = Callable[[Callable[["Run"], FloatArray], Iterable["Run"]], Iterable[FloatArray]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Consecutive sorted rows of clusters: rows ``starts[r]`` to ``stops[r]`` are in cluster ``clusters[r]``."""

    starts: IntArray
    stops: IntArray
    clusters: IntArray

    def joined(self) -> Run:
        """Return the same rows in fewer pieces: those of one cluster that follow each other become one."""
        apart = (self.starts[1:] != self.stops[:-1]) | (self.clusters[1:] != self.clusters[:-1])
        first, last = np.append(True, apart), np.append(apart, True)
        return Run(starts=self.starts[first], stops=self.stops[last], clusters=self.clusters[first])


class SettledBins:
    """Counts by cluster, label and predicted class, of rows sorted into bins.

    Parameters
    ----------
    rows : KernelRows
        The rows.
    clusters : array of shape (n,)
        The cluster of each.
    compiled : bool
        Whether rows are scored by numba's loops, not by NumPy.
    each : callable
        Maps a function over parts of the rows, on as many threads as wanted.
    """

    def __init__(self, rows: KernelRows, clusters: CodeArray, *, compiled: bool, each: Each) -> None:
        self._shape = (rows.n_bases, rows.n_categories, rows.n_classes)
        self._each, self._count = each, self._compiled_count() if compiled else self._plain_count
        self._chunk = _CHUNK_ROWS[compiled]
        lead = _Lead.of(rows.eta)
        n_levels = int(np.clip(rows.n_rows // (_LEAST_ROWS * rows.n_bases * rows.n_classes), 1, MOST_LEVELS))
        level = np.minimum((n_levels * np.sqrt(np.sqrt(lead.ratio))).astype(np.intp), n_levels - 1)
        codes = (clusters.astype(np.intp) * rows.n_classes + lead.label) * n_levels + level
        order = np.argsort(codes.astype(np.min_scalar_type(codes.max())), kind="stable")
        self._eta, self._labels = sorted_columns(rows.eta, order), rows.labels[order]
        self._weights = None if rows.weights is None else rows.weights[order]
        codes = codes[order]
        starts = np.array([some.start for some in runs_of(codes, longest=self._chunk)])
        self._starts, self._stops = starts, np.append(starts[1:], len(codes))
        segments = codes[starts] // n_levels
        self._cluster, self._place = np.divmod(segments, rows.n_classes)
        self._low, self._high = (each.reduceat(lead.value[order], starts) for each in (np.minimum, np.maximum))
        self._reach = np.maximum.reduceat(lead.ratio[order], starts)
        self._counts = self._counted()

    def cells(self, rule: RuleWeights) -> FloatArray | None:
        """Return the weight by cluster, label and predicted class (L, R, m); None for weights on the whole matrix."""
        if rule.full:
            return None
        contested = self._contested(rule)
        table, runs = self._settled(contested), self._runs(contested)
        each: Each = self._each if len(runs) >= _MANY_RUNS else map
        for counted in each(lambda run: self._count(run, rule), runs):
            table += counted
        return table

    def _contested(self, rule: RuleWeights) -> npt.NDArray[np.bool_]:
        """Return the bins in which some row might be given to another class than its likeliest."""
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
        """Return by how much the likeliest class of each bin leads classes of these weights, at the least."""
        lead = rule.weights[self._cluster, self._place] - np.maximum(others, 0) * self._reach
        return np.asarray(np.minimum(lead * self._low, lead * self._high))

    def _counted(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Return bin, cell of the table and weight of all rows of one bin and label, where there are any."""
        n_categories, n_classes = self._shape[1:]
        bins = np.repeat(np.arange(len(self._starts)), self._stops - self._starts)
        counts = np.bincount(bins * n_categories + self._labels, self._weights)
        pairs = np.flatnonzero(counts)
        where, label = np.divmod(pairs, n_categories)
        cells = (self._cluster[where] * n_categories + label) * n_classes + self._place[where]
        return where, cells, counts[pairs].astype(np.float64)

    def _settled(self, contested: npt.NDArray[np.bool_]) -> FloatArray:
        """Return the counts of the bins whose rows all keep their class."""
        bins, cells, weights = self._counts
        counted = np.bincount(cells, weights * ~contested[bins], int(np.prod(self._shape)))
        return counted.astype(np.float64, copy=False).reshape(self._shape)

    def _runs(self, contested: npt.NDArray[np.bool_]) -> list[Run]:
        """Return the rows of contested bins, so many at a time."""
        bins = np.flatnonzero(contested)
        if len(bins) == 0:
            return []
        starts, stops, clusters = self._starts[bins], self._stops[bins], self._cluster[bins]
        share = np.cumsum(stops - starts) // self._chunk
        edges = [0, *np.flatnonzero(share[1:] != share[:-1]) + 1, len(bins)]
        parts = [slice(first, last) for first, last in pairwise(edges)]
        return [Run(starts=starts[part], stops=stops[part], clusters=clusters[part]) for part in parts]

    def _plain_count(self, run: Run, rule: RuleWeights) -> FloatArray:
        """Return the counts of a run by NumPy."""
        run = run.joined()
        sizes = run.stops - run.starts
        scores, cells = np.empty((self._shape[2], sizes.sum())), np.empty(sizes.sum(), np.intp)
        end = 0
        for start, stop, cluster in zip(run.starts, run.stops, run.clusters, strict=True):
            place = slice(end, end := end + stop - start)
            np.multiply(self._eta[:, start:stop], rule.weights[cluster][:, None], out=scores[:, place])
            if rule.shift is not None:
                scores[:, place] += rule.shift[cluster][:, None]
            cells[place] = self._labels[start:stop] + np.uint32(cluster * self._shape[1])
        cells = cells * self._shape[2] + first_largest(scores)
        weights = None
        if self._weights is not None:
            pairs = zip(run.starts, run.stops, strict=True)
            weights = np.concatenate([self._weights[start:stop] for start, stop in pairs])
        counted = np.bincount(cells, weights, int(np.prod(self._shape)))
        return counted.astype(np.float64).reshape(self._shape)

    def _compiled_count(self) -> Callable[[Run, RuleWeights], FloatArray]:
        """Return the count by compiled loops; numba is imported here and not before."""
        from postshift.engines import fused_kernels as loops

        def count(run: Run, rule: RuleWeights) -> FloatArray:
            table = np.zeros(self._shape, dtype=np.int64 if self._weights is None else np.float64)
            loops.count_runs(
                self._eta,
                self._labels,
                self._weights,
                run.starts,
                run.stops,
                run.clusters,
                rule.weights,
                rule.shift,
                table,
            )
            return table.astype(np.float64, copy=False)

        return count


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lead:
    """The likeliest class of every row, its probability, and the runner-up's as a share of it."""

    label: IntArray
    value: FloatArray
    ratio: FloatArray

    @classmethod
    def of(cls, eta: npt.NDArray[Any]) -> _Lead:
        """Look at all rows, some at a time; of rows without probability the ratio is 1."""
        label, value, second = np.empty(len(eta), np.intp), np.empty(len(eta)), np.zeros(len(eta))
        for some in row_slices(0, len(eta), _COPY_ROWS):
            columns = np.array(eta[some].T, dtype=np.float64, order="C")
            value[some], label[some] = np.maximum.reduce(columns), first_largest(columns)
            columns[label[some], np.arange(columns.shape[1])] = 0
            second[some] = np.maximum.reduce(columns)
        ratio = np.divide(second, value, out=np.ones(len(eta)), where=value > 0)
        return cls(label=label, value=value, ratio=ratio)

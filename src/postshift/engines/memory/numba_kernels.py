"""The kernels by compiled loops; importing this module imports numba.

The loops read rows in their order in memory: nothing is sorted or copied. They release the interpreter lock, and are
kept on disk once compiled, where possible. Whether an argument is None is decided when a loop is compiled, not in the
loop. Argmax is written with selections, not branches: a processor cannot predict which class leads, and a wrong guess
costs more than the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from postshift._validation import FloatArray
from postshift.engines.memory.kernel_rows import CodeArray, KernelRows, RuleWeights, row_slices

Loop = TypeVar("Loop", bound=Callable[..., Any])


class NumbaKernels:
    """Tables of plug-in classifiers (see ``memory_engine``). In hard clusters without weights, counts are integers."""

    def __init__(self, rows: KernelRows, *, block_rows: int) -> None:
        self._rows = rows
        self._chunk_rows = min(rows.chunk_rows, block_rows)
        self._count_type = np.int64 if rows.weights is None else np.float64
        self.parts = row_slices(0, rows.n_rows, block_rows)

    def hits(self, part: slice, rule: RuleWeights) -> FloatArray:
        """Return the weight of the rows that the rule predicts right."""
        rows = self._rows
        if rows.clusters is None:
            table = np.zeros((rows.n_classes, rows.n_bases, 1 + rows.n_bases))
            for chunk in self._chunks(part):
                labels = rows.labels[chunk]
                weights = self._weights(chunk) * (self._predicted(chunk, rule) == labels)
                add_pairs(rows.phi[chunk], labels, weights, table)
            return _columns_first(table)
        if rule.full:
            return np.diagonal(self.confusions(part, rule), axis1=1, axis2=2)
        counts = np.zeros((rows.n_bases, rows.n_classes), dtype=self._count_type)
        given = None if rows.weights is None else rows.weights[part]
        count_hits(rows.eta[part], rows.clusters[part], rows.labels[part], given, rule.weights, rule.shift, counts)
        return counts.astype(np.float64, copy=False)

    def confusions(self, part: slice, rule: RuleWeights) -> FloatArray:
        """Return the weight by label and predicted class."""
        rows = self._rows
        shape = (rows.n_categories, rows.n_classes)
        if rows.clusters is None:
            table = np.zeros((shape[0] * shape[1], rows.n_bases, 1 + rows.n_bases))
            for chunk in self._chunks(part):
                cells = self._cells(chunk, self._predicted(chunk, rule))
                add_pairs(rows.phi[chunk], cells, self._weights(chunk), table)
            return _columns_first(table.reshape(*shape, *table.shape[1:]))
        counts = np.zeros((rows.n_bases, *shape), dtype=self._count_type)
        for chunk in self._chunks(part):
            given = None if rows.weights is None else rows.weights[chunk]
            count_cells(rows.clusters[chunk], rows.labels[chunk], self._predicted(chunk, rule), given, counts)
        return counts.astype(np.float64, copy=False)

    def influence(self, part: slice, rule: RuleWeights) -> FloatArray:
        """Return the sums of influence regression."""
        rows = self._rows
        table = np.zeros((rows.n_classes, rows.n_bases, 1 + rows.n_classes))
        for chunk in self._chunks(part):
            predicted, eta = self._predicted(chunk, rule), rows.eta[chunk]
            weights = np.asarray(self._weights(chunk) * eta[np.arange(len(eta)), predicted])
            self._add_products(chunk, predicted, weights, table)
        return _columns_first(table)

    def look(self, part: slice, rule: RuleWeights, *, influence: bool) -> FloatArray:
        """Return the weighted confusions by column."""
        rows = self._rows
        shape = (rows.n_categories, rows.n_classes)
        table = np.zeros((shape[0] * shape[1], rows.n_bases, 1 + (rows.n_classes if influence else 0)))
        ones = np.zeros(len(table))
        for chunk in self._chunks(part):
            cells, weights = self._cells(chunk, self._predicted(chunk, rule)), self._weights(chunk)
            self._add_products(chunk, cells, weights, table)
            if rows.clusters is None:
                ones += np.bincount(cells, weights=weights, minlength=len(ones))
        if rows.clusters is not None:
            return _columns_first(table.reshape(*shape, *table.shape[1:]))
        columns = (table[:, :, 1:] if influence else table).reshape(len(table), -1)
        return np.concatenate([ones[None], columns.T]).reshape(-1, *shape)

    def _chunks(self, part: slice) -> list[slice]:
        """Return the chunks of a part; one is predicted at a time."""
        return row_slices(part.start, part.stop, self._chunk_rows)

    def _weights(self, chunk: slice) -> FloatArray:
        """Return the weight of every row."""
        weights = self._rows.weights
        return np.ones(chunk.stop - chunk.start) if weights is None else weights[chunk]

    def _cells(self, chunk: slice, predicted: CodeArray) -> CodeArray:
        """Return label and predicted class of every row as one number."""
        return self._rows.labels[chunk] * np.uint32(self._rows.n_classes) + predicted

    def _predicted(self, chunk: slice, rule: RuleWeights) -> CodeArray:
        """Return the predicted class of every row; without hard clusters, weights are a matrix product per chunk."""
        rows = self._rows
        eta, phi = rows.eta[chunk], rows.phi[chunk]
        predicted = np.empty(len(eta), dtype=np.uint32)
        if rows.clusters is not None and rule.full:
            predict_clusters_full(eta, rows.clusters[chunk], rule.weights, predicted)
        elif rows.clusters is not None:
            predict_clusters(eta, rows.clusters[chunk], rule.weights, rule.shift, predicted)
        elif rule.full:
            scores = eta @ np.hstack(list(rule.weights))
            predict_mixed(scores.reshape(len(eta), len(rule.weights), -1), phi, predicted)
        elif rule.shift is not None:
            predict_products((phi @ rule.weights) * eta + phi @ rule.shift, None, predicted)
        else:
            predict_products(phi @ rule.weights, eta, predicted)
        return predicted

    def _add_products(self, chunk: slice, groups: CodeArray, weights: FloatArray, table: FloatArray) -> None:
        """Add to ``table`` (groups, L, 1 + columns) the sums of w phi_l (1, eta), for the first columns of eta."""
        rows = self._rows
        eta = rows.eta[chunk, : table.shape[2] - 1]
        if rows.clusters is None:
            add_products(rows.phi[chunk], eta, groups, weights, table)
            return
        groups = groups * np.uint32(rows.n_bases) + rows.clusters[chunk]
        add_products(np.ones((len(groups), 1)), eta, groups, weights, table.reshape(-1, 1, table.shape[2]))


def _columns_first(table: FloatArray) -> FloatArray:
    """Return a table by group (..., L, columns) as (L, columns, ...)."""
    return np.moveaxis(table, (-2, -1), (0, 1))


# -- the loops --------------------------------------------------------------------------------------------


def _compiled(loop: Loop) -> Loop:
    """Return the compiled loop, kept on disk if numba finds a folder that it can write to."""
    try:
        return cast("Loop", numba.njit(nogil=True, cache=True)(loop))
    except RuntimeError:  # no such folder: the loop is compiled in every process
        return cast("Loop", numba.njit(nogil=True)(loop))


@numba.njit(inline="always")  # as a call it takes twice the time
def _first_best(eta: Any, row: Any, alpha: Any, shift: Any, cluster: Any) -> Any:
    """Return the first class with the largest score ``alpha eta (+ shift)`` of a row."""
    top = eta[row, 0] * alpha[cluster, 0]
    if shift is not None:
        top += shift[cluster, 0]
    best = 0
    for j in range(1, eta.shape[1]):
        score = eta[row, j] * alpha[cluster, j]
        if shift is not None:
            score += shift[cluster, j]
        leads = score > top
        best = j if leads else best
        top = score if leads else top
    return best


@numba.njit(inline="always")
def _first_largest(scores: Any) -> Any:
    """Return the first class with the largest score."""
    best, top = 0, scores[0]
    for j in range(1, len(scores)):
        leads = scores[j] > top
        best = j if leads else best
        top = scores[j] if leads else top
    return best


@_compiled
def count_hits(  # noqa: PLR0917 -- compiled loops take their arguments by position
    eta: Any, clusters: Any, labels: Any, weights: Any, alpha: Any, shift: Any, hits: Any
) -> None:
    """Add to ``hits`` (L, m) the weight of the rows whose first largest score is that of their label."""
    for row in range(len(eta)):
        cluster, label = clusters[row], labels[row]
        hit = _first_best(eta, row, alpha, shift, cluster) == label
        hits[cluster, label] += hit if weights is None else weights[row] * hit


@_compiled
def predict_clusters(eta: Any, clusters: Any, alpha: Any, shift: Any, predicted: Any) -> None:
    """Write the first class with the largest score ``alpha eta (+ shift)``."""
    for row in range(len(eta)):
        predicted[row] = _first_best(eta, row, alpha, shift, clusters[row])


@_compiled
def predict_clusters_full(eta: Any, clusters: Any, alpha: Any, predicted: Any) -> None:
    """Write the first class with the largest score ``eta' alpha``, alpha (L, m, m)."""
    n_rows, n_classes = eta.shape
    scores = np.empty(n_classes)
    for row in range(n_rows):
        cluster = clusters[row]
        for j in range(n_classes):
            scores[j] = eta[row, 0] * alpha[cluster, 0, j]
        for i in range(1, n_classes):
            for j in range(n_classes):
                scores[j] += eta[row, i] * alpha[cluster, i, j]
        predicted[row] = _first_largest(scores)


@_compiled
def predict_products(scores: Any, eta: Any, predicted: Any) -> None:
    """Write the first class with the largest ``scores eta``, or with the largest score if eta is None."""
    n_rows, n_classes = scores.shape
    for row in range(n_rows):
        top = scores[row, 0] if eta is None else scores[row, 0] * eta[row, 0]
        best = 0
        for j in range(1, n_classes):
            score = scores[row, j] if eta is None else scores[row, j] * eta[row, j]
            leads = score > top
            best = j if leads else best
            top = score if leads else top
        predicted[row] = best


@_compiled
def predict_mixed(scores: Any, phi: Any, predicted: Any) -> None:
    """Write the first class with the largest ``sum_l phi_l scores_l``, scores (n, L, m)."""
    n_rows, n_bases, n_classes = scores.shape
    total = np.empty(n_classes)
    for row in range(n_rows):
        for j in range(n_classes):
            total[j] = phi[row, 0] * scores[row, 0, j]
        for basis in range(1, n_bases):
            for j in range(n_classes):
                total[j] += phi[row, basis] * scores[row, basis, j]
        predicted[row] = _first_largest(total)


@_compiled
def count_runs(  # noqa: PLR0917
    eta: Any, labels: Any, weights: Any, starts: Any, stops: Any, clusters: Any, alpha: Any, shift: Any, cells: Any
) -> None:
    """Add to ``cells`` (L, R, m) the weight by label and predicted class of runs of rows, eta' (m, n) class by class.

    The rows of a tile are scored together: the loops over them have no branch and use the whole width of the processor.
    """
    tile = 512
    top, best = np.empty(tile), np.empty(tile, np.int64)
    for run in range(len(starts)):
        cluster = clusters[run]
        for start in range(starts[run], stops[run], tile):
            size = min(tile, stops[run] - start)
            for row in range(size):
                top[row] = eta[0, start + row] * alpha[cluster, 0]
                if shift is not None:
                    top[row] += shift[cluster, 0]
                best[row] = 0
            for j in range(1, eta.shape[0]):
                column, factor = eta[j, start : start + size], alpha[cluster, j]
                for row in range(size):
                    score = column[row] * factor
                    if shift is not None:
                        score += shift[cluster, j]
                    leads = score > top[row]
                    best[row] = j if leads else best[row]
                    top[row] = score if leads else top[row]
            for row in range(size):
                weight = 1 if weights is None else weights[start + row]
                cells[cluster, labels[start + row], best[row]] += weight


@_compiled
def count_cells(clusters: Any, labels: Any, predicted: Any, weights: Any, cells: Any) -> None:
    """Add to ``cells`` (L, R, m) the weight by cluster, label and predicted class."""
    for row in range(len(predicted)):
        weight = 1 if weights is None else weights[row]
        cells[clusters[row], labels[row], predicted[row]] += weight


@_compiled
def add_pairs(phi: Any, groups: Any, weights: Any, table: Any) -> None:
    """Add to ``table`` (groups, L, 1 + L) the sums of w phi_l (1, phi_k)."""
    n_rows, n_bases = phi.shape
    rows = np.empty(n_rows, np.uint32)
    n_kept = 0
    for row in range(n_rows):  # rows that count are collected first, without a branch: no processor predicts hits
        rows[n_kept] = row
        n_kept += 1 if weights[row] != 0 else 0
    for row in rows[:n_kept]:
        sums, weight = table[groups[row]], weights[row]
        for basis in range(n_bases):
            part = weight * phi[row, basis]
            sums[basis, 0] += part
            for other in range(n_bases):
                sums[basis, 1 + other] += part * phi[row, other]


@_compiled
def add_products(phi: Any, eta: Any, groups: Any, weights: Any, table: Any) -> None:
    """Add to ``table`` (groups, L, 1 + columns of eta) the sums of w phi_l (1, eta)."""
    n_rows, n_bases = phi.shape
    for row in range(n_rows):
        sums = table[groups[row]]
        for basis in range(n_bases):
            part = weights[row] * phi[row, basis]
            sums[basis, 0] += part
            for j in range(eta.shape[1]):
                sums[basis, 1 + j] += part * eta[row, j]


@_compiled
def add_votes(eta: Any, clusters: Any, alpha: Any, shares: Any, floors: Any, table: Any) -> None:  # noqa: PLR0917
    """Add to ``table`` (n, m) the share of every member (T) at its first largest score ``alpha[t] eta``.

    If every class j of a row has less than the share ``floors[cluster, k, j]`` of the probability of its likeliest
    class k, every member predicts k. The other rows are gathered by cluster and scored a tile at a time.
    """
    n_rows, n_classes = eta.shape
    n_bases, tile = alpha.shape[1], 128
    columns, rows = np.empty((n_bases, n_classes, tile)), np.empty((n_bases, tile), np.int64)
    filled = np.zeros(n_bases, np.int64)
    total = 0.0
    for share in shares:
        total += share
    for row in range(n_rows):
        cluster = clusters[row]
        best, top = 0, eta[row, 0]
        for j in range(1, n_classes):
            leads = eta[row, j] > top
            best = j if leads else best
            top = eta[row, j] if leads else top
        rivals = 0
        for j in range(n_classes):
            rivals += 0 if eta[row, j] < floors[cluster, best, j] * top else 1
        if rivals == 0 and top > 1e-100:  # so that no product underflows
            table[row, best] += total
            continue
        for j in range(n_classes):
            columns[cluster, j, filled[cluster]] = eta[row, j]
        rows[cluster, filled[cluster]] = row
        filled[cluster] += 1
        if filled[cluster] == tile:
            _vote(columns[cluster], rows[cluster], alpha[:, cluster], shares, table)
            filled[cluster] = 0
    for cluster in range(n_bases):
        size = filled[cluster]
        _vote(columns[cluster, :, :size], rows[cluster, :size], alpha[:, cluster], shares, table)


@_compiled
def _vote(columns: Any, rows: Any, alpha: Any, shares: Any, table: Any) -> None:
    """Add the members' shares for some rows of one cluster, eta' (m, rows) class by class."""
    size = len(rows)
    top, best = np.empty(size), np.empty(size, np.int64)
    for member in range(len(shares)):
        for row in range(size):
            top[row] = columns[0, row] * alpha[member, 0]
            best[row] = 0
        for j in range(1, len(columns)):
            factor = alpha[member, j]
            for row in range(size):
                score = columns[j, row] * factor
                leads = score > top[row]
                best[row] = j if leads else best[row]
                top[row] = score if leads else top[row]
        for row in range(size):
            table[rows[row], best[row]] += shares[member]

"""The kernels by compiled loops: rows are read once, in their order in memory; nothing is sorted or copied."""

from __future__ import annotations

import numpy as np

from postshift._validation import FloatArray
from postshift.engines.memory import numba_loops as loops
from postshift.engines.memory.kernel_rows import CodeArray, KernelRows, RuleWeights, row_slices


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
                loops.add_pairs(rows.phi[chunk], labels, weights, table)
            return _columns_first(table)
        if rule.full:
            return np.diagonal(self.confusions(part, rule), axis1=1, axis2=2)
        counts = np.zeros((rows.n_bases, rows.n_classes), dtype=self._count_type)
        given = None if rows.weights is None else rows.weights[part]
        loops.count_hits(
            rows.eta[part], rows.clusters[part], rows.labels[part], given, rule.weights, rule.shift, counts
        )
        return counts.astype(np.float64, copy=False)

    def confusions(self, part: slice, rule: RuleWeights) -> FloatArray:
        """Return the weight by label and predicted class."""
        rows = self._rows
        shape = (rows.n_categories, rows.n_classes)
        if rows.clusters is None:
            table = np.zeros((shape[0] * shape[1], rows.n_bases, 1 + rows.n_bases))
            for chunk in self._chunks(part):
                cells = self._cells(chunk, self._predicted(chunk, rule))
                loops.add_pairs(rows.phi[chunk], cells, self._weights(chunk), table)
            return _columns_first(table.reshape(*shape, *table.shape[1:]))
        counts = np.zeros((rows.n_bases, *shape), dtype=self._count_type)
        for chunk in self._chunks(part):
            given = None if rows.weights is None else rows.weights[chunk]
            loops.count_cells(rows.clusters[chunk], rows.labels[chunk], self._predicted(chunk, rule), given, counts)
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
        """Return the predicted class of every row; in other bases the weights are one matrix product per chunk."""
        rows = self._rows
        eta, phi = rows.eta[chunk], rows.phi[chunk]
        predicted = np.empty(len(eta), dtype=np.uint32)
        if rows.clusters is not None and rule.full:
            loops.predict_clusters_full(eta, rows.clusters[chunk], rule.weights, predicted)
        elif rows.clusters is not None:
            loops.predict_clusters(eta, rows.clusters[chunk], rule.weights, rule.shift, predicted)
        elif rule.full:
            scores = eta @ np.hstack(list(rule.weights))
            loops.predict_mixed(scores.reshape(len(eta), len(rule.weights), -1), phi, predicted)
        elif rule.shift is not None:
            loops.predict_products((phi @ rule.weights) * eta + phi @ rule.shift, None, predicted)
        else:
            loops.predict_products(phi @ rule.weights, eta, predicted)
        return predicted

    def _add_products(self, chunk: slice, groups: CodeArray, weights: FloatArray, table: FloatArray) -> None:
        """Add to ``table`` (groups, L, 1 + columns) the sums of w phi_l (1, eta), for the first columns of eta."""
        rows = self._rows
        eta = rows.eta[chunk, : table.shape[2] - 1]
        if rows.clusters is None:
            loops.add_products(rows.phi[chunk], eta, groups, weights, table)
            return
        groups = groups * np.uint32(rows.n_bases) + rows.clusters[chunk]
        loops.add_products(np.ones((len(groups), 1)), eta, groups, weights, table.reshape(-1, 1, table.shape[2]))


def _columns_first(table: FloatArray) -> FloatArray:
    """Return a table by group (..., L, columns) as (L, columns, ...)."""
    return np.moveaxis(table, (-2, -1), (0, 1))

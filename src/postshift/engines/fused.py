"""The passes by compiled loops: rows are read once, as they lie in memory, and nothing is sorted or copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from postshift._validation import FloatArray
from postshift.engines import fused_kernels as loops
from postshift.engines.rows import CodeArray, KernelRows, RuleWeights, row_slices


class _FusedPasses:
    """What both kinds of basis share: parts of rows, cut into chunks that are predicted at a time."""

    def __init__(self, rows: KernelRows, *, block_rows: int) -> None:
        self._rows = rows
        self._chunk = min(rows.chunk_rows, block_rows)
        self.parts = row_slices(0, rows.n_rows, block_rows)

    def _chunks(self, part: slice) -> list[slice]:
        """Return the chunks of a part."""
        return row_slices(part.start, part.stop, self._chunk)

    def _weights(self, chunk: slice) -> FloatArray:
        """Return the weight of every row."""
        weights = self._rows.weights
        return np.ones(chunk.stop - chunk.start) if weights is None else weights[chunk]

    def _cells(self, chunk: slice, predicted: CodeArray) -> CodeArray:
        """Return label and predicted class of every row as one number."""
        return self._rows.labels[chunk] * np.uint32(self._rows.n_classes) + predicted

    def _hit_weights(self, chunk: slice, predicted: CodeArray) -> FloatArray:
        """Return w p at the predicted class of every row."""
        eta = self._rows.eta[chunk]
        return np.asarray(self._weights(chunk) * eta[np.arange(len(eta)), predicted])


class FusedClusterPasses(_FusedPasses):
    """Passes over hard clusters; see ``engines.passes``. Without weights the counts are whole numbers."""

    def __init__(self, rows: KernelRows, clusters: CodeArray, *, block_rows: int) -> None:
        super().__init__(rows, block_rows=block_rows)
        self._clusters = clusters

    def hits(self, part: slice, rule: RuleWeights) -> FloatArray:
        """Return the weight of the rows that the rule predicts right."""
        rows = self._rows
        if rule.full:
            return np.diagonal(self.confusions(part, rule), axis1=1, axis2=2)
        table = self._zeros(rows.n_bases, rows.n_classes)
        weights = None if rows.weights is None else rows.weights[part]
        loops.count_hits(
            rows.eta[part], self._clusters[part], rows.labels[part], weights, rule.weights, rule.shift, table
        )
        return table.astype(np.float64, copy=False)

    def confusions(self, part: slice, rule: RuleWeights) -> FloatArray:
        """Return the weight by label and predicted class."""
        rows = self._rows
        table = self._zeros(rows.n_bases, rows.n_categories, rows.n_classes)
        for chunk in self._chunks(part):
            weights = None if rows.weights is None else rows.weights[chunk]
            predicted = self._predicted(chunk, rule)
            loops.count_cells(self._clusters[chunk], rows.labels[chunk], predicted, weights, table)
        return table.astype(np.float64, copy=False)

    def influence(self, part: slice, rule: RuleWeights) -> FloatArray:
        """Return the sums of influence regression."""
        rows = self._rows
        table = np.zeros((rows.n_classes * rows.n_bases, 1, 1 + rows.n_classes))
        for chunk in self._chunks(part):
            predicted = self._predicted(chunk, rule)
            self._add(chunk, predicted, self._hit_weights(chunk, predicted), table)
        return _columns_first(table.reshape(rows.n_classes, rows.n_bases, -1))

    def look(self, part: slice, rule: RuleWeights, *, influence: bool) -> FloatArray:
        """Return the weighted confusions by column."""
        rows = self._rows
        n_columns = rows.n_classes if influence else 0
        shape = (rows.n_categories, rows.n_classes, rows.n_bases, 1 + n_columns)
        table = np.zeros((np.prod(shape[:3]), 1, shape[3]))
        for chunk in self._chunks(part):
            cells = self._cells(chunk, self._predicted(chunk, rule))
            self._add(chunk, cells, self._weights(chunk), table)
        return _columns_first(table.reshape(shape))

    def _predicted(self, chunk: slice, rule: RuleWeights) -> CodeArray:
        """Return the predicted class of every row."""
        eta, clusters = self._rows.eta[chunk], self._clusters[chunk]
        predicted = np.empty(len(eta), dtype=np.uint32)
        if rule.full:
            loops.predict_clusters_full(eta, clusters, rule.weights, predicted)
        else:
            loops.predict_clusters(eta, clusters, rule.weights, rule.shift, predicted)
        return predicted

    def _add(self, chunk: slice, groups: CodeArray, weights: FloatArray, table: FloatArray) -> None:
        """Add the sums of w (1, eta) by group and cluster, or of w alone where the table has one column."""
        groups = groups * np.uint32(self._rows.n_bases) + self._clusters[chunk]
        eta = self._rows.eta[chunk, : table.shape[2] - 1]
        loops.add_products(np.ones((len(groups), 1)), eta, groups, weights, table)

    def _zeros(self, *shape: int) -> npt.NDArray[Any]:
        """Return an empty table: whole numbers where rows have no weights, so that counts are exact."""
        return np.zeros(shape, dtype=np.int64 if self._rows.weights is None else np.float64)


class FusedSoftPasses(_FusedPasses):
    """Passes over any other basis; the weights W come from one matrix product per chunk."""

    def hits(self, part: slice, rule: RuleWeights) -> FloatArray:
        """Return the weight of the rows that the rule predicts right."""
        rows = self._rows
        table = np.zeros((rows.n_classes, rows.n_bases, 1 + rows.n_bases))
        for chunk in self._chunks(part):
            labels = rows.labels[chunk]
            weights = self._weights(chunk) * (self._predicted(chunk, rule) == labels)
            loops.add_pairs(rows.phi[chunk], labels, weights, table)
        return _columns_first(table)

    def confusions(self, part: slice, rule: RuleWeights) -> FloatArray:
        """Return the weight by label and predicted class."""
        rows = self._rows
        table = np.zeros((rows.n_categories * rows.n_classes, rows.n_bases, 1 + rows.n_bases))
        for chunk in self._chunks(part):
            cells = self._cells(chunk, self._predicted(chunk, rule))
            loops.add_pairs(rows.phi[chunk], cells, self._weights(chunk), table)
        shape = (rows.n_categories, rows.n_classes, *table.shape[1:])
        return _columns_first(table.reshape(shape))

    def influence(self, part: slice, rule: RuleWeights) -> FloatArray:
        """Return the sums of influence regression."""
        rows = self._rows
        table = np.zeros((rows.n_classes, rows.n_bases, 1 + rows.n_classes))
        for chunk in self._chunks(part):
            predicted = self._predicted(chunk, rule)
            weights = self._hit_weights(chunk, predicted)
            loops.add_products(rows.phi[chunk], rows.eta[chunk], predicted, weights, table)
        return _columns_first(table)

    def look(self, part: slice, rule: RuleWeights, *, influence: bool) -> FloatArray:
        """Return the weighted confusions by column."""
        rows = self._rows
        n_columns = rows.n_classes if influence else 0
        table = np.zeros((rows.n_categories * rows.n_classes, rows.n_bases, 1 + n_columns))
        ones = np.zeros(len(table))
        for chunk in self._chunks(part):
            cells, weights = self._cells(chunk, self._predicted(chunk, rule)), self._weights(chunk)
            loops.add_products(rows.phi[chunk], rows.eta[chunk][:, :n_columns], cells, weights, table)
            ones += np.bincount(cells, weights=weights, minlength=len(ones))
        columns = (table[:, :, 1:] if influence else table).reshape(len(table), -1)
        stacked = np.concatenate([ones[None], columns.T])
        return stacked.reshape(-1, rows.n_categories, rows.n_classes)

    def _predicted(self, chunk: slice, rule: RuleWeights) -> CodeArray:
        """Return the predicted class of every row."""
        eta, phi = self._rows.eta[chunk], self._rows.phi[chunk]
        predicted = np.empty(len(eta), dtype=np.uint32)
        if rule.full:
            scores = eta @ np.hstack(list(rule.weights))
            loops.predict_mixed(scores.reshape(len(eta), len(rule.weights), -1), phi, predicted)
        elif rule.shift is not None:
            loops.predict_products((phi @ rule.weights) * eta + phi @ rule.shift, None, predicted)
        else:
            loops.predict_products(phi @ rule.weights, eta, predicted)
        return predicted


def fused_passes(rows: KernelRows, *, block_rows: int) -> FusedClusterPasses | FusedSoftPasses:
    """Return the passes for the basis of these rows."""
    if rows.clusters is None:
        return FusedSoftPasses(rows, block_rows=block_rows)
    return FusedClusterPasses(rows, rows.clusters, block_rows=block_rows)


def _columns_first(table: FloatArray) -> FloatArray:
    """Return a table by group (..., L, columns) as (L, columns, ...)."""
    return np.moveaxis(table, (-2, -1), (0, 1))

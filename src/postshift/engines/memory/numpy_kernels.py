"""The kernels in NumPy alone.

The rows are sorted once by cluster and label and kept class by class, eta' (m, n), so that every operation runs along
contiguous rows of one cluster, a chunk at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from postshift._validation import FloatArray, IntArray
from postshift.engines.memory.kernel_rows import KernelRows, RuleWeights, row_slices, stable_order

Table = npt.NDArray[Any]
_COPY_CELLS = 1 << 16  # of a part of a transposed copy, 512 KB: what is read and written stays in a cache
_ONE = np.ones((1, 1))  # the basis of a row in a cluster: broadcast, it does not change the products


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Consecutive sorted rows of one cluster (of all rows in other bases), and where their labels change."""

    rows: slice
    bases: slice  # the basis functions of these rows: one cluster, or all
    runs: list[tuple[int, slice]]  # label and rows, counted from the start of the chunk


class NumpyKernels:
    """Tables of plug-in classifiers (see ``memory_engine``) over sorted rows, class by class."""

    def __init__(self, rows: KernelRows, *, block_rows: int) -> None:
        self._n_classes, self._n_bases, self._n_categories = rows.n_classes, rows.n_bases, rows.n_categories
        self._hard = rows.clusters is not None
        clusters = np.zeros(rows.n_rows, np.intp) if rows.clusters is None else rows.clusters.astype(np.intp)
        codes = clusters * rows.n_categories + rows.labels
        order = stable_order(codes)
        self._eta = sorted_columns(rows.eta, order)
        self._phi = None if self._hard else sorted_columns(rows.phi, order)
        self._labels = rows.labels[order].astype(np.intp)
        self._weights = None if rows.weights is None else rows.weights[order]
        self.parts: list[list[Chunk]] = []
        clusters = clusters[order]
        for some in runs_of(clusters, min(rows.chunk_rows, block_rows)):
            cluster, labels = clusters[some.start], self._labels[some]
            bases = slice(cluster, cluster + 1) if self._hard else slice(0, self._n_bases)
            runs = [(int(labels[run.start]), run) for run in runs_of(labels, len(labels))]
            if not self.parts or some.start // block_rows != self.parts[-1][0].rows.start // block_rows:
                self.parts.append([])
            self.parts[-1].append(Chunk(rows=some, bases=bases, runs=runs))

    def hits(self, part: list[Chunk], rule: RuleWeights) -> FloatArray:
        """Return the weight of the rows that the rule predicts right."""
        shape = (self._n_bases, self._n_classes) if self._hard else (self._n_bases, 1 + self._n_bases, self._n_classes)
        table = np.zeros(shape)
        for chunk in part:
            scores, weights = self._scores(chunk, rule), self._weights_of(chunk)
            basis = None if self._hard else self._basis(chunk)
            for label, run in chunk.runs:
                hit = _first_largest_is(scores[:, run], label)
                if basis is None:
                    table[chunk.bases, label] += np.count_nonzero(hit) if weights is None else hit @ weights[run]
                else:
                    phi = basis[:, run]
                    some = phi * (hit if weights is None else hit * weights[run])
                    table[:, 0, label] += some.sum(axis=1)
                    table[:, 1:, label] += some @ phi.T
        return table

    def confusions(self, part: list[Chunk], rule: RuleWeights) -> FloatArray:
        """Return the weight by label and predicted class."""
        shape = (self._n_categories, self._n_classes)
        if self._hard:
            table = np.zeros((self._n_bases, *shape))
            for chunk in part:
                cells = self._labels[chunk.rows] * self._n_classes + first_largest(self._scores(chunk, rule))
                found = np.bincount(cells, weights=self._weights_of(chunk), minlength=table[0].size)
                table[chunk.bases] += found.reshape(shape)
            return table
        table = np.zeros((self._n_bases, 1 + self._n_bases, *shape))
        for chunk in part:
            chosen, basis = self._chosen(chunk, rule), self._basis(chunk)
            for label, run in chunk.runs:
                phi, picked = basis[:, run], chosen[:, run].T
                table[:, 0, label] += phi @ picked
                for place, values in enumerate(phi):
                    table[place, 1:, label] += (phi * values) @ picked
        return table

    def influence(self, part: list[Chunk], rule: RuleWeights) -> FloatArray:
        """Return the sums of influence regression."""
        table = np.zeros((self._n_bases, 1 + self._n_classes, self._n_classes))
        for chunk in part:
            eta, phi = self._eta[:, chunk.rows].astype(np.float64, copy=False), self._basis(chunk)
            picked = (self._chosen(chunk, rule) * eta).T
            table[chunk.bases, 0] += phi @ picked
            for place, values in enumerate(phi, start=chunk.bases.start):
                table[place, 1:] += (eta * values) @ picked
        return table

    def look(self, part: list[Chunk], rule: RuleWeights, *, influence: bool) -> FloatArray:
        """Return the weighted confusions by column."""
        n_columns = self._n_classes if influence else 0
        table = np.zeros((self._n_bases, 1 + n_columns, self._n_categories, self._n_classes))
        ones = np.zeros((self._n_categories, self._n_classes))
        for chunk in part:
            chosen, basis = self._chosen(chunk, rule), self._basis(chunk)
            eta = self._eta[:, chunk.rows].astype(np.float64, copy=False)
            for label, run in chunk.runs:
                phi, picked = basis[:, run], chosen[:, run].T
                ones[label] += picked.sum(axis=0)
                table[chunk.bases, 0, label] += phi @ picked
                if influence:
                    for place, values in enumerate(phi, start=chunk.bases.start):
                        table[place, 1:, label] += (eta[:, run] * values) @ picked
        if self._hard:
            return table
        columns = table[:, 1:] if influence else table[:, :1]
        return np.concatenate([ones[None], columns.reshape(-1, *ones.shape)])

    def _scores(self, chunk: Chunk, rule: RuleWeights) -> FloatArray:
        """Return the scores of a chunk (m, rows); in hard clusters they are the same products as in the plug-in."""
        phi = _ONE if self._phi is None else self._phi[:, chunk.rows]
        shift = None if rule.shift is None else rule.shift[chunk.bases]
        return class_scores(RuleWeights(weights=rule.weights[chunk.bases], shift=shift), self._eta[:, chunk.rows], phi)

    def _chosen(self, chunk: Chunk, rule: RuleWeights) -> FloatArray:
        """Return the weight of each row of a chunk at its predicted class, 0 elsewhere (m, rows)."""
        predicted = first_largest(self._scores(chunk, rule))
        chosen = np.arange(self._n_classes, dtype=predicted.dtype)[:, None] == predicted
        weights = self._weights_of(chunk)
        return np.asarray(chosen * (1.0 if weights is None else weights))

    def _basis(self, chunk: Chunk) -> FloatArray:
        """Return the basis functions of a chunk in double precision: ones in a cluster."""
        if self._phi is None:
            return np.ones((1, chunk.rows.stop - chunk.rows.start))
        return self._phi[:, chunk.rows].astype(np.float64, copy=False)

    def _weights_of(self, chunk: Chunk) -> FloatArray | None:
        """Return the weights of a chunk; None if each row counts once."""
        return None if self._weights is None else self._weights[chunk.rows]


def class_scores(rule: RuleWeights, eta: Table, phi: FloatArray) -> FloatArray:
    """Return the scores (m, n) of rows kept class by class, eta' (m, n) and phi' (L, n) or, for ones, (L, 1)."""
    if rule.full:
        scores = (rule.weights[0].T @ eta) * phi[0]
        for matrix, values in zip(rule.weights[1:], phi[1:], strict=True):
            scores += (matrix.T @ eta) * values
        return np.asarray(scores)
    scores = rule.weights.T @ phi
    scores = np.multiply(scores, eta, out=scores if scores.shape == eta.shape else None)
    if rule.shift is not None:
        scores += rule.shift.T @ phi
    return np.asarray(scores)


def first_largest(scores: FloatArray) -> npt.NDArray[Any]:
    """Return the class of the largest score of each column, the first one at a tie: argmax, along contiguous rows."""
    top = np.maximum.reduce(scores)
    ahead = np.ones(len(top), dtype=bool)
    found = np.zeros(len(top), dtype=np.min_scalar_type(len(scores)))
    for row in scores[:-1]:
        ahead &= row != top
        found += ahead
    return found


def _first_largest_is(scores: FloatArray, label: int) -> npt.NDArray[np.bool_]:
    """Return where ``label`` has the largest score, the first one at a tie."""
    own = scores[label]
    hit = np.ones(len(own), dtype=bool) if label == 0 else own > np.maximum.reduce(scores[:label])
    if label + 1 < len(scores):
        hit &= own >= np.maximum.reduce(scores[label + 1 :])
    return hit


def sorted_columns(table: Table, order: IntArray) -> Table:
    """Return the rows in this order, column by column in memory."""
    columns = np.empty(table.shape[::-1], dtype=table.dtype)
    for some in row_slices(0, len(order), max(_COPY_CELLS // table.shape[1], 16)):
        columns[:, some] = table[order[some]].T
    return columns


def runs_of(values: IntArray, longest: int) -> list[slice]:
    """Return the runs of equal values, cut into at most ``longest`` rows."""
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return [
        slice(first, min(first + longest, stop))
        for start, stop in pairwise(edges)
        for first in range(start, stop, longest)
    ]

"""The passes in NumPy alone.

The rows are sorted once by cluster and label and kept class by class, eta' (m, n), so that every operation runs along
contiguous rows of one cluster, a chunk at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from postshift._validation import FloatArray, IntArray
from postshift.engines.rows import KernelRows, RuleWeights, row_slices

Table = npt.NDArray[Any]
_COPY_CELLS = 1 << 16  # of a part of a transposed copy, 512 KB: what is read and written stays in a cache
_ONE = np.ones((1, 1))  # the basis of a row in a cluster: broadcast, it leaves the products as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Consecutive sorted rows of one cluster (of all rows where there are none), and where their labels change."""

    rows: slice
    place: slice  # the basis functions these rows have: one cluster, or all
    labels: tuple[tuple[int, slice], ...]  # label and rows, counted from the start of the span


class PlainPasses:
    """Passes over sorted rows, class by class; see ``engines.passes``."""

    def __init__(self, rows: KernelRows, *, block_rows: int) -> None:
        self._n_classes, self._n_bases, self._n_categories = rows.n_classes, rows.n_bases, rows.n_categories
        self._hard = rows.clusters is not None
        clusters = np.zeros(rows.n_rows, np.intp) if rows.clusters is None else rows.clusters.astype(np.intp)
        codes = clusters * rows.n_categories + rows.labels
        # NumPy sorts narrow integers by radix, in a tenth of the time.
        order = np.argsort(codes.astype(np.min_scalar_type(codes.max())), kind="stable")
        self._eta = sorted_columns(rows.eta, order)
        self._phi = None if self._hard else sorted_columns(rows.phi, order)
        self._labels = rows.labels[order].astype(np.intp)
        self._weights = None if rows.weights is None else rows.weights[order]
        chunk = min(rows.chunk_rows, block_rows)
        spans = [self._span(some, clusters[order[some.start]]) for some in runs_of(clusters[order], longest=chunk)]
        self.parts = [list(some) for _, some in groupby(spans, key=lambda span: span.rows.start // block_rows)]

    def _span(self, rows: slice, cluster: int) -> Span:
        """Return the span of these sorted rows."""
        labels = self._labels[rows]
        return Span(
            rows=rows,
            place=slice(cluster, cluster + 1) if self._hard else slice(0, self._n_bases),
            labels=tuple((int(labels[run.start]), run) for run in runs_of(labels, longest=len(labels))),
        )

    def hits(self, part: list[Span], rule: RuleWeights) -> FloatArray:
        """Return the weight of the rows that the rule predicts right."""
        shape = (self._n_bases, self._n_classes) if self._hard else (self._n_bases, 1 + self._n_bases, self._n_classes)
        table = np.zeros(shape)
        for span in part:
            scores = self._scores(span, rule)
            for label, rows in span.labels:
                hit = _first_largest_is(scores[:, rows], label)
                weights = self._weights_of(span, rows)
                if self._hard:
                    table[span.place, label] += np.count_nonzero(hit) if weights is None else hit @ weights
                else:
                    phi = self._basis(span, rows)
                    some = phi * (hit if weights is None else hit * weights)
                    table[:, 0, label] += some.sum(axis=1)
                    table[:, 1:, label] += some @ phi.T
        return table

    def confusions(self, part: list[Span], rule: RuleWeights) -> FloatArray:
        """Return the weight by label and predicted class."""
        if self._hard:
            return self._cells(part, rule)
        table = np.zeros((self._n_bases, 1 + self._n_bases, self._n_categories, self._n_classes))
        for span in part:
            chosen = self._chosen(span, rule)
            for label, rows in span.labels:
                phi, picked = self._basis(span, rows), chosen[:, rows].T
                table[:, 0, label] += phi @ picked
                for basis, values in enumerate(phi):
                    table[basis, 1:, label] += (phi * values) @ picked
        return table

    def influence(self, part: list[Span], rule: RuleWeights) -> FloatArray:
        """Return the sums of influence regression."""
        table = np.zeros((self._n_bases, 1 + self._n_classes, self._n_classes))
        for span in part:
            eta = self._posterior(span)
            picked = (self._chosen(span, rule) * eta).T
            phi = self._basis(span)
            table[span.place, 0] += phi @ picked
            for basis, values in enumerate(phi, start=span.place.start):
                table[basis, 1:] += (eta * values) @ picked
        return table

    def look(self, part: list[Span], rule: RuleWeights, *, influence: bool) -> FloatArray:
        """Return the weighted confusions by column."""
        n_columns = self._n_classes if influence else 0
        table = np.zeros((self._n_bases, 1 + n_columns, self._n_categories, self._n_classes))
        ones = np.zeros((self._n_categories, self._n_classes))
        for span in part:
            chosen = self._chosen(span, rule)
            for label, rows in span.labels:
                phi, picked = self._basis(span, rows), chosen[:, rows].T
                ones[label] += picked.sum(axis=0)
                table[span.place, 0, label] += phi @ picked
                if influence:
                    eta = self._posterior(span)[:, rows]
                    for basis, values in enumerate(phi, start=span.place.start):
                        table[basis, 1:, label] += (eta * values) @ picked
        if self._hard:
            return table
        columns = table[:, 1:] if influence else table[:, :1]
        return np.concatenate([ones[None], columns.reshape(-1, *ones.shape)])

    def _cells(self, part: list[Span], rule: RuleWeights) -> FloatArray:
        """Return the weight by cluster, label and predicted class."""
        table = np.zeros((self._n_bases, self._n_categories, self._n_classes))
        for span in part:
            cells = self._labels[span.rows] * self._n_classes + first_largest(self._scores(span, rule))
            weights = self._weights_of(span)
            found = np.bincount(cells, weights=weights, minlength=table[0].size)
            table[span.place] += found.reshape(self._n_categories, self._n_classes)
        return table

    def _scores(self, span: Span, rule: RuleWeights) -> FloatArray:
        """Return the scores of a span (m, rows); hard clusters give the very products of the plug-in."""
        phi = _ONE if self._phi is None else self._phi[:, span.rows]
        return class_scores(rule.of_functions(span.place), self._eta[:, span.rows], phi)

    def _chosen(self, span: Span, rule: RuleWeights) -> FloatArray:
        """Return the weight of each row of a span at its predicted class, 0 elsewhere (m, rows)."""
        predicted = first_largest(self._scores(span, rule))
        chosen = np.arange(self._n_classes, dtype=predicted.dtype)[:, None] == predicted
        weights = self._weights_of(span)
        return np.asarray(chosen * (1.0 if weights is None else weights))

    def _posterior(self, span: Span) -> FloatArray:
        """Return p of a span, in double precision: its sums and products are."""
        return self._eta[:, span.rows].astype(np.float64, copy=False)

    def _basis(self, span: Span, rows: slice = slice(None)) -> FloatArray:
        """Return the basis functions of a span, or of some of its rows, in double precision: ones in a cluster."""
        if self._phi is not None:
            return self._phi[:, span.rows][:, rows].astype(np.float64, copy=False)
        return np.ones((1, len(range(*rows.indices(span.rows.stop - span.rows.start)))))

    def _weights_of(self, span: Span, rows: slice = slice(None)) -> FloatArray | None:
        """Return the weights of a span, or of some of its rows."""
        return None if self._weights is None else self._weights[span.rows][rows]


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


def runs_of(values: IntArray, *, longest: int) -> list[slice]:
    """Return the runs of equal values, cut into at most ``longest`` rows."""
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return [some for start, stop in pairwise(edges) for some in row_slices(start, stop, longest)]

"""Sparse probabilities: eta as a CSR matrix, for models of very many classes. An entry that is not stored is 0.

Everything here takes time and memory for the stored entries and for a few numbers of each class; no table (n, m) and no
matrix (m, m) is made. The labels are those of the dense table: a class that is not stored has the score ``shift_j``,
so that it can win where the stored classes have lower scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from postshift._validation import MIN_CLASSES, SUM_TOLERANCE, FloatArray, IntArray, wrong_rows
from postshift.exceptions import ProbabilityError, ShapeError

MOST_CLASSES = 2_000_000  # codes of three classes must be below 2^63


def check_sparse_eta(eta: Any, *, name: str = "eta") -> Any:
    """Return sparse probabilities as a CSR array in float64: indices sorted, no duplicates, no stored zeros.

    Any format of SciPy is converted; duplicates are added up. Raise unless the entries are probabilities and no row
    sums to more than 1. A row may sum to less, and may be empty: the top few probabilities are enough. The given matrix
    is not changed.
    """
    if len(eta.shape) != 2:
        raise ShapeError(f"{name} must have two dimensions (rows, columns). Got shape {eta.shape} instead")
    if eta.dtype.kind not in "biuf":
        raise ShapeError(f"{name} must hold real numbers. Got dtype {eta.dtype} instead")
    table = _canonical(eta, name=name)
    n_rows, n_classes = table.shape
    if n_classes < MIN_CLASSES or n_rows < 1:
        raise ShapeError(
            f"{name} must have at least one row and {MIN_CLASSES} classes. Got shape {table.shape} instead"
        )
    if n_classes > MOST_CLASSES:
        raise ShapeError(f"{name} must have at most {MOST_CLASSES:,} classes. Got {n_classes:,} instead")
    sums = np.asarray(table.sum(axis=1)).reshape(-1)
    low = np.zeros(n_rows, dtype=bool)
    low[_rows_of(table, np.flatnonzero(table.data < 0))] = True
    for bad, what, remedy in (
        (~np.isfinite(sums), "NaN or infinite values", "drop or repair these rows"),
        (low, "negative values", "give probabilities, not scores or logits (apply a softmax first)"),
        (
            sums > 1 + SUM_TOLERANCE,
            f"a sum above 1 (the largest is {sums.max():.6g})",
            f"give probabilities, or divide each row by its sum; the tolerance is {SUM_TOLERANCE:g}",
        ),
    ):
        if bad.any():
            raise ProbabilityError(wrong_rows(name, bad, what, remedy))
    return table


def _canonical(eta: Any, *, name: str) -> Any:
    """Return the matrix as a CSR array in float64 with sorted, distinct indices and without stored zeros."""
    try:
        table = sparse.csr_array(eta, dtype=np.float64)
        table.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise ShapeError(f"{name} is not a valid sparse matrix: {error}") from error
    if not table.has_canonical_format or not table.data.all():
        table = table.copy()
        table.sum_duplicates()
        table.eliminate_zeros()
    return table


def sparse_labels(eta: Any, weights: FloatArray, shift: FloatArray | None = None) -> tuple[IntArray, FloatArray]:
    """Return for each row the first class with the largest ``weights_j eta_j + shift_j``, and its probability.

    Parameters
    ----------
    eta : CSR array of shape (n, m)
        Probabilities, as :func:`check_sparse_eta` returns them.
    weights : array of shape (m,)
        The factor of each class.
    shift : array of shape (m,), optional
        What is added to the score of each class; 0 by default.

    Examples
    --------
    >>> eta = sparse.csr_array([[0.0, 0.7, 0.3], [0.0, 0.0, 0.0]])
    >>> sparse_labels(eta, np.array([1.0, 1.0, 4.0]))
    (array([2, 0]), array([0.3, 0. ]))
    """
    scores = weights[eta.indices] * eta.data
    if shift is not None:
        scores += shift[eta.indices]
    labels, probabilities, best = _best_stored(eta, scores)
    highest = 0.0 if shift is None else float(shift.max())
    unsure = np.flatnonzero(best <= highest)
    if len(unsure):
        others = _first_not_stored(eta[unsure], np.zeros(eta.shape[1]) if shift is None else shift)
        there = others >= 0
        unsure, others = unsure[there], others[there]
        values = np.zeros(len(others)) if shift is None else shift[others]
        wins = (values > best[unsure]) | ((values == best[unsure]) & (others < labels[unsure]))
        labels[unsure[wins]], probabilities[unsure[wins]] = others[wins], 0.0
    return labels, probabilities


def mean_eta(eta: Any, weights: FloatArray) -> FloatArray:
    """Return the weighted mean (m,) of the probabilities of each class."""
    each = np.repeat(weights, np.diff(eta.indptr))
    sums = np.bincount(eta.indices, weights=eta.data * each, minlength=eta.shape[1])
    return np.asarray(sums / weights.sum())


def probabilities_at(eta: Any, labels: IntArray) -> FloatArray:
    """Return the probability (n,) of one class of each row."""
    hit = np.flatnonzero(eta.indices == np.repeat(labels, np.diff(eta.indptr)))
    found = np.zeros(len(labels))
    found[_rows_of(eta, hit)] = eta.data[hit]
    return found


def _best_stored(eta: Any, scores: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the first stored class with the largest score, its probability, and the score; -inf in an empty row."""
    n_rows = eta.shape[0]
    sizes = np.diff(eta.indptr)
    filled = np.flatnonzero(sizes)
    labels, probabilities = np.full(n_rows, eta.shape[1], dtype=np.intp), np.zeros(n_rows)
    best = np.full(n_rows, -np.inf)
    if len(filled):
        starts = eta.indptr[filled]
        best[filled] = np.maximum.reduceat(scores, starts)
        equal = np.flatnonzero(scores == np.repeat(best[filled], sizes[filled]))
        first = equal[np.searchsorted(equal, starts)]
        labels[filled], probabilities[filled] = eta.indices[first], eta.data[first]
    return labels, probabilities, best


def _first_not_stored(eta: Any, shift: FloatArray) -> IntArray:
    """Return for each row the class with the largest shift, the first if several, that is not stored; -1 if none."""
    found = np.full(eta.shape[0], -1, dtype=np.intp)
    left = np.arange(eta.shape[0])
    for label in _highest(shift, 1 + int(np.diff(eta.indptr).max())):
        stored = _rows_of(eta, np.flatnonzero(eta.indices == label))
        found[np.delete(left, stored)] = label
        if not len(stored):
            break
        left, eta = left[stored], eta[stored]
    return found


def _highest(shift: FloatArray, n_wanted: int) -> IntArray:
    """Return the classes with the largest shifts in descending order, the first classes first among equals."""
    n_wanted = min(n_wanted, len(shift))
    least = np.partition(shift, -n_wanted)[-n_wanted]
    above = np.flatnonzero(shift > least)
    equal = np.flatnonzero(shift == least)[: n_wanted - len(above)]
    return np.concatenate([above[np.argsort(-shift[above], kind="stable")], equal])


def _rows_of(eta: Any, entries: IntArray) -> IntArray:
    """Return the row of each of these stored entries."""
    return np.asarray(np.searchsorted(eta.indptr, entries, side="right") - 1, dtype=np.intp)

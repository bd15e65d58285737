"""Marks of rows: a few numbers that identify the rows of a fit without storing the rows.

A mark is a tuple of plain numbers, so that it can be kept in a file of the estimator: the number of rows; the sum of
their labels times fixed random numbers (-1 if they are unknown); for every class the mean of the model's probabilities
times such numbers, over the first rows; and, if all rows are known, for every class their mean.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from postshift._validation import FloatArray, IntArray

Mark = tuple[float, ...]
Compared = Literal["same", "other order", "other rows"]
FIRST = 64  # rows whose probabilities are computed again by the fitted model
_NOT_KNOWN = -1.0
_CLOSE = 1e-6  # a file or another machine may round probabilities


def mark_of(eta: FloatArray, codes: IntArray | None, *, n_rows: int | None = None) -> Mark:
    """Return the mark of rows.

    Parameters
    ----------
    eta : array of shape (k, m)
        The fitted model's probabilities of all rows, or of the first rows.
    codes : array of shape (n,), optional
        Labels, as positions.
    n_rows : int, optional
        Number of rows, if eta is of the first rows only.
    """
    n_all = len(eta) if n_rows is None else n_rows
    draws = np.random.default_rng(0).random(max(n_all, FIRST))
    labels = _NOT_KNOWN if codes is None else float(draws[:n_all] @ codes)
    head = eta[:FIRST]
    means = eta.mean(axis=0).tolist() if n_rows is None else ()
    return (float(n_all), labels, *(draws[: len(head)] @ head / len(head)).tolist(), *means)


def compared(kept: Mark, new: Mark) -> Compared:
    """Return whether new rows, with all their probabilities, are the rows of a stored mark.

    Labels are compared if both are known. Rows with the same means but another order, or other labels, are recognised.
    """
    if kept[0] != new[0]:
        return "other rows"
    n_classes = (len(new) - 2) // 2
    known = min(kept[1], new[1]) != _NOT_KNOWN
    same_labels = not known or bool(np.isclose(kept[1], new[1], rtol=1e-12, atol=0))
    if same_labels and _are_close(kept[2 : 2 + n_classes], new[2 : 2 + n_classes]):
        return "same"
    means = kept[2 + n_classes :]
    return "other order" if means and _are_close(means, new[2 + n_classes :]) else "other rows"


def _are_close(kept: Mark, new: Mark) -> bool:
    """Return whether numbers are equal up to rounding."""
    return bool(np.allclose(kept, new, rtol=_CLOSE, atol=_CLOSE / 100))

"""Checks of arrays and settings, done once where they enter the library."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from postshift.exceptions import (
    BasisError,
    LabelError,
    ProbabilityError,
    SettingError,
    ShapeError,
    WeightError,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

# The rows of a softmax in float32 sum to 1 within 1e-6, those of a table printed with four digits within 1e-3.
SUM_TOLERANCE = 1e-3
MIN_ROWS = 2
MIN_CLASSES = 2
SQUARABLE = 1e150  # squares of larger numbers overflow
LARGEST = 1e100  # largest value of a metric: squares of larger ones overflow
NEGLIGIBLE = 1e-100  # a weight below this fraction of the mean counts as 0


def as_numbers(values: Any, *, name: str) -> FloatArray:
    """Return ``values`` as a float array; raise unless they are real numbers."""
    if sparse.issparse(values):
        raise ShapeError(
            f"{name} must be a dense array here; sparse matrices are for the probabilities of PostShifter only: give "
            ".toarray(), or a part of the rows of it"
        )
    if isinstance(values, np.ma.MaskedArray):
        raise ShapeError(f"{name} must not be masked: fill or drop the masked values first")
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"dtype {array.dtype}")  # noqa: TRY301
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        given = type(values).__name__
        message = f"{name} must hold real numbers, rows of equal length. Got {given} that does not convert: {error}"
        raise ShapeError(message) from error


def as_table(values: Any, *, name: str) -> FloatArray:
    """Return ``values`` as a two-dimensional float array."""
    table = as_numbers(values, name=name)
    if table.ndim != 2:
        raise ShapeError(f"{name} must have two dimensions (rows, columns). Got shape {table.shape} instead")
    return table


def read_only(array: Any) -> Any:
    """Return a read-only view of an array that others rely on."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def copied(values: Any) -> Any:
    """Return a copy of an array, a data frame or a list for a user's function, which may change it."""
    copy = getattr(values, "copy", None) or getattr(values, "clone", None)
    return values if copy is None else copy()


def check_eta(eta: Any, *, name: str = "eta") -> FloatArray:
    """Return class probabilities ``(n, m)``; raise unless every row is a distribution."""
    table = as_table(eta, name=name)
    n_rows, n_classes = table.shape
    if n_classes < MIN_CLASSES:
        raise ProbabilityError(
            f"{name} must have at least {MIN_CLASSES} classes. Got {n_classes} column(s) instead; "
            "a binary model gives two columns, P(class 0) and P(class 1): use predict_proba"
        )
    if n_rows < 1:
        raise ShapeError(f"{name} must have at least one row. Got none")
    finite = np.isfinite(table)
    if not finite.all():
        raise ProbabilityError(
            wrong_rows(name, ~finite.all(axis=1), "NaN or infinite values", "drop or repair these rows")
        )
    if table.min() < 0:
        bad = (table < 0).any(axis=1)
        raise ProbabilityError(
            wrong_rows(name, bad, "negative values", "give probabilities, not scores or logits (apply a softmax first)")
        )
    sums = table @ np.ones(n_classes)  # a product is several times faster than a sum along short rows
    bad = np.abs(sums - 1) > SUM_TOLERANCE
    if bad.any():
        worst = int(np.argmax(np.abs(sums - 1)))
        raise ProbabilityError(
            wrong_rows(
                name,
                bad,
                f"a sum other than 1 (row {worst} sums to {sums[worst]:.6g})",
                f"give probabilities, or divide each row by its sum; the tolerance is {SUM_TOLERANCE:g}",
            )
        )
    return table


def check_phi(phi: Any, *, n_rows: int, name: str = "phi") -> FloatArray:
    """Return basis functions ``(n, L)`` in [0, 1]; ``None`` is the constant basis."""
    if phi is None:
        return np.ones((n_rows, 1))
    table = as_table(phi, name=name)
    if table.shape[1] == 0:
        raise BasisError(f"{name} has no basis function (no column); give phi=None for the constant basis")
    if len(table) != n_rows:
        raise ShapeError(f"{name} must have one row per row of eta. Got {len(table)} rows for {n_rows}")
    bad = ~((table >= 0) & (table <= 1)).all(axis=1)
    if bad.any():
        raise BasisError(wrong_rows(name, bad, "values outside [0, 1]", "scale the basis functions into [0, 1]"))
    bad = table.sum(axis=1) <= 0
    if bad.any():
        raise BasisError(
            wrong_rows(
                name,
                bad,
                "no basis function above 0",
                "such rows would get weight 0: append the complement (postshift.basis.CoverBasis)",
            )
        )
    return table


def check_labels(labels: Any, *, n_rows: int, n_classes: int, name: str = "labels") -> IntArray:
    """Return labels ``(n,)`` as whole numbers in ``0..n_classes-1``."""
    try:
        values = np.asarray(labels)
    except ValueError as error:
        raise LabelError(f"{name} must be one whole number per row. Got {type(labels).__name__}: {error}") from error
    if values.shape != (n_rows,):
        raise ShapeError(f"{name} must have shape ({n_rows},), one per row of eta. Got {values.shape} instead")
    if values.dtype.kind not in "biuf":
        raise LabelError(
            f"{name} must be whole numbers in 0..{n_classes - 1}. Got dtype {values.dtype} instead; "
            "encode class names first (numpy.unique(..., return_inverse=True))"
        )
    whole = values.dtype.kind in "biu"
    bad = (values < 0) | (values >= n_classes)
    if not whole:
        bad |= ~np.isfinite(values) | (values != np.floor(values))
    if bad.any():
        raise LabelError(
            wrong_rows(
                name,
                bad,
                f"values outside 0..{n_classes - 1} (e.g. {values[bad][0]!r})",
                f"give labels as positions of the {n_classes} columns of eta",
            )
        )
    return values.astype(np.intp)


def check_weights(weights: Any, *, n_rows: int, name: str = "weights") -> FloatArray | None:
    """Return sample weights ``(n,)``, or ``None`` if every row counts once."""
    if weights is None:
        return None
    values = as_numbers(weights, name=name)
    if values.shape != (n_rows,):
        raise ShapeError(f"{name} must have shape ({n_rows},), one per row of eta. Got {values.shape} instead")
    bad = ~np.isfinite(values) | (values < 0)
    if bad.any():
        raise WeightError(wrong_rows(name, bad, "negative or non-finite values", "weights must be finite and >= 0"))
    total = float(np.sum(values / n_rows))
    if total == 0 or total > np.finfo(float).max / n_rows:
        raise WeightError(
            f"{name} must have a sum that is positive and finite. Got {n_rows} values of mean {total:g}: give weights "
            "that are not all zero, on a smaller scale if they are large"
        )
    return values


def relative_weights(weights: FloatArray | None) -> FloatArray | None:
    """Return weights of mean 1, or None if all are equal: the scale of weights has no effect."""
    if weights is None or (weights == weights[0]).all():
        return None
    shares = weights / weights.max()
    shares /= shares.mean()
    return np.where(shares < NEGLIGIBLE, 0.0, shares)


def check_rows(n_rows: int, *, name: str) -> None:
    """Raise if a sample is too small to compare two classifiers."""
    if n_rows < MIN_ROWS:
        raise ShapeError(f"the {name} sample must have at least {MIN_ROWS} rows. Got {n_rows} instead")


def check_in_range(
    value: Any, *, name: str, low: float, high: float, open_low: bool = False, open_high: bool = False
) -> float:
    """Return ``value`` as a float; raise unless it is between ``low`` and ``high``, each included unless it is open."""
    left, right = "(" if open_low else "[", ")" if open_high else "]"
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    above = number and (low < value if open_low else low <= value)
    below = number and (value < high if open_high else value <= high)
    if not (above and below):
        raise SettingError(f"{name} must be a number in {left}{low:g}, {high:g}{right}. Got {value!r} instead")
    return float(value)


def check_positive(value: Any, *, name: str) -> float:
    """Return ``value`` as a float; raise unless it is positive and finite."""
    return check_in_range(value, name=name, low=0, high=np.inf, open_low=True, open_high=True)


def check_count(value: Any, *, name: str, low: int) -> int:
    """Return ``value`` as an int; raise unless it is at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise SettingError(f"{name} must be a whole number >= {low}. Got {value!r} instead")
    return int(value)


def wrong_rows(name: str, bad: Any, what: str, remedy: str) -> str:
    """Return a message with the number of wrong rows, the first of them, and the remedy."""
    where = np.flatnonzero(bad)
    shown = ", ".join(str(row) for row in where[:5]) + (", ..." if len(where) > 5 else "")
    return f"{name} has {len(where)} of {len(bad)} rows with {what} (rows {shown}); {remedy}"


def unknown(word: Any, known: Iterable[str], *, what: str, usual: Mapping[str, str] | None = None) -> str:
    """Return a message that a name is unknown, with the closest known name, or else with all of them.

    ``usual`` maps names in lower case, which people use elsewhere, to known ones.
    """
    names, others, text = sorted(known), dict(usual or {}), str(word)
    close = difflib.get_close_matches(text, [*names, *others], n=1)
    close = close or difflib.get_close_matches(text.lower(), others, n=1)
    remedy = f"did you mean {others.get(close[0], close[0])!r}?" if close else ""
    remedy = remedy or f"choose from {', '.join(map(repr, names))}"
    return f"there is no {what} {word!r}; {remedy}"

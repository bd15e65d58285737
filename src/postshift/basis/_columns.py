"""Columns of data frames (pandas, polars), arrays and sparse matrices, without importing pandas or polars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array

from postshift._validation import unknown
from postshift.exceptions import BasisError, SettingError, ShapeError


def is_frame(X: Any) -> bool:
    """Return whether ``X`` is a data frame."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def names_of(X: Any) -> list[Any]:
    """Return the names of the columns of a data frame; empty for anything else."""
    return list(X.columns) if is_frame(X) else []


def place_of(column: Any, X: Any) -> int:
    """Return the position of a column, given by name or by position."""
    names = names_of(X)
    if column in names:
        return names.index(column)
    if isinstance(column, int | np.integer):
        width = len(names) if names else (*np.shape(X), 0)[1]
        if not 0 <= column < width:
            raise BasisError(f"there is no column {column}: give a position from 0 to {width - 1}")
        return int(column)
    if not names:
        raise BasisError(
            f"column {column!r} is a name, but the input is not a data frame: give a data frame, or positions"
        )
    raise BasisError(unknown(column, map(str, names), what="column"))


def places_of(columns: Any, X: Any) -> list[int] | None:
    """Return the positions of one column or several, given by names or positions; None if none are given."""
    if columns is None:
        return None
    given = [columns] if isinstance(columns, str | int | np.integer) else list(columns)
    if not given:
        raise SettingError("columns must name at least one column. Got none")
    return [place_of(column, X) for column in given]


def take_columns(X: Any, places: int | Sequence[int]) -> Any:
    """Return one column (one-dimensional) or several columns."""
    if sparse.issparse(X):
        part = X.tocsc()[:, np.atleast_1d(places)]
        return part.toarray().ravel() if isinstance(places, int) else part
    if hasattr(X, "iloc"):
        return X.iloc[:, places]
    return (X if is_frame(X) else np.asarray(X))[:, places]


def one_per_row(values: Any, *, what: str) -> NDArray[Any]:
    """Return one value per row; raise if some are missing."""
    flat = np.asarray(values.toarray() if sparse.issparse(values) else values)
    if flat.ndim == 2 and flat.shape[1] == 1:
        flat = flat[:, 0]
    if flat.ndim != 1 or len(flat) == 0:
        raise ShapeError(f"{what} must be one value per row. Got shape {flat.shape} instead")
    if missing(flat).any():
        raise BasisError(f"{what} must not be missing (None or NaN): give missing ones a separate value")
    return flat


def missing(flat: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values are None, NaN, NaT or pandas' NA."""
    if flat.dtype.kind == "O":
        return np.array([value is None or _differs(value) for value in flat], dtype=bool)
    return np.asarray(flat != flat) if flat.dtype.kind in "fM" else np.zeros(len(flat), dtype=bool)  # noqa: PLR0124


def _differs(value: Any) -> bool:
    """Return whether a value differs from itself, as NaN does (comparing pandas' NA raises)."""
    try:
        return bool(value != value)  # noqa: PLR0124
    except (TypeError, ValueError):
        return True


def distinct(values: NDArray[Any], *, what: str) -> tuple[list[Any], NDArray[np.intp]]:
    """Return the sorted distinct values and, for every row, the position of its value among them."""
    try:
        levels, places = np.unique(values, return_inverse=True)
    except TypeError as error:
        raise BasisError(f"{what} must be of one kind, all strings or all numbers: {error}") from error
    return levels.tolist(), places


def text_columns(X: Any) -> list[int]:
    """Return the positions of the columns of a data frame that hold neither numbers nor booleans."""
    return [place for place in range(len(names_of(X))) if not _is_number(take_columns(X, place).dtype)]


def _is_number(dtype: Any) -> bool:
    """Return whether a dtype of NumPy, pandas or polars is for numbers or booleans."""
    if hasattr(dtype, "kind"):
        return dtype.kind in "biuf"
    return bool(dtype.is_numeric()) or str(dtype) == "Boolean"


def number_table(X: Any, *, owner: Any) -> Any:
    """Return a table of finite floats, dense or CSR; raise if a column holds anything else."""
    if places := text_columns(X):
        names = ", ".join(repr(names_of(X)[place]) for place in places)
        raise BasisError(
            f"{type(owner).__name__} needs numbers, but {names} are not numbers: give other columns "
            "(KMeansBasis(columns=[...])), or encode them"
        )
    return check_array(X, accept_sparse="csr", dtype=np.float64, estimator=owner, input_name="X")

"""The common part of all bases: named columns in [0, 1] that cover every row, the same columns for all rows.

A basis defines its functions (``_functions``) and their names. The rest is decided here, on the rows of ``fit``:
functions that are 0 everywhere or repeat another are dropped, and if some rows are not fully covered, the complement
``1 - sum phi`` is appended as the last function.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, _num_samples, check_is_fitted, validate_data

from postshift._validation import FloatArray, IntArray
from postshift.exceptions import BasisError, DuplicateBasisWarning, EmptyBasisWarning, ShapeError

REST = "rest"
TOLERANCE = 1e-6  # larger than the rounding errors of a scaler or a softmax in float32


class Basis(TransformerMixin, BaseEstimator):
    """Base class of all bases: a scikit-learn transformer into [0, 1] whose rows sum to at least 1.

    A subclass defines ``_learn(rows, y)``, which fits it and returns the names of its functions, and
    ``_functions(rows)``, which returns the functions, one column each. With other arguments of ``fit``, it overrides
    ``fit``: call ``_input(X, reset=True)`` first and return ``_settled(rows, names)``.

    Attributes
    ----------
    names_ : list of str
        Names of the functions, as in ``get_feature_names_out``.
    kept_ : ndarray of int
        Positions of the functions that are not dropped.
    has_rest_ : bool
        Whether the last function is the complement of the others.
    shares_ : ndarray of shape (n_functions,)
        Mean of each function over the rows of ``fit``.
    """

    short_name = "user"

    @property
    def fitted_on(self) -> Literal["train", "val"]:
        """Which rows ``fit`` should get: the training rows or the validation rows."""
        return "train"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the basis functions to rows.

        Parameters
        ----------
        X : array, data frame or sparse matrix
            Rows; some bases also take other objects.
        y : array of shape (n_rows,), optional
            Labels; many bases ignore them.

        Returns
        -------
        Basis
            The fitted basis.
        """
        rows = self._input(X, reset=True)
        return self._settled(rows, self._learn(rows, y))

    def transform(self, X: Any) -> FloatArray:
        """Return the basis functions, one column each.

        Parameters
        ----------
        X : array, data frame or sparse matrix
            Rows with the same columns as in ``fit``.

        Returns
        -------
        ndarray of shape (n_rows, n_functions)
            Values in [0, 1]; every row sums to at least 1.
        """
        check_is_fitted(self, "kept_")
        rows = self._input(X)
        return self._finished(self._checked(rows), rows)

    def on_fit_rows(self, X: Any) -> FloatArray:
        """Return the functions of the rows of ``fit``, each without the effect of the row's own label.

        A row is always near itself, and so near its own class (:class:`RBFBasis`): scores on such functions would be
        too high. For other bases this is ``transform``.

        Parameters
        ----------
        X : array, data frame or sparse matrix
            The rows of ``fit``.

        Returns
        -------
        ndarray of shape (n_rows, n_functions)
            Values in [0, 1]; every row sums to at least 1.
        """
        return np.asarray(self.transform(X))

    def _finished(self, table: FloatArray, rows: Any) -> FloatArray:
        """Return the functions that are not dropped, and the complement."""
        if table.shape[1] != self.n_functions_:
            raise BasisError(
                f"the basis had {self.n_functions_} functions in fit and has {table.shape[1]} now: fit it again"
            )
        table = table[:, self.kept_]
        if self.has_rest_:
            return np.column_stack([table, _rest(table)])
        short = table.sum(axis=1) < 1 - TOLERANCE
        return self._covered(table, short, rows) if short.any() else table

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the functions.

        Parameters
        ----------
        input_features : array of str, optional
            Compared with the names of the columns in ``fit``; not used otherwise.

        Returns
        -------
        ndarray of str objects
            One name per function.
        """
        check_is_fitted(self, "kept_")
        _check_feature_names_in(self, input_features, generate_names=False)
        return np.array(self.names_, dtype=object)

    def __sklearn_tags__(self) -> Any:
        """Declare that sparse input is supported; subclasses check the values."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _input(self, X: Any, *, reset: bool = False) -> Any:
        """Store (``reset``) or compare the number and names of the columns; single values per row have no columns."""
        if reset and hasattr(self, "n_features_in_"):
            del self.n_features_in_  # scikit-learn keeps the old one if the new input has no columns
        if hasattr(self, "n_features_in_") and getattr(X, "ndim", 2) == 1:
            raise ShapeError(
                f"X must have two dimensions. Got shape {X.shape} instead. Reshape your data: (rows, columns)"
            )
        return validate_data(self, X, reset=reset, skip_check_array=True)

    def _learn(self, rows: Any, y: Any) -> Sequence[str]:
        """Fit to rows and return the names of the functions."""
        raise NotImplementedError

    def _functions(self, rows: Any) -> FloatArray:
        """Return the functions, one column each, before any is dropped or appended."""
        raise NotImplementedError

    @property
    def _always_rest(self) -> bool:
        """Whether the complement is appended even if it is 0 on all rows."""
        return False

    def _settled(self, rows: Any, names: Sequence[str]) -> Self:
        """Decide which functions to drop and whether to append the complement; return the fitted basis."""
        self.names_ = list(names)
        table = self._checked(rows)
        self.n_functions_ = table.shape[1]
        self.kept_ = _distinct(table, self.names_)
        table = table[:, self.kept_]
        self.has_rest_ = self._always_rest or bool((_rest(table) > 0).any())
        if self.has_rest_:
            table = np.column_stack([table, _rest(table)])
        kept = [self.names_[place] for place in self.kept_]
        self.names_ = unique_names([*kept, REST] if self.has_rest_ else kept)
        self.shares_ = table.mean(axis=0)
        return self

    def _checked(self, rows: Any) -> FloatArray:
        """Return the functions; raise unless they have a value in [0, 1] for every row."""
        table = self._functions(rows)
        if len(table) != _num_samples(rows):
            raise ShapeError(
                f"a basis must return one row of values for each row. Got {len(table)} rows for {_num_samples(rows)}"
            )
        bad = ~((table >= -TOLERANCE) & (table <= 1 + TOLERANCE))
        if bad.any():
            place = int(np.argmax(bad.any(axis=0)))
            raise BasisError(
                f"basis functions must have values in [0, 1]. Function {place} has {int(bad[:, place].sum())} of "
                f"{len(table)} rows outside (lowest {table[:, place].min():g}, highest {table[:, place].max():g}): "
                "scale or clip the functions first"
            )
        return np.clip(table, 0, 1)

    def _covered(self, table: FloatArray, short: NDArray[np.bool_], rows: Any) -> FloatArray:  # noqa: ARG002
        """Return the table with all rows covered, or raise."""
        raise BasisError(
            f"{int(short.sum())} rows are not covered (their functions sum to {table.sum(axis=1).min():g} or more), "
            "but all rows in fit were: fit on rows that include such rows, so that the complement is appended"
        )


def unique_names(names: Iterable[str]) -> list[str]:
    """Return unique names: the second ``a`` becomes ``a 2``."""
    found: list[str] = []
    for name in names:
        number, candidate = 1, name
        while candidate in found:
            number += 1
            candidate = f"{name} {number}"
        found.append(candidate)
    return found


def _rest(table: FloatArray) -> FloatArray:
    """Return the complement to 1 of every row; rounding errors count as 0."""
    rest = 1 - table.sum(axis=1)
    return np.where(rest > TOLERANCE, rest, 0.0)


def _distinct(table: FloatArray, names: Sequence[str]) -> IntArray:
    """Return the functions that are neither 0 everywhere nor equal to an earlier one; warn about the others."""
    first: dict[bytes, int] = {}
    empty, repeated = [], []
    for place, column in enumerate(table.T):
        if not column.any():
            empty.append(repr(names[place]))
            continue
        same = first.setdefault((column + 0.0).tobytes(), place)
        if same != place:
            repeated.append(f"{names[place]!r} (as {names[same]!r})")
    if empty:
        warnings.warn(
            f"dropped the basis functions {', '.join(empty)}: they are 0 on every row of fit",
            EmptyBasisWarning,
            stacklevel=4,
        )
    if repeated:
        warnings.warn(
            f"dropped the basis functions {', '.join(repeated)}: on the rows of fit they equal another function",
            DuplicateBasisWarning,
            stacklevel=4,
        )
    return np.array(list(first.values()), dtype=np.intp)

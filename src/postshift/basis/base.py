"""What every basis shares: columns in [0, 1] that cover every row, the same ones for every sample, with speaking names.

A basis says what its functions are (``_functions``) and what they are called; the rest is decided here, once, on the
rows of ``fit``: functions that are 0 everywhere and functions that repeat another are dropped, and where rows are not
covered fully the complement ``1 - sum phi`` is appended as the last function.
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
TOLERANCE = 1e-6  # a scaler or a softmax in float32 is off by less


class Basis(TransformerMixin, BaseEstimator):
    """Base of every basis of this library: a scikit-learn transformer into [0, 1] whose rows sum to at least 1.

    A subclass calls ``_input(X, reset=True)`` at the start of ``fit`` and returns ``_settled(rows, names)`` at its end;
    ``_functions(rows)`` gives its functions, one column each.

    Attributes
    ----------
    names_ : list of str
        Names of the functions, as ``get_feature_names_out`` gives them.
    kept_ : ndarray of int
        Which of the functions were kept in ``fit``.
    has_rest_ : bool
        Whether the last function is the complement of the others.
    shares_ : ndarray of shape (n_functions,)
        Mean of each function over the rows of ``fit``.
    """

    short_name = "user"

    @property
    def fitted_on(self) -> Literal["train", "val"]:
        """Which rows ``fit`` is meant for: those of the training or of the validation sample."""
        return "train"

    def transform(self, X: Any) -> FloatArray:
        """Return the basis functions, one column each.

        Parameters
        ----------
        X : array, data frame or sparse matrix
            Rows with the columns that there were in ``fit``.

        Returns
        -------
        ndarray of shape (n_rows, n_functions)
            Values in [0, 1]; every row sums to at least 1.
        """
        check_is_fitted(self, "kept_")
        rows = self._input(X)
        return self._finished(self._checked(rows), rows)

    def on_fit_rows(self, X: Any) -> FloatArray:
        """Return the functions of the very rows of ``fit``, each without what was learnt from that row's own label.

        Where labels choose what is near (:class:`RBFBasis`), a row is near its own class by being there; scores on such
        functions would flatter. Other bases give what ``transform`` gives.

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
        """Return the functions that are kept, and the complement."""
        if table.shape[1] != self.n_functions_:
            raise BasisError(
                f"there were {self.n_functions_} basis functions in fit, and now there are {table.shape[1]}"
            )
        table = table[:, self.kept_]
        if self.has_rest_:
            return np.column_stack([table, _rest(table)])
        short = table.sum(axis=1) < 1 - TOLERANCE
        return self._mended(table, short, rows) if short.any() else table

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the functions.

        Parameters
        ----------
        input_features : array of str, optional
            Only compared with the names of the columns in ``fit``.

        Returns
        -------
        ndarray of str objects
            One name per function.
        """
        check_is_fitted(self, "kept_")
        _check_feature_names_in(self, input_features, generate_names=False)
        return np.array(self.names_, dtype=object)

    def __sklearn_tags__(self) -> Any:
        """Say that sparse input is fine, and that the subclass looks at the values where it needs to."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _input(self, X: Any, *, reset: bool = False) -> Any:
        """Note (``reset``) or compare the number and the names of the columns; one value per row has none."""
        if reset and hasattr(self, "n_features_in_"):
            del self.n_features_in_  # scikit-learn leaves the old one where the new input has none
        if hasattr(self, "n_features_in_") and getattr(X, "ndim", 2) == 1:
            raise ShapeError(
                f"X must have two dimensions. Got shape {X.shape} instead. Reshape your data: (rows, columns)"
            )
        return validate_data(self, X, reset=reset, skip_check_array=True)

    def _functions(self, rows: Any) -> FloatArray:
        """Return the functions, one column each, before any is dropped or appended."""
        raise NotImplementedError

    def _settled(self, rows: Any, names: Sequence[str], *, rest: bool = False) -> Self:
        """Decide which functions to keep and whether to append the complement (``rest``: in any case)."""
        self.names_ = list(names)
        table = self._checked(rows)
        self.n_functions_ = table.shape[1]
        self.kept_ = _distinct(table, self.names_)
        table = table[:, self.kept_]
        self.has_rest_ = rest or bool((_rest(table) > 0).any())
        if self.has_rest_:
            table = np.column_stack([table, _rest(table)])
        kept = [self.names_[place] for place in self.kept_]
        self.names_ = unique_names([*kept, REST] if self.has_rest_ else kept)
        self.shares_ = table.mean(axis=0)
        return self

    def _checked(self, rows: Any) -> FloatArray:
        """Return the functions, refused unless there is one row each with values in [0, 1]."""
        table = self._functions(rows)
        if len(table) != _num_samples(rows):
            raise ShapeError(f"a basis gives one row per row. Got {len(table)} rows for {_num_samples(rows)}")
        bad = ~((table >= -TOLERANCE) & (table <= 1 + TOLERANCE))
        if bad.any():
            place = int(np.argmax(bad.any(axis=0)))
            raise BasisError(
                f"basis functions must have values in [0, 1]. Function {place} has {int(bad[:, place].sum())} of "
                f"{len(table)} rows outside (lowest {table[:, place].min():g}, highest {table[:, place].max():g}): "
                "scale or clip the functions first"
            )
        return np.clip(table, 0, 1)

    def _mended(self, table: FloatArray, short: NDArray[np.bool_], rows: Any) -> FloatArray:  # noqa: ARG002
        """Return the table with rows mended that are not covered, or refuse them."""
        raise BasisError(
            f"{int(short.sum())} rows are not covered (their functions sum to {table.sum(axis=1).min():g} or more), "
            "and in fit there were none such: fit on rows that have them, so that the complement is appended"
        )


def unique_names(names: Iterable[str]) -> list[str]:
    """Return names of which none occurs twice: the second ``a`` is ``a 2``."""
    found: list[str] = []
    for name in names:
        number, candidate = 1, name
        while candidate in found:
            number += 1
            candidate = f"{name} {number}"
        found.append(candidate)
    return found


def _rest(table: FloatArray) -> FloatArray:
    """Return what is missing to 1 in every row, 0 where it is rounding."""
    rest = 1 - table.sum(axis=1)
    return np.where(rest > TOLERANCE, rest, 0.0)


def _distinct(table: FloatArray, names: Sequence[str]) -> IntArray:
    """Return the functions that are neither 0 everywhere nor the same as an earlier one; warn of the others."""
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
            f"dropped the basis functions {', '.join(repeated)}: on the rows of fit they are the same as another",
            DuplicateBasisWarning,
            stacklevel=4,
        )
    return np.array(list(first.values()), dtype=np.intp)

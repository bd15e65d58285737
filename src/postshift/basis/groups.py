"""The constant basis and disjoint groups, as scikit-learn transformers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from postshift._validation import FloatArray, as_table
from postshift.exceptions import BasisError, ShapeError


class ConstantBasis(TransformerMixin, BaseEstimator):
    """One basis function that is 1 everywhere: the same class weights for every row.

    Examples
    --------
    >>> ConstantBasis().fit_transform([[5.0], [7.0]])
    array([[1.],
           [1.]])
    """

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Do nothing; there is nothing to learn."""
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return a column of ones."""
        return np.ones((len(X), 1))

    def __sklearn_is_fitted__(self) -> bool:
        """Return True: it needs no fit."""
        return True


class GroupBasis(TransformerMixin, BaseEstimator):
    """One basis function per group: 1 on the rows of the group, 0 elsewhere; disjoint and covering.

    The input is one value per row (strings, numbers, booleans). A value that was not seen in ``fit`` belongs
    to a last function, the complement, which is there only if ``unseen=True``.

    Parameters
    ----------
    unseen : bool, default=False
        Whether to append the complement for values not seen in ``fit``; otherwise they are an error.

    Examples
    --------
    >>> GroupBasis().fit_transform(["north", "south", "north"])
    array([[1., 0.],
           [0., 1.],
           [1., 0.]])
    """

    def __init__(self, *, unseen: bool = False) -> None:
        self.unseen = unseen

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn the groups that there are."""
        values = _values(X)
        try:
            self.groups_ = np.unique(values)
        except TypeError as error:
            raise BasisError(f"group values must be of one kind, all strings or all numbers: {error}") from error
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the indicator of each group, one column each."""
        check_is_fitted(self)
        values = _values(X)
        table: FloatArray = (values[:, None] == self.groups_).astype(np.float64)
        strange = table.sum(axis=1) == 0
        if self.unseen:
            return np.column_stack([table, strange])
        if strange.any():
            raise BasisError(
                f"{int(strange.sum())} rows have a group that was not there in fit (e.g. {values[strange][0]!r}; known "
                f"are {self.groups_[:5].tolist()}): use GroupBasis(unseen=True) to give them a function of their own"
            )
        return table


class CoverBasis(TransformerMixin, BaseEstimator):
    """Basis functions with their complement ``1 - sum phi`` appended, so that every row is covered.

    Whether the complement is needed is decided in ``fit``, so that all samples get the same columns; a row that is
    uncovered although no row in ``fit`` was is an error.

    Examples
    --------
    >>> CoverBasis().fit_transform([[1.0], [0.25]])
    array([[1.  , 0.  ],
           [0.25, 0.75]])
    """

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn whether some row is not fully covered."""
        self.appends_ = bool((_rest(X) > 0).any())
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the functions, with the complement as the last column where ``fit`` found it needed."""
        check_is_fitted(self)
        table, rest = as_table(X, name="phi"), _rest(X)
        if self.appends_:
            return np.column_stack([table, rest])
        if (table.sum(axis=1) == 0).any():
            raise BasisError(
                f"{int((table.sum(axis=1) == 0).sum())} rows have no basis function above 0, and in fit there was none "
                "such: fit on rows that have them"
            )
        return table


def _rest(phi: Any) -> FloatArray:
    """Return what is missing to 1 in every row, 0 where it is rounding."""
    table = as_table(phi, name="phi")
    if not ((table >= 0) & (table <= 1)).all():
        raise BasisError("phi must hold values in [0, 1]: scale the basis functions first")
    rest = 1 - table.sum(axis=1)
    return np.where(rest > 1e-9, rest, 0.0)


def _values(X: Any) -> Any:
    """Return one group value per row."""
    values = np.asarray(X)
    if values.dtype.kind in "OfM" and any(value != value for value in values.ravel()):  # noqa: PLR0124
        raise BasisError("group values must not be missing (None or NaN): give missing ones a name of their own")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or len(values) == 0:
        raise ShapeError(f"GroupBasis takes one value per row. Got shape {values.shape} instead")
    return values

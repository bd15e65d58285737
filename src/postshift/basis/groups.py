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
        self.groups_ = np.unique(_values(X))
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


def cover(phi: Any) -> FloatArray:
    """Return basis functions that cover every row: the complement ``max(0, 1 - sum phi)`` is appended if needed.

    Examples
    --------
    >>> cover([[1.0], [0.25]])
    array([[1.  , 0.  ],
           [0.25, 0.75]])
    """
    table = as_table(phi, name="phi")
    rest = np.maximum(0, 1 - table.sum(axis=1))
    return table if not rest.any() else np.column_stack([table, rest])


def _values(X: Any) -> Any:
    """Return one group value per row."""
    values = np.asarray(X)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or len(values) == 0:
        raise ShapeError(f"GroupBasis takes one value per row. Got shape {values.shape} instead")
    return values

"""The leaves of a small decision tree as basis functions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_array
from sklearn.utils.validation import column_or_1d, validate_data

from postshift._validation import FloatArray, check_count
from postshift.basis._columns import missing, names_of, take_columns, text_columns
from postshift.basis.base import Basis


class TreeBasis(Basis):
    """One basis function per leaf of a tree fitted to the (noisy) training labels; disjoint and covering.

    Columns of a data frame that hold no numbers are numbered in the order of their values; values that were not there
    in ``fit`` count as missing. Missing values are fine, and so are sparse matrices.

    Parameters
    ----------
    max_leaf_nodes : int, default=4
        Number of leaves.
    random_state : int, optional, default=0
        Seed of the tree.

    Attributes
    ----------
    tree_ : DecisionTreeClassifier
        The tree.
    leaves_ : ndarray of int
        Its leaves, in the order of the functions.

    Examples
    --------
    >>> TreeBasis(max_leaf_nodes=2).fit_transform([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    array([[1., 0.],
           [1., 0.],
           [0., 1.],
           [0., 1.]])
    """

    short_name = "tree"

    def __init__(self, max_leaf_nodes: int = 4, *, random_state: int | None = 0) -> None:
        self.max_leaf_nodes = max_leaf_nodes
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the tree to the training labels.

        Parameters
        ----------
        X : array, data frame or sparse matrix
            Training rows.
        y : array of shape (n_rows,)
            Their labels.
        sample_weight : array of shape (n_rows,), optional
            Their weights.

        Returns
        -------
        TreeBasis
            Itself.
        """
        check_count(self.max_leaf_nodes, name="max_leaf_nodes", low=2)
        rows, labels = validate_data(self, X, y, reset=True, skip_check_array=True)
        self.encoder_ = _encoder(rows)
        if self.encoder_ is not None:
            self.encoder_.fit(rows)
        numbers = self._numbers(rows)
        tree = DecisionTreeClassifier(max_leaf_nodes=self.max_leaf_nodes, random_state=self.random_state)
        self.tree_ = tree.fit(numbers, column_or_1d(labels, warn=True), sample_weight=sample_weight)
        self.leaves_ = np.unique(self.tree_.apply(numbers))
        return self._settled(rows, [f"leaf {place + 1}" for place in range(len(self.leaves_))])

    def _numbers(self, rows: Any) -> Any:
        """Return the rows as numbers."""
        table = rows if self.encoder_ is None else self.encoder_.transform(rows)
        return check_array(table, accept_sparse="csr", ensure_all_finite="allow-nan", estimator=self, input_name="X")

    def _functions(self, rows: Any) -> FloatArray:
        """Return the indicators of the leaves."""
        table: FloatArray = (self.tree_.apply(self._numbers(rows))[:, None] == self.leaves_).astype(np.float64)
        return table

    def __sklearn_tags__(self) -> Any:
        """Say that labels are needed, and that missing values and text are fine."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.input_tags.allow_nan = True
        return tags


def _encoder(X: Any) -> ColumnTransformer | None:
    """Return what makes numbers of a frame's columns, or None where all columns hold numbers already."""
    texts = text_columns(X)
    if not texts:
        return None
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    parts = [
        ("numbers", FunctionTransformer(_as_floats), [p for p in range(len(names_of(X))) if p not in texts]),
        ("texts", make_pipeline(FunctionTransformer(_as_texts), ordinal), texts),
    ]
    return ColumnTransformer(parts).set_output(transform="default")


def _as_floats(X: Any) -> Any:
    """Return columns of numbers as floats, NaN where they are missing."""
    return check_array(X, dtype=np.float64, ensure_all_finite="allow-nan")


def _as_texts(X: Any) -> NDArray[np.object_]:
    """Return columns as text, NaN where they are missing: the encoder sorts values of one kind only."""
    columns = []
    for place in range(len(names_of(X))):
        flat = np.asarray(take_columns(X, place))
        absent = missing(flat)
        columns.append([np.nan if gone else str(value) for value, gone in zip(flat, absent, strict=True)])
    return np.array(columns, dtype=object).T

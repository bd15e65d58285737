"""The leaves of a small decision tree as basis functions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from postshift._validation import FloatArray


class TreeBasis(TransformerMixin, BaseEstimator):
    """One basis function per leaf of a tree fitted to the (noisy) training labels; disjoint and covering.

    Parameters
    ----------
    max_leaf_nodes : int, default=4
        Number of leaves.
    random_state : int, optional
        Seed of the tree.

    Examples
    --------
    >>> TreeBasis(max_leaf_nodes=2).fit_transform([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    array([[1., 0.],
           [1., 0.],
           [0., 1.],
           [0., 1.]])
    """

    def __init__(self, *, max_leaf_nodes: int = 4, random_state: int | None = 0) -> None:
        self.max_leaf_nodes = max_leaf_nodes
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the tree to the training labels."""
        tree = DecisionTreeClassifier(max_leaf_nodes=self.max_leaf_nodes, random_state=self.random_state)
        self.tree_ = tree.fit(X, y)
        self.leaves_ = np.unique(self.tree_.apply(X))
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the indicator of each leaf, one column each."""
        check_is_fitted(self)
        indicators: FloatArray = (self.tree_.apply(X)[:, None] == self.leaves_).astype(np.float64)
        return indicators

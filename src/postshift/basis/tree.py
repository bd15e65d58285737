"""The leaves of a small decision tree as basis functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_array
from sklearn.utils.validation import column_or_1d, validate_data

from postshift._validation import FloatArray, IntArray, check_count, check_weights
from postshift.basis._columns import missing, take_columns, text_columns
from postshift.basis.base import Basis
from postshift.exceptions import BasisError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Splits:
    """A fitted tree as plain arrays, one value per node: node 0 is the root, and children come after their parents.

    A row goes left if its value, in single precision, is at most the threshold; a missing value goes left if
    ``missing_left``. Thresholds are rounded down to single precision, which changes no comparison.
    """

    feature: IntArray
    threshold: NDArray[np.float32]
    left: IntArray  # -1 at leaves
    right: IntArray
    missing_left: NDArray[np.bool_]

    @classmethod
    def of(cls, tree: DecisionTreeClassifier) -> Self:
        """Return the splits of a fitted tree of scikit-learn."""
        nodes = tree.tree_
        return cls(
            feature=np.array(nodes.feature, dtype=np.intp),
            threshold=_rounded_down(nodes.threshold),
            left=np.array(nodes.children_left, dtype=np.intp),
            right=np.array(nodes.children_right, dtype=np.intp),
            missing_left=np.array(nodes.missing_go_to_left, dtype=bool),
        )

    @property
    def leaves(self) -> IntArray:
        """The nodes without children."""
        return np.flatnonzero(self.left < 0)

    def checked(self, n_features: int) -> Self:
        """Return these splits; raise unless they form a tree over ``n_features`` columns (files may be damaged)."""
        parts = (self.feature, self.left, self.right, self.threshold, self.missing_left)
        size = len(self.left)
        if [(part.dtype.kind, part.shape) for part in parts] != [(kind, (size,)) for kind in "iiifb"] or (
            not self._is_tree(n_features)
        ):
            raise BasisError(
                f"the splits are not a tree over {n_features} columns: they were changed after fit, fit again"
            )
        return self

    def _is_tree(self, n_features: int) -> bool:
        """Return whether every node except the root has one earlier node as parent, and every split reads a column."""
        inner = np.flatnonzero(self.left >= 0)
        children, features = np.concatenate([self.left[inner], self.right[inner]]), self.feature[inner]
        return bool(
            np.array_equal(np.sort(children), np.arange(1, len(self.left)))
            and (children > np.tile(inner, 2)).all()
            and ((features >= 0) & (features < n_features)).all()
        )

    def indicators(self, table: Any) -> FloatArray:
        """Return the leaf of each row as one-hot columns, for a table in single precision, dense or CSR."""
        inner = np.flatnonzero(self.checked(table.shape[1]).left >= 0)
        features, places = np.unique(self.feature[inner], return_inverse=True)
        few = table[:, features]
        numbers = few.toarray() if sparse.issparse(few) else few
        reached = np.ones((len(self.left), len(numbers)), dtype=bool)
        for node, place in zip(inner, places, strict=True):
            column, threshold = numbers[:, place], self.threshold[node]
            low = ~(column > threshold) if self.missing_left[node] else column <= threshold  # NaN: both are False
            reached[self.left[node]] = reached[node] & low
            reached[self.right[node]] = reached[node] & ~low
        return reached[self.leaves].T.astype(np.float64, order="C")


class TreeBasis(Basis):
    """One basis function per leaf of a tree fitted to the (noisy) training labels; disjoint and covering.

    Columns of a data frame without numbers are encoded in the order of their values; values that did not occur in
    ``fit`` count as missing. Missing values and sparse matrices are supported.

    Parameters
    ----------
    max_leaf_nodes : int, default=4
        Number of leaves.
    random_state : int, optional, default=0
        Seed of the tree.

    Attributes
    ----------
    splits_ : Splits
        The tree, as arrays.
    texts_ : dict of int -> list of str
        For every column without numbers, by its position: the sorted values that occurred in ``fit``.

    Examples
    --------
    >>> TreeBasis(max_leaf_nodes=2).fit_transform([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    array([[1., 0.],
           [1., 0.],
           [0., 1.],
           [0., 1.]])
    """

    short_name = "tree"

    splits_: Splits

    def __init__(self, max_leaf_nodes: int = 4, *, random_state: int | None = 0) -> None:
        self.max_leaf_nodes = max_leaf_nodes
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the tree to the training labels.

        Parameters
        ----------
        X : array, data frame or sparse matrix
            Training rows.
        y : array of shape (n_rows,)
            Their labels; required.
        sample_weight : array of shape (n_rows,), optional
            Their weights.

        Returns
        -------
        TreeBasis
            The fitted basis.
        """
        check_count(self.max_leaf_nodes, name="max_leaf_nodes", low=2)
        rows, labels = validate_data(self, X, y, reset=True, skip_check_array=True)
        self.texts_ = {place: _values(take_columns(rows, place)) for place in text_columns(rows)}
        tree = DecisionTreeClassifier(max_leaf_nodes=self.max_leaf_nodes, random_state=self.random_state)
        numbers, labels = self._numbers(rows), column_or_1d(labels, warn=True)
        weights = check_weights(sample_weight, n_rows=len(labels), name="sample_weight")
        tree.fit(numbers, labels, sample_weight=None if weights is None else _below_one(weights))
        self.splits_ = Splits.of(tree)
        return self._settled(rows, [f"leaf {place + 1}" for place in range(tree.get_n_leaves())])

    def _numbers(self, rows: Any) -> Any:
        """Return the rows as numbers in single precision, the input of the tree."""
        how: dict[str, Any] = {"accept_sparse": "csr", "estimator": self, "input_name": "X"}
        table = check_array(self._encoded(rows) if self.texts_ else rows, ensure_all_finite="allow-nan", **how)
        finite = True if sparse.issparse(table) else "allow-nan"
        return check_array(table, dtype=np.float32, ensure_all_finite=finite, **how)

    def _encoded(self, rows: Any) -> FloatArray:
        """Return the columns of numbers, then the encoded columns of text; unknown values are NaN."""
        codes = [_codes(take_columns(rows, place), values) for place, values in self.texts_.items()]
        places = [place for place in range(self.n_features_in_) if place not in self.texts_]
        if not places:
            return np.column_stack(codes)
        numbers = check_array(take_columns(rows, places), dtype=np.float64, ensure_all_finite="allow-nan")
        return np.column_stack([numbers, *codes])

    def _functions(self, rows: Any) -> FloatArray:
        """Return the indicators of the leaves."""
        return self.splits_.indicators(self._numbers(rows))

    def __sklearn_tags__(self) -> Any:
        """Declare that labels are required and missing values are supported."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.input_tags.allow_nan = True
        return tags


def _below_one(weights: FloatArray) -> FloatArray:
    """Return weights times a power of 2, without rounding: large weights would overflow in the tree when squared."""
    return np.asarray(np.ldexp(weights, -np.frexp(weights.max())[1]))


def _rounded_down(thresholds: Any) -> NDArray[np.float32]:
    """Return the largest numbers in single precision that are not above the thresholds."""
    nearest = np.asarray(thresholds).astype(np.float32)
    below = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest.astype(np.float64) > thresholds, below, nearest)


def _values(column: Any) -> list[str]:
    """Return the distinct strings of a column, sorted."""
    return sorted({text for text in _texts(column) if text is not None})


def _codes(column: Any, values: list[str]) -> FloatArray:
    """Return the positions of the strings of a column among these values; NaN for other strings."""
    places: dict[str | None, float] = {value: float(place) for place, value in enumerate(values)}
    return np.array([places.get(text, np.nan) for text in _texts(column)])


def _texts(column: Any) -> list[str | None]:
    """Return a column as text; None for missing values."""
    flat = np.asarray(column)
    return [None if gone else str(value) for value, gone in zip(flat, missing(flat), strict=True)]

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

from postshift.basis import TreeBasis
from postshift.exceptions import SettingError

X, Y = load_iris(return_X_y=True)
TOWNS = np.array(["york", "leeds", "hull", None] * 10, dtype=object)
DATA = {
    "age": [float(age) if age % 7 else None for age in range(40)],
    "town": TOWNS.tolist(),
    "member": [True, False] * 20,
}
HULL = (TOWNS == "hull").astype(int)


def test_leaves_of_a_plain_tree():
    tree = DecisionTreeClassifier(max_leaf_nodes=4, random_state=0).fit(X, Y)
    leaves = tree.apply(X)
    basis = TreeBasis().fit(X, Y)
    np.testing.assert_array_equal(basis.transform(X), leaves[:, None] == np.unique(leaves))
    assert basis.get_feature_names_out().tolist() == ["leaf 1", "leaf 2", "leaf 3", "leaf 4"]
    np.testing.assert_array_equal(basis.transform(X), TreeBasis().fit(sparse.csr_array(X), Y).transform(X))


def test_frames_of_every_kind_of_column():
    frames = [pd.DataFrame(DATA), pl.DataFrame(DATA), pd.DataFrame(DATA).astype({"town": "category", "age": "Float64"})]
    tables = [TreeBasis().fit_transform(frame, HULL) for frame in frames]
    assert tables[0].shape[0] == 40
    leaf = int(np.argmax(tables[0][2]))
    np.testing.assert_array_equal(tables[0][:, leaf], HULL)
    for table in tables[1:]:
        np.testing.assert_array_equal(table, tables[0])


def test_values_that_are_new():
    basis = TreeBasis().fit(pd.DataFrame(DATA), HULL)
    found = basis.transform(
        pl.DataFrame({"age": [None], "town": ["bath"], "member": [None]}, schema=pl.DataFrame(DATA).schema)
    )
    np.testing.assert_array_equal(found.sum(axis=1), 1)


def test_one_class_is_one_leaf():
    basis = TreeBasis().fit(X, np.zeros(len(X)))
    np.testing.assert_array_equal(basis.transform(X[:3]), np.ones((3, 1)))


def test_missing_numbers():
    table = X.copy()
    table[::3, 2] = np.nan
    np.testing.assert_array_equal(TreeBasis().fit_transform(table, Y).sum(axis=1), 1)


def test_weights_are_those_of_the_tree():
    weights = np.where(Y == 2, 0.0, 1.0)
    basis = TreeBasis(2).fit(X, Y, sample_weight=weights)
    expected = TreeBasis(2).fit(X[Y < 2], Y[Y < 2]).transform(X)
    np.testing.assert_array_equal(basis.transform(X), expected)


def test_labels_and_leaves_are_needed():
    with pytest.raises(ValueError, match="requires y"):
        TreeBasis().fit(X, None)
    with pytest.raises(SettingError, match="max_leaf_nodes"):
        TreeBasis(1).fit(X, Y)

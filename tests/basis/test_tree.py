from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

from postshift.basis import TreeBasis
from postshift.basis.tree import _rounded_down
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


def tables(kind, n_columns):
    """Tables with ties, values that only double precision tells apart, and (dense ones) holes."""
    close = [0.1, np.nextafter(0.1, 1), float(np.float32(0.1)), 1 + 2.0**-24, 1 + 3 * 2.0**-25, 1e-45, -0.0, 1e30]
    values = st.one_of(st.sampled_from(close), st.integers(-2, 2).map(float), st.floats(-9, 9))
    if kind != "sparse":
        values = st.one_of(values, st.just(np.nan))
    found = st.integers(2, 25).flatmap(lambda n: arrays(float, (n, n_columns), elements=values))
    return found.map({"sparse": sparse.csr_array, "single": np.float32, "double": np.asarray}[kind])


@pytest.mark.parametrize("kind", ["double", "single", "sparse"])
@settings(max_examples=150)
@given(data=st.data())
def test_leaves_are_those_of_scikit_learn(kind, data):
    n_columns, n_leaves = data.draw(st.integers(1, 3)), data.draw(st.integers(2, 9))
    first, later = data.draw(tables(kind, n_columns)), data.draw(tables(kind, n_columns))
    labels = data.draw(arrays(int, first.shape[0], elements=st.integers(0, 2)))
    tree = DecisionTreeClassifier(max_leaf_nodes=n_leaves, random_state=0).fit(first, labels)
    basis = TreeBasis(n_leaves).fit(first, labels)
    for rows in (first, later):
        expected = (tree.apply(rows)[:, None] == np.unique(tree.apply(first))).astype(float)
        np.testing.assert_array_equal(basis.transform(rows), expected)


def test_thresholds_in_single_precision_change_no_comparison():
    exact = np.array([0.1, float(np.float32(0.1)), -0.1, 1 + 2.0**-25, -1 - 2.0**-25, 0.0, 1e-46, -1e-46, 3e38])
    found = _rounded_down(exact)
    assert found.dtype == np.float32
    for value in (found, np.nextafter(found, np.float32(np.inf)), np.nextafter(found, np.float32(-np.inf))):
        np.testing.assert_array_equal(value <= found, value.astype(float) <= exact)


def test_sparse_tables_have_no_holes():
    with pytest.raises(ValueError, match="contains NaN"):
        TreeBasis().fit(X, Y).transform(sparse.csr_array([[np.nan, 0, 0, 1]]))


def test_what_is_kept_is_small_and_plain():
    basis = TreeBasis().fit(np.tile(X, (20, 1)), np.tile(Y, 20))
    assert len(pickle.dumps(basis)) < 3000
    assert {getattr(basis.splits_, name).shape for name in basis.splits_.__slots__} == {(7,)}


def test_frames_of_every_kind_of_column():
    frames = [pd.DataFrame(DATA), pl.DataFrame(DATA), pd.DataFrame(DATA).astype({"town": "category", "age": "Float64"})]
    tables = [TreeBasis().fit_transform(frame, HULL) for frame in frames]
    assert tables[0].shape[0] == 40
    leaf = int(np.argmax(tables[0][2]))
    np.testing.assert_array_equal(tables[0][:, leaf], HULL)
    for table in tables[1:]:
        np.testing.assert_array_equal(table, tables[0])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_text_is_numbered_in_order_after_the_numbers(frame):
    basis = TreeBasis().fit(frame(DATA), HULL)
    assert basis.texts_ == {1: ["hull", "leeds", "york"]}
    codes = [{"hull": 0.0, "leeds": 1.0, "york": 2.0, None: np.nan}[town] for town in TOWNS]
    numbers = np.column_stack([np.array(DATA["age"], dtype=float), DATA["member"], codes])
    np.testing.assert_array_equal(basis._numbers(frame(DATA)), numbers.astype(np.float32))
    only = frame({"town": DATA["town"]})
    np.testing.assert_array_equal(TreeBasis().fit(only, HULL)._numbers(only)[:, 0], codes)


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

"""What holds of every basis: rows are covered, values are in [0, 1], columns stay the same; it can be stored."""

from __future__ import annotations

import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.preprocessing import MinMaxScaler

from postshift import Rows
from postshift.basis import (
    ConstantBasis,
    CoverBasis,
    GroupBasis,
    KMeansBasis,
    RBFBasis,
    TransformerBasis,
    TreeBasis,
    UnionBasis,
)
from postshift.exceptions import PostshiftWarning

BASES = {
    "constant": ConstantBasis(),
    "groups": GroupBasis([0, 1], unseen="average"),
    "groups, some values": GroupBasis(0, values=[0.0, 1.0], unseen=True),
    "kmeans": KMeansBasis(2),
    "rbf": RBFBasis(max_points=2),
    "tree": TreeBasis(),
    "transformer": TransformerBasis(lambda X: 1 / (3 + np.exp(-np.asarray(X)))),  # never covers: there is a rest
    "union": UnionBasis({"a": RBFBasis(), "b": TreeBasis(), "c": GroupBasis(1, unseen="average")}),
}
every_basis = pytest.mark.parametrize("basis", BASES.values(), ids=BASES)
rows = st.integers(2, 6).flatmap(lambda n: arrays(float, (n, 2), elements=st.integers(-3, 3).map(float)))


@every_basis
@given(first=rows, later=rows, data=st.data())
def test_every_row_is_covered_by_the_same_columns(basis, first, later, data):
    labels = data.draw(arrays(int, len(first), elements=st.integers(0, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PostshiftWarning)
        fitted = clone(basis).fit(first, labels)
    for sample in (first, later, later[:1]):
        phi = fitted.transform(sample)
        assert phi.shape == (len(sample), len(fitted.get_feature_names_out()))
        assert (phi >= 0).all()
        assert (phi <= 1).all()
        assert (phi.sum(axis=1) >= 1 - 1e-6).all()
        Rows.of(np.full((len(sample), 2), 0.5), bases={"mine": phi})


@every_basis
def test_frames_and_arrays_give_the_same(basis):
    table = np.random.default_rng(0).integers(0, 3, size=(30, 2)).astype(float)
    labels = (table[:, 0] > 1).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PostshiftWarning)
        expected = clone(basis).fit(table, labels).transform(table)
        for frame in (pd.DataFrame(table, columns=["a", "b"]), pl.DataFrame(table, schema=["a", "b"])):
            fitted = clone(basis).fit(frame, labels)
            np.testing.assert_array_equal(fitted.transform(frame), expected)
            assert fitted.feature_names_in_.tolist() == ["a", "b"]
            with pytest.raises(ValueError, match="feature names"):
                fitted.transform(frame[["b", "a"]])


@pytest.mark.parametrize(
    "basis",
    [b for name, b in BASES.items() if name != "transformer"] + [TransformerBasis(MinMaxScaler()), CoverBasis()],
    ids=str,
)
def test_a_stored_basis_gives_the_same(basis, tmp_path):
    table = np.random.default_rng(0).uniform(size=(30, 2)).round(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PostshiftWarning)
        fitted = clone(basis).fit(table, (table[:, 0] > 0.5).astype(int))
    joblib.dump(fitted, tmp_path / "basis.joblib")
    again = joblib.load(tmp_path / "basis.joblib")
    np.testing.assert_array_equal(again.transform(table), fitted.transform(table))
    assert again.names_ == fitted.names_

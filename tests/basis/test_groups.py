from __future__ import annotations

import operator

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from postshift.basis import ConstantBasis, GroupBasis
from postshift.exceptions import BasisError, EmptyBasisWarning, SettingError, ShapeError

DATA = {"region": ["north", "south", "north", "east"], "sex": ["F", "F", "M", "M"], "age": [30, 40, 50, 60]}
FRAMES = [pd.DataFrame(DATA), pl.DataFrame(DATA), pd.DataFrame(DATA).astype({"region": "category", "sex": "string"})]
frames = pytest.mark.parametrize("frame", FRAMES, ids=["pandas", "polars", "dtypes"])


def names(basis):
    return basis.get_feature_names_out().tolist()


@pytest.mark.parametrize(
    "rows", [[[3], [4], [5]], sparse.csr_array(np.eye(3)[:, :1]), pl.DataFrame({"a": "xyz"})[[0] * 3]]
)
def test_constant(rows):
    np.testing.assert_array_equal(ConstantBasis().fit(rows).transform(rows), np.ones((3, 1)))


def test_groups_cover_every_row_once():
    basis = GroupBasis().fit(["b", "a", "b"])
    np.testing.assert_array_equal(basis.transform(np.array([["a"], ["b"]])), np.eye(2))
    assert basis.groups_ == ["a", "b"]
    assert names(basis) == ["group=a", "group=b"]
    assert names(GroupBasis().fit(pd.Series([True, False], name="member"))) == ["member=False", "member=True"]


@frames
def test_groups_by_a_column(frame):
    basis = GroupBasis("region").fit(frame)
    assert names(basis) == ["region=east", "region=north", "region=south"]
    np.testing.assert_array_equal(basis.transform(frame), [[0, 1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(basis.transform(frame), GroupBasis(0).fit_transform(np.array(frame)))
    np.testing.assert_array_equal(basis.transform(frame), GroupBasis().fit_transform(frame[["region"]]))
    assert basis.feature_names_in_.tolist() == ["region", "sex", "age"]


@frames
def test_groups_by_combinations_that_occur(frame):
    basis = GroupBasis(["region", "sex"]).fit(frame)
    assert basis.groups_ == [("east", "M"), ("north", "F"), ("north", "M"), ("south", "F")]
    assert names(basis)[1] == "region=north, sex=F"
    np.testing.assert_array_equal(basis.transform(frame), np.eye(4)[[1, 3, 2, 0]])
    with pytest.raises(BasisError, match=r"1 rows have a group that did not occur in fit \(e.g. \('south', 'M'\)"):
        basis.transform(pd.DataFrame({"region": ["south"], "sex": ["M"], "age": [1]}))


@frames
def test_groups_by_what_a_callable_gives(frame):
    def old(X):
        return np.asarray(X["age"]) > 45

    basis = GroupBasis(by=old).fit(frame)
    assert names(basis) == ["old=False", "old=True"]
    np.testing.assert_array_equal(basis.transform(frame)[:, 1], [0, 0, 1, 1])
    assert names(GroupBasis(by=operator.itemgetter("sex")).fit(frame)) == ["group=F", "group=M"]


@frames
def test_other_values_share_the_complement(frame):
    basis = GroupBasis("region", values=["south", "north"]).fit(frame)
    assert names(basis) == ["region=south", "region=north", "rest"]
    np.testing.assert_array_equal(basis.transform(frame), np.eye(3)[[1, 0, 1, 2]])
    later = pd.DataFrame({"region": ["west"], "sex": ["F"], "age": [3]})
    np.testing.assert_array_equal(basis.transform(later), [[0, 0, 1]])
    pair = GroupBasis(["region", "sex"], values=[("north", "M")]).fit(frame)
    np.testing.assert_array_equal(pair.transform(frame), np.eye(2)[[1, 1, 0, 1]])


def test_a_value_that_does_not_occur_is_dropped():
    with pytest.warns(EmptyBasisWarning, match="dropped the basis functions 'region=nroth'"):
        basis = GroupBasis("region", values=["nroth", "south"]).fit(FRAMES[0])
    assert names(basis) == ["region=south", "rest"]


def test_sparse_columns():
    table = sparse.csr_matrix([[1, 0], [0, 2], [1, 2]])
    basis = GroupBasis(1).fit(table)
    assert names(basis) == ["x1=0", "x1=2"]
    np.testing.assert_array_equal(basis.transform(table), np.eye(2)[[0, 1, 1]])


def test_an_unseen_group_is_an_error_or_the_complement_or_the_average():
    with pytest.raises(BasisError, match="unseen=True"):
        GroupBasis().fit([1, 2]).transform([1, 3])
    found = clone(GroupBasis(unseen=True)).fit([1, 2]).transform([1, 3])
    np.testing.assert_array_equal(found, [[1, 0, 0], [0, 0, 1]])
    found = GroupBasis(unseen="average").fit([1, 2, 2, 2]).transform([2, 3])
    np.testing.assert_array_equal(found, [[0, 1], [0.25, 0.75]])


@frames
@pytest.mark.parametrize(
    ("column", "message"),
    [("regoin", "there is no column 'regoin'; did you mean 'region'"), (3, "no column 3: give a position from 0 to 2")],
)
def test_a_column_that_is_not_there(frame, column, message):
    with pytest.raises(BasisError, match=message):
        GroupBasis(["age", column]).fit(frame)


def test_a_name_needs_a_frame():
    with pytest.raises(BasisError, match="not a data frame: give a data frame, or positions"):
        GroupBasis("region").fit(np.ones((2, 2)))


def test_the_frame_must_have_the_columns_of_fit():
    basis = GroupBasis("region").fit(FRAMES[0])
    with pytest.raises(ValueError, match="feature names should match"):
        basis.transform(FRAMES[0].rename(columns={"region": "area"}))
    with pytest.warns(UserWarning, match="valid feature names"), pytest.raises(ValueError, match="2 features, but"):
        basis.transform(FRAMES[0].to_numpy()[:, :2])
    with pytest.raises(ShapeError, match="Reshape your data"):
        basis.transform(np.array(["north"]))


def test_a_second_fit_forgets_the_first():
    basis = GroupBasis("region").fit(FRAMES[0]).set_params(columns=None).fit(["a", "b"])
    np.testing.assert_array_equal(basis.transform(["b"]), [[0, 1]])
    assert names(basis) == ["group=a", "group=b"]


def test_not_fitted():
    with pytest.raises(NotFittedError):
        GroupBasis().transform([1])


def test_one_value_per_row():
    with pytest.raises(ShapeError, match="one value per row"):
        GroupBasis().fit([[1, 2], [3, 4]])
    with pytest.raises(ShapeError, match=r"one row of values for each row\. Got 1 rows for 4"):
        GroupBasis(by=lambda _: ["a"]).fit(FRAMES[0])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, np.nan], "must not be missing"),
        (pd.Series(["a", None]), "must not be missing"),
        (pd.Series([1, None], dtype="Int64"), "must not be missing"),
        (pl.Series(["a", None]), "must not be missing"),
        (np.array(["a", 1], dtype=object), "of one kind"),
    ],
)
def test_groups_that_cannot_be(values, message):
    with pytest.raises(BasisError, match=message):
        GroupBasis().fit(values)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"columns": "region", "by": len}, "columns or by, not both"),
        ({"by": "region"}, "by must be a callable"),
        ({"columns": []}, "at least one column"),
        ({"columns": "region", "unseen": "no"}, "unseen must be"),
        ({"columns": ["region", "sex"], "values": ["north"]}, "values must be tuples of 2 values"),
        ({"columns": "region", "values": []}, "one or more"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(SettingError, match=message):
        GroupBasis(**settings).fit(FRAMES[0])

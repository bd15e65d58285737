from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

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
from postshift.exceptions import BasisError, DuplicateBasisWarning, EmptyBasisWarning, ShapeError

TOWNS = pd.DataFrame({"town": ["york", "hull", "york"], "size": [1.0, 2.0, 3.0]})


def names(basis):
    return basis.get_feature_names_out().tolist()


# -- the complement and what is dropped ---------------------------------------------------------------------


def test_cover_appends_the_complement_where_fit_needed_it():
    np.testing.assert_allclose(CoverBasis().fit_transform([[0.2, 0.3], [0.5, 0.5]]), [[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]])
    fitted = CoverBasis().fit([[1.0], [0.5]])
    assert fitted.transform([[1.0]]).shape == (1, 2)
    thirds = np.array([[0.1, 0.2, 0.7], [0.7, 0.1, 0.2]])
    assert CoverBasis().fit_transform(thirds).shape == (2, 3)  # sums of 1 up to rounding
    assert CoverBasis().fit_transform(sparse.csr_array(np.eye(2))).tolist() == [[1, 0], [0, 1]]


def test_cover_refuses_what_it_cannot_cover():
    with pytest.raises(BasisError, match=r"1 rows are not covered \(their functions sum to 0 or more\).*fit on rows"):
        CoverBasis().fit([[1.0]]).transform([[1.0], [0.0]])
    with pytest.raises(BasisError, match=r"values in \[0, 1\]"):
        CoverBasis().fit([[np.nan]])
    with pytest.raises(ShapeError, match="two dimensions"):
        CoverBasis().fit([1.0, 0.0])


def test_empty_functions_are_dropped():
    with pytest.warns(EmptyBasisWarning, match="dropped the basis functions 'b', 'c': they are 0 on every row"):
        basis = CoverBasis().fit(pd.DataFrame({"a": [1, 0.5], "b": [0, 0], "c": [0, 0]}))
    assert names(basis) == ["a", "rest"]
    np.testing.assert_array_equal(basis.transform(pd.DataFrame({"a": [0.5], "b": [0.5], "c": [0]})), [[0.5, 0.5]])


def test_repeated_functions_are_dropped():
    with pytest.warns(DuplicateBasisWarning, match=r"dropped the basis functions 'c' \(as 'a'\)"):
        basis = CoverBasis().fit(pd.DataFrame({"a": [1, 0], "b": [0, 1], "c": [1, 0]}))
    assert names(basis) == ["a", "b"]
    np.testing.assert_allclose(basis.shares_, [0.5, 0.5])


def test_where_all_is_empty_the_complement_is_left():
    with pytest.warns(EmptyBasisWarning):
        assert CoverBasis().fit_transform([[0.0], [0.0]]).tolist() == [[1], [1]]


# -- transformers -------------------------------------------------------------------------------------------


def test_a_transformer_with_sparse_output_and_names():
    basis = TransformerBasis(OneHotEncoder(handle_unknown="ignore")).fit(TOWNS[["town"]])
    np.testing.assert_array_equal(basis.transform(TOWNS[["town"]]), [[0, 1], [1, 0], [0, 1]])
    assert names(basis) == ["town_hull", "town_york"]
    with pytest.raises(BasisError, match="1 rows are not covered"):
        basis.transform(pd.DataFrame({"town": ["bath"]}))


def test_a_callable():
    basis = TransformerBasis(lambda X: np.asarray(X["size"]) > 1.5).fit(TOWNS)
    np.testing.assert_array_equal(basis.transform(TOWNS), [[0, 1], [1, 0], [1, 0]])
    assert names(basis) == ["function 1", "rest"]
    assert names(TransformerBasis(lambda X: X[["size"]] / 3).fit(TOWNS)) == ["size", "rest"]


def test_the_transformer_itself_is_left_alone():
    scaler = MinMaxScaler()
    TransformerBasis(scaler).fit([[0.0], [1.0]])
    assert not hasattr(scaler, "scale_")


def test_values_outside_are_shown():
    message = r"values in \[0, 1\]. Function 0 has 2 of 3 rows outside \(lowest -1.22474, highest 1.22474\)"
    with pytest.raises(BasisError, match=message):
        TransformerBasis(StandardScaler()).fit([[1.0], [2.0], [3.0]])
    with pytest.raises(BasisError, match="highest 2"):
        TransformerBasis(MinMaxScaler()).fit([[0.0], [1.0]]).transform([[2.0]])


@pytest.mark.parametrize("thing", [3, MinMaxScaler, None])
def test_what_is_no_transformer(thing):
    with pytest.raises(BasisError, match="must be a transformer or a callable"):
        TransformerBasis(thing).fit(TOWNS)
    with pytest.raises(BasisError, match=r"a basis must be"):
        UnionBasis([thing]).fit(TOWNS)


def test_the_number_of_functions_stays():
    with pytest.raises(BasisError, match="the basis had 2 functions in fit and has 1 now"):
        TransformerBasis(lambda X: np.eye(len(X))).fit([[1], [2]]).transform([[1]])


# -- unions -------------------------------------------------------------------------------------------------


def test_a_union_is_side_by_side():
    parts = {"where": GroupBasis("town"), "how big": TransformerBasis(lambda X: X[["size"]] / 3)}
    basis = UnionBasis(parts).fit(TOWNS)
    expected = np.hstack([part.fit(TOWNS).transform(TOWNS) for part in parts.values()])
    np.testing.assert_array_equal(basis.transform(TOWNS), expected)
    assert names(basis) == ["where: town=hull", "where: town=york", "how big: size", "how big: rest"]


def test_a_union_of_a_list_names_its_parts():
    basis = UnionBasis([TreeBasis(2), KMeansBasis(3), KMeansBasis(5), MinMaxScaler()])
    assert list(basis._named()) == ["tree", "kmeans", "kmeans 2", "user"]
    assert basis.fitted_on == "train"
    assert UnionBasis([ConstantBasis(), RBFBasis()]).fitted_on == "val"


def test_a_union_drops_what_is_there_twice():
    with pytest.warns(DuplicateBasisWarning, match=r"'tree: leaf 1' \(as 'groups: x0=0'\)"):
        basis = UnionBasis([GroupBasis(0), TreeBasis()]).fit([[0], [1], [2]], [0, 1, 1])
    assert names(basis) == ["groups: x0=0", "groups: x0=1", "groups: x0=2", "tree: leaf 2"]


def test_an_empty_union():
    with pytest.raises(BasisError, match="at least one basis"):
        UnionBasis([]).fit(TOWNS)


@pytest.mark.parametrize("frame", [TOWNS, pl.DataFrame(TOWNS.to_dict("list"))], ids=["pandas", "polars"])
@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_output_as_a_frame(frame, output):
    basis = UnionBasis([GroupBasis("town"), TreeBasis(2)]).set_output(transform=output)
    with pytest.warns(DuplicateBasisWarning):
        found = basis.fit_transform(frame, [1, 0, 1])
    assert type(found).__module__.startswith(output)
    assert list(found.columns) == names(basis)
    np.testing.assert_array_equal(np.asarray(found), basis.set_output(transform="default").transform(frame))

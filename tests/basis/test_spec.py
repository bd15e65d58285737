from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import MinMaxScaler

from postshift.basis import (
    ConstantBasis,
    GroupBasis,
    KMeansBasis,
    RBFBasis,
    TransformerBasis,
    TreeBasis,
    basis_catalogue,
    basis_named,
    named_bases,
)
from postshift.exceptions import BasisError


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("constant", ConstantBasis()),
        ("tree", TreeBasis()),
        (" tree:8 ", TreeBasis(8)),
        ("kmeans", KMeansBasis()),
        ("kmeans:3", KMeansBasis(3)),
        ("rbf", RBFBasis()),
        ("rbf:class", RBFBasis()),
        ("rbf:all", RBFBasis(by="all")),
        ("col:region", GroupBasis("region", unseen="average")),
        ("col:region+sex", GroupBasis(["region", "sex"], unseen="average")),
        ("col:0", GroupBasis(0, unseen="average")),
    ],
)
def test_bases_by_text(spec, expected):
    found = basis_named(spec)
    assert type(found) is type(expected)
    assert found.get_params() == expected.get_params()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("teree", "there is no basis 'teree'; did you mean 'tree'"),
        ("spline", "there is no basis 'spline'; choose from 'col', 'constant', 'kmeans', 'rbf', 'tree'"),
        ("", "there is no basis ''"),
        ("tree:x", "whole number >= 2, as in 'tree:4'. Got 'x'"),
        ("kmeans:0", "whole number >= 1"),
        ("rbf:clas", "did you mean 'class'"),
        ("col", "'col:region'"),
        ("col:a+", r"Got 'col:a\+'"),
        ("constant:1", "takes no option"),
    ],
)
def test_texts_that_name_nothing(spec, message):
    with pytest.raises(BasisError, match=message):
        basis_named(spec)
    with pytest.raises(BasisError, match=message):
        named_bases(spec)


def test_the_catalogue_has_a_line_each():
    assert all(line and "\n" not in line for line in basis_catalogue().values())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {"tree": TreeBasis}),
        ("auto", {"tree": TreeBasis}),
        ("constant", {}),
        (ConstantBasis(), {}),
        ([], {}),
        ("tree:8", {"tree": TreeBasis}),
        ("tree, kmeans:3,col:a+b, constant", {"tree": TreeBasis, "kmeans": KMeansBasis, "a+b": GroupBasis}),
        (RBFBasis(), {"rbf": RBFBasis}),
        ([GroupBasis("a"), GroupBasis("b"), "tree"], {"groups": GroupBasis, "groups 2": GroupBasis, "tree": TreeBasis}),
        ([MinMaxScaler(), np.sign], {"user": TransformerBasis, "user 2": TransformerBasis}),
        ({"mine": MinMaxScaler(), "other": "kmeans:2"}, {"mine": TransformerBasis, "other": KMeansBasis}),
        ({"mine": "auto", "constant": "constant"}, {"mine": TreeBasis}),
    ],
)
def test_names_for_what_a_user_gives(given, expected):
    assert {name: type(basis) for name, basis in named_bases(given).items()} == expected


def test_bases_come_unfitted():
    fitted = TreeBasis().fit([[0], [1]], [0, 1])
    assert not hasattr(named_bases(fitted)["tree"], "splits_")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "must be a transformer or a callable"),
        (TreeBasis, r"write TreeBasis\(\)"),
        ({"constant": TreeBasis()}, "the name 'constant' is taken"),
        ({"a": "tree,kmeans"}, "there is no basis|whole number"),
    ],
)
def test_what_is_no_basis(given, message):
    with pytest.raises(BasisError, match=message):
        named_bases(given)


def test_a_new_value_in_a_file_is_weighed_as_rows_are_on_average():
    basis = basis_named("col:a").fit(pd.DataFrame({"a": ["x", "x", "y", "y"]}))
    np.testing.assert_array_equal(basis.transform(pd.DataFrame({"a": ["z"]})), [[0.5, 0.5]])

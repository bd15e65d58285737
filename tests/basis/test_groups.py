from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from postshift.basis import ConstantBasis, CoverBasis, GroupBasis
from postshift.exceptions import BasisError, ShapeError


def test_constant():
    np.testing.assert_array_equal(ConstantBasis().fit([[1], [2]]).transform([[3], [4], [5]]), np.ones((3, 1)))


def test_groups_cover_every_row_once():
    basis = GroupBasis().fit(["b", "a", "b"])
    np.testing.assert_array_equal(basis.transform(np.array([["a"], ["b"]])), np.eye(2))
    assert basis.groups_.tolist() == ["a", "b"]


def test_an_unseen_group_is_an_error_or_the_complement():
    with pytest.raises(BasisError, match="unseen=True"):
        GroupBasis().fit([1, 2]).transform([1, 3])
    found = clone(GroupBasis(unseen=True)).fit([1, 2]).transform([1, 3])
    np.testing.assert_array_equal(found, [[1, 0, 0], [0, 0, 1]])


def test_not_fitted():
    with pytest.raises(NotFittedError):
        GroupBasis().transform([1])


def test_one_value_per_row():
    with pytest.raises(ShapeError, match="one value per row"):
        GroupBasis().fit([[1, 2], [3, 4]])


def test_cover_appends_the_complement_where_fit_needed_it():
    np.testing.assert_allclose(CoverBasis().fit_transform([[0.2, 0.3], [0.5, 0.5]]), [[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]])
    fitted = CoverBasis().fit([[1.0], [0.5]])
    assert fitted.transform([[1.0]]).shape == (1, 2)
    assert CoverBasis().fit_transform([[0.1] * 10]).shape == (1, 10)  # a sum of 1 up to rounding


def test_cover_refuses_what_it_cannot_cover():
    with pytest.raises(BasisError, match=r"1 rows have no basis function above 0.*fit on rows"):
        CoverBasis().fit([[1.0]]).transform([[1.0], [0.0]])
    with pytest.raises(BasisError, match=r"values in \[0, 1\]"):
        CoverBasis().fit([[np.nan]])


@pytest.mark.parametrize(
    ("values", "message"), [([1.0, np.nan], "must not be missing"), (np.array(["a", 1], dtype=object), "of one kind")]
)
def test_groups_that_cannot_be(values, message):
    with pytest.raises(BasisError, match=message):
        GroupBasis().fit(values)

"""What ``_validation`` accepts, returns and refuses."""

from __future__ import annotations

import numpy as np
import pytest

from postshift._validation import (
    as_numbers,
    check_count,
    check_eta,
    check_in_range,
    check_labels,
    check_phi,
    check_positive,
    check_rows,
    check_weights,
    copied,
    read_only,
    relative_weights,
    unknown,
)
from postshift.exceptions import BasisError, LabelError, ProbabilityError, SettingError, ShapeError, WeightError

ETA = [[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]]


def test_numbers_become_floats():
    assert as_numbers([1, True, 2.5], name="x").dtype == np.float64
    assert as_numbers(np.array([1, 2], dtype=object), name="x").tolist() == [1.0, 2.0]


@pytest.mark.parametrize("values", [["a"], [[1, 2], [3]], [1j], np.ma.masked_array([1, 2], [0, 1])])
def test_what_is_not_a_number(values):
    with pytest.raises(ShapeError, match="x must"):
        as_numbers(values, name="x")


def test_a_view_is_read_only_and_a_copy_is_not_shared():
    array = np.arange(3)
    with pytest.raises(ValueError, match="read-only"):
        read_only(array)[0] = 1
    copied(array)[0] = 7
    assert array.tolist() == [0, 1, 2]
    assert copied("text") == "text"


@pytest.mark.parametrize(
    ("eta", "error", "message"),
    [
        ([0.2, 0.8], ShapeError, "two dimensions"),
        ([[1.0]], ProbabilityError, "use predict_proba"),
        (np.empty((0, 2)), ShapeError, "at least one row"),
        ([*ETA, [np.nan, 1]], ProbabilityError, r"1 of 4 rows with NaN or infinite values \(rows 3\)"),
        ([*ETA, [-1, 2]], ProbabilityError, "negative values .*not scores or logits"),
        ([*ETA, [0.5, 0.6]], ProbabilityError, r"row 3 sums to 1.1\).*divide each row by its sum"),
    ],
)
def test_probabilities_that_are_wrong(eta, error, message):
    assert check_eta(ETA).shape == (3, 2)
    with pytest.raises(error, match=message):
        check_eta(eta)


@pytest.mark.parametrize(
    ("phi", "error", "message"),
    [
        (np.empty((3, 0)), BasisError, "no basis function"),
        ([[1], [1]], ShapeError, "Got 2 rows for 3"),
        ([[1], [1], [2]], BasisError, r"outside \[0, 1\]"),
        ([[1], [1], [0]], BasisError, "CoverBasis"),
    ],
)
def test_basis_functions_that_are_wrong(phi, error, message):
    assert check_phi(None, n_rows=3).tolist() == [[1], [1], [1]]
    with pytest.raises(error, match=message):
        check_phi(phi, n_rows=3)


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([0, 1], ShapeError, r"shape \(3,\)"),
        (["a", "b", "a"], LabelError, "encode class names first"),
        ([0, 1, 2], LabelError, r"outside 0..1 \(e.g. .*2"),
        ([0, 1, 0.5], LabelError, "0.5"),
        ([[0], [1, 2], 3], LabelError, "one whole number per row"),
    ],
)
def test_labels_that_are_wrong(labels, error, message):
    assert check_labels([0.0, 1.0, 1.0], n_rows=3, n_classes=2).dtype == np.intp
    with pytest.raises(error, match=message):
        check_labels(labels, n_rows=3, n_classes=2)


@pytest.mark.parametrize("weights", [[1, -1], [np.inf, 1], [0, 0], [1e308, 1e308]])
def test_weights_that_are_wrong(weights):
    assert check_weights(None, n_rows=2) is None
    with pytest.raises(WeightError, match="weights"):
        check_weights(weights, n_rows=2)
    with pytest.raises(ShapeError, match=r"\(2,\)"):
        check_weights([1, 2, 3], n_rows=2)


def test_weights_are_relative():
    assert relative_weights(None) is None
    assert relative_weights(np.array([3.0, 3.0])) is None
    assert relative_weights(np.array([1.0, 3.0])).tolist() == [0.5, 1.5]
    assert relative_weights(np.array([1e-200, 1.0])).tolist() == [0.0, 2.0]


def test_a_sample_of_one_row():
    check_rows(2, name="training")
    with pytest.raises(ShapeError, match=r"the training sample must have at least 2 rows. Got 1"):
        check_rows(1, name="training")


@pytest.mark.parametrize("value", [0, 1.5, True, "1", np.nan, None])
def test_a_number_out_of_range(value):
    assert check_in_range(1, name="x", low=0, high=1, open_low=True) == 1.0
    with pytest.raises(SettingError, match=r"x must be a number in \(0, 1\]. Got"):
        check_in_range(value, name="x", low=0, high=1, open_low=True)


@pytest.mark.parametrize("value", [0, -1, np.inf, np.nan, True, "1", None])
def test_a_number_that_must_be_positive(value):
    assert check_positive(2, name="x") == 2.0
    with pytest.raises(SettingError, match=r"x must be a number in \(0, inf\). Got"):
        check_positive(value, name="x")


@pytest.mark.parametrize("value", [0, 1.0, True, "1", None])
def test_a_count_that_is_wrong(value):
    assert check_count(np.int64(3), name="n", low=1) == 3
    with pytest.raises(SettingError, match=r"n must be a whole number >= 1. Got"):
        check_count(value, name="n", low=1)


def test_an_unknown_name():
    assert unknown("aple", ["pear", "apple"], what="fruit") == "there is no fruit 'aple'; did you mean 'apple'?"
    assert unknown("x", ["pear", "apple"], what="fruit") == "there is no fruit 'x'; choose from 'apple', 'pear'"
    for word in ("Malus", "malus", "malu"):
        assert unknown(word, ["pear", "apple"], what="fruit", usual={"malus": "apple"}).endswith("mean 'apple'?")

"""Rows: probabilities, bases, labels and weights that cannot be used are refused with a remedy."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import Rows
from postshift.exceptions import BasisError, LabelError, PostshiftError, ProbabilityError, ShapeError, WeightError

ETA = np.array([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8], [0.5, 0.5]])


def changed(table, place, value):
    table = np.array(table, dtype=float)
    table[place] = value
    return table


@pytest.mark.parametrize(
    ("eta", "error", "message"),
    [
        (changed(ETA, (1, 0), np.nan), ProbabilityError, r"1 of 4 rows with NaN.*rows 1\).*repair"),
        (changed(ETA, (1, 0), np.inf), ProbabilityError, "infinite"),
        (changed(ETA, (2, 0), -0.2), ProbabilityError, r"negative.*rows 2\).*softmax"),
        (ETA * 2, ProbabilityError, r"row 0 sums to 2.*divide each row by its sum"),
        (ETA[:, :1], ProbabilityError, "at least 2 classes.*predict_proba"),
        (ETA[:, 0], ShapeError, r"two dimensions.*\(4,\)"),
        (ETA[:0], ShapeError, "at least one row"),
        ([["a", "b"]], ShapeError, "real numbers"),
        ([[0.5, 0.5], [1.0]], ShapeError, "rows of equal length"),
        (ETA * 1j, ShapeError, "real numbers"),
        (np.ma.masked_array(ETA, mask=ETA < 0.3), ShapeError, "must not be masked"),
    ],
)
def test_eta(eta, error, message):
    with pytest.raises(error, match=message) as caught:
        Rows.of(eta)
    assert isinstance(caught.value, PostshiftError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("phi", "error", "message"),
    [
        (np.ones((4, 0)), BasisError, "no basis function.*phi=None"),
        (np.ones((3, 1)), ShapeError, "3 rows for 4"),
        (np.ones(4), ShapeError, "two dimensions"),
        (np.full((4, 1), 1.5), BasisError, r"outside \[0, 1\]"),
        (np.full((4, 1), np.nan), BasisError, r"outside \[0, 1\]"),
        (changed(np.ones((4, 1)), (3, 0), 0), BasisError, r"rows 3\).*append the complement"),
    ],
)
def test_phi(phi, error, message):
    with pytest.raises(error, match=message):
        Rows.of(ETA, phi=phi)


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([0, 1, 2, 0], LabelError, r"outside 0\.\.1.*e\.g\. .*2"),
        ([0, 1, -1, 0], LabelError, r"outside 0\.\.1"),
        ([0, 1, 0.5, 0], LabelError, r"outside 0\.\.1"),
        ([0, 1, np.nan, 0], LabelError, r"outside 0\.\.1"),
        (["a", "b", "a", "b"], LabelError, "encode class names"),
        ([0, 1, 0], ShapeError, r"shape \(4,\)"),
    ],
)
def test_labels(labels, error, message):
    with pytest.raises(error, match=message):
        Rows.of(ETA, labels=labels)


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        ([1, 1, 1], ShapeError),
        ([1, -1, 1, 1], WeightError),
        ([0, 0, 0, 0], WeightError),
        ([1, np.nan, 1, 1], WeightError),
        ([1e308] * 4, WeightError),
        ("heavy", ShapeError),
    ],
)
def test_weights(weights, error):
    with pytest.raises(error, match="weights"):
        Rows.of(ETA, weights=weights)


def test_bases_that_cover_rows_in_part_are_refused():
    with pytest.raises(BasisError, match=r"sum to less than 1: append the complement"):
        Rows.of(np.full((3, 2), 0.5), bases={"user": np.full((3, 1), 0.5)})
    with pytest.raises(BasisError, match="must not be called 'constant'"):
        Rows.of(np.full((3, 2), 0.5), bases={"constant": np.ones((3, 1))})
    table = Rows.of(np.full((3, 2), 0.5))
    with pytest.raises(BasisError, match=r"these rows have no basis 'user'; their bases are \['constant'\]"):
        table.over("user")

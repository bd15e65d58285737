"""The facts of the frontier: those of the Python call, for fits with constraints whose rows can show it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import postshift
from postshift import PostShiftClassifier
from postshift.report import Facts
from postshift.report.gather import _BOUNDS
from tests.estimators.data import noisy
from tests.report import cases


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [None, 0.9])
def test_the_facts_are_those_of_the_python_call(confidence):
    made = cases.with_frontier(confidence)
    found = postshift.frontier(made.shifter, made.rows.eta_val, made.rows.y_val, bounds=_BOUNDS)
    facts = made.facts.frontier
    assert facts.n_rows == found.n_rows
    assert facts.points[facts.asked].bound == 0.6
    for point, own in zip(found.points, facts.points, strict=True):
        for name in ("bound", "metric", "constraint", "certified", "p_value", "rows_needed", "n_changed"):
            assert getattr(own, name) == getattr(point, name)
        matrix = np.zeros((3, 3))
        for true, predicted, value in own.cells:
            matrix[true, predicted] = value
        np.testing.assert_array_equal(matrix, point.confusion)


def test_they_are_stored():
    facts = cases.with_frontier().facts
    assert Facts.from_json(facts.to_json()) == facts


def test_a_fit_without_constraints_has_no_frontier():
    assert cases.digits_auto().frontier is None


def test_rows_that_the_model_was_fitted_to_show_none():
    data = noisy(2, n_rows=1500)
    model = PostShiftClassifier(LogisticRegression(), metric="accuracy", subject_to="rate[1] <= 0.6", basis="constant")
    model.fit(data.X, data.y)
    assert Facts.of(model, data.X, data.y).frontier is None

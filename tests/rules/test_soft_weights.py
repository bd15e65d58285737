"""Smoothed plug-ins and expected utility against a grid, differences, enumeration and the Bayes rule."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from postshift import Rows
from postshift.core.plugin import onehot
from postshift.core.queries import without_queries
from postshift.metrics import Accuracy, ExpectedReward, GMean, MacroF1, MinRecall
from postshift.rules import ExpectedUtility, Problem, SmoothedPlugin
from postshift.rules.soft_weights import _expected_objective, _labelled_objective, softened
from tests.rules.helpers import labelled, tables, value_of


@pytest.mark.parametrize("objective", [_labelled_objective, _expected_objective])
@pytest.mark.parametrize("metric", [Accuracy(), GMean(), MacroF1(), MinRecall()])
def test_soft_weights_have_the_right_gradient(objective, metric):
    problem = labelled(metric, 3)
    value = objective(problem)
    theta = np.array([0.3, -0.2, 0.1])
    expected = approx_fprime(theta, lambda point: value(point)[0], 1e-6)
    np.testing.assert_allclose(value(theta)[1], expected, atol=1e-5)


def test_smoothed_plug_in_beats_a_grid_of_softened_weights():
    problem = labelled(GMean(), 4, n_classes=2)
    rule = without_queries(SmoothedPlugin().fit(problem))
    weights = np.log(rule.mixture.members[0].alpha[0])
    found = value_of(GMean(), problem.val.labels, softened(problem.val.eta, weights))
    for shift in np.linspace(-3, 3, 121):
        theta = np.array([-shift / 2, shift / 2])
        assert value_of(GMean(), problem.val.labels, softened(problem.val.eta, theta)) <= found + 1e-6


def test_expected_utility_against_enumeration():
    """Four rows: the expected confusion matrix is the mean over all labellings drawn from the posterior."""
    eta = np.array([[0.7, 0.3], [0.2, 0.8], [0.55, 0.45], [0.9, 0.1]])
    val = Rows.of(eta, labels=[0, 1, 1, 0])
    problem = Problem.labelled(None, val, ExpectedReward([[1.0, 0.0], [0.2, 3.0]]))
    theta = np.array([0.1, -0.1])
    table = softened(eta, theta)
    expected = 0.0
    for labels in product(range(2), repeat=4):
        chance = np.prod(eta[np.arange(4), labels])
        expected += chance * float(problem.metric.value(onehot(np.array(labels), n_classes=2).T @ table / 4))
    assert _expected_objective(problem)(theta)[0] == pytest.approx(expected)


def test_expected_utility_of_a_linear_metric_is_close_to_the_bayes_rule():
    """For a diagonal reward the best plug-in weights are the rewards; only rows at the border may differ."""
    rng = np.random.default_rng(0)
    eta = rng.dirichlet(np.ones(3), size=4000)
    labels = np.array([rng.choice(3, p=row) for row in eta])
    reward = np.array([1.0, 2.0, 4.0])
    problem = Problem.labelled(None, Rows.of(eta, labels=labels), ExpectedReward(np.diag(reward)))
    rule = without_queries(ExpectedUtility().fit(problem))
    assert (rule.labels(problem.val) == (reward * eta).argmax(axis=1)).mean() > 0.95


def test_smoothed_plug_ins_need_the_value_of_soft_predictions():
    train, val = tables()
    assert not SmoothedPlugin().usable(Problem.queried(train, val, kind="hard"))

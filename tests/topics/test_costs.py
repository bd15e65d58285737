"""Costs: wherever a metric of the confusion matrix goes in, less of a cost is better; a wrong shape is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from postshift import MemoryEngine, PostShiftClassifier, PostShifter, Rows, fw_eg, fw_eg_session, pi_ew
from postshift.baselines import CoordinatePlugin, DirectSearch, OptMetric
from postshift.core.queries import without_queries
from postshift.exceptions import MetricError, PostshiftError, ShapeError
from postshift.metrics import (
    ConfusionOracle,
    ExpectedCost,
    ExpectedReward,
    GroupGMean,
    HardOracle,
    Penalised,
    PredictionOracle,
    SoftOracle,
    from_confusion,
    from_predictions,
    maximised,
)
from postshift.rules import Base, Choice, InversePrior, Paper, Problem, SmoothedPlugin
from tests.estimators.data import noisy

COSTS = np.array([[0.0, 1.0], [6.0, 0.0]])


@pytest.fixture(scope="module")
def rows():
    """Probabilities that are right, and labels drawn from them."""
    rng = np.random.default_rng(0)
    p = rng.beta(1, 4, size=1500)
    return Rows.of(np.column_stack([1 - p, p]), labels=(rng.random(1500) < p).astype(int))


def mean_cost(rows, labels, costs=COSTS):
    return float(costs[rows.labels, labels].mean())


def dear_and_cheap(rows):
    """The costs of always one class, and of the best plug-in."""
    constant = [mean_cost(rows, np.full(rows.n_rows, label)) for label in (0, 1)]
    return min(constant), mean_cost(rows, np.argmin(rows.eta @ COSTS, axis=1))


def of_matrix(confusion):
    return (confusion * COSTS).sum()


@pytest.mark.parametrize("fit", [fw_eg, pi_ew])
@pytest.mark.parametrize(
    "metric", [ExpectedCost(COSTS), from_confusion(of_matrix, greater_is_better=False, scale=6)], ids=["class", "own"]
)
def test_the_paper_s_methods_minimise_a_cost(fit, metric, rows):
    found = fit(rows, rows, metric)
    labels = found.mixture.predict(rows.eta)
    constant, best = dear_and_cheap(rows)
    assert mean_cost(rows, labels) < constant
    assert mean_cost(rows, labels) < 1.1 * best
    assert found.score < 0  # greater is better: a cost has a minus
    reward = fit(rows, rows, ExpectedReward(-COSTS), weighting="full")
    assert found.score == pytest.approx(reward.score, rel=0.05)


def test_an_oracle_of_matrices_does_not_change_the_direction(rows):
    oracle = ConfusionOracle(rows.labels, n_classes=2, metric=ExpectedCost(COSTS))
    found = fw_eg(rows, Rows.of(rows.eta), ExpectedCost(COSTS), oracle=oracle)
    assert found.score == pytest.approx(fw_eg(rows, rows, ExpectedCost(COSTS)).score)


def test_a_run_of_the_core_refuses_a_cost_and_says_what_to_give(rows):
    how = {"kind": "confusion"}
    with pytest.raises(MetricError, match=r"maximised\(metric\)"):
        fw_eg_session(MemoryEngine(rows), rows, metric=ExpectedCost(COSTS), **how)
    fw_eg_session(MemoryEngine(rows), rows, metric=maximised(ExpectedCost(COSTS)), **how)


def told_cost(rows):
    """A function of predictions that knows the labels; less is better."""
    return lambda labels: mean_cost(rows, np.asarray(labels))


def soft_cost(rows):
    return lambda table: float((COSTS[rows.labels] * table).sum(axis=1).mean())


@pytest.mark.parametrize("oracle", ["soft", "hard", "prediction"])
def test_oracles_answer_with_less_is_better_as_the_function_says(oracle, rows):
    if oracle == "soft":
        made = SoftOracle(from_predictions(soft_cost(rows), soft=True, greater_is_better=False))
    else:
        told = from_predictions(told_cost(rows), greater_is_better=False)
        made = HardOracle(told) if oracle == "hard" else PredictionOracle(told, classes=[0, 1])
    found = fw_eg(rows, Rows.of(rows.eta), made, weighting="full", radius=0.3, max_iter=15)
    labels = found.mixture.predict(rows.eta)
    assert found.score < 0
    assert mean_cost(rows, labels) < dear_and_cheap(rows)[0]


@pytest.mark.parametrize("rule", [Paper(), SmoothedPlugin(), InversePrior()], ids=lambda rule: rule.name)
def test_a_problem_of_the_rules_is_about_less_cost(rule, rows):
    table = Rows.of(rows.eta, labels=rows.labels)
    problem = Problem.labelled(table, table, ExpectedCost(COSTS))
    found = without_queries(rule.fit(problem))
    (value,) = without_queries(problem.label_scores([found.labels(table)]))
    assert value == pytest.approx(-mean_cost(rows, found.labels(table)))


def test_the_choice_takes_the_cheaper_rule(rows):
    table = Rows.of(rows.eta, labels=rows.labels)
    problem = Problem.labelled(table, table, ExpectedCost(COSTS))
    chosen = without_queries(Choice(how="best", entries=(Base(), SmoothedPlugin())).fit(problem))
    assert mean_cost(rows, chosen.rule.labels(table)) < mean_cost(rows, np.argmax(rows.eta, axis=1))
    assert chosen.record.score < 0


@pytest.mark.parametrize("kind", [CoordinatePlugin, DirectSearch, OptMetric])
def test_baselines_minimise_a_cost(kind):
    data = noisy(2)
    model = kind(LogisticRegression(), metric=ExpectedCost(COSTS))
    model.fit(data.X, data.y, data.X_val, data.y_val)
    labels = model.predict(data.X_val)
    assert COSTS[data.y_val, labels].mean() < COSTS[data.y_val, 0].mean()


# -- a matrix for another number of classes --------------------------------------------------------------------


def three_classes():
    rng = np.random.default_rng(1)
    eta = rng.dirichlet([2, 1, 1], size=400)
    return Rows.of(eta, labels=np.array([rng.choice(3, p=row) for row in eta]))


WRONG = [ExpectedCost(COSTS), ExpectedReward(COSTS), ExpectedCost(np.ones((4, 4)))]
METHODS = ["auto", "paper", "influence", "smoothed plug-in", "plug-in search", "expected utility", "stack"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("metric", WRONG, ids=["cost", "reward", "four"])
def test_a_matrix_of_the_wrong_shape_is_refused_with_both_shapes(metric, method):
    rows, size = three_classes(), len(metric.matrix)
    with pytest.raises(ShapeError, match=rf"\({size}, {size}\).*3 classes.*\(3, 3\)"):
        PostShifter(metric, method=method).fit(rows.eta, rows.labels)


@pytest.mark.parametrize("metric", WRONG, ids=["cost", "reward", "four"])
def test_it_is_refused_below_the_estimators_too(metric):
    rows, data = three_classes(), noisy(3)
    table = Rows.of(rows.eta, labels=rows.labels)
    calls = [
        lambda: fw_eg(rows, rows, metric),
        lambda: pi_ew(rows, rows, metric),
        lambda: Problem.labelled(table, table, metric),
        lambda: fw_eg_session(MemoryEngine(rows), rows, kind="confusion", metric=maximised(metric)),
        lambda: PostShiftClassifier(LogisticRegression(), metric=metric).fit(data.X, data.y),
        lambda: OptMetric(LogisticRegression(), metric=metric).fit(data.X, data.y, data.X_val, data.y_val),
        lambda: metric.value(np.full((3, 3), 1 / 9)),
        lambda: metric.gradient(np.full((3, 3), 1 / 9)),
    ]
    for call in calls:
        with pytest.raises(ShapeError, match=r"\(3, 3\)"):
            call()


def test_a_metric_over_groups_for_other_classes_is_refused():
    rows, groups = three_classes(), np.arange(400) % 2
    for metric in (
        GroupGMean(n_groups=3, n_classes=2),  # as many pairs as 2 groups of 3 classes have
        Penalised("accuracy", "demographic_parity", n_groups=3, n_classes=2),
    ):
        with pytest.raises(ShapeError, match=r"\(6, 2\).*3 classes"):
            PostShifter(metric).fit(rows.eta, rows.labels, groups=groups)


def test_a_matrix_that_is_none_is_refused_when_it_is_made():
    for given in ([[0, 1, 2], [1, 0, 1]], [0, 1], [[0, "a"], [1, 0]], [[0, np.nan], [1, 0]]):
        with pytest.raises(PostshiftError):
            ExpectedCost(given)

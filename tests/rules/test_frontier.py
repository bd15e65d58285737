"""The frontier: its bounds, its rules, and a certified part that holds together."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import Rows
from postshift.constraints.pieces import resolve_constraint
from postshift.constraints.terms import Constraint
from postshift.exceptions import NotCertifiedError
from postshift.metrics import resolve_metric
from postshift.rules import Problem
from postshift.rules.certified import Unlabelled, certified_rule
from postshift.rules.constrained import Constrained
from postshift.rules.frontier import Tracer, at_bound


def drawn(n_rows, seed, n_classes=2):
    rng = np.random.default_rng(seed)
    logits = 1.3 * rng.normal(size=(n_rows, n_classes)) + np.linspace(1.5, 0, n_classes)
    eta = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return eta, (rng.random(n_rows)[:, None] > eta.cumsum(axis=1)).sum(axis=1).clip(0, n_classes - 1)


def tracer(n_rows=800, seed=0, n_classes=2, metric="precision[1]", constraints=("recall[1] >= 0.7",)):
    eta, y = drawn(n_rows, seed, n_classes)
    classes = np.arange(n_classes)
    problem = Problem.labelled(None, Rows.of(eta, labels=y), resolve_metric(metric, classes=classes))
    given = tuple(resolve_constraint(Constraint.read(each), classes=classes) for each in constraints)
    return Tracer(problem=problem, constraints=given)


def test_the_bounds_go_from_loose_to_strict_and_include_the_one_that_was_asked_for():
    for constraint, direction in (("recall[1] >= 0.7", 1), ("rate[1] <= 0.3", -1)):
        points = tracer(constraints=(constraint,), metric="accuracy").points(6)
        bounds = np.array([point.bound for point in points])
        assert (direction * np.diff(bounds) > 0).all()
        assert float(constraint.split()[-1]) in bounds
        assert 5 <= len(bounds) <= 7


def test_every_point_meets_its_bound_in_expectation_and_costs_more_the_stricter_it_is():
    points = tracer(2000).points(np.array([0.4, 0.5, 0.6, 0.7, 0.8]))
    assert [point.bound for point in points] == [0.4, 0.5, 0.6, 0.7, 0.8]
    assert all(point.expected_constraint >= point.bound - 0.06 for point in points)  # corrected by the labels
    assert (np.diff([point.expected_metric for point in points]) <= 1e-3).all()


def test_a_point_is_the_rule_that_a_fit_would_give():
    made = tracer()
    rule = Constrained(constraints=made.constraints)
    fitted = next(iter_result(rule.fit(made.problem)))
    (point,) = made.points(np.array([0.7]))
    labels = fitted.labels(made.problem.val)
    np.testing.assert_array_equal(point.rule.labels(made.problem.val), labels)
    np.testing.assert_allclose(point.confusion, made.problem.label_confusion(labels) * 800)
    assert point.metric == float(made.problem.metric_of(made.problem.label_confusion(labels)))
    assert point.n_changed == np.count_nonzero(labels != np.argmax(made.problem.val.eta, axis=1))
    assert point.certified is None


def iter_result(fit):
    """Yield the result of a fit that asks no queries."""
    try:
        next(fit)
    except StopIteration as done:
        yield done.value


def test_the_other_constraints_are_held():
    made = tracer(2000, n_classes=3, metric="accuracy", constraints=("rate[0] <= 0.4", "recall[2] >= 0.5"))
    held = made.constraints[1]
    for point in made.points(np.array([0.5, 0.4, 0.3])):
        assert held.value(point.confusion / point.confusion.sum()) >= 0.45


def test_bounds_that_cannot_be_met_are_left_out():
    made = tracer(constraints=("precision[1] >= 0.5",), metric="recall[1]")
    assert [point.bound for point in made.points(np.array([0.5, 1.01]))] == [0.5]


@pytest.mark.slow
def test_the_certified_part_is_the_beginning_of_a_fixed_sequence():
    eta, _ = drawn(4000, 7)
    made = tracer(1000)
    points, n_rows = made.certified_points(9, confidence=0.95, unlabelled=Unlabelled(rows=Rows.of(eta)))
    assert n_rows == 1000
    assert any(point.certified for point in points)
    assert all(point.p_value <= 0.05 for point in points if point.certified)
    assert all(point.expected_constraint >= point.bound for point in points if point.certified)
    assert not points[-1].certified  # a recall of 1
    assert all(point.rows_needed is None or point.rows_needed > 0 for point in points)


def test_a_single_bound_is_certified_as_a_fit_certifies_it():
    making = Unlabelled(rows=Rows.of(drawn(2000, 7)[0]))
    for bound in (0.6, 0.99):
        made = tracer(400, constraints=(f"precision[1] >= {bound}",), metric="recall[1]")
        (point,), _ = made.certified_points(np.array([bound]), confidence=0.95, unlabelled=making)
        try:
            rule, certificate = certified_rule(
                made.problem, made.constraints, basis="constant", confidence=0.95, unlabelled=making
            )
        except NotCertifiedError:
            assert not point.certified
            continue
        assert point.certified
        assert point.p_value == certificate.p_value
        np.testing.assert_array_equal(point.rule.labels(made.problem.val), rule.labels(made.problem.val))


@pytest.mark.slow
def test_what_is_marked_is_certified_by_a_fit_too():
    making = Unlabelled(rows=Rows.of(drawn(2000, 7)[0]), may_test=False)
    for seed in range(3):
        made = tracer(500, seed, constraints=("precision[1] >= 0.6",), metric="recall[1]")
        points, _ = made.certified_points(np.array([0.5, 0.6, 0.7, 0.8]), confidence=0.95, unlabelled=making)
        marked = [point for point in points if point.certified]
        assert marked
        for point in marked:
            own = (at_bound(made.constraints[0], point.bound),)
            _, certificate = certified_rule(made.problem, own, basis="constant", confidence=0.95, unlabelled=making)
            assert certificate.p_value <= 0.05
            assert point.p_value <= 0.05


def test_without_other_rows_a_fifth_of_them_makes_the_rules():
    points, n_rows = tracer(1000).certified_points(5, confidence=0.9)
    assert n_rows == 800
    assert all(point.confusion.sum() == 800 for point in points)


@pytest.mark.slow
def test_all_certified_bounds_hold_together():
    """In 100 samples, a frontier with a bound that is marked and violated is not significantly above 10 %."""
    pool_eta, pool_y = drawn(20_000, 3)
    rng, wrong, marked = np.random.default_rng(0), 0, 0
    classes = np.arange(2)
    given = (resolve_constraint(Constraint.read("recall[1] >= 0.7"), classes=classes),)
    metric, making = resolve_metric("precision[1]", classes=classes), Unlabelled(rows=Rows.of(pool_eta[:1500]))
    making = Unlabelled(rows=making.rows, may_test=False)
    pool = Rows.of(pool_eta, labels=pool_y)
    for _ in range(100):
        some = rng.integers(len(pool_y), size=300)
        problem = Problem.labelled(None, Rows.of(pool_eta[some], labels=pool_y[some]), metric)
        points, _ = Tracer(problem=problem, constraints=given).certified_points(
            np.array([0.5, 0.65, 0.8]), confidence=0.9, unlabelled=making
        )
        truths = [np.mean(point.rule.labels(pool)[pool_y == 1] == 1) for point in points]
        wrong += any(point.certified and truth < point.bound for point, truth in zip(points, truths, strict=True))
        marked += any(point.certified for point in points)
    assert wrong <= 10 + 1.645 * np.sqrt(100 * 0.1 * 0.9)
    assert marked >= 60

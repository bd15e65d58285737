"""The rate program of a metric and constraints, against brute force over plug-in weights."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import Rows
from postshift.constraints import Constraint, Value
from postshift.constraints.pieces import resolve_constraint
from postshift.core.rows import CONSTANT
from postshift.exceptions import InfeasibleError
from postshift.metrics import (
    Accuracy,
    BinaryF1,
    ExpectedCost,
    ExpectedReward,
    GMean,
    MacroF1,
    Penalised,
    Precision,
    Recall,
    from_confusion,
)
from postshift.metrics.over_groups import PooledMetric
from postshift.rules.constrained_program import ConstrainedProgram, Expectation, RateObjective
from tests.rules.posteriors import drawn

NEAR = 0.005
PRECISION, RECALL = Precision(average="binary"), Recall(average="binary")
COST = ExpectedCost(np.array([[0.0, 1.0], [4.0, 0.0]]))
TWO_CLASSES = [
    (PRECISION, ["recall[1] >= 0.9"]),
    (RECALL, ["precision[1] >= 0.6"]),
    (Accuracy(), ["rate[1] <= 0.1"]),
    (Accuracy(), ["recall[1] >= 0.7", "precision[1] >= 0.4"]),
    (BinaryF1(), ["rate[1] <= 0.15"]),
    (Accuracy(), ["f1[1] >= 0.5"]),
    (GMean(), ["precision[1] >= 0.5"]),
    (Accuracy(), [Value(COST) <= 0.4]),
    (ExpectedReward(-COST.matrix), ["recall[0] >= 0.8"]),
    (Accuracy(), ["g_mean >= 0.7"]),
    (Accuracy(), [Value(from_confusion(lambda c: float(c[1, 1] ** 2), name="square")) >= 0.02]),
]
THREE_CLASSES = [
    (Accuracy(), ["recall[2] >= 0.7"]),
    (Accuracy(), ["min_recall >= 0.5"]),
    (Accuracy(), ["rate[0] <= 0.4", "recall[1] >= 0.4"]),
    (GMean(), ["precision[2] >= 0.5"]),
    (MacroF1(), ["rate[2] <= 0.1"]),
    (Recall(average="one_vs_rest", positive=2), ["precision[2] >= 0.5", "accuracy >= 0.6"]),
]


def resolved(constraint, *, n_classes, n_groups=None):
    constraint = Constraint.read(constraint) if isinstance(constraint, str) else constraint
    return resolve_constraint(constraint, classes=np.arange(n_classes), n_groups=n_groups)


def program_of(eta, metric, constraints, *, phi=None, groups=None, weights=None):
    n_groups = None if groups is None else int(groups.max()) + 1
    rows = Rows.of(eta, phi=phi, weights=weights) if phi is not None else Rows.of(eta, weights=weights).over(CONSTANT)
    expectation = Expectation.of(rows, groups, n_groups=n_groups or 1)
    found = [resolved(each, n_classes=eta.shape[1], n_groups=n_groups) for each in constraints]
    return ConstrainedProgram(expectation, RateObjective.of(metric), found)


def expected_confusion(eta, labels, weights=None):
    """Row by row: the probability of each class is added to the column of the label."""
    weights = np.ones(len(eta)) if weights is None else weights
    table = np.zeros((eta.shape[1], eta.shape[1]))
    for row, label, weight in zip(eta, labels, weights, strict=True):
        table[:, label] += weight * row
    return table / weights.sum()


def all_confusions(eta, labels):
    """The same for many labellings (K, n) at once."""
    onehot = np.eye(eta.shape[1])[labels]
    return np.einsum("ni,knj->kij", eta, onehot) / len(eta)


def brute_labels(eta, rng, *, n_rules=3000):
    """Labels of many plug-in rules: every threshold, or random weights of all kinds."""
    if eta.shape[1] == 2:
        cuts = np.append(np.sort(eta[:, 1])[::2], 2.0)
        return (eta[None, :, 1] >= cuts[:, None]).astype(int)
    diagonal = np.exp(rng.normal(size=(n_rules, 3)))[:, None] * np.eye(3)
    full = diagonal + 0.3 * rng.normal(size=(n_rules, 3, 3))
    return np.argmax(np.einsum("ni,kij->knj", eta, np.concatenate([diagonal, full])), axis=2)


def best_by_force(eta, metric, constraints, *, rng):
    """The best value among rules that satisfy the constraints, in expectation."""
    best = -np.inf
    labels = brute_labels(eta, rng)
    for block in np.array_split(labels, max(1, len(labels) // 500)):
        tables = all_confusions(eta, block)
        for table, value in zip(tables, metric.value(tables), strict=True):
            if value > best and all(each.miss(table) <= 0 for each in constraints):
                best = float(value)
    return best


def str_of(each) -> str:
    """The same name in every process."""
    return each.name if hasattr(each, "name") else ", ".join(str(one) for one in each)


@pytest.mark.parametrize(("metric", "texts"), TWO_CLASSES, ids=str_of)
def test_two_classes_by_brute_force(metric, texts):
    eta = drawn(0, n_rows=1200).eta
    program = program_of(eta, metric, texts)
    found = program.solve()
    labels = found.rule.labels(eta, np.ones((len(eta), 1)))
    literal = expected_confusion(eta, labels)
    np.testing.assert_allclose(found.confusion, literal, atol=1e-12)
    assert max(each.miss(literal) for each in program.constraints) <= 1e-9
    assert found.value == pytest.approx(float(metric.value(literal)))
    best = best_by_force(eta, metric, program.constraints, rng=np.random.default_rng(0))
    assert found.value >= best - NEAR
    assert found.randomised.value >= best - 1e-3


@pytest.mark.parametrize(("metric", "texts"), THREE_CLASSES, ids=str_of)
def test_three_classes_by_brute_force(metric, texts):
    eta = drawn(1, n_rows=600, n_classes=3).eta
    program = program_of(eta, metric, texts)
    found = program.solve()
    literal = expected_confusion(eta, found.rule.labels(eta, np.ones((len(eta), 1))))
    assert max(each.miss(literal) for each in program.constraints) <= 1e-9
    best = best_by_force(eta, metric, program.constraints, rng=np.random.default_rng(0))
    assert found.value >= best - NEAR


def test_a_constraint_that_does_not_bind_changes_nothing():
    eta = drawn(2).eta
    free = program_of(eta, Accuracy(), []).solve()
    loose = program_of(eta, Accuracy(), ["recall[1] >= 0.01", "rate[1] <= 0.99"]).solve()
    assert loose.value == pytest.approx(free.value, abs=1e-9)
    assert free.value == pytest.approx(float(np.mean(eta.max(axis=1))))


def test_a_class_that_the_model_never_predicts():
    eta = drawn(3, rare=True).eta
    assert (eta[:, 1] < 0.5).all()
    found = program_of(eta, RECALL, ["precision[1] >= 0.2"]).solve()
    literal = expected_confusion(eta, found.rule.labels(eta, np.ones((len(eta), 1))))
    best = best_by_force(eta, RECALL, [resolved("precision[1] >= 0.2", n_classes=2)], rng=np.random.default_rng(0))
    assert literal[1, 1] / literal[:, 1].sum() >= 0.2 - 1e-9
    assert found.value >= best - NEAR


def test_weights_of_rows_are_repeated_rows():
    eta = drawn(4, n_rows=300).eta
    times = np.random.default_rng(0).integers(0, 4, size=len(eta))
    weighted = program_of(eta, Accuracy(), ["recall[1] >= 0.8"], weights=times.astype(float)).solve()
    repeated = program_of(np.repeat(eta, times, axis=0), Accuracy(), ["recall[1] >= 0.8"]).solve()
    assert weighted.value == pytest.approx(repeated.value, abs=2e-4)
    literal = expected_confusion(eta, weighted.rule.labels(eta, np.ones((len(eta), 1))), times)
    np.testing.assert_allclose(weighted.confusion, literal, atol=1e-12)


def test_groups_in_the_basis_are_exact():
    data = drawn(5, n_groups=3)
    phi = np.eye(3)[data.groups]
    metric = PooledMetric(inner=Accuracy(), n_groups=3, n_classes=2)
    for text in ("demographic_parity <= 0.05", "equal_opportunity <= 0.05", "equalized_odds <= 0.08"):
        program = program_of(data.eta, metric, [text], phi=phi, groups=data.groups)
        before = program.constraints[0].value(program.start)
        found = program.solve()
        labels = found.rule.labels(data.eta, phi)
        literal = np.zeros((6, 2))
        for row, group, label in zip(data.eta, data.groups, labels, strict=True):
            literal[2 * group : 2 * group + 2, label] += row / len(data.eta)
        np.testing.assert_allclose(found.confusion, literal, atol=1e-9)
        assert before > 0.1
        assert program.constraints[0].value(literal) <= float(text.split()[-1]) + 1e-9
        assert found.value == pytest.approx(float(np.trace(literal.reshape(3, 2, 2).sum(axis=0))))


def test_parity_of_two_groups_by_brute_force():
    data = drawn(6, n_rows=800, n_groups=2)
    phi = np.eye(2)[data.groups]
    metric = PooledMetric(inner=Accuracy(), n_groups=2, n_classes=2)
    found = program_of(data.eta, metric, ["demographic_parity <= 0.03"], phi=phi, groups=data.groups).solve()
    cuts, best = np.linspace(0, 1, 101), 0.0
    sides = [data.eta[data.groups == group, 1] for group in (0, 1)]
    rates = [np.array([np.mean(side >= cut) for cut in cuts]) for side in sides]
    hits = [np.array([np.sum(np.where(side >= cut, side, 1 - side)) for cut in cuts]) for side in sides]
    for one in range(101):
        near = np.abs(rates[0][one] - rates[1]) <= 0.03
        best = max(best, float(np.max(np.where(near, hits[0][one] + hits[1], 0))) / len(data.eta))
    assert found.value >= best - NEAR


def test_hidden_groups_are_read_through_the_basis():
    """The rule does not see the group, but a column that is related to it."""
    data = drawn(7, n_rows=3000, n_groups=2)
    seen = np.where(np.random.default_rng(0).random(3000) < 0.85, data.groups, 1 - data.groups)
    phi = np.eye(2)[seen]
    metric = PooledMetric(inner=Accuracy(), n_groups=2, n_classes=2)
    program = program_of(data.eta, metric, ["demographic_parity <= 0.02"], phi=phi, groups=data.groups)
    labels = program.solve().rule.labels(data.eta, phi)
    free = np.argmax(data.eta, axis=1)
    gaps = [abs(np.mean(each[data.groups == 0]) - np.mean(each[data.groups == 1])) for each in (free, labels)]
    assert gaps[1] < 0.6 * gaps[0]


def test_shares_of_the_groups_sum_to_1():
    data = drawn(8, n_groups=3)
    phi = np.random.default_rng(0).dirichlet(np.ones(4), size=len(data.eta))
    expectation = Expectation.of(Rows.of(data.eta, phi=phi), data.groups, n_groups=3)
    np.testing.assert_allclose(expectation.shares.sum(axis=0), 1, atol=1e-9)
    np.testing.assert_allclose(expectation.chances().sum(axis=1), 1, atol=1e-9)
    rates = np.random.default_rng(1).random((4, 2, 2))
    coefficients = np.random.default_rng(2).random((6, 2))
    assert np.sum(coefficients * expectation.confusion(rates)) == pytest.approx(
        np.sum(expectation.on_rates(coefficients) * rates)
    )


def test_an_infeasible_constraint_says_what_can_be_reached():
    eta = drawn(9).eta
    program = program_of(eta, Accuracy(), ["precision[1] >= 0.99", "recall[1] >= 0.95"])
    with pytest.raises(
        InfeasibleError, match=r"precision\[1\] reaches .*; recall\[1\] reaches .* Relax a bound"
    ) as caught:
        program.solve()
    message = str(caught.value)
    assert "(>= 0.99 is asked)" in message
    assert "recall[1] reaches 1.000" in message  # alone, it can be had
    assert set(caught.value.conflict) == {"precision[1]", "recall[1]"}
    nearest = program.expectation.confusion(caught.value.nearest.rates)
    for name, value in (
        ("recall", nearest[1, 1] / nearest[1].sum()),
        ("precision", nearest[1, 1] / nearest[:, 1].sum()),
    ):
        assert f"{name}[1] reaches" in message
        assert f"{value:.3f} in the nearest compromise" in message


def test_the_reach_of_one_constraint_is_that_of_brute_force():
    eta = drawn(10, n_rows=600).eta
    program = program_of(eta, Accuracy(), ["f1[1] >= 0.95"])
    (f1,) = program.constraints
    best = max(f1.value(table) for table in all_confusions(eta, brute_labels(eta, None)))
    assert program.reach(f1) == pytest.approx(best, abs=2e-3)
    with pytest.raises(InfeasibleError, match=f"f1\\[1\\] reaches {program.reach(f1):.3f} at best .>= 0.95"):
        program.solve()


@pytest.mark.parametrize(
    ("text", "n_classes"), [("precision_macro", 2), ("precision_weighted", 2), ("precision_macro", 3)]
)
def test_a_constraint_that_is_not_concave_is_met_if_it_can_be(text, n_classes):
    """Its tangent at the model as it is may have no solution although the constraint has."""
    eta = drawn(10, n_rows=400, n_classes=n_classes).eta
    (metric,) = program_of(eta, Accuracy(), [f"{text} >= 0.1"]).constraints
    table = np.array(all_confusions(eta, brute_labels(eta, np.random.default_rng(0), n_rules=500)))
    values = np.array([metric.value(each) for each in table])
    base = metric.value(expected_confusion(eta, np.argmax(eta, axis=1)))
    bound = base + 0.6 * (values.max() - base)
    found = program_of(eta, Accuracy(), [f"{text} >= {bound}"]).solve()
    assert metric.value(found.confusion) >= bound - 1e-4
    best = max(np.trace(each) for each, value in zip(table, values, strict=True) if value >= bound)
    assert found.value >= best - 0.01


def test_shifts_move_the_bounds():
    eta = drawn(11).eta
    program = program_of(eta, Accuracy(), ["recall[1] >= 0.6", "rate[1] <= 0.5"])
    found = program.solve(np.array([0.1, -0.05])).confusion
    assert found[1, 1] / found[1].sum() >= 0.7 - 1e-9
    assert found[:, 1].sum() <= 0.45 + 1e-9
    with pytest.raises(InfeasibleError):
        program.solve(np.array([0.5, 0.0]))


@pytest.mark.parametrize("strength", [0.5, 1.0, 5.0])
def test_a_penalty_with_a_kink(strength):
    """At least the best of the rules that are constrained to a grid of gaps, by the penalised metric itself."""
    data = drawn(12, n_rows=1500, n_groups=2)
    phi = np.eye(2)[data.groups]
    penalised = Penalised(
        inner="accuracy", gap="demographic_parity", strength=strength, n_groups=2, n_classes=2, positive=1
    )
    found = program_of(data.eta, penalised, [], phi=phi, groups=data.groups).solve()
    assert found.value == pytest.approx(float(penalised.value(found.confusion)))
    pooled = PooledMetric(inner=Accuracy(), n_groups=2, n_classes=2)
    for bound in (0.0, 0.02, 0.05, 0.1, 0.2, 0.3):
        limited = program_of(data.eta, pooled, [f"demographic_parity <= {bound}"], phi=phi, groups=data.groups)
        assert found.value >= float(penalised.value(limited.solve().confusion)) - NEAR

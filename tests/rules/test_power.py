"""Power: what it predicts is what is seen."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import Rows, power
from postshift.constraints import Constraint, Value, p_values
from postshift.constraints.pieces import resolve_constraint
from postshift.exceptions import InputError, MetricError, SettingError, ShapeError
from postshift.metrics import ExpectedCost, resolve_metric
from postshift.rules import Problem
from postshift.rules.verdict import compare

RARE = np.array([[0.8, 0.1], [0.005, 0.095]])
GROUPS = np.array([[0.30, 0.10], [0.03, 0.07], [0.29, 0.12], [0.02, 0.07]])
CASES = {
    "recall >= 0.9": (RARE, 200),
    "precision >= 0.7": (np.array([[0.85, 0.02], [0.04, 0.09]]), 300),
    "rate <= 0.22": (RARE, 400),
    "f1 >= 0.55": (np.array([[0.7, 0.1], [0.05, 0.15]]), 150),
    "accuracy >= 0.85": (RARE, 150),
    "demographic_parity <= 0.12": (GROUPS, 400),
    "equal_opportunity <= 0.3": (GROUPS, 300),
}
N_SIMULATED = 400


@pytest.mark.parametrize("constraint", CASES)
def test_the_chance_to_certify_is_the_share_of_samples_that_certify(constraint):
    shares, n_rows = CASES[constraint]
    rng, shares = np.random.default_rng(0), shares / shares.sum()
    bounded = resolve_constraint(Constraint.read(constraint), classes=[0, 1], n_groups=len(shares) // 2)
    for rows in (n_rows, 2 * n_rows):
        seen = 0
        for counts in rng.multinomial(rows, shares.ravel(), size=N_SIMULATED):
            table = counts.reshape(shares.shape).astype(float)
            seen += max(p_values.test_piece(piece, table).p_value for piece in bounded.pieces(table / rows)) <= 0.05
        predicted = power(confusion=shares, subject_to=constraint, n_rows=rows).chance
        assert predicted == pytest.approx(seen / (N_SIMULATED), abs=0.05 + 0.04)  # 0.04: of the simulation


def cells(n_classes, shift, seed=1):
    """Return the shares of true class, label of a rule, and label of the base, for calibrated probabilities."""
    rng = np.random.default_rng(seed)
    logits = 1.3 * rng.normal(size=(20_000, n_classes)) + np.linspace(1.5, 0, n_classes)
    eta = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    base, rule = eta.argmax(axis=1), (eta * np.linspace(1, shift, n_classes)).argmax(axis=1)
    found = np.zeros((n_classes,) * 3)
    for label in range(n_classes):
        np.add.at(found[label], (rule, base), eta[:, label])
    return found / found.sum()


@pytest.mark.parametrize(
    ("metric", "n_classes", "shift", "n_rows"),
    [("balanced_accuracy", 2, 2.0, 350), ("f1", 2, 1.3, 900), ("g_mean", 3, 3.0, 250), ("min_recall", 3, 2.0, 150)],
)
def test_the_chance_to_see_a_gain_is_the_share_of_samples_that_are_worth_it(metric, n_classes, shift, n_rows):
    shares, rng, seen = cells(n_classes, shift), np.random.default_rng(0), 0
    resolved = resolve_metric(metric, classes=np.arange(n_classes))
    flat = np.full((n_rows, n_classes), 1 / n_classes)
    for _ in range(300):
        truth, labels, base = np.unravel_index(rng.choice(shares.size, size=n_rows, p=shares.ravel()), shares.shape)
        problem = Problem.labelled(None, Rows.of(flat, labels=truth), resolved)
        seen += compare(problem, labels, base).kind == "worth it"
    predicted = power(confusion=shares, metric=metric, n_rows=n_rows).chance
    assert predicted == pytest.approx(seen / 300, abs=0.05 + 0.04)


@pytest.mark.parametrize("question", [{"metric": "f1_macro"}, {"subject_to": "recall[2] >= 0.45"}])
def test_the_rows_needed_have_the_chance_that_is_wanted(question):
    shares = cells(3, 2.0)
    given = {"confusion": shares if "metric" in question else shares.sum(axis=2), **question}
    found = power(**given)
    assert found.n_rows is not None
    assert found.chance == pytest.approx(0.8, abs=0.03)
    assert power(**given, n_rows=found.n_rows).chance == found.chance
    assert power(**given, power=0.95).n_rows > found.n_rows
    assert power(**given, confidence=0.8).n_rows < found.n_rows


def test_rows_without_labels_are_enough():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 5, size=3000)
    eta = np.column_stack([1 - p, p])
    found = power(eta, metric="balanced_accuracy")
    assert found.gain > 0.05
    assert 20 < found.n_rows < 2000
    assert power(eta, metric="balanced_accuracy", gain=found.gain / 2).n_rows > 2 * found.n_rows
    assert power(eta, subject_to="recall >= 0.9").n_rows < power(eta, subject_to="recall >= 0.95").n_rows
    groups = rng.integers(2, size=3000)
    assert power(eta, groups=groups, subject_to="demographic_parity <= 0.1").n_rows > 10


def test_a_bound_that_is_not_met_needs_more_rows_than_there_are():
    found = power(confusion=RARE, subject_to="recall >= 0.96")
    assert found.n_rows is None
    assert found.chance == 0


def test_a_mean_has_a_test_too():
    cost = ExpectedCost([[0, 1], [5, 0]])
    found = power(confusion=RARE, subject_to=Value(cost) <= 0.3)
    assert 10 < found.n_rows < 5000


def test_what_it_refuses():
    with pytest.raises(SettingError, match="either eta"):
        power(metric="f1")
    with pytest.raises(SettingError, match="either subject_to"):
        power(confusion=RARE)
    with pytest.raises(ShapeError, match=r"shape \(R, m, m\)"):
        power(confusion=RARE, metric="f1")
    with pytest.raises(InputError, match="finite numbers >= 0"):
        power(confusion=-RARE, subject_to="recall >= 0.9")
    with pytest.raises(MetricError, match="has no test"):
        power(confusion=RARE, subject_to="f1_macro >= 0.5")
    with pytest.raises(SettingError, match="power must be a number"):
        power(confusion=RARE, subject_to="recall >= 0.9", power=1.0)

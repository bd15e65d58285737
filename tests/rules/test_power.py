"""Power: what it predicts is what is seen."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score

from postshift import Rows, power
from postshift.constraints import Constraint, Value, p_values
from postshift.constraints.pieces import resolve_constraint
from postshift.exceptions import InputError, MetricError, SettingError, ShapeError
from postshift.metrics import ExpectedCost, resolve_metric
from postshift.rules import Problem
from postshift.rules.certified import make_path
from postshift.rules.constrained_program import ConstrainedProgram, Expectation, RateObjective
from postshift.rules.expected_cells import ExpectedRows, Halves
from postshift.rules.posterior import Identity
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


@pytest.mark.slow
def test_rows_without_labels_are_enough_for_a_bound():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 5, size=1000)
    eta, groups = np.column_stack([1 - p, p]), rng.integers(2, size=1000)
    assert power(eta, subject_to="recall >= 0.9").n_rows < power(eta, subject_to="recall >= 0.95").n_rows
    assert power(eta, groups=groups, subject_to="demographic_parity <= 0.1").n_rows > 10


def scored(n_rows, seed, *, sharpness=1.0):
    """Return probabilities and labels; with another sharpness, the model is too sure of itself."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 3, size=n_rows)
    y = (rng.random(n_rows) < p).astype(int)
    odds = (p / (1 - p)) ** sharpness
    return np.column_stack([1 / (1 + odds), odds / (1 + odds)]), y


@pytest.mark.slow
def test_probabilities_give_the_chance_of_the_rule_that_a_fit_tests_first():
    eta, _ = scored(6000, 0)
    pool, _ = scored(100_000, 1)
    bounded = (resolve_constraint(Constraint.read("precision[1] >= 0.6"), classes=[0, 1]),)
    expectation = Expectation.of(Rows.of(eta), None)
    program = ConstrainedProgram(expectation, RateObjective.of(resolve_metric("recall", classes=[0, 1])), bounded)
    path = make_path(program, basis="constant", posterior=Identity(), n_rows=1500, delta=0.05)
    labels = path[0].rule.labels(Rows.of(pool))
    truth = np.array([pool[labels == label].sum(axis=0) for label in (0, 1)]).T
    known = power(confusion=truth, subject_to="precision[1] >= 0.6", n_rows=1500)
    found = power(eta, subject_to="precision[1] >= 0.6", n_rows=1500)
    assert 0.2 < known.chance < 0.95
    assert found.chance == pytest.approx(known.chance, abs=0.05)
    low, high = found.interval
    assert low < known.chance < high
    assert known.interval is None


def test_more_rows_give_a_narrower_interval():
    eta, _ = scored(8000, 2)
    widths = []
    for n_rows in (1000, 8000):
        low, high = power(eta[:n_rows], metric="balanced_accuracy", n_rows=150).interval
        widths.append(high - low)
    assert widths[1] < 0.6 * widths[0]


def test_labelled_rows_correct_wrong_probabilities():
    """The gain of the same rules, by labels: a model that is too sure of itself promises another one."""
    eta, _ = scored(4000, 3, sharpness=2.0)
    many, labels = scored(20_000, 4, sharpness=2.0)
    alone = power(eta, metric="f1", n_rows=500)
    corrected = power(eta, metric="f1", n_rows=500, eta_val=many, y_val=labels)
    rows = ExpectedRows.of(eta, None)
    rules = Halves.of(rows, None).made(
        lambda each: ConstrainedProgram(each, RateObjective.of(resolve_metric("f1", classes=[0, 1])), ()).solve().rule
    )
    true = np.mean([gain_of_rule(rule, many, labels) for rule in rules])
    assert abs(alone.gain - true) > 0.02
    assert corrected.gain == pytest.approx(true, abs=0.02)


def gain_of_rule(rule, eta, y):
    labels = rule.labels(eta, np.ones((len(y), 1)))
    return f1_score(y, labels) - f1_score(y, eta.argmax(axis=1))


def test_a_class_that_is_never_predicted_is_never_certified():
    """Its precision counts as 0."""
    never = np.array([[0.9, 0.0], [0.1, 0.0]])
    assert power(confusion=never, subject_to="precision[1] >= 0.1", n_rows=10_000).chance == 0
    assert power(confusion=never, subject_to="precision[1] >= 0.1").n_rows is None


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
    eta, y = scored(100, 5)
    with pytest.raises(SettingError, match="both eta_val and y_val"):
        power(eta, metric="f1", eta_val=eta)
    with pytest.raises(SettingError, match="groups and groups_val"):
        power(eta, metric="f1", eta_val=eta, y_val=y, groups=y)
    with pytest.raises(ShapeError, match="y_val must have one label"):
        power(eta, metric="f1", eta_val=eta, y_val=y[:50])
    with pytest.raises(InputError, match="at least 2 rows"):
        power(eta[:1], metric="f1")

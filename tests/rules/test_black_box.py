"""Constraints and metrics that only return scores, against brute force over thresholds."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from postshift import PostShiftClassifier, PostShifter
from postshift.constraints import Value
from postshift.exceptions import BudgetError, ConstraintWarning, InfeasibleError, MetricError
from postshift.metrics import from_labels, from_predictions
from postshift.rules.black_box import ConstrainedByProbes
from tests.rules.posteriors import drawn


@pytest.fixture(scope="module")
def data():
    found = drawn(0, n_rows=2000, rare=True)
    found.amount = np.random.default_rng(3).lognormal(size=2000)
    return found


def profit(y_true, y_pred):
    """What acting on each predicted 1 brings."""
    return float(np.mean(np.where(y_pred == 1, np.where(y_true == 1, 5.0, -1.0), 0.0)))


def profit_of(y_true, y_pred, amount):
    return float(np.mean(amount * np.where(y_pred == 1, np.where(y_true == 1, 5.0, -1.0), 0.0)))


def f1(y_true, y_pred):
    hits = np.sum((y_true == 1) & (y_pred == 1))
    return float(2 * hits / max(np.sum(y_true == 1) + np.sum(y_pred == 1), 1))


def weighted_f1(y_true, y_pred, sample_weight):
    hits = np.sum(sample_weight * (y_true == 1) * (y_pred == 1))
    return float(2 * hits / max(sample_weight @ (y_true == 1) + sample_weight @ (y_pred == 1), 1e-12))


def thresholds(data):
    """The labels of every threshold."""
    chances = np.unique(data.eta[:, 1])
    return [(data.eta[:, 1] >= each).astype(int) for each in chances[:: max(1, len(chances) // 500)]]


def brute_force(data, objective, meets):
    return max(objective(labels) for labels in thresholds(data) if meets(labels))


def fitted(data, metric, subject_to, *, y_val=True, metadata=None, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstraintWarning)  # on rows out of fold, a coin flip
        shifter = PostShifter(metric, subject_to=subject_to, **params)
        shifter.fit(data.eta, data.labels if y_val else None, **(metadata or {}))
    return shifter, shifter.predict(data.eta)


@pytest.mark.parametrize(("function", "bound"), [(profit, 0.3), (f1, 0.42), (weighted_f1, 0.42)])
def test_a_function_is_respected(data, function, bound):
    def of(labels):
        return function(data.labels, labels, *([np.ones(2000)] if function is weighted_f1 else []))

    def accuracy(labels):
        return np.mean(labels == data.labels)

    shifter, labels = fitted(data, "accuracy", Value(function) >= bound)
    assert of(labels) >= bound
    assert accuracy(labels) >= brute_force(data, accuracy, lambda each: of(each) >= bound) - 0.01
    (record,) = shifter.constraints_
    held = shifter.held_out_
    truth = data.labels[held.rows]
    weights = [np.ones(len(truth))] if function is weighted_f1 else []
    assert record.value == pytest.approx(function(truth, held.labels, *weights))
    assert record.low < record.value < record.high
    assert shifter.n_queries_ == 0


def test_a_function_of_other_columns_is_respected(data):
    _, labels = fitted(data, "accuracy", Value(from_labels(profit_of)) >= 0.4, metadata={"amount": data.amount})
    assert profit_of(data.labels, labels, data.amount) >= 0.4
    best = brute_force(
        data, lambda each: np.mean(each == data.labels), lambda each: profit_of(data.labels, each, data.amount) >= 0.4
    )
    assert np.mean(labels == data.labels) >= best - 0.01


def test_a_loss_is_bounded_from_above(data):
    def miss_rate_loss(y_true, y_pred):
        return float(np.mean(y_pred[y_true == 1] != 1))

    _, labels = fitted(data, "accuracy", Value(miss_rate_loss) <= 0.4)
    assert 0.35 < miss_rate_loss(data.labels, labels) <= 0.4


@pytest.mark.parametrize("metric", [profit, f1])
@pytest.mark.parametrize("subject_to", ["rate[1] <= 0.1", "recall[1] >= 0.8"])
def test_a_function_is_maximised(data, metric, subject_to):
    shifter, labels = fitted(data, metric, subject_to)

    def rate(each):
        return np.mean(each)

    def recall(each):
        return np.mean(each[data.labels == 1])

    meets = (lambda each: rate(each) <= 0.1) if "rate" in subject_to else (lambda each: recall(each) >= 0.8)
    assert rate(labels) <= 0.1 + 1e-9 if "rate" in subject_to else recall(labels) >= 0.77  # of expected labels
    best = brute_force(data, lambda each: metric(data.labels, each), meets)
    assert metric(data.labels, labels) >= best - 0.01
    assert shifter.n_queries_ > 0


def test_a_function_subject_to_another(data):
    _, labels = fitted(data, profit, [Value(f1) >= 0.43, "rate[1] <= 0.3"])
    assert f1(data.labels, labels) >= 0.43
    best = brute_force(
        data, lambda each: profit(data.labels, each), lambda each: f1(data.labels, each) >= 0.43 and each.mean() <= 0.3
    )
    assert profit(data.labels, labels) >= best - 0.01


@pytest.mark.slow
def test_three_classes_and_groups():
    data = drawn(4, n_rows=900, n_classes=3, n_groups=2)

    def own(y_true, y_pred):
        return float(np.mean([np.mean(y_pred[y_true == k] == k) for k in range(3)]))

    phi = np.eye(2)[data.groups]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstraintWarning)
        shifter = PostShifter(own, subject_to="demographic_parity <= 0.1")
        shifter.fit(data.eta, data.labels, phi_val=phi, groups=data.groups)
        known = PostShifter("balanced_accuracy", subject_to="demographic_parity <= 0.1")
        known.fit(data.eta, data.labels, phi_val=phi, groups=data.groups)
    labels, others = shifter.predict(data.eta, phi), known.predict(data.eta, phi)
    assert own(data.labels, labels) >= own(data.labels, others) - 0.01
    rates = np.array([[np.mean(labels[data.groups == g] == k) for k in range(3)] for g in range(2)])
    assert np.abs(rates[0] - rates[1]).max() <= 0.1 + 1e-9


def test_the_nearest_rule_has_a_warning_with_numbers(data):
    with pytest.warns(ConstraintWarning) as caught:
        found = PostShifter("accuracy", subject_to=Value(profit) >= 9).fit(data.eta, data.labels)
    text = next(str(each.message) for each in caught if "no rule that was tried" in str(each.message))
    nearest = profit(data.labels, found.predict(data.eta))
    assert f"profit is {nearest:.6g} (>= 9 is asked)" in text
    assert nearest >= max(profit(data.labels, each) for each in thresholds(data)) - 0.01
    assert "no rule that was tried meets the constraints" in found.diagnostics_.choice.notes[0]
    assert not any("confidence" in str(each.message) for each in caught)  # a function has no test


def test_known_constraints_that_exclude_each_other(data):
    with pytest.raises(InfeasibleError, match=r"rate\[1\] reaches 1.000 at best alone"):
        fitted(data, profit, ["rate[1] >= 0.5", "rate[1] <= 0.4"])


@pytest.mark.slow
def test_a_margin_keeps_away_from_the_bound(data):
    values = [
        profit(data.labels, fitted(data, "accuracy", Value(profit) >= 0.25, margin=margin)[1]) for margin in (0, 2)
    ]
    assert values[1] > values[0] + 0.02


@pytest.mark.parametrize("function", [profit, weighted_f1])
def test_a_function_has_no_guarantee(data, function):
    with pytest.raises(MetricError, match=r"has no test and cannot be certified: .* bound one of recall, precision"):
        fitted(data, "accuracy", Value(function) >= 0.3, confidence=0.9)


def test_a_metric_by_scores_has_no_guarantee(data):
    with pytest.raises(MetricError, match="a guarantee needs a metric of the confusion matrix"):
        fitted(data, profit, "recall[1] >= 0.5", confidence=0.9)


def hidden(data):
    return from_predictions(lambda labels: f1(data.labels, labels), name="hidden")


def test_an_oracle_without_labels(data):
    shifter, labels = fitted(data, hidden(data), "rate[1] <= 0.1", y_val=False)
    best = brute_force(data, lambda each: f1(data.labels, each), lambda each: each.mean() <= 0.1)
    assert f1(data.labels, labels) >= best - 0.01
    assert shifter.constraints_[0].value == pytest.approx(np.mean(shifter.held_out_.labels))
    assert labels.mean() <= 0.1


def test_an_oracle_without_labels_and_groups():
    data = drawn(6, n_rows=1500, n_groups=2)
    phi = np.eye(2)[data.groups]
    shifter = PostShifter(hidden(data), subject_to="demographic_parity <= 0.05")
    shifter.fit(data.eta, phi_val=phi, groups=data.groups)
    labels = shifter.predict(data.eta, phi)
    assert abs(labels[data.groups == 0].mean() - labels[data.groups == 1].mean()) <= 0.05 + 1e-9
    assert f1(data.labels, labels) > 0.55


def test_an_oracle_without_labels_cannot_count_hits(data):
    with pytest.raises(MetricError, match=r"needs validation labels.*rate\[CLASS\] or demographic_parity"):
        fitted(data, hidden(data), "recall[1] >= 0.5", y_val=False)


def test_a_budget_is_respected(data):
    shifter, labels = fitted(data, hidden(data), "rate[1] <= 0.1", y_val=False, budget=90)
    assert shifter.n_queries_ <= 90
    assert labels.mean() <= 0.1
    with pytest.raises(BudgetError, match="too small"):
        fitted(data, hidden(data), "rate[1] <= 0.1", y_val=False, budget=20)


def test_the_number_of_queries_is_bounded(data):
    shifter, _ = fitted(data, hidden(data), "rate[1] <= 0.1", y_val=False)
    rule = ConstrainedByProbes()
    assert shifter.n_queries_ <= 2 + 38 + rule.max_iter * (3 + 38) + 2


def test_functions_in_the_classifier():
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression

    from tests.estimators.data import overlapping

    X, y = overlapping(900)
    model = PostShiftClassifier(
        FrozenEstimator(LogisticRegression().fit(X[:300], y[:300])),
        metric="accuracy",
        subject_to=Value(from_labels(profit_of)) >= 1.0,
        basis="constant",
    )
    amount = np.random.default_rng(0).lognormal(size=600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstraintWarning)
        model.fit(X[:300], y[:300], X[300:], y[300:], amount=amount)
    assert profit_of(y[300:], model.predict(X[300:]), amount) >= 1.0

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score, matthews_corrcoef

from postshift.core.psi import ConfusionMetric, DifferentiableMetric
from postshift.exceptions import SettingError, ShapeError
from postshift.metrics import (
    Accuracy,
    BinaryF1,
    CohenKappa,
    DemographicParityGap,
    ExpectedCost,
    ExpectedReward,
    MacroF1,
    MatthewsCorrelation,
    from_confusion,
    maximised,
)

REWARD = np.array([[1.0, 0.2, 0.0], [-0.5, 2.0, 0.1], [0.3, 0.0, 1.5]])
METRICS = [
    Accuracy(),
    MacroF1(),
    MatthewsCorrelation(),
    CohenKappa(),
    ExpectedReward(REWARD),
    CohenKappa("linear"),
    CohenKappa("quadratic"),
]
BINARY = [BinaryF1(), BinaryF1(positive=0)]
DEGENERATE = {
    "one class predicted": [[0.5, 0.0], [0.5, 0.0]],
    "one class true": [[0.0, 0.0], [0.4, 0.6]],
    "one class true and predicted": [[1.0, 0.0], [0.0, 0.0]],
    "all wrong": [[0.0, 0.5], [0.5, 0.0]],
    "all right": [[0.3, 0.0], [0.0, 0.7]],
    "empty": [[0.0, 0.0], [0.0, 0.0]],
}


def names(metric):
    return repr(metric) if metric.name != "expected_reward" else metric.name


def random_confusion(seed, n_classes=3):
    return np.random.default_rng(seed).dirichlet(np.ones(n_classes**2)).reshape(n_classes, n_classes)


def random_labels(seed, n_classes):
    """Return truth, predictions, weights and their confusion matrix."""
    rng = np.random.default_rng(seed)
    truth, labels = rng.integers(n_classes, size=(2, 50))
    weights = rng.uniform(0.5, 2, size=50)
    confusion = np.zeros((n_classes, n_classes))
    np.add.at(confusion, (truth, labels), weights / weights.sum())
    return truth, labels, weights, confusion


@pytest.mark.parametrize("metric", METRICS + BINARY, ids=names)
@given(seed=st.integers(0, 10**6))
def test_gradient_agrees_with_finite_differences(metric, seed):
    """Along moves of predicted mass, which keep the row sums: the only ones a classifier can make."""
    confusion, rng = random_confusion(seed, n_classes=2 if metric in BINARY else 3), np.random.default_rng(seed)
    direction = rng.normal(size=confusion.shape)
    direction -= direction.mean(axis=1, keepdims=True)
    size = 1e-5 * confusion.min() / np.abs(direction).max()
    ahead, behind = (float(metric.value(confusion + sign * size * direction)) for sign in (1, -1))
    slope = float((metric.gradient(confusion) * direction).sum())
    assert (ahead - behind) / (2 * size) == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("metric", METRICS + BINARY, ids=names)
def test_a_stack_of_matrices(metric):
    n_classes = 2 if metric in BINARY else 3
    stack = np.array([[random_confusion(seed, n_classes) for seed in range(4)] for _ in range(2)])
    found = metric.value(stack)
    assert found.shape == (2, 4)
    assert found[1, 2] == pytest.approx(float(metric.value(stack[1, 2])))
    assert metric.value(stack[1, 2]).shape == ()


@pytest.mark.parametrize("metric", METRICS + BINARY, ids=names)
def test_they_are_differentiable_metrics(metric):
    assert isinstance(metric, DifferentiableMetric)
    assert not hasattr(metric, "smoothed")


@given(seed=st.integers(0, 10**6))
def test_values_agree_with_scikit_learn(seed):
    truth, labels, weights, confusion = random_labels(seed, n_classes=3)
    assert Accuracy().value(confusion) == pytest.approx(accuracy_score(truth, labels, sample_weight=weights))
    assert MacroF1().value(confusion) == pytest.approx(f1_score(truth, labels, average="macro", sample_weight=weights))
    expected = matthews_corrcoef(truth, labels, sample_weight=weights)
    assert MatthewsCorrelation().value(confusion) == pytest.approx(expected)
    for kind in (None, "linear", "quadratic"):
        expected = cohen_kappa_score(truth, labels, weights=kind, sample_weight=weights)
        assert CohenKappa(kind).value(confusion) == pytest.approx(expected)


@pytest.mark.parametrize("positive", [0, 1])
@given(seed=st.integers(0, 10**6))
def test_the_f1_of_one_class_agrees_with_scikit_learn(positive, seed):
    truth, labels, weights, confusion = random_labels(seed, n_classes=2)
    expected = f1_score(truth, labels, pos_label=positive, sample_weight=weights)
    assert BinaryF1(positive).value(confusion) == pytest.approx(expected)


@pytest.mark.parametrize("metric", [MatthewsCorrelation(), CohenKappa(), CohenKappa("quadratic")], ids=names)
def test_shares_need_not_sum_to_one(metric):
    confusion = random_confusion(0)
    assert metric.value(7 * confusion) == pytest.approx(float(metric.value(confusion)))
    np.testing.assert_allclose(metric.gradient(7 * confusion), metric.gradient(confusion) / 7)


@pytest.mark.parametrize("confusion", DEGENERATE.values(), ids=DEGENERATE)
@pytest.mark.parametrize(
    "metric", [MacroF1(), MatthewsCorrelation(), CohenKappa(), CohenKappa("linear"), *BINARY], ids=names
)
def test_degenerate_matrices_give_finite_numbers(metric, confusion):
    confusion = np.array(confusion)
    assert np.isfinite(metric.value(confusion))
    assert np.isfinite(metric.gradient(confusion)).all()


def test_a_constant_prediction_is_worth_nothing():
    confusion = np.array([[0.1, 0.0, 0.0], [0.2, 0.0, 0.0], [0.7, 0.0, 0.0]])
    assert MatthewsCorrelation().value(confusion) == 0
    assert CohenKappa().value(confusion) == pytest.approx(0, abs=1e-15)
    assert BinaryF1().value(np.array([[0.5, 0.0], [0.5, 0.0]])) == 0


@pytest.mark.parametrize("metric", [MatthewsCorrelation(), CohenKappa(), CohenKappa("quadratic")], ids=names)
def test_all_right_is_one(metric):
    assert metric.value(np.diag([0.2, 0.3, 0.5])) == pytest.approx(1)


def test_a_class_neither_true_nor_predicted():
    confusion = np.diag([0.5, 0.5, 0.0])
    assert MacroF1().value(confusion) == pytest.approx(2 / 3)
    assert np.isfinite(MacroF1().gradient(confusion)).all()


def test_what_each_depends_on():
    assert [metric.weighting for metric in METRICS] == ["diagonal", *3 * ["columns"], *3 * ["full"]]
    assert BinaryF1().weighting == "columns"
    assert ExpectedReward(np.diag([1.0, 3.0])).weighting == "diagonal"


@pytest.mark.parametrize("metric", [m for m in METRICS if m.weighting == "columns"], ids=names)
def test_a_gradient_of_columns_has_one_number_per_column_off_the_diagonal(metric):
    """Up to a constant per row: differences of two columns are the same in all rows of other classes."""
    gradient = metric.gradient(random_confusion(1, n_classes=4))
    differences = gradient[2:, 0] - gradient[2:, 1]
    assert differences[0] == pytest.approx(differences[1])


@pytest.mark.parametrize("positive", [2, -1, 1.0, True, "yes"])
def test_the_positive_class_is_one_of_two(positive):
    with pytest.raises(SettingError, match="positive must be 0 or 1"):
        BinaryF1(positive)


def test_the_f1_of_one_class_is_for_two_classes():
    with pytest.raises(ShapeError, match="MacroF1"):
        BinaryF1().value(random_confusion(0))


def test_the_distance_of_two_classes_is_that_of_their_positions():
    truth, labels = np.array([1, 1, 2, 5, 5, 2]), np.array([1, 5, 2, 5, 2, 1])
    codes = np.searchsorted([1, 2, 5], [truth, labels])
    confusion = np.zeros((3, 3))
    np.add.at(confusion, tuple(codes), 1 / 6)
    assert CohenKappa("quadratic").value(confusion) == pytest.approx(
        cohen_kappa_score(truth, labels, weights="quadratic")
    )


def test_kappa_knows_its_weights():
    with pytest.raises(SettingError, match="'cubic'"):
        CohenKappa("cubic")


@pytest.mark.parametrize("reward", [[[1, 2]], [[np.nan, 0], [0, 1]], [1, 2]])
def test_reward_must_be_square_and_finite(reward):
    with pytest.raises(ShapeError, match="reward"):
        ExpectedReward(reward)


@pytest.mark.parametrize("metric", METRICS + BINARY, ids=names)
def test_greater_is_better(metric):
    assert metric.greater_is_better
    assert maximised(metric) is metric


# ------------------------------------------------------------------------------ costs


def test_a_cost_is_what_a_negative_reward_is_not():
    confusion, cost = random_confusion(0), ExpectedCost(REWARD)
    turned, reward = maximised(cost), ExpectedReward(-REWARD)
    assert cost.value(confusion) == pytest.approx(float(ExpectedReward(REWARD).value(confusion)))
    assert turned.value(confusion) == pytest.approx(float(reward.value(confusion)))
    np.testing.assert_array_equal(turned.gradient(confusion), reward.gradient(confusion))
    assert (turned.scale, turned.weighting, turned.needs_every_class) == (reward.scale, "full", False)
    assert (cost.greater_is_better, turned.greater_is_better) == (False, True)
    assert (cost.name, turned.name) == ("expected_cost", "neg_expected_cost")
    assert maximised(turned) is turned


def test_a_negated_metric_says_what_the_metric_says():
    gap = DemographicParityGap(n_groups=2, n_classes=3)
    turned = maximised(gap)
    assert (turned.n_categories, turned.needs_every_class) == (6, False)
    assert not hasattr(turned, "scale")
    assert not hasattr(maximised(ExpectedCost(REWARD)), "n_categories")
    assert pickle.loads(pickle.dumps(turned)) == turned  # noqa: S301


def test_what_has_no_gradient_has_none_when_negated():
    turned = maximised(from_confusion(np.trace, greater_is_better=False))
    assert isinstance(turned, ConfusionMetric)
    assert not isinstance(turned, DifferentiableMetric)
    assert not hasattr(turned, "gradient")
    assert not hasattr(maximised(DemographicParityGap(n_groups=2, n_classes=2)), "smoothed")


@pytest.mark.parametrize("cost", [[[1, 2]], [[np.nan, 0], [0, 1]], [1, 2]])
def test_cost_must_be_square_and_finite(cost):
    with pytest.raises(ShapeError, match="cost"):
        ExpectedCost(cost)


def test_a_cost_of_other_classes():
    with pytest.raises(ShapeError, match=r"the cost matrix has shape \(2, 2\), but there are 3 classes"):
        ExpectedCost(np.eye(2)).value(random_confusion(0))

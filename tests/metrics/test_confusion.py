from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, recall_score

from postshift import Accuracy, ExpectedReward, GMean, MacroF1
from postshift.exceptions import ShapeError

REWARD = np.array([[1.0, 0.2, 0.0], [-0.5, 2.0, 0.1], [0.3, 0.0, 1.5]])
METRICS = [Accuracy(), GMean(), MacroF1(), ExpectedReward(REWARD)]


def names(metric):
    return metric.name


def random_confusion(seed, n_classes=3):
    return np.random.default_rng(seed).dirichlet(np.ones(n_classes**2)).reshape(n_classes, n_classes)


@pytest.mark.parametrize("metric", METRICS, ids=names)
@given(seed=st.integers(0, 10**6))
def test_gradient_agrees_with_finite_differences(metric, seed):
    """Along moves of predicted mass, which keep the row sums: the only ones a classifier can make."""
    confusion, rng = random_confusion(seed), np.random.default_rng(seed)
    direction = rng.normal(size=confusion.shape)
    direction -= direction.mean(axis=1, keepdims=True)
    size = 1e-5 * confusion.min() / np.abs(direction).max()
    ahead, behind = (float(metric.value(confusion + sign * size * direction)) for sign in (1, -1))
    slope = float((metric.gradient(confusion) * direction).sum())
    assert (ahead - behind) / (2 * size) == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("metric", METRICS, ids=names)
def test_a_stack_of_matrices(metric):
    stack = np.array([[random_confusion(seed) for seed in range(4)] for _ in range(2)])
    found = metric.value(stack)
    assert found.shape == (2, 4)
    assert found[1, 2] == pytest.approx(float(metric.value(stack[1, 2])))


@given(seed=st.integers(0, 10**6))
def test_values_agree_with_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    truth, labels, weights = rng.integers(3, size=50), rng.integers(3, size=50), rng.uniform(0.5, 2, size=50)
    confusion = np.zeros((3, 3))
    np.add.at(confusion, (truth, labels), weights / weights.sum())
    recalls = recall_score(truth, labels, average=None, sample_weight=weights)
    assert Accuracy().value(confusion) == pytest.approx(accuracy_score(truth, labels, sample_weight=weights))
    assert GMean().value(confusion) == pytest.approx(recalls.prod() ** (1 / 3))
    assert MacroF1().value(confusion) == pytest.approx(f1_score(truth, labels, average="macro", sample_weight=weights))


def test_a_recall_of_zero():
    confusion = np.array([[0.5, 0.0], [0.5, 0.0]])
    assert GMean().value(confusion) == 0
    np.testing.assert_array_equal(GMean().gradient(confusion), np.zeros((2, 2)))


def test_a_class_neither_true_nor_predicted():
    confusion = np.diag([0.5, 0.5, 0.0])
    assert MacroF1().value(confusion) == pytest.approx(2 / 3)
    assert np.isfinite(MacroF1().gradient(confusion)).all()


def test_what_each_depends_on():
    assert [metric.weighting for metric in METRICS] == ["diagonal", "diagonal", "columns", "full"]
    assert ExpectedReward(np.diag([1.0, 3.0])).weighting == "diagonal"


@pytest.mark.parametrize("reward", [[[1, 2]], [[np.nan, 0], [0, 1]], [1, 2]])
def test_reward_must_be_square_and_finite(reward):
    with pytest.raises(ShapeError, match="reward"):
        ExpectedReward(reward)

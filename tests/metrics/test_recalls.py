from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, recall_score

from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import ShapeError, WeightError
from postshift.metrics import BalancedAccuracy, GMean, HMean, MinRecall, QMean

MEANS = [BalancedAccuracy(), GMean(), HMean(), QMean()]
METRICS = [*MEANS, MinRecall()]
SMOOTHED = [MinRecall().smoothed(counts) for counts in ([5, 2, 9], [1e6, 1e6, 1e6], [0.5, 0, 3])]
DEGENERATE = {
    "zero recall": [[0.3, 0.1, 0.0], [0.2, 0.0, 0.1], [0.1, 0.1, 0.1]],
    "never predicted": [[0.3, 0.1, 0.0], [0.1, 0.2, 0.0], [0.2, 0.1, 0.0]],
    "all one prediction": [[0.3, 0.0, 0.0], [0.3, 0.0, 0.0], [0.4, 0.0, 0.0]],
    "all one truth": [[0.3, 0.3, 0.4], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "all wrong": [[0.0, 0.3, 0.0], [0.0, 0.0, 0.3], [0.4, 0.0, 0.0]],
    "all right": [[0.3, 0.0, 0.0], [0.0, 0.3, 0.0], [0.0, 0.0, 0.4]],
    "empty": np.zeros((3, 3)),
}


def names(metric):
    return metric.name


def random_confusion(seed):
    return np.random.default_rng(seed).dirichlet(np.ones(9)).reshape(3, 3)


def recalls_of(confusion):
    return np.diagonal(confusion) / confusion.sum(axis=1)


def by_hand(confusion, counts):
    """Return the soft minimum of the shrunk recalls, in so many words."""
    recalls, counts = recalls_of(confusion), np.asarray(counts, dtype=float)
    mean = recalls[counts > 0].mean()
    shrunk = [(n * r + 2 * mean) / (n + 2) for n, r in zip(counts, recalls, strict=True)]
    return -np.log(np.mean([np.exp(-20 * r) for r in shrunk])) / 20


@pytest.mark.parametrize("metric", METRICS + SMOOTHED, ids=names)
@given(seed=st.integers(0, 10**6))
def test_gradient_agrees_with_finite_differences(metric, seed):
    """Along moves of predicted mass, which keep the row sums: the only ones a classifier can make."""
    confusion, rng = random_confusion(seed), np.random.default_rng(seed)
    lowest, next_lowest, _ = np.sort(recalls_of(confusion))
    assume(next_lowest - lowest > 1e-3)
    direction = rng.normal(size=confusion.shape)
    direction -= direction.mean(axis=1, keepdims=True)
    size = 1e-5 * confusion.min() / np.abs(direction).max()
    ahead, behind = (float(metric.value(confusion + sign * size * direction)) for sign in (1, -1))
    slope = float((metric.gradient(confusion) * direction).sum())
    assert (ahead - behind) / (2 * size) == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("metric", METRICS + SMOOTHED, ids=names)
def test_a_stack_of_matrices(metric):
    stack = np.array([[random_confusion(seed) for seed in range(4)] for _ in range(2)])
    stack[0, 0] = DEGENERATE["all one truth"]
    found = metric.value(stack)
    assert found.shape == (2, 4)
    assert metric.value(stack[:0]).shape == (0, 4)
    for place in np.ndindex(2, 4):
        assert found[place] == pytest.approx(float(metric.value(stack[place])))


@given(seed=st.integers(0, 10**6))
def test_values_agree_with_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    truth, labels = rng.integers(3, size=(2, 50))
    weights = rng.uniform(0.5, 2, size=50)
    confusion = np.zeros((3, 3))
    np.add.at(confusion, (truth, labels), weights / weights.sum())
    recalls = recall_score(truth, labels, average=None, sample_weight=weights)
    expected = balanced_accuracy_score(truth, labels, sample_weight=weights)
    assert BalancedAccuracy().value(confusion) == pytest.approx(expected)
    assert GMean().value(confusion) == pytest.approx(recalls.prod() ** (1 / 3))
    assert MinRecall().value(confusion) == pytest.approx(recalls.min())
    assert QMean().value(confusion) == pytest.approx(1 - np.sqrt(((1 - recalls) ** 2).mean()))
    if recalls.all():
        assert HMean().value(confusion) == pytest.approx(3 / (1 / recalls).sum())


def test_values_by_hand():
    confusion = np.array([[0.4, 0.1], [0.25, 0.25]])  # recalls .8 and .5
    assert BalancedAccuracy().value(confusion) == pytest.approx(0.65)
    assert GMean().value(confusion) == pytest.approx(np.sqrt(0.4))
    assert HMean().value(confusion) == pytest.approx(2 / (1 / 0.8 + 1 / 0.5))
    assert QMean().value(confusion) == pytest.approx(1 - np.sqrt((0.04 + 0.25) / 2))
    assert MinRecall().value(confusion) == pytest.approx(0.5)


@pytest.mark.parametrize("confusion", DEGENERATE.values(), ids=DEGENERATE)
@pytest.mark.parametrize("metric", METRICS + SMOOTHED, ids=names)
def test_degenerate_matrices_give_finite_numbers(metric, confusion):
    confusion = np.array(confusion)
    assert np.isfinite(metric.value(confusion))
    assert np.isfinite(metric.gradient(confusion)).all()


@pytest.mark.parametrize("metric", [GMean(), HMean(), MinRecall()], ids=names)
def test_a_recall_of_zero(metric):
    assert metric.value(np.array(DEGENERATE["zero recall"])) == 0


def test_the_gradient_of_the_g_mean_at_a_recall_of_zero():
    gradient = GMean().gradient(np.array([[0.5, 0.0], [0.5, 0.0]]))
    np.testing.assert_array_equal(gradient, np.zeros((2, 2)))


def test_the_gradient_of_the_h_mean_at_a_recall_of_zero_is_its_limit():
    at = np.array(DEGENERATE["zero recall"])
    near = at + 1e-9 * np.array([[0, 0, 0], [-1, 1, 0], [0, 0, 0]])
    np.testing.assert_allclose(HMean().gradient(at), HMean().gradient(near), atol=1e-6)
    assert HMean().gradient(at)[1, 1] == pytest.approx(3 / 0.3)


def test_the_first_of_several_lowest_recalls_has_the_gradient():
    confusion = np.array([[0.3, 0.0, 0.0], [0.1, 0.1, 0.0], [0.0, 0.25, 0.25]])
    expected = np.zeros((3, 3))
    expected[1, 1] = 1 / 0.2
    np.testing.assert_allclose(MinRecall().gradient(confusion), expected)


def test_a_class_without_rows_is_not_the_lowest():
    confusion = np.array([[0.3, 0.1, 0.0], [0.0, 0.0, 0.0], [0.2, 0.0, 0.4]])
    assert MinRecall().value(confusion) == pytest.approx(2 / 3)
    assert MinRecall().gradient(confusion)[2, 2] == pytest.approx(1 / 0.6)


@pytest.mark.parametrize("metric", METRICS + SMOOTHED, ids=names)
def test_they_are_differentiable_metrics_of_the_diagonal(metric):
    assert isinstance(metric, DifferentiableMetric)
    assert metric.weighting == "diagonal"
    assert metric.needs_every_class
    gradient = metric.gradient(random_confusion(0))
    np.testing.assert_array_equal(gradient, np.diag(np.diag(gradient)))


def test_only_the_minimum_can_be_smoothed():
    assert [hasattr(metric, "smoothed") for metric in METRICS] == [False] * 4 + [True]


# ------------------------------------------------------------------------------ smoothed


@pytest.mark.parametrize("counts", [[5, 2, 9], [0.5, 0, 3]])
@given(seed=st.integers(0, 10**6))
def test_the_smoothed_minimum_by_hand(counts, seed):
    confusion = random_confusion(seed)
    smooth = MinRecall().smoothed(counts)
    assert smooth.value(confusion) == pytest.approx(by_hand(confusion, counts))
    assert (smooth.name, smooth.n_categories) == ("min_recall_smoothed", 3)


@given(seed=st.integers(0, 10**6))
def test_the_smoothed_minimum_tends_to_the_minimum(seed):
    confusion = random_confusion(seed)
    above = float(MinRecall().smoothed([1e9] * 3).value(confusion) - MinRecall().value(confusion))
    assert -1e-8 <= above <= np.log(3) / 20 + 1e-8


def test_few_rows_are_shrunk_to_the_mean():
    confusion = np.array([[0.45, 0.05], [0.5, 0.0]])
    values = [float(MinRecall().smoothed([1000, few]).value(confusion)) for few in (1000, 10, 1, 0)]
    assert values == sorted(values)
    assert values[-1] > 0.4


def test_a_class_without_rows_in_the_matrix_has_the_mean():
    """As where the validation rows were split and a part has none of them."""
    confusion = np.array([[0.3, 0.1, 0.0], [0.0, 0.0, 0.0], [0.2, 0.0, 0.4]])
    found = MinRecall().smoothed([1e9, 1e9, 1e9]).value(confusion)
    mean = (0.75 + 2 / 3) / 2
    assert found == pytest.approx(-np.log(np.mean(np.exp(-20 * np.array([0.75, mean, 2 / 3])))) / 20)


@pytest.mark.parametrize("counts", [[], 3, [[1, 2]]])
def test_counts_have_one_number_per_category(counts):
    with pytest.raises(ShapeError, match="counts"):
        MinRecall().smoothed(counts)


@pytest.mark.parametrize("counts", [[-1, 2], [np.nan, 1], [0, 0]])
def test_counts_are_numbers_of_rows(counts):
    with pytest.raises(WeightError, match="counts"):
        MinRecall().smoothed(counts)


def test_counts_of_another_number_of_classes():
    with pytest.raises(ShapeError, match=r"one row for each of the 2 counts\. Got 3 rows"):
        MinRecall().smoothed([1, 2]).value(random_confusion(0))


def test_counts_are_kept_as_they_were():
    counts = np.array([5.0, 2.0, 9.0])
    smooth, confusion = MinRecall().smoothed(counts), random_confusion(0)
    before = smooth.value(confusion)
    counts[:] = 1
    assert smooth.value(confusion) == before

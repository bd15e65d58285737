from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, recall_score

from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import SettingError, ShapeError
from postshift.metrics import Accuracy, ExpectedReward, GMean, GroupGMean, MacroF1, WorstGroup
from postshift.metrics.over_groups import PooledMetric

INNER = ["accuracy", "balanced_accuracy", "g_mean"]
WORST = [WorstGroup(inner, n_groups=2, n_classes=3) for inner in INNER]
METRICS = [GroupGMean(n_groups=2, n_classes=3), *WORST]
COUNTS = [[5, 2, 9, 1, 4, 3], [1e9] * 6, [3, 0, 2, 0.5, 7, 1]]
SMOOTHED = [metric.smoothed(counts) for metric in WORST for counts in COUNTS]
EYE, ZERO = np.eye(3) / 6, np.zeros((3, 3))
WRONG = np.roll(EYE, 1, axis=1)
DEGENERATE = {
    "a group all wrong": np.vstack([EYE, WRONG]),
    "all wrong": np.vstack([WRONG, WRONG]),
    "all right": np.vstack([EYE, EYE]),
    "a group without rows": np.vstack([ZERO, EYE + WRONG]),
    "a class without rows in a group": np.vstack([np.diag([0.2, 0.3, 0.0]), EYE]),
    "one class predicted": np.vstack([np.eye(3)[[0, 0, 0]] / 6] * 2),
    "empty": np.vstack([ZERO, ZERO]),
}


def names(metric):
    return metric.name


def random_confusion(seed):
    return np.random.default_rng(seed).dirichlet(np.full(18, 3.0)).reshape(6, 3)


def group_values(metric, confusion):
    """Return each group's own value, one group after the other."""
    values = []
    for part in confusion.reshape(2, 3, 3):
        recalls = np.diag(part) / part.sum(axis=1)
        by_name = {"accuracy": np.trace(part) / part.sum(), "balanced_accuracy": recalls.mean()}
        values.append(by_name.get(metric.inner, recalls.prod() ** (1 / 3)))
    return values


def soft_minimum(values):
    return -np.log(np.mean(np.exp(-20 * np.asarray(values)))) / 20


@pytest.mark.parametrize("metric", METRICS + SMOOTHED, ids=names)
@given(seed=st.integers(0, 10**6))
def test_gradient_agrees_with_finite_differences(metric, seed):
    """Along moves of predicted mass, which keep the row sums: the only ones a classifier can make."""
    confusion, rng = random_confusion(seed), np.random.default_rng(seed)
    if metric in WORST:
        assume(abs(np.diff(group_values(metric, confusion))[0]) > 1e-3)
    direction = rng.normal(size=confusion.shape)
    direction -= direction.mean(axis=1, keepdims=True)
    size = 1e-5 * confusion.min() / np.abs(direction).max()
    ahead, behind = (float(metric.value(confusion + sign * size * direction)) for sign in (1, -1))
    slope = float((metric.gradient(confusion) * direction).sum())
    assert (ahead - behind) / (2 * size) == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("metric", METRICS + SMOOTHED, ids=names)
def test_a_stack_of_matrices(metric):
    stack = np.array([[random_confusion(seed) for seed in range(4)] for _ in range(2)])
    stack[0, 0], stack[0, 1] = DEGENERATE["a group without rows"], DEGENERATE["a group all wrong"]
    found = metric.value(stack)
    assert found.shape == (2, 4)
    for place in np.ndindex(2, 4):
        assert found[place] == pytest.approx(float(metric.value(stack[place])))


@given(seed=st.integers(0, 10**6))
def test_values_agree_with_scikit_learn_group_by_group(seed):
    rng = np.random.default_rng(seed)
    truth, labels = rng.integers(3, size=(2, 120))
    groups, weights = rng.integers(2, size=120), rng.uniform(0.5, 2, size=120)
    confusion = np.zeros((6, 3))
    np.add.at(confusion, (groups * 3 + truth, labels), weights / weights.sum())
    shown = [
        {"y_true": truth[groups == g], "y_pred": labels[groups == g], "sample_weight": weights[groups == g]}
        for g in (0, 1)
    ]
    recalls = np.array([recall_score(average=None, **one) for one in shown])
    accuracy, balanced, geometric = WORST
    assert accuracy.value(confusion) == pytest.approx(min(accuracy_score(**one) for one in shown))
    assert balanced.value(confusion) == pytest.approx(min(balanced_accuracy_score(**one) for one in shown))
    assert geometric.value(confusion) == pytest.approx((recalls.prod(axis=1) ** (1 / 3)).min())
    assert METRICS[0].value(confusion) == pytest.approx(recalls.prod() ** (1 / 6))


def test_one_group_is_the_plain_metric():
    confusion = random_confusion(0)[:3]
    for metric in (GroupGMean(n_groups=1, n_classes=3), WorstGroup("g_mean", n_groups=1, n_classes=3)):
        assert metric.value(confusion) == pytest.approx(float(GMean().value(confusion)))
        np.testing.assert_allclose(metric.gradient(confusion), GMean().gradient(confusion))


@pytest.mark.parametrize("confusion", DEGENERATE.values(), ids=DEGENERATE)
@pytest.mark.parametrize("metric", METRICS + SMOOTHED, ids=names)
def test_degenerate_matrices_give_finite_numbers(metric, confusion):
    assert np.isfinite(metric.value(confusion))
    assert np.isfinite(metric.gradient(confusion)).all()


@pytest.mark.parametrize("metric", METRICS, ids=names)
def test_a_group_all_wrong(metric):
    assert metric.value(DEGENERATE["a group all wrong"]) == 0


@pytest.mark.parametrize("metric", WORST, ids=names)
def test_a_group_without_rows_is_not_the_worst(metric):
    confusion = DEGENERATE["a group without rows"]
    assert metric.value(confusion) == pytest.approx(0.5)
    assert metric.gradient(confusion)[3:].any()


@pytest.mark.parametrize(("metric", "found"), [(WORST[1], 0.25), (WORST[2], 0.0)])
def test_a_class_without_rows_in_a_group_is_left_out(metric, found):
    """As in balanced_accuracy_score: recalls of .5 and 0 have the mean .25, whatever a third class would do."""
    truth, labels = np.array([0, 0, 1]), np.array([0, 1, 0])
    confusion = np.zeros((6, 3))
    np.add.at(confusion, (truth, labels), 1 / 6)
    confusion[3:] = EYE
    assert metric.value(confusion) == pytest.approx(found)
    with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
        assert balanced_accuracy_score(truth, [*labels[:2], 2]) == pytest.approx(0.25)
    assert METRICS[0].value(np.vstack([np.diag([0.2, 0.3, 0.0]), EYE])) == pytest.approx(1)
    assert not metric.gradient(confusion)[2].any()


@pytest.mark.parametrize("metric", WORST, ids=names)
def test_the_first_of_several_worst_groups_has_the_gradient(metric):
    gradient = metric.gradient(np.vstack([EYE + WRONG, EYE + WRONG]))
    assert gradient[:3].any()
    assert not gradient[3:].any()


@pytest.mark.parametrize("metric", METRICS + SMOOTHED, ids=names)
def test_they_are_differentiable_metrics_with_their_own_categories(metric):
    assert isinstance(metric, DifferentiableMetric)
    assert (metric.weighting, metric.n_categories) == ("diagonal", 6)
    assert metric.needs_every_class == ("accuracy" not in metric.name or "balanced" in metric.name)


def test_what_they_are_called():
    assert [metric.name for metric in METRICS] == ["group_g_mean", *(f"worst_group_{inner}" for inner in INNER)]
    assert [hasattr(metric, "smoothed") for metric in METRICS] == [False, True, True, True]


# ------------------------------------------------------------------------------ smoothed


@pytest.mark.parametrize("counts", COUNTS, ids=["few", "many", "some without"])
@pytest.mark.parametrize("metric", WORST, ids=names)
@given(seed=st.integers(0, 10**6))
def test_the_smoothed_worst_group_by_hand(metric, counts, seed):
    confusion, smooth, counts = random_confusion(seed), metric.smoothed(counts), np.asarray(counts)
    if metric.inner == "accuracy":
        rates, counts = np.array(group_values(metric, confusion)), counts.reshape(2, 3).sum(axis=1)
    else:
        rates = np.diagonal(confusion.reshape(2, 3, 3), axis1=1, axis2=2).ravel() / confusion.sum(axis=1)
    shrunk = (counts * rates + 2 * rates[counts > 0].mean()) / (counts + 2)
    shrunk[counts == 0] = np.nan  # pairs without rows are left out
    by_group = shrunk.reshape(2, -1)
    geometric = np.exp(np.nanmean(np.log(by_group), axis=1))
    values = geometric if metric.inner == "g_mean" else np.nanmean(by_group, axis=1)
    assert smooth.value(confusion) == pytest.approx(soft_minimum(values))
    assert smooth.name == f"{metric.name}_smoothed"


@pytest.mark.parametrize("metric", WORST, ids=names)
@given(seed=st.integers(0, 10**6))
def test_the_smoothed_worst_group_tends_to_the_worst(metric, seed):
    confusion = random_confusion(seed)
    above = float(metric.smoothed([1e9] * 6).value(confusion) - metric.value(confusion))
    assert -1e-7 <= above <= np.log(2) / 20 + 1e-7


@pytest.mark.parametrize("metric", WORST, ids=names)
def test_it_survives_pickling(metric):
    smooth, confusion = metric.smoothed(COUNTS[0]), random_confusion(0)
    assert pickle.loads(pickle.dumps(smooth)).value(confusion) == smooth.value(confusion)  # noqa: S301


# ------------------------------------------------------------------------------ refusals


def test_an_unknown_inner_metric():
    with pytest.raises(SettingError, match="'f1'"):
        WorstGroup("f1", n_groups=2, n_classes=3)


@pytest.mark.parametrize("kind", [GroupGMean, WorstGroup])
@pytest.mark.parametrize("sizes", [{"n_groups": 0, "n_classes": 3}, {"n_groups": 2, "n_classes": 1}])
def test_numbers_of_groups_and_classes(kind, sizes):
    with pytest.raises(SettingError, match=r"n_groups|n_classes"):
        kind(**sizes)


@pytest.mark.parametrize("metric", METRICS, ids=names)
def test_a_matrix_of_other_categories(metric):
    for call in (metric.value, metric.gradient):
        with pytest.raises(ShapeError, match=r"\(6, 3\)"):
            call(np.eye(3) / 3)


def test_counts_of_other_categories():
    with pytest.raises(ShapeError, match=r"counts must have shape \(6,\)"):
        WORST[0].smoothed([1, 2, 3])


@pytest.mark.parametrize("inner", [Accuracy(), GMean(), MacroF1(), ExpectedReward(np.diag([1.0, 2.0, 7.0]))], ids=names)
@given(seed=st.integers(0, 10**6))
def test_a_pooled_metric_does_not_see_the_groups(inner, seed):
    metric, confusion = PooledMetric(inner=inner, n_groups=2, n_classes=3), random_confusion(seed)
    summed = confusion[:3] + confusion[3:]
    assert float(metric.value(confusion)) == pytest.approx(float(inner.value(summed)))
    np.testing.assert_allclose(metric.value(np.stack([confusion, confusion])), float(inner.value(summed)))
    np.testing.assert_allclose(metric.gradient(confusion), np.vstack([inner.gradient(summed)] * 2))
    swapped = np.vstack([confusion[3:], confusion[:3]])
    assert float(metric.value(swapped)) == pytest.approx(float(metric.value(confusion)))


def test_a_pooled_metric_is_described_by_the_inner_one():
    metric = PooledMetric(inner=ExpectedReward(np.diag([1.0, 2.0, 7.0])), n_groups=2, n_classes=3)
    assert isinstance(metric, DifferentiableMetric)
    assert (metric.name, metric.n_categories, metric.needs_every_class) == (metric.inner.name, 6, False)
    assert (metric.weighting, metric.scale) == (metric.inner.weighting, metric.inner.scale)
    assert PooledMetric(inner=GMean(), n_groups=2, n_classes=3).scale == 1
    with pytest.raises(ShapeError, match="2 groups and 3 classes"):
        metric.value(np.eye(3) / 3)

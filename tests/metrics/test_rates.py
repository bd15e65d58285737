from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, fbeta_score, jaccard_score, precision_score, recall_score

from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import SettingError, ShapeError
from postshift.metrics import Accuracy, BinaryF1, FBeta, Jaccard, MacroF1, Precision, Recall
from postshift.metrics.rates import PredictedRate

from .rows import Rows, slope_and_difference

AVERAGES = ["macro", "micro", "weighted"]
KINDS = {
    "f1": (FBeta, f1_score, {}),
    "fbeta_2": (lambda **settings: FBeta(2, **settings), fbeta_score, {"beta": 2}),
    "fbeta_0.5": (lambda **settings: FBeta(0.5, **settings), fbeta_score, {"beta": 0.5}),
    "precision": (Precision, precision_score, {}),
    "recall": (Recall, recall_score, {}),
    "jaccard": (Jaccard, jaccard_score, {}),
}
METRICS = [kind(average=average) for kind, _, _ in KINDS.values() for average in AVERAGES]
BINARY = [kind(average="binary", positive=positive) for kind, _, _ in KINDS.values() for positive in (0, 1)]
DEGENERATE = {
    "one class predicted": [[0.5, 0.0], [0.5, 0.0]],
    "one class true": [[0.0, 0.0], [0.4, 0.6]],
    "one class true and predicted": [[1.0, 0.0], [0.0, 0.0]],
    "all wrong": [[0.0, 0.5], [0.5, 0.0]],
    "all right": [[0.3, 0.0], [0.0, 0.7]],
    "empty": [[0.0, 0.0], [0.0, 0.0]],
}


def names(metric):
    return f"{metric.name}-{metric.positive}"


def size_of(metric):
    return 2 if metric.average == "binary" else 3


def random_confusion(seed, n_classes):
    return np.random.default_rng(seed).dirichlet(np.ones(n_classes**2)).reshape(n_classes, n_classes)


@pytest.mark.parametrize("soft", [False, True], ids=["hard", "randomised"])
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_averages_agree_with_scikit_learn(kind, average, soft, seed):
    build, function, settings = KINDS[kind]
    rows = Rows(seed, n_classes=3, soft=soft)
    truth, labels, weights, _ = rows.repeated()
    expected = function(truth, labels, average=average, sample_weight=weights, zero_division=0, **settings)
    assert build(average=average).value(rows.confusion) == pytest.approx(expected)


@pytest.mark.parametrize("soft", [False, True], ids=["hard", "randomised"])
@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_rates_of_one_class_agree_with_scikit_learn(kind, positive, soft, seed):
    build, function, settings = KINDS[kind]
    rows = Rows(seed, n_classes=2, soft=soft)
    truth, labels, weights, _ = rows.repeated()
    expected = function(truth, labels, pos_label=positive, sample_weight=weights, **settings)
    assert build(average="binary", positive=positive).value(rows.confusion) == pytest.approx(expected)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_class_that_does_not_occur_counts_zero(kind, average):
    build, function, settings = KINDS[kind]
    truth, labels = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    confusion = np.zeros((3, 3))
    np.add.at(confusion, (truth, labels), 0.25)
    expected = function(truth, labels, labels=range(3), average=average, zero_division=0, **settings)
    assert build(average=average).value(confusion) == pytest.approx(expected)
    assert np.isfinite(build(average=average).gradient(confusion)).all()


@pytest.mark.parametrize("metric", METRICS + BINARY, ids=names)
@given(seed=st.integers(0, 10**6))
def test_gradient_agrees_with_finite_differences(metric, seed):
    slope, difference = slope_and_difference(metric, random_confusion(seed, size_of(metric)), seed)
    assert difference == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("metric", METRICS + BINARY, ids=names)
def test_a_stack_of_matrices(metric):
    stack = np.array([[random_confusion(seed, size_of(metric)) for seed in range(4)] for _ in range(2)])
    found = metric.value(stack)
    assert found.shape == (2, 4)
    assert metric.value(stack[:0]).shape == (0, 4)
    for place in np.ndindex(2, 4):
        assert found[place] == pytest.approx(float(metric.value(stack[place])))


@pytest.mark.parametrize("confusion", DEGENERATE.values(), ids=DEGENERATE)
@pytest.mark.parametrize("metric", METRICS + BINARY, ids=names)
def test_degenerate_matrices_give_finite_numbers(metric, confusion):
    confusion = np.array(confusion)
    assert 0 <= metric.value(confusion) <= 1
    assert np.isfinite(metric.gradient(confusion)).all()


@pytest.mark.parametrize("metric", METRICS, ids=names)
def test_it_depends_on_what_it_says(metric):
    """Up to a constant per row, the gradient is diagonal, or one number per column off the diagonal."""
    gradient = metric.gradient(random_confusion(1, n_classes=4))
    differences = gradient[2:, 0] - gradient[2:, 1]
    assert differences[0] == pytest.approx(differences[1])
    assert (abs(differences[0]) < 1e-12) == (metric.weighting == "diagonal")


def test_what_each_depends_on():
    recalls = [Recall(average) for average in ("binary", *AVERAGES)]
    micro = [kind(average="micro") for kind, _, _ in KINDS.values()]
    assert {metric.weighting for metric in recalls + micro} == {"diagonal"}
    others = [kind(average="macro") for kind in (FBeta, Precision, Jaccard)]
    assert {metric.weighting for metric in others} == {"columns"}


def test_micro_rates_are_functions_of_the_accuracy():
    confusion = random_confusion(0, n_classes=3)
    accuracy = float(Accuracy().value(confusion))
    for metric in (FBeta(average="micro"), FBeta(3, "micro"), Precision("micro"), Recall("micro")):
        assert metric.value(confusion) == pytest.approx(accuracy)
    assert Jaccard("micro").value(confusion) == pytest.approx(accuracy / (2 - accuracy))


def test_what_they_are_called():
    assert [FBeta(average=average).name for average in ("binary", *AVERAGES)] == [
        "f1",
        "f1_macro",
        "f1_micro",
        "f1_weighted",
    ]
    assert (FBeta(2).name, FBeta(0.5, "binary").name) == ("fbeta_2_macro", "fbeta_0.5")
    assert (Precision("weighted").name, Recall("binary").name, Jaccard().name) == (
        "precision_weighted",
        "recall",
        "jaccard_macro",
    )


@pytest.mark.parametrize("metric", METRICS + BINARY, ids=names)
def test_they_are_differentiable_metrics_better_when_greater(metric):
    assert isinstance(metric, DifferentiableMetric)
    assert metric.greater_is_better
    assert not metric.needs_every_class


@pytest.mark.parametrize(
    ("special", "general"), [(MacroF1(), FBeta()), (BinaryF1(0), FBeta(average="binary", positive=0))]
)
def test_the_named_f1s_are_special_cases(special, general):
    confusion = random_confusion(0, n_classes=2)
    assert special.name == general.name
    assert special.value(confusion) == general.value(confusion)
    np.testing.assert_array_equal(special.gradient(confusion), general.gradient(confusion))


def test_the_gradient_of_macro_f1_by_its_own_formula():
    """The diagonal alone is used by the reference program, so the constant per row matters here."""
    confusion = random_confusion(0, n_classes=3)
    hits, sizes = np.diag(confusion), confusion.sum(axis=0) + confusion.sum(axis=1)
    pull = 2 * hits / sizes**2
    np.testing.assert_allclose(MacroF1().gradient(confusion), (np.diag(2 / sizes) - pull[:, None] - pull) / 3)


@pytest.mark.parametrize("metric", [MacroF1(), BinaryF1(0), FBeta(2), Jaccard("binary", 0)], ids=repr)
def test_copies_are_equal(metric):
    assert copy.deepcopy(metric) == metric
    assert pickle.loads(pickle.dumps(metric)) == metric  # noqa: S301
    assert repr(copy.deepcopy(metric)) == repr(metric)


@pytest.mark.parametrize("positive", [2, -1, 1.0, True, "yes"])
def test_the_positive_class_is_one_of_two(positive):
    with pytest.raises(SettingError, match="positive must be 0 or 1"):
        Precision("binary", positive)


def test_an_average_that_is_not_known():
    with pytest.raises(SettingError, match="'samples'"):
        Recall("samples")


@pytest.mark.parametrize("beta", [-1, np.nan, "2"])
def test_a_beta_that_is_none(beta):
    with pytest.raises(SettingError, match="beta"):
        FBeta(beta)


@pytest.mark.parametrize("metric", BINARY, ids=names)
def test_rates_of_one_class_are_for_two_classes(metric):
    for call in (metric.value, metric.gradient):
        with pytest.raises(ShapeError, match="is for two classes"):
            call(random_confusion(0, n_classes=3))


@given(seed=st.integers(0, 10**6), n_classes=st.integers(2, 4))
def test_the_rate_of_predictions_is_a_share_of_rows(seed, n_classes):
    rng = np.random.default_rng(seed)
    y_true, y_pred = rng.integers(n_classes, size=(2, 30))
    confusion = np.zeros((n_classes, n_classes))
    np.add.at(confusion, (y_true, y_pred), 1 / 30)
    for label in range(n_classes):
        metric = PredictedRate(label)
        assert float(metric.value(confusion)) == pytest.approx(np.mean(y_pred == label))
        np.testing.assert_allclose(metric.value(np.stack([confusion, 3 * confusion])), np.mean(y_pred == label))
        assert np.sum(metric.gradient(confusion) * confusion) == pytest.approx(np.mean(y_pred == label))


def test_the_rate_of_predictions_is_a_metric():
    metric = PredictedRate(1)
    assert isinstance(metric, DifferentiableMetric)
    assert (metric.name, metric.weighting, metric.needs_every_class) == ("rate", "columns", False)
    assert float(metric.value(np.zeros((2, 2)))) == 0
    assert pickle.loads(pickle.dumps(metric)) == metric  # noqa: S301


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6))
def test_the_mean_over_the_classes_that_have_rows(kind, seed):
    build, function, settings = KINDS[kind]
    rng = np.random.default_rng(seed)
    y_true, y_pred = rng.integers(3, size=20), rng.integers(6, size=20)
    confusion = np.zeros((6, 6))
    np.add.at(confusion, (y_true, y_pred), 1 / 20)
    expected = function(y_true, y_pred, labels=np.unique(y_true), average="macro", zero_division=0, **settings)
    metric = build(average="macro_present")
    assert float(metric.value(confusion)) == pytest.approx(expected)
    assert float(metric.value(np.stack([confusion, 2 * confusion]))[1]) == pytest.approx(expected)
    assert metric.name == f"{kind}_macro_present"

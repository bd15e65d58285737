from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import MetricError, SettingError
from postshift.metrics import Accuracy, BinaryF1, CellMetric, FBeta, LabelFunction, from_scorer

from .rows import Rows

TWO, THREE = np.array(["no", "yes"]), np.array(["cat", "dog", "eel"])
FAST = [
    ("accuracy", THREE),
    ("balanced_accuracy", THREE),
    ("matthews_corrcoef", THREE),
    *(
        (f"{stem}_{average}", THREE)
        for stem in ("f1", "precision", "recall", "jaccard")
        for average in ("macro", "micro")
    ),
    (sk.make_scorer(sk.f1_score, pos_label="no"), TWO),
    (sk.make_scorer(sk.fbeta_score, beta=2, pos_label="yes", zero_division=0), TWO),
    (sk.make_scorer(sk.jaccard_score, average="weighted", zero_division=0.0), THREE),
    (sk.make_scorer(sk.accuracy_score, normalize=True), TWO),
    (sk.make_scorer(sk.cohen_kappa_score), THREE),
    (sk.make_scorer(sk.cohen_kappa_score, weights="quadratic", labels=None), THREE),
    (sk.make_scorer(sk.precision_score, average="macro", greater_is_better=False), THREE),
]
SLOW = [
    (sk.make_scorer(sk.zero_one_loss, greater_is_better=False), THREE),
    (sk.make_scorer(sk.hamming_loss, greater_is_better=False), THREE),
    (sk.make_scorer(sk.balanced_accuracy_score, adjusted=True), THREE),
    (sk.make_scorer(sk.f1_score, average="macro", labels=["cat", "dog"]), THREE),
    (sk.make_scorer(sk.recall_score, average="macro", zero_division=1), THREE),
    (sk.make_scorer(sk.cohen_kappa_score, weights="linear", labels=["eel", "cat", "dog"]), THREE),
]


def scored(scorer, rows, classes):
    """Return what the scorer says of the randomised classifier, its sign included."""
    scorer = sk.get_scorer(scorer) if isinstance(scorer, str) else scorer
    truth, labels, weights, _ = rows.repeated(classes)
    return scorer._sign * scorer._score_func(truth, labels, sample_weight=weights, **scorer._kwargs)


@pytest.mark.parametrize("soft", [False, True], ids=["hard", "randomised"])
@pytest.mark.parametrize(("scorer", "classes"), FAST, ids=lambda each: str(each)[:60])
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_functions_of_scikit_learn_become_metrics_of_the_matrix(scorer, classes, soft, seed):
    metric = from_scorer(scorer, classes=classes)
    assert isinstance(metric, DifferentiableMetric)
    assert metric.greater_is_better
    rows = Rows(seed, n_classes=len(classes), soft=soft)
    assert metric.value(rows.confusion) == pytest.approx(scored(scorer, rows, classes))


@pytest.mark.parametrize(("scorer", "classes"), SLOW, ids=lambda each: str(each)[:60])
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_other_arguments_are_bound(scorer, classes, seed):
    function = from_scorer(scorer, classes=classes)
    assert isinstance(function, LabelFunction)
    rows = Rows(seed, n_classes=len(classes), soft=True)
    metric = CellMetric(function, classes)
    assert metric.value(rows.confusion) == pytest.approx(scored(scorer, rows, classes))


def test_the_sign_holds():
    metric = from_scorer(sk.make_scorer(sk.accuracy_score, greater_is_better=False), classes=[0, 1])
    assert (metric.name, metric.inner) == ("neg_accuracy", Accuracy())
    loss = from_scorer(sk.make_scorer(lambda a, b: np.mean(a != b), greater_is_better=False), classes=[0, 1])
    assert (loss.greater_is_better, loss.takes_weights) == (False, False)


def test_a_function_of_one_s_own_with_arguments():
    def f(y_true, y_pred, *, factor, amount, sample_weight=None):
        return factor * np.average(amount * (y_true == y_pred), weights=sample_weight)

    function = from_scorer(sk.make_scorer(f, factor=3), classes=[0, 1])
    assert (function.name, function.metadata, function.takes_weights) == ("f", ("amount",), True)
    assert function([0, 1], np.array([0, 1]), metadata={"amount": np.array([1, 2])}) == 4.5


def test_likelihood_ratios_take_no_weights():
    assert not from_scorer("positive_likelihood_ratio", classes=[0, 1]).takes_weights
    assert not from_scorer("neg_negative_likelihood_ratio", classes=[0, 1]).greater_is_better


def test_the_positive_label():
    assert from_scorer("f1", classes=[0, 1]) == FBeta(average="binary")
    assert from_scorer("f1", classes=[1, 2]).positive == 0
    assert from_scorer("f1", classes=[-1, 1]).positive == 1
    assert from_scorer("f1", classes=[0, 1]).name == BinaryF1().name
    with pytest.raises(MetricError, match=r"pos_label=1 is not one of the classes \['no', 'yes'\]"):
        from_scorer("f1", classes=TWO)


def test_kappa_of_classes_in_another_order():
    classes = np.array(["eel", "cat", "dog"])
    weighted = sk.make_scorer(sk.cohen_kappa_score, weights="linear")
    rows, function = Rows(0, n_classes=3, soft=True), from_scorer(weighted, classes=classes)
    assert CellMetric(function, classes).value(rows.confusion) == pytest.approx(scored(weighted, rows, classes))


@pytest.mark.parametrize(
    "name",
    ["roc_auc", "roc_auc_ovr", "neg_log_loss", "neg_brier_score", "average_precision", "top_k_accuracy"],
)
def test_scorers_of_probabilities_are_refused(name):
    with pytest.raises(MetricError, match=r"scores or probabilities.*balanced_accuracy"):
        from_scorer(name, classes=[0, 1])


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        ("r2", "regression"),
        ("neg_mean_squared_error", "regression"),
        ("adjusted_rand_score", "clusterings"),
        ("f1_samples", "several labels"),
        (sk.make_scorer(sk.accuracy_score, sample_weight=[1, 2]), "sample_weight"),
        (sk.make_scorer(sk.f1_score, average=None), "average=None"),
        ("f1", "average='macro'"),
        (sk.accuracy_score, "from_labels"),
    ],
)
def test_what_is_refused(scorer, message):
    with pytest.raises(MetricError, match=message):
        from_scorer(scorer, classes=THREE)


def test_a_scorer_misspelt():
    with pytest.raises(SettingError, match="did you mean 'accuracy'"):
        from_scorer("acuracy", classes=THREE)


def test_every_scorer_of_scikit_learn_is_taken_or_refused_with_a_reason():
    for name in sk.get_scorer_names():
        try:
            found = from_scorer(name, classes=[0, 1])
        except MetricError as error:
            assert "use one of" in str(error)  # noqa: PT017
        else:
            assert found.name

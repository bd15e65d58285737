from __future__ import annotations

import functools
import subprocess
import sys

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.metrics import accuracy_score, make_scorer

from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import MetricError, SettingError
from postshift.metrics import (
    Accuracy,
    BinaryF1,
    CellMetric,
    ExpectedCost,
    GMean,
    GroupGMean,
    LabelFunction,
    MacroF1,
    PredictionFunction,
    WorstGroup,
    from_confusion,
    from_labels,
    from_predictions,
    resolve_metric,
)
from postshift.metrics.resolve import metadata_names, with_metadata

from .functions import CLASSES as LABELS
from .functions import gain, hits, plain_hits

CLASSES = ["no", "yes"]


def weighted(y_true, y_pred, sample_weight=None):
    return np.average(y_true == y_pred, weights=sample_weight)


def plain(y_true, y_pred):
    return np.mean(y_true == y_pred)


def with_amounts(y_true, y_pred, *, amount, sample_weight=None):
    return np.average(amount * (y_true == y_pred), weights=sample_weight)


@pytest.mark.parametrize(
    ("name", "classes", "expected"),
    [
        ("accuracy", CLASSES, Accuracy()),
        ("f1", CLASSES, BinaryF1(1)),
        ("f1", [0, 1], BinaryF1(1)),
        ("f1", [1, 2], BinaryF1(0)),
        ("f1", [False, True], BinaryF1(1)),
        ("f1_macro", ["a", "b", "c"], MacroF1()),
        ("g_mean", [1, 2, 3], GMean()),
        ("worst_group_accuracy", CLASSES, WorstGroup("accuracy", n_groups=3, n_classes=2)),
    ],
)
def test_names(name, classes, expected):
    assert resolve_metric(name, classes=classes, n_groups=3) == expected


def test_an_expression_with_a_gap():
    metric = resolve_metric("accuracy - 0.5 * equal_opportunity", classes=[1, 2], n_groups=2)
    assert (metric.positive, metric.n_categories) == (0, 4)


def test_a_name_that_only_scikit_learn_knows():
    found = resolve_metric("positive_likelihood_ratio", classes=[0, 1])
    assert isinstance(found, LabelFunction)
    with pytest.raises(MetricError, match="probabilities"):
        resolve_metric("roc_auc", classes=[0, 1])


def test_metrics_are_taken_as_they_are():
    metric = GMean()
    assert resolve_metric(metric, classes=CLASSES) is metric
    mine = from_confusion(np.trace)
    assert resolve_metric(mine, classes=CLASSES) is mine
    cells = CellMetric(from_labels(weighted), CLASSES)
    assert resolve_metric(cells, classes=CLASSES) is cells


@pytest.mark.parametrize(
    "loss",
    [
        ExpectedCost([[0, 1], [1, 0]]),
        from_confusion(lambda c: 1 - np.trace(c), greater_is_better=False),
        sk.make_scorer(sk.zero_one_loss, greater_is_better=False),
        from_labels(sk.zero_one_loss, greater_is_better=False),
    ],
    ids=["cost", "confusion", "scorer", "labels"],
)
def test_greater_is_better_in_all_that_is_returned(loss):
    metric = resolve_metric(loss, classes=CLASSES)
    assert metric.name.startswith("neg_")
    assert metric.value(np.array([[0.5, 0.2], [0.0, 0.3]])) == pytest.approx(-0.2)


def test_scorers():
    assert resolve_metric(sk.make_scorer(sk.f1_score, pos_label="no"), classes=CLASSES).positive == 0
    found = resolve_metric(sk.make_scorer(weighted), classes=CLASSES)
    assert isinstance(found, CellMetric)
    assert found.classes.tolist() == CLASSES


def test_functions():
    assert isinstance(resolve_metric(weighted, classes=CLASSES), CellMetric)
    assert isinstance(resolve_metric(sk.accuracy_score, classes=CLASSES), CellMetric)
    assert isinstance(resolve_metric(plain, classes=CLASSES), LabelFunction)
    assert isinstance(resolve_metric(functools.partial(plain), classes=CLASSES), LabelFunction)
    assert resolve_metric(with_amounts, classes=CLASSES).metadata == ("amount",)


def test_adapted_functions():
    assert isinstance(resolve_metric(from_labels(weighted), classes=CLASSES), CellMetric)
    for function in (from_labels(plain), from_labels(with_amounts), from_predictions(len)):
        assert resolve_metric(function, classes=CLASSES) is function
    assert isinstance(resolve_metric(from_predictions(len), classes=CLASSES), PredictionFunction)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (Accuracy, r"write Accuracy\(...\)"),
        (len, r"from_confusion\(len\).*from_predictions\(len\)"),
        (lambda estimator, X, y: 0, r"\(estimator, X, y\)"),  # noqa: ARG005
        (lambda a, b, c, d: 0, "takes 4 arguments"),  # noqa: ARG005
        (lambda: 0, "takes 0 arguments"),
        (3, "Got 3 instead"),
        (None, "Got None instead"),
        ({"accuracy": "accuracy"}, "must be a name"),
        (sk.zero_one_loss, r"from_labels\(zero_one_loss, greater_is_better=False\)"),
    ],
)
def test_what_is_no_metric(metric, message):
    with pytest.raises(MetricError, match=message):
        resolve_metric(metric, classes=CLASSES)


def test_a_name_misspelt():
    with pytest.raises(SettingError, match=r"there is no metric 'g_maen'; did you mean 'g_mean'\?"):
        resolve_metric("g_maen", classes=CLASSES)


def test_metrics_over_groups_need_their_groups():
    metric = GroupGMean(n_groups=3, n_classes=2)
    assert resolve_metric(metric, classes=CLASSES, n_groups=3) is metric
    with pytest.raises(SettingError, match="pass groups"):
        resolve_metric(metric, classes=CLASSES)
    with pytest.raises(SettingError, match="there are 2 groups"):
        resolve_metric(metric, classes=CLASSES, n_groups=2)


def test_a_negated_metric_keeps_its_gradient():
    assert isinstance(resolve_metric(ExpectedCost([[0, 1], [5, 0]]), classes=CLASSES), DifferentiableMetric)


def test_importing_the_metrics_does_not_import_scikit_learn():
    code = "import sys, postshift.metrics; sys.exit('sklearn' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def optional(y_true, y_pred, *, amount=None, sample_weight=None):  # noqa: ARG001
    return np.average(y_true == y_pred, weights=sample_weight)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("g_mean", []),
        ("worst_group_accuracy", ["groups"]),
        ("f1[a] - equal_opportunity", ["groups"]),
        (GMean(), []),
        (GroupGMean(n_groups=2, n_classes=2), ["groups"]),
        (from_confusion(np.trace), []),
        (from_confusion(np.trace, n_categories=4), ["groups"]),
        (from_predictions(len), []),
        (plain_hits, []),
        (optional, ["amount"]),
        (from_labels(optional), []),
        (from_labels(gain), ["amount"]),
        (make_scorer(gain), ["amount"]),
        (make_scorer(gain, amount=3), []),
        (make_scorer(accuracy_score), ["normalize"]),
        (functools.partial(gain), ["amount"]),
        (3, []),
    ],
)
def test_the_names_that_a_metric_reads(metric, expected):
    assert sorted(metadata_names(metric)) == expected


def test_a_function_reads_the_names_that_are_given():
    cells = resolve_metric(optional, classes=LABELS)
    assert isinstance(cells, CellMetric)
    assert with_metadata(cells, []) is cells
    read = with_metadata(cells, ["amount"])
    assert isinstance(read, LabelFunction)
    assert read.metadata == ("amount",)


def test_other_metrics_are_left_alone():
    for metric in (GMean(), from_predictions(len), from_confusion(np.trace)):
        assert with_metadata(metric, ["groups"]) is metric
    assert with_metadata(from_labels(hits), []) == from_labels(hits)


def test_a_name_that_is_missing():
    with pytest.raises(SettingError, match=r"'gain' needs 'amount'.*fit\(..., amount=...\)"):
        with_metadata(from_labels(gain), [])

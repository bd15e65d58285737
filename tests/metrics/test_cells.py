from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, hamming_loss

from postshift.exceptions import MetricError, ShapeError
from postshift.metrics import (
    CellMetric,
    MacroF1,
    from_labels,
    maximised,
)

from .functions import CLASSES, gain, hits, plain_hits
from .rows import Rows


def streak(y_true, y_pred, sample_weight):
    """The weight of the right predictions before the first wrong one: it depends on the order of the rows."""
    wrong = np.flatnonzero(y_true != y_pred)
    return sample_weight[: wrong[0] if len(wrong) else None].sum() / sample_weight.sum()


@pytest.mark.parametrize("soft", [False, True], ids=["hard", "randomised"])
@pytest.mark.parametrize("function", [hits, accuracy_score, functools.partial(f1_score, average="macro")])
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_cells_are_exact_for_functions_of_weights(function, soft, seed):
    rows = Rows(seed, n_classes=3, soft=soft)
    truth, labels, weights, _ = rows.repeated(CLASSES)
    metric = CellMetric(from_labels(function), CLASSES)
    assert metric.value(rows.confusion) == pytest.approx(function(truth, labels, sample_weight=weights))
    assert metric.agrees(truth, labels, weights)
    assert metric.agrees(truth, labels)


def test_cells_of_a_loss():
    metric = CellMetric(from_labels(hamming_loss, greater_is_better=False, scale=2), CLASSES, weighting="diagonal")
    confusion = np.full((3, 3), 1 / 9)
    assert (metric.name, metric.scale, metric.weighting) == ("neg_hamming_loss", 2, "diagonal")
    assert metric.value(confusion) == pytest.approx(-2 / 3)
    assert maximised(metric) is metric


def test_cells_of_a_stack():
    stack = np.random.default_rng(0).dirichlet(np.ones(9), size=(2, 4)).reshape(2, 4, 3, 3)
    metric = CellMetric(from_labels(functools.partial(f1_score, average="macro")), CLASSES)
    np.testing.assert_allclose(metric.value(stack), MacroF1().value(stack))
    assert metric.value(stack[0, 0]).shape == ()
    assert metric.value(stack[:0]).shape == (0, 4)


def test_a_total_is_for_functions_that_add_up():
    def cost(y_true, y_pred, sample_weight):
        table = confusion_matrix(y_true, y_pred, labels=CLASSES, sample_weight=sample_weight)
        return -float((table * np.arange(9).reshape(3, 3)).sum())

    rows = Rows(0, n_classes=3, soft=False)
    truth, labels, weights, _ = rows.repeated(CLASSES)
    metric = CellMetric(from_labels(cost), CLASSES, total=rows.weights.sum())
    assert metric.value(rows.confusion) == pytest.approx(cost(truth, labels, weights))


def test_a_function_without_weights_is_called_on_whole_rows():
    calls = []

    def share(y_true, y_pred):
        calls.append(len(y_true))
        return float(np.mean(y_true == y_pred))

    metric = CellMetric(from_labels(share), CLASSES, total=10.0, whole_rows=True)
    table = np.array([[0.5, 0.1, 0.0], [0.0, 0.2, 0.0], [0.04, 0.0, 0.16]])
    assert metric.value(table) == pytest.approx(0.9)  # 0.4 rows of the last class are none, 1.6 are 2
    assert calls == [10]
    truth, labels = CLASSES[[0, 0, 1, 2]], CLASSES[[0, 1, 1, 2]]
    assert metric.agrees(truth, labels)
    with pytest.raises(MetricError, match="must take only labels and sample_weight"):
        CellMetric(from_labels(share), CLASSES)


def test_cells_without_weight_are_left_out():
    seen = []
    metric = CellMetric(from_labels(lambda a, b, sample_weight: seen.append((a, b, sample_weight)) or 0.0), CLASSES)
    metric.value(np.diag([0.25, 0.75, 0.0]))
    truth, labels, weights = seen[0]
    assert (truth.tolist(), labels.tolist(), weights.tolist()) == (["cat", "dog"], ["cat", "dog"], [0.25, 0.75])


def test_a_function_of_the_order_of_rows_does_not_agree_with_its_cells():
    rows = Rows(0, n_classes=3, soft=False)
    truth, labels, weights, _ = rows.repeated(CLASSES)
    assert not CellMetric(from_labels(streak), CLASSES).agrees(truth, labels, weights)


@pytest.mark.parametrize("function", [plain_hits, gain])
def test_cells_are_for_functions_of_weighted_labels_alone(function):
    with pytest.raises(MetricError, match="LabelOracle"):
        CellMetric(from_labels(function), CLASSES)


def test_what_cells_refuse():
    metric = CellMetric(from_labels(hits), CLASSES)
    with pytest.raises(ShapeError, match="3 classes"):
        metric.value(np.eye(2))
    with pytest.raises(MetricError, match="whose entries are all 0"):
        metric.value(np.zeros((3, 3)))
    with pytest.raises(MetricError, match="'f1_score' raised ValueError"):
        CellMetric(from_labels(f1_score), CLASSES).value(np.eye(3) / 3)

"""Labels of rows with known truth, compared with the labels of the base: any kind of metric."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import Rows
from postshift.estimators.comparing import compare_labels
from postshift.metrics import from_labels

CLASSES = np.array(["no", "yes"])
TRUTH = np.arange(300) % 2
BASE = np.where(np.arange(300) < 60, 1 - TRUTH, TRUTH)
VAL = Rows.of(np.full((300, 2), 0.5), labels=TRUTH)


def right(y_true, y_pred):
    return float(np.mean(y_true == y_pred))


def right_by_weight(y_true, y_pred, sample_weight=None):
    return float(np.average(y_true == y_pred, weights=sample_weight) + 0 * (y_pred[0] == "no"))


def cost(y_true, y_pred):
    return float(np.mean(y_true != y_pred))


def compared(metric, labels, **more):
    return compare_labels(metric, labels=labels, base=BASE, val=VAL, classes=CLASSES, groups=None, metadata={}, **more)


@pytest.mark.parametrize(
    "metric", ["accuracy", from_labels(right), from_labels(right_by_weight)], ids=["name", "rows", "weights"]
)
def test_the_gain_and_its_interval(metric):
    found = compared(metric, TRUTH)
    assert (found.score, found.base_score) == pytest.approx((1.0, 0.8))
    low, high = found.intervals.gain
    assert 0.14 < low < 0.2 < high < 0.26
    assert found.kind == "worth it"


def test_less_of_a_cost_is_better():
    found = compared(from_labels(cost, greater_is_better=False), TRUTH)
    assert found.gain == pytest.approx(0.2)
    assert found.score == 0


@pytest.mark.parametrize("metric", ["accuracy", from_labels(right)], ids=["name", "rows"])
def test_the_base_itself_gains_nothing(metric):
    found = compared(metric, TRUTH, fallback=True)
    assert found.gain == 0
    assert found.intervals.gain == (0, 0)

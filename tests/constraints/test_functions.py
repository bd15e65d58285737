"""Constraints on functions of labels."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.constraints import Value
from postshift.constraints.functions import BoundedFunction
from postshift.exceptions import MetricError, SettingError
from postshift.metrics import from_labels

LABELS = np.array([0, 1, 1, 0, 1])
NAMES = np.array(["no", "yes"])


def hits(y_true, y_pred):
    return float(np.mean(y_true == y_pred))


def gain(y_true, y_pred, amount=None):
    return float(np.mean((y_true == y_pred) * (1 if amount is None else amount)))


def bounded(function, *, on=LABELS, weights=None, **metadata):
    found = BoundedFunction(constraint=Value(function) >= 0.7, function=from_labels(function))
    return found.on(on, classes=NAMES, weights=weights, metadata=metadata)


def test_value_and_miss():
    found = bounded(hits)
    assert found.value(np.array([0, 1, 1, 0, 0])) == 0.8
    assert found.miss(0.8) == pytest.approx(-0.1)
    # Of some rows, in any order, also repeated.
    assert found.value(np.array([0, 1, 1]), np.array([4, 1, 1])) == pytest.approx(2 / 3)


def test_the_function_sees_the_labels_of_the_user():
    assert bounded(lambda y_true, y_pred: float(np.mean((y_true == "yes") & (y_pred == "yes")))).value(LABELS) == 0.6


def test_metadata_that_may_be_left_out():
    amount = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert bounded(gain).value(LABELS) == 1
    assert bounded(gain, amount=amount, other=amount).value(LABELS) == 3
    assert bounded(gain, amount=amount).value(np.array([0, 1]), np.array([3, 4])) == 4.5


def test_what_is_missing_is_named():
    def needs(y_true, y_pred, amount):  # noqa: ARG001
        return 0.0

    with pytest.raises(SettingError, match=r"'needs >= 0.7' needs 'amount', one value for each row"):
        bounded(needs)
    with pytest.raises(MetricError, match=r"'hits >= 0.7' needs validation labels"):
        bounded(hits, on=None)
    with pytest.raises(MetricError, match="takes no sample_weight"):
        bounded(hits, weights=np.arange(5.0))


def test_an_error_of_the_function_names_the_constraint():
    def broken(y_true, y_pred):  # noqa: ARG001
        raise ZeroDivisionError

    with pytest.raises(MetricError, match=r"ZeroDivisionError at query 'broken' .labels for the constraint 'broken >="):
        bounded(broken).value(LABELS)


def test_the_standard_error_is_that_of_a_mean():
    rng = np.random.default_rng(0)
    labels, predicted = rng.integers(2, size=800), rng.integers(2, size=800)
    share = np.mean(labels == predicted)
    expected = np.sqrt(share * (1 - share) / 800)
    assert bounded(hits, on=labels).standard_error(predicted) == pytest.approx(expected, rel=0.25)
    some = np.arange(200)
    assert bounded(hits, on=labels).standard_error(predicted[some], some) == pytest.approx(2 * expected, rel=0.3)

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
from sklearn.metrics import f1_score

from postshift.core.psi import ConfusionMetric, DifferentiableMetric
from postshift.exceptions import MetricError, SettingError
from postshift.metrics import (
    Accuracy,
    LabelOracle,
    PredictionOracle,
    from_confusion,
    from_labels,
    from_predictions,
    maximised,
)
from postshift.metrics.adapters import extra_parameters

from .functions import gain, hits, plain_hits, query


def test_a_function_of_one_matrix_and_of_a_stack():
    stack = np.random.default_rng(0).dirichlet(np.ones(9), size=(2, 4)).reshape(2, 4, 3, 3)
    single = from_confusion(np.trace)
    stacked = from_confusion(lambda c: np.trace(c, axis1=-2, axis2=-1), stacked=True, name="trace")
    for metric in (single, stacked):
        assert metric.name == "trace"
        assert metric.value(stack[0, 0]).shape == ()
        np.testing.assert_allclose(metric.value(stack), Accuracy().value(stack))
        assert isinstance(metric, ConfusionMetric)
        assert not isinstance(metric, DifferentiableMetric)


def test_what_a_function_of_the_matrix_says_of_itself():
    metric = from_confusion(np.trace, weighting="diagonal", greater_is_better=False, scale=3, name="bad")
    assert (metric.weighting, metric.scale, hasattr(metric, "n_categories")) == ("diagonal", 3, False)
    turned = maximised(metric)
    assert (turned.name, float(turned.value(np.eye(2) / 2))) == ("neg_bad", -1)
    assert from_confusion(np.trace, n_categories=6).n_categories == 6


def test_weights_on_some_entries():
    metric = from_confusion(lambda confusion: -confusion[2, 0], weighting=[(2, 0), (1, 1)])
    assert metric.weighting == "entries 2-0 1-1"


@pytest.mark.parametrize("settings", [{"weighting": "rows"}, {"scale": 0}, {"scale": np.inf}, {"n_categories": 1}])
def test_settings_of_a_function_of_the_matrix(settings):
    with pytest.raises(SettingError, match=r"weighting|scale|n_categories"):
        from_confusion(np.trace, **settings)


@pytest.mark.parametrize("answer", [None, "high", [0.1, 0.2], np.nan, True, [[1], [2, 3]]])
def test_answers_that_are_no_number(answer):
    shown = np.eye(2)
    with pytest.raises(MetricError, match="one finite number"):
        from_confusion(lambda _: answer).value(shown)
    with pytest.raises(MetricError, match=r"'7:0'.*one finite number"):
        LabelOracle(from_labels(lambda _, __: answer), [0, 1], classes=[0, 1]).answer(query("hard", [0, 1]))
    with pytest.raises(MetricError, match=r"'7:0'.*one finite number"):
        PredictionOracle(from_predictions(lambda _: answer, soft=True), classes=[0, 1]).answer(query("soft", shown))


@pytest.mark.parametrize("adapter", [from_confusion, from_labels, from_predictions])
@pytest.mark.parametrize("function", [None, 3, Accuracy])
def test_what_is_no_function(adapter, function):
    with pytest.raises(MetricError, match="must be a function"):
        adapter(function)


# ------------------------------------------------------------------------------ of labels


def test_what_is_seen_of_a_function_of_labels():
    assert (from_labels(hits).takes_weights, from_labels(plain_hits).takes_weights) == (True, False)
    assert from_labels(gain).metadata == ("amount",)
    assert from_labels(lambda a, b, groups, cost, sample_weight, q=1: 0).metadata == ("groups", "cost")  # noqa: ARG005
    assert from_labels(functools.partial(gain, amount=2)).metadata == ()
    assert from_labels(functools.partial(gain, amount=2)).name == "gain"
    assert from_labels(gain, metadata=()).metadata == ()
    assert from_labels(lambda a, b, **more: 0, metadata=["x"]).metadata == ("x",)  # noqa: ARG005
    assert from_labels(f1_score).takes_weights
    assert from_labels(operator.eq).name == "eq"


@pytest.mark.parametrize("metadata", [["price"], "amount"])
def test_metadata_that_the_function_does_not_take(metadata):
    with pytest.raises(SettingError, match="metadata"):
        from_labels(gain, metadata=metadata)


def test_functions_get_copies_that_they_may_change():
    def spoil(*arrays):
        for each in arrays:
            each[:] = 0
        return 0.5

    confusion, truth, labels = np.eye(2) / 2, np.array([0, 1]), np.array([1, 1])
    from_confusion(spoil).value(confusion)
    from_labels(spoil)(truth, labels)
    from_predictions(spoil)(labels)
    assert (confusion.trace(), truth.tolist(), labels.tolist()) == (1, [0, 1], [1, 1])


def test_the_parameters_after_the_first_two():
    assert extra_parameters(gain) == ["amount"]
    assert extra_parameters(lambda a, b, /, groups, *rest, sample_weight=None, cost=1, **more: 0) == ["groups", "cost"]  # noqa: ARG005
    assert extra_parameters(plain_hits) == []

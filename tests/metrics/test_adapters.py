from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, hamming_loss

from postshift.core.psi import ConfusionMetric, DifferentiableMetric
from postshift.core.queries import Query
from postshift.exceptions import MetricError, SettingError, ShapeError
from postshift.metrics import (
    Accuracy,
    CellMetric,
    LabelOracle,
    MacroF1,
    PredictionOracle,
    from_confusion,
    from_labels,
    from_predictions,
    maximised,
)

from .rows import Rows

CLASSES = np.array(["cat", "dog", "eel"])


def hits(y_true, y_pred, sample_weight=None):
    return np.average(y_true == y_pred, weights=sample_weight)


def plain_hits(y_true, y_pred):
    return np.mean(y_true == y_pred)


def gain(y_true, y_pred, *, amount, sample_weight=None):
    return np.average(amount * (y_true == y_pred), weights=sample_weight)


def streak(y_true, y_pred, sample_weight):
    """The weight of the right predictions before the first wrong one: it depends on the order of the rows."""
    wrong = np.flatnonzero(y_true != y_pred)
    return sample_weight[: wrong[0] if len(wrong) else None].sum() / sample_weight.sum()


def query(kind, shown, *, n_rows=None, rows=None):
    return Query(
        key="7:0", kind=kind, text="some value", n_rows=n_rows or len(shown), rows=rows, _predict=lambda: shown
    )


# ------------------------------------------------------------------------------ of confusion matrices


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


# ------------------------------------------------------------------------------ cells


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
    with pytest.raises(MetricError, match="without weight"):
        metric.value(np.zeros((3, 3)))
    with pytest.raises(MetricError, match="'f1_score' raised ValueError"):
        CellMetric(from_labels(f1_score), CLASSES).value(np.eye(3) / 3)


# ------------------------------------------------------------------------------ oracles


@pytest.mark.parametrize("weighted", [False, True])
@given(seed=st.integers(0, 10**6))
def test_soft_queries_are_answered_exactly(weighted, seed):
    rows = Rows(seed, n_classes=3, soft=True)
    if not weighted:
        rows.weights = np.ones(len(rows.truth))
    weights = rows.weights if weighted else None
    oracle = LabelOracle(from_labels(hits), rows.truth, classes=CLASSES, weights=weights)
    assert (oracle.kind, oracle.takes_subsets) == ("soft", True)
    expected = Accuracy().value(rows.confusion)
    assert oracle.answer(query("soft", rows.table)) == pytest.approx(float(expected))


def test_rows_of_weight_zero_are_not_shown():
    seen = []
    function = from_labels(lambda a, b, sample_weight: seen.append((a, b, sample_weight)) or 0.0)
    oracle = LabelOracle(function, [0, 1, 2], classes=CLASSES, weights=[1, 0, 2])
    oracle.answer(query("soft", np.array([[1.0, 0, 0], [0, 1.0, 0], [0.5, 0, 0.5]])))
    truth, labels, weights = seen[0]
    assert truth.tolist() == ["cat", "eel", "eel"]
    assert labels.tolist() == ["cat", "cat", "eel"]
    assert weights.tolist() == [1, 1, 1]


def test_hard_queries_see_the_user_s_classes():
    oracle = LabelOracle(from_labels(plain_hits), [0, 1, 2, 2], classes=CLASSES)
    assert oracle.kind == "hard"
    assert oracle.answer(query("hard", np.array([0, 1, 2, 1]))) == 0.75
    weighted = LabelOracle(from_labels(hits), [0, 1, 2, 2], classes=CLASSES, weights=[1, 1, 1, 3])
    assert weighted.answer(query("hard", np.array([0, 1, 2, 1]))) == 0.5


def test_a_loss_is_answered_with_its_negative():
    oracle = LabelOracle(from_labels(hamming_loss, greater_is_better=False), [0, 1], classes=[0, 1])
    assert oracle.answer(query("hard", np.array([1, 1]))) == -0.5


@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_subsets_of_the_rows(kind):
    rows = Rows(1, n_classes=3, soft=True)
    amount, kept = np.arange(60.0), np.array([50, 3, 4, 17])
    oracle = LabelOracle(
        from_labels(gain), rows.truth, classes=CLASSES, weights=rows.weights, metadata={"amount": amount}
    )
    alone = LabelOracle(
        from_labels(gain),
        rows.truth[kept],
        classes=CLASSES,
        weights=rows.weights[kept],
        metadata={"amount": amount[kept]},
    )
    shown = rows.table[kept] if kind == "soft" else np.argmax(rows.table[kept], axis=1)
    found = oracle.answer(query(kind, shown, n_rows=60, rows=kept))
    assert found == pytest.approx(alone.answer(query(kind, shown)))
    chances = rows.table[kept] if kind == "soft" else np.eye(3)[shown]
    right = chances[np.arange(4), rows.truth[kept]]
    assert found == pytest.approx(np.average(amount[kept] * right, weights=rows.weights[kept]))


def test_what_a_oracle_of_labels_refuses():
    function = from_labels(plain_hits)
    with pytest.raises(MetricError, match="takes no sample_weight"):
        LabelOracle(function, [0, 1], classes=[0, 1], weights=[1, 2])
    with pytest.raises(SettingError, match=r"needs the metadata \['amount'\]. Got \[\]"):
        LabelOracle(from_labels(gain), [0, 1], classes=[0, 1])
    with pytest.raises(SettingError, match="'extra'"):
        LabelOracle(function, [0, 1], classes=[0, 1], metadata={"extra": [1, 2]})
    with pytest.raises(ShapeError, match="one value a row"):
        LabelOracle(from_labels(gain), [0, 1], classes=[0, 1], metadata={"amount": [1, 2, 3]})
    oracle = LabelOracle(function, [0, 1], classes=[0, 1])
    with pytest.raises(ShapeError, match="3 validation rows"):
        oracle.answer(query("hard", [0, 1, 1]))
    for kind in ("soft", "confusion"):
        with pytest.raises(MetricError, match=f"kind '{kind}'"):
            oracle.answer(query(kind, np.eye(2)))
    weighted = LabelOracle(from_labels(hits), [0, 1, 1], classes=[0, 1], weights=[1, 0, 0])
    with pytest.raises(MetricError, match="weight 0"):
        weighted.answer(query("hard", [0, 1], n_rows=3, rows=np.array([1, 2])))


def test_what_a_function_raises_names_the_query():
    oracle = LabelOracle(from_labels(lambda a, b: a[99] == b), [0, 1], classes=[0, 1])
    with pytest.raises(MetricError, match="IndexError at query '7:0'"):
        oracle.answer(query("hard", [0, 1]))
    other = PredictionOracle(from_predictions(lambda labels: labels[99]), classes=[0, 1])
    with pytest.raises(MetricError, match="IndexError at query '7:0'"):
        other.answer(query("hard", [0, 1]))


def test_functions_of_predictions():
    secret = np.array([0, 1, 2, 2])
    hard = PredictionOracle(from_predictions(lambda labels: (labels == CLASSES[secret]).mean()), classes=CLASSES)
    assert (hard.kind, hard.takes_subsets) == ("hard", False)
    assert hard.answer(query("hard", np.array([0, 1, 2, 1]))) == 0.75
    soft = from_predictions(lambda table: 1 - table[np.arange(4), secret].mean(), soft=True, greater_is_better=False)
    oracle = PredictionOracle(soft, classes=CLASSES)
    assert oracle.kind == "soft"
    assert oracle.answer(query("soft", np.full((4, 3), 0.25))) == -0.75


def test_what_a_oracle_of_predictions_refuses():
    oracle = PredictionOracle(from_predictions(len), classes=CLASSES)
    with pytest.raises(MetricError, match="serves 'hard'"):
        oracle.answer(query("soft", np.eye(3)))
    with pytest.raises(MetricError, match="all rows or none"):
        oracle.answer(query("hard", [0, 1], n_rows=3, rows=np.array([0, 2])))

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import hamming_loss

from postshift.exceptions import MetricError, SettingError, ShapeError
from postshift.metrics import (
    Accuracy,
    LabelOracle,
    PredictionOracle,
    from_labels,
    from_predictions,
)

from .functions import CLASSES, gain, hits, plain_hits, query
from .rows import Rows


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


def test_what_an_oracle_of_labels_refuses():
    function = from_labels(plain_hits)
    with pytest.raises(MetricError, match="takes no sample_weight"):
        LabelOracle(function, [0, 1], classes=[0, 1], weights=[1, 2])
    with pytest.raises(SettingError, match=r"needs the metadata \['amount'\]. Got \[\]"):
        LabelOracle(from_labels(gain), [0, 1], classes=[0, 1])
    with pytest.raises(SettingError, match="'extra'"):
        LabelOracle(function, [0, 1], classes=[0, 1], metadata={"extra": [1, 2]})
    with pytest.raises(ShapeError, match="one value per row"):
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


def test_what_an_oracle_of_predictions_refuses():
    oracle = PredictionOracle(from_predictions(len), classes=CLASSES)
    with pytest.raises(MetricError, match="serves 'hard'"):
        oracle.answer(query("soft", np.eye(3)))
    with pytest.raises(MetricError, match="only scores all rows at once"):
        oracle.answer(query("hard", [0, 1], n_rows=3, rows=np.array([0, 2])))

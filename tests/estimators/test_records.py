"""Records of a fit: the history of its loops, their conditioning, the diagnostics."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from postshift import PostShiftClassifier
from postshift.estimators.records import FIRST, compared, mark_of
from tests.estimators.data import noisy


def test_what_is_told_of_the_fit():
    data = noisy()
    model = PostShiftClassifier(LogisticRegression(), metric="g_mean", method="auto")
    model.fit(data.X, data.y, data.X_val, data.y_val)
    record = model.diagnostics_.choice
    assert record.score == model.score_
    assert sum(entry.weight for entry in record.entries) == pytest.approx(1)
    assert model.diagnostics_.n_train == len(data.y)
    assert model.diagnostics_.n_val == len(data.y_val)
    assert {line.rule for line in model.diagnostics_.conditioning} == {line.rule for line in model.history_}
    table = model.history_.to_frame()
    assert list(table.columns) == ["rule", "iteration", "metric", "step", "queries"]
    assert len(table) == len(model.history_) > 0
    with pytest.raises(AttributeError):
        model.history_[0].metric = 1.0
    leading = max(model.rule_.rules, key=lambda rule: model.rule_.weights[model.rule_.rules.index(rule)])
    assert model.mixture_ is leading.mixture


RNG = np.random.default_rng(0)
ETA = RNG.dirichlet(np.ones(3), size=200)
CODES = RNG.integers(3, size=200)
MARK = mark_of(ETA, CODES)


def test_a_mark_is_plain_numbers():
    assert all(type(each) is float for each in MARK)
    assert len(MARK) == 2 + 2 * 3


@pytest.mark.parametrize(
    ("eta", "codes", "expected"),
    [
        (ETA, CODES, "same"),
        (ETA, None, "same"),
        (ETA.astype(np.float32).astype(float), CODES, "same"),
        (ETA[::-1], CODES[::-1], "other order"),
        (ETA, CODES[::-1], "other order"),
        (ETA[:-1], CODES[:-1], "other rows"),
        (ETA[:, ::-1], CODES, "other rows"),
    ],
)
def test_rows_are_known_again(eta, codes, expected):
    assert compared(MARK, mark_of(eta, codes)) == expected


def test_marks_of_the_first_rows_alone():
    kept = mark_of(ETA[:FIRST], CODES, n_rows=200)
    assert compared(kept, MARK) == "same"
    assert compared(kept, mark_of(ETA[::-1], CODES[::-1])) == "other rows"

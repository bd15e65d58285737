"""Records of a fit: the history of its loops, their conditioning, the diagnostics."""

from __future__ import annotations

import pytest
from sklearn.linear_model import LogisticRegression

from postshift import PostShiftClassifier
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

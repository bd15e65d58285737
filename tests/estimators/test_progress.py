"""Progress of a fit: scikit-learn's callbacks see every step."""

from __future__ import annotations

import pytest
from sklearn.linear_model import LogisticRegression

from postshift import PostShiftClassifier
from tests.estimators.data import noisy


def test_callbacks_are_told_of_every_step():
    pytest.importorskip("sklearn.callback")
    told = Told()
    data = noisy()
    PostShiftClassifier(LogisticRegression()).set_callbacks(told).fit(data.X, data.y, data.X_val, data.y_val)
    assert told.begun.count("fitting the model") == told.begun.count("choosing a rule") == 1
    assert [name for name in told.begun if name.startswith("fold")] == [f"fold {k}" for k in range(1, 6)]
    assert "stack + influence [tree]" in told.begun
    assert sorted(told.begun) == sorted(told.ended)


class Told:
    def __init__(self):
        self.begun, self.ended = [], []

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context):  # noqa: ARG002
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context):  # noqa: ARG002
        self.ended.append(context.task_name)

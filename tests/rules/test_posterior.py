"""The stack against scikit-learn's logistic regression; classes that it has not seen."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from postshift.core.queries import without_queries
from postshift.metrics import Accuracy, GMean
from postshift.rules import Problem, Stacked
from postshift.rules.posterior import centred_logs
from tests.rules.helpers import labelled, tables


def test_the_stack_is_scikit_learns_regression():
    problem = labelled(GMean(), 5, n_val=200)
    rule = without_queries(Stacked().fit(problem))
    model = LogisticRegression(C=1.0, max_iter=5000, tol=1e-8).fit(centred_logs(problem.val.eta), problem.val.labels)
    expected = model.predict_proba(centred_logs(problem.train.eta))
    np.testing.assert_allclose(rule.scores(problem.train), expected, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_stack_with_a_class_unseen_in_validation(n_classes):
    train, val = tables(6, n_classes=n_classes + 1)
    kept = val.take(np.flatnonzero(val.labels != 1))
    with pytest.warns(UserWarning, match="class 1"):
        problem = Problem.labelled(train, kept, Accuracy())
    rule = without_queries(Stacked().fit(problem))
    assert (rule.scores(train)[:, 1] == 0).all()
    np.testing.assert_allclose(rule.scores(train).sum(axis=1), 1)

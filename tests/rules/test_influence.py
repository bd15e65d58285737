"""Influence regression as a rule: by queries and by confusion matrices alike."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.core.queries import without_queries
from postshift.exceptions import NotFinishedError
from postshift.metrics import GMean
from postshift.rules import Influence, Problem
from tests.rules.helpers import answered, labelled, tables


def test_a_fit_that_must_ask():
    train, val = tables()
    queried = Problem.queried(train, val, kind="soft")
    with pytest.raises(NotFinishedError, match="run it in a Session"):
        without_queries(Influence().fit(queried))


def test_influence_by_soft_queries_equals_influence_by_confusion_matrices():
    problem = labelled(GMean(), 9)
    queried = Problem.queried(problem.train, problem.val, kind="soft")
    rule = Influence("user", 4)
    one = without_queries(rule.fit(problem))
    two, _ = answered(lambda: rule.fit(queried), GMean(), problem.val.labels)
    if len(one.mixture.members) == len(two.mixture.members):  # the same way to labels was chosen
        np.testing.assert_allclose(one.mixture.members[-1].alpha, two.mixture.members[-1].alpha, rtol=1e-6)
    np.testing.assert_array_equal(
        one.mixture.members[0].labels(problem.val.eta, problem.val.bases["user"]).shape, problem.val.labels.shape
    )

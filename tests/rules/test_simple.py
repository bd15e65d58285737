"""The base and the inverse prior against their closed forms."""

from __future__ import annotations

import numpy as np

from postshift.core.queries import without_queries
from postshift.metrics import GMean
from postshift.rules import Base, InversePrior, Problem, Stacked, menu
from tests.rules.helpers import labelled, tables


def test_base_is_the_argmax():
    problem = labelled(GMean())
    rule = without_queries(Base().fit(problem))
    np.testing.assert_array_equal(rule.labels(problem.val), problem.val.eta.argmax(axis=1))
    np.testing.assert_allclose(rule.scores(problem.val), problem.val.eta)


def test_inverse_prior_is_its_closed_form():
    problem = labelled(GMean())
    rule = without_queries(InversePrior().fit(problem))
    expected = (problem.val.eta / problem.train.eta.mean(axis=0)).argmax(axis=1)
    np.testing.assert_array_equal(rule.labels(problem.val), expected)


def test_a_stack_needs_labels():
    train, val = tables()
    assert not Stacked().usable(Problem.queried(train, val, kind="soft"))


def test_labels_that_may_be_read_bring_the_stack_to_a_queried_menu():
    train, val = tables()
    names = [rule.name for rule in menu(Problem.queried(train, val, kind="soft", reads_labels=True))]
    assert {"stack", "stack + smoothed plug-in", "stack + influence [user]"} <= set(names)
    assert Problem.queried(train, val, kind="soft").val.labels is None

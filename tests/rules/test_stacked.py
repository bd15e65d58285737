"""Rules on a stack: when they can be used."""

from __future__ import annotations

from postshift.rules import Problem, Stacked, menu
from tests.rules.helpers import tables


def test_a_stack_needs_labels():
    train, val = tables()
    assert not Stacked().usable(Problem.queried(train, val, kind="soft"))


def test_labels_that_may_be_read_bring_the_stack_to_a_queried_menu():
    train, val = tables()
    names = [rule.name for rule in menu(Problem.queried(train, val, kind="soft", reads_labels=True))]
    assert {"stack", "stack + smoothed plug-in", "stack + influence [user]"} <= set(names)
    assert Problem.queried(train, val, kind="soft").val.labels is None

"""Fitted rules: labels, randomised labels and what a rule notes of them."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import Rows
from postshift.core.queries import without_queries
from postshift.metrics import GMean, MinRecall
from postshift.rules import Base, Choice, Paper, Problem
from tests.rules.helpers import value_of


@pytest.mark.parametrize("metric", [GMean(), MinRecall()])
def test_a_randomised_classifier_that_no_labels_reach_is_offered(metric):
    """Rows that no posterior tells apart: only drawing gives both classes a recall of one half."""
    val = Rows.of(np.full((200, 2), 0.5), labels=np.arange(200) % 2)
    problem = Problem.labelled(val, val, metric)
    rule = without_queries(Paper().fit(problem))
    assert value_of(metric, val.labels, rule.labels(val)) == 0
    assert value_of(metric, val.labels, rule.distribution(val)) > 0.4
    assert "only the randomised classifier reaches" in rule.note
    chosen = without_queries(Choice(entries=(Base(), Paper())).fit(problem))
    assert chosen.record.fallback  # no labels are better than the base's

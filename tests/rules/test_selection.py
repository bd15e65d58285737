"""Weights of the average, and the choice between votes and scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from postshift import Rows
from postshift.core.plugin import onehot
from postshift.core.queries import without_queries
from postshift.metrics import BinaryF1
from postshift.rules import Choice, Problem
from postshift.rules.selection import average_weights


def test_weights_of_the_average():
    np.testing.assert_allclose(average_weights(np.array([0.7, 0.8]), 0.05), [1 / (1 + np.e), np.e / (1 + np.e)])
    np.testing.assert_allclose(average_weights(np.array([0.7, 0.8, 0.8]), 0.0), [0, 0.5, 0.5])


def test_votes_where_hard_scores_would_decide_alone():
    """One rule of 0/1 scores with a small weight must not overrule soft scores of a large one."""
    rng = np.random.default_rng(0)
    eta = rng.dirichlet([9, 1], size=8000)
    labels = (rng.random(8000) < eta[:, 1] ** 1.4).astype(int)
    table = Rows.of(eta, labels=labels)
    fit, other = table.take(np.arange(4000)), table.take(np.arange(4000, 8000))
    chosen = without_queries(Choice().fit(Problem.labelled(None, fit, BinaryF1())))
    scored = Problem.labelled(None, other, BinaryF1())
    soft, made = (
        float(scored.metric_of(scored.confusion(onehot(rule.labels(other), n_classes=2))))
        for rule in (replace(chosen.rule, votes=False), chosen.rule)
    )
    assert made >= soft - 1e-9
    votes = sum(
        w * onehot(r.labels(other), n_classes=2) for w, r in zip(chosen.rule.weights, chosen.rule.rules, strict=True)
    )
    np.testing.assert_array_equal(replace(chosen.rule, votes=True).labels(other), votes.argmax(axis=1))

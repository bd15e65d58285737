"""Scores out of fold: folds, hold-outs, groups, the average and its best rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from postshift import Rows
from postshift.core.plugin import onehot
from postshift.core.queries import without_queries
from postshift.exceptions import SettingError
from postshift.metrics import Accuracy, BinaryF1, GMean, MatthewsCorrelation
from postshift.rules import Base, Choice, InversePrior, Problem
from postshift.rules.scoring import OutOfFold, Selector, average_weights, make_folds, score_of
from tests.rules.helpers import big


def test_folds_keep_groups_together_and_cover_every_row():
    problem = big(GMean())
    groups = np.arange(200) // 4
    folds = make_folds(problem, groups, n_folds=5, seed=0)
    held = np.concatenate([left for _, left in folds])
    assert sorted(held) == list(range(200))
    for kept, left in folds:
        assert not set(groups[kept]) & set(groups[left])


def test_above_the_limit_there_is_one_hold_out():
    rng = np.random.default_rng(0)
    eta = rng.dirichlet(np.ones(2), size=20_000)
    val = Rows.of(eta, labels=(rng.random(20_000) < eta[:, 1]).astype(int))
    folds = make_folds(Problem.labelled(None, val, Accuracy()), None, n_folds=5, seed=0)
    assert [(len(kept), len(left)) for kept, left in folds] == [(15_000, 5_000)]


def test_a_hold_out_is_scored_on_its_own_rows(monkeypatch):
    """Above the limit of rows there is one hold-out; groups stay on one side of it."""
    monkeypatch.setattr("postshift.rules.scoring.MAX_VAL", 150)
    problem = big(GMean(), 6)
    groups = np.arange(200) // 4
    chosen = without_queries(Choice(entries=(Base(), InversePrior())).fit(problem, fold_groups=groups))
    assert 0 < chosen.record.base_score < 1
    ((kept, left),) = make_folds(problem, groups, n_folds=5, seed=0)
    assert not set(groups[kept]) & set(groups[left])


def test_never_predicting_a_rare_class_is_worth_nothing():
    rng = np.random.default_rng(0)
    p = np.clip(rng.beta(0.3, 6, size=150), 1e-3, 0.999)
    labels = np.zeros(150, dtype=int)
    labels[np.argsort(p)[-2:]] = 1
    problem = Problem.labelled(None, Rows.of(np.column_stack([1 - p, p]), labels=labels), MatthewsCorrelation())
    assert score_of(problem, np.zeros(150, dtype=int)) == 0
    assert score_of(problem, labels) == pytest.approx(1)


def test_an_average_far_below_its_best_rule_is_left_for_that_rule():
    """Two rules that err on other rows outvote the best rule; its lead is larger than the noise."""
    truth = np.repeat([0, 1], [300, 300])
    best, other = truth.copy(), truth.copy()
    best[:24], other[24:66] = 1, 1
    sure, unsure = onehot(other, n_classes=2), 0.5 + 0.02 * (onehot(best, n_classes=2) - 0.5)
    problem = Problem.labelled(None, Rows.of(unsure, labels=truth), Accuracy())
    rows = np.arange(600)
    labels, scores = np.array([other, best, other]), np.array([sure, unsure, sure])
    scored = OutOfFold(problem=problem, rows=rows, parts=rows % 5, labels=labels, scores=scores)
    np.testing.assert_array_equal(scored.averaged(np.ones(3) / 3), other)
    selection = Selector(how="average", passes=[scored], seed=0).selected()
    np.testing.assert_array_equal(selection.weights, [0, 1, 0])


@pytest.mark.parametrize("groups", [np.zeros(200), np.arange(5)])
def test_fold_groups_that_cannot_be(groups):
    with pytest.raises(SettingError, match="there must be at least two groups"):
        without_queries(Choice().fit(big(GMean()), fold_groups=groups))


def test_fewer_groups_than_folds():
    chosen = without_queries(Choice(entries=(Base(), InversePrior())).fit(big(GMean()), fold_groups=np.arange(200) % 3))
    assert chosen.record.entries[0].name == "base"


def test_held_out_rows_above_the_limit_are_numbered_among_all(monkeypatch):
    monkeypatch.setattr("postshift.rules.scoring.MAX_VAL", 150)
    problem = big(Accuracy())
    chosen = without_queries(Choice(how="only", entries=(Base(), InversePrior())).fit(problem))
    held = chosen.held_out
    assert len(held.rows) < 150
    assert len(np.unique(held.rows)) == len(held.rows)
    assert held.rows.max() >= 150  # of all 200, not of those that were drawn
    assert np.array_equal(held.base_labels, np.argmax(problem.val.eta[held.rows], axis=1))


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

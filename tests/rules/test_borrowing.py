"""Classes with few validation rows borrow rows, so that silence about them is not free."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import Rows
from postshift.core.queries import without_queries
from postshift.metrics import Accuracy, GMean, MacroF1, WorstGroup
from postshift.rules import Base, Choice, InversePrior, Problem
from postshift.rules.borrowing import FEWEST, MISSING, MOST_OF_ONE, borrow
from postshift.rules.scoring import score_of

PRIOR = np.array([0.78, 0.2, 0.02])


def drawn(rng, n_rows, *, counts=None, labelled=True, weights=None):
    """Rows of three overlapping classes with the right probabilities; ``counts`` gives the number of each class."""
    labels = rng.choice(3, n_rows, p=PRIOR) if counts is None else np.repeat(np.arange(3), counts)
    places = np.array([-1.5, 0.0, 1.5])[labels] + rng.normal(size=len(labels))
    chances = PRIOR * np.exp(-((places[:, None] - [-1.5, 0.0, 1.5]) ** 2) / 2)
    eta = chances / chances.sum(axis=1, keepdims=True)
    return Rows.of(eta, labels=labels if labelled else None, weights=weights)


def problem_of(metric, *, counts=(78, 20, 2), train=True, seed=0, weights=None, groups=None):
    rng = np.random.default_rng(seed)
    rows = drawn(rng, 4000, labelled=train is True) if train else None
    return Problem.labelled(rows, drawn(rng, 0, counts=counts, weights=weights), metric, groups=groups)


def category_weights(problem):
    categories, shares = problem.confusion_rows(slice(None))
    return np.bincount(categories, weights=shares, minlength=problem.n_categories)


@pytest.mark.parametrize("metric", [GMean(), MacroF1(), Accuracy()])
@pytest.mark.parametrize("train", [True, "unlabelled", False])
@pytest.mark.parametrize("weighted", [False, True])
def test_own_rows_stay_and_each_category_keeps_its_weight(metric, train, weighted):
    weights = np.random.default_rng(5).uniform(0.2, 3, size=100) if weighted else None
    problem = problem_of(metric, train=train, weights=weights)
    found = borrow(problem, seed=0)
    assert found.lenders == {2: "training rows" if train is True else "probabilities"}
    n_own = problem.val.n_rows
    assert found.n_own == n_own < found.problem.val.n_rows <= n_own + MOST_OF_ONE
    np.testing.assert_array_equal(found.problem.val.eta[:n_own], problem.val.eta)
    np.testing.assert_array_equal(found.problem.val.labels[:n_own], problem.val.labels)
    assert set(found.problem.val.labels[n_own:]) == {2}
    np.testing.assert_allclose(category_weights(found.problem), category_weights(problem))
    np.testing.assert_array_equal(found.problem.fractions[:n_own], 1)
    assert found.problem.fractions[n_own:].sum() == pytest.approx(found.lent[2])
    assert found.problem.counts[2] == pytest.approx(2 + found.lent[2])


def test_a_class_without_rows_gets_the_weight_of_half_a_row():
    with pytest.warns(match="no validation row of class 2"):
        problem = problem_of(GMean(), counts=(80, 20, 0))
    found = borrow(problem, seed=0)
    np.testing.assert_allclose(category_weights(found.problem), np.array([80, 20, MISSING]) / (100 + MISSING))


def test_classes_with_enough_rows_borrow_nothing():
    problem = problem_of(GMean(), counts=(75, 20, FEWEST))
    assert borrow(problem, seed=0).problem is problem


def test_a_class_that_nobody_knows_borrows_nothing():
    rng = np.random.default_rng(0)
    train = drawn(rng, 0, counts=(300, 100, 0))
    problem = Problem.labelled(train, drawn(rng, 0, counts=(78, 20, 2)), GMean())
    found = borrow(problem, seed=0)
    assert found.lenders == {2: "nothing"}
    assert found.problem is problem


@pytest.mark.filterwarnings("ignore:no validation row")
def test_a_class_that_the_model_does_not_expect_borrows_nothing():
    """Otherwise, a class that never occurs in use would pull down the score of every rule."""
    val = drawn(np.random.default_rng(0), 0, counts=(80, 20, 0))
    eta = val.eta * [1, 1, 1e-4]
    problem = Problem.labelled(None, Rows.of(eta / eta.sum(axis=1, keepdims=True), labels=val.labels), GMean())
    found = borrow(problem, seed=0)
    assert found.lenders == {2: "nothing"}
    assert found.problem is problem


def test_a_group_without_rows_borrows_nothing():
    metric = WorstGroup(n_groups=3, n_classes=3)
    with pytest.warns(match="no validation row of"):
        problem = problem_of(metric, groups=np.arange(100) % 2)
    assert set(borrow(problem, seed=0).lenders) == {2, 5}


def test_recalls_that_agree_lend_strength():
    """Training rows count for more if the recalls of the other classes are those of the validation rows."""
    alike = borrow(problem_of(GMean(), counts=(780, 200, 2)), seed=0).lent[2]
    rng = np.random.default_rng(0)
    train, val = drawn(rng, 4000), drawn(rng, 0, counts=(780, 200, 2))
    wrong = np.where(rng.random(4000) < 0.5, np.asarray(train.labels), rng.integers(3, size=4000))
    noisy = Problem.labelled(Rows.of(train.eta, labels=wrong), val, GMean())
    assert borrow(noisy, seed=0).lent[2] < alike


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("rare", [0, 1, 2])
@pytest.mark.filterwarnings("ignore:no validation row")
def test_a_rule_that_never_predicts_a_class_scores_low(train, rare):
    """Its recall was taken for the mean recall of the others, so silence about the class cost nothing."""
    problem = borrow(problem_of(GMean(), counts=(98, 25, rare), train=train), seed=0).problem
    silent = np.argmax(problem.val.eta[:, :2], axis=1)
    fair = np.argmax(problem.val.eta / PRIOR, axis=1)
    assert score_of(problem, silent) < 0.35
    assert score_of(problem, fair) > 0.4


@pytest.mark.filterwarnings("ignore:no validation row")
@pytest.mark.parametrize("rare", [0, 1, 2])
def test_the_choice_does_not_reward_silence(rare):
    problem = problem_of(GMean(), counts=(98, 25, rare), seed=1)
    chosen = without_queries(Choice(entries=(Base(), InversePrior())).fit(problem))
    assert not chosen.record.fallback
    test = drawn(np.random.default_rng(9), 0, counts=(4000, 4000, 4000))
    recalls = [np.mean(chosen.rule.labels(test)[test.labels == k] == k) for k in range(3)]
    assert chosen.record.score == pytest.approx(np.prod(recalls) ** (1 / 3), abs=0.15)
    assert len(chosen.held_out.rows) == 123 + rare  # the rows of its own


def test_a_rule_that_was_asked_for_gets_its_own_rows_only():
    problem = problem_of(GMean())
    chosen = without_queries(Choice(how="only", entries=(Base(), InversePrior())).fit(problem))
    assert chosen.record.few_rows.lenders == ("nothing",)


def test_borrowed_rows_are_groups_of_their_own():
    found = borrow(problem_of(GMean()), seed=0)
    groups = found.groups(np.arange(100) // 2)
    assert len(groups) == found.problem.val.n_rows
    assert len(np.unique(groups)) == 50 + found.problem.val.n_rows - 100
    assert found.groups(None) is None

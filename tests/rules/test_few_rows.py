"""Classes with few validation rows: they are found, and the score without them is computed."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import Rows
from postshift.metrics import Accuracy, GMean, MacroF1, WorstGroup
from postshift.rules import Problem
from postshift.rules.borrowing import Borrowing
from postshift.rules.few_rows import few_rows


def problem_of(truth, metric=None, *, n_classes=2, weights=None, groups=None):
    eta = np.full((len(truth), n_classes), 1 / n_classes)
    table = Rows.of(eta, labels=truth, weights=weights)
    return Problem.labelled(None, table, metric or Accuracy(), groups=groups)


def found_in(problem, labels, base, **lenders):
    borrowing = Borrowing(problem=problem, n_own=problem.val.n_rows, **{"lenders": {}, "lent": {}, **lenders})
    return few_rows(borrowing, problem, labels, base)


def test_classes_with_few_rows_are_found_and_left_out():
    truth = np.repeat([0, 1, 2], [60, 37, 3])
    base = np.where(truth == 2, 0, truth)
    found = found_in(problem_of(truth, GMean(), n_classes=3), truth, base)
    assert (found.categories, found.counts) == ((2,), (3,))
    assert (found.score, found.base_score) == (1, 1)
    assert found_in(problem_of(truth[:97], GMean()), truth[:97], base[:97]) is None


def test_a_mean_over_the_classes_is_over_those_that_are_left():
    from sklearn.metrics import f1_score

    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2, 3], [60, 30, 4, 2])
    labels = np.where(rng.random(len(truth)) < 0.7, truth, rng.integers(4, size=len(truth)))
    found = found_in(problem_of(truth, MacroF1(), n_classes=4), labels, truth)
    kept = truth < 2
    expected = f1_score(truth[kept], labels[kept], labels=[0, 1], average="macro")
    assert found.score == pytest.approx(expected)
    assert found.base_score == pytest.approx(1)


def test_few_rows_of_a_group():
    truth, groups = np.repeat([0, 1, 0, 1], [30, 30, 30, 2]), np.repeat([0, 1], [60, 32])
    problem = problem_of(truth, WorstGroup(n_groups=2, n_classes=2), groups=groups)
    assert found_in(problem, truth, truth).categories == (3,)


def test_one_class_left_has_no_score():
    truth = np.repeat([0, 1], [60, 3])
    assert found_in(problem_of(truth, GMean()), truth, truth).score is None


def test_what_the_score_of_few_rows_leans_on():
    truth = np.repeat([0, 1, 2], [60, 37, 3])
    lenders = {2: "training rows", 3: "probabilities"}
    with pytest.warns(match="no validation row of class 3"):
        problem = problem_of(truth, GMean(), n_classes=4)
    found = found_in(problem, truth, truth, lenders=lenders, lent={2: 5.0, 3: 1.0})
    assert (found.categories, found.counts) == ((2, 3), (3, 0))  # a class without rows counts if it has borrowed some
    assert (found.lenders, found.lent) == (("training rows", "probabilities"), (5.0, 1.0))

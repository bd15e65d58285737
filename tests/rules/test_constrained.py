"""The constrained rule: the posterior, the correction by labels, margins, weights, folds that lack a class."""

from __future__ import annotations

import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from postshift import Rows
from postshift.constraints import Constraint
from postshift.constraints.pieces import resolve_constraint
from postshift.core.queries import without_queries
from postshift.exceptions import InfeasibleError, MissingClassWarning
from postshift.metrics import Accuracy, GMean, Recall
from postshift.metrics.over_groups import PooledMetric
from postshift.rules import Problem
from postshift.rules.constrained import OUT_OF_REACH, Constrained, FittedPosterior, fit_posterior
from postshift.rules.posterior import Identity, Stack
from tests.rules.posteriors import drawn

RECALL = Recall(average="binary")


def rule_of(*texts, n_classes=2, n_groups=1, margin=0.0, basis="constant"):
    constraints = tuple(
        resolve_constraint(
            Constraint(term=read.term, sense=read.sense, bound=read.bound, margin=margin),
            classes=np.arange(n_classes),
            n_groups=None if n_groups == 1 else n_groups,
        )
        for read in map(Constraint.read, texts)
    )
    return Constrained(constraints=constraints, basis=basis)


def problem_of(data, metric=None, *, weights=None, phi=None, groups=None):
    bases = None if phi is None else {"phi": phi}
    val = Rows.of(data.eta, bases=bases, labels=data.labels, weights=weights)
    metric = Accuracy() if metric is None else metric
    if groups is not None:
        metric = PooledMetric(inner=metric, n_groups=int(groups.max()) + 1, n_classes=val.n_classes)
    return Problem.labelled(None, val, metric, groups=groups)


def fitted(rule, problem):
    return without_queries(rule.fit(problem))


def recall_of(rule, data, *, label=1):
    labels = rule.labels(Rows.of(data.eta))
    return float(np.mean(labels[data.labels == label] == label))


def test_it_asks_nothing_and_has_a_name():
    rule, problem = rule_of("recall[1] >= 0.8"), problem_of(drawn(0))
    found = fitted(rule, problem)
    assert (rule.name, rule.bound(problem)) == ("constrained [constant]", 0)
    assert found.name == rule.name
    assert rule.usable(problem)
    assert not rule_of("recall[1] >= 0.8", basis="other").usable(problem)
    assert len(found.mixture.members) == 1  # its labels are deterministic


def test_it_can_be_sent_to_another_process():
    rule, problem = rule_of("recall[1] >= 0.8", "min_recall >= 0.1", margin=1.0), problem_of(drawn(0, n_rows=300))
    again = pickle.loads(pickle.dumps(rule))  # noqa: S301
    np.testing.assert_array_equal(fitted(again, problem).labels(problem.val), fitted(rule, problem).labels(problem.val))


def test_the_constraint_holds_about_on_a_large_sample():
    data, new = drawn(1, n_rows=4000), drawn(2, n_rows=8000)
    found = fitted(rule_of("recall[1] >= 0.85"), problem_of(data))
    assert recall_of(found, new) == pytest.approx(0.85, abs=0.03)


def test_a_model_that_is_wrong_is_corrected_by_the_labels():
    """The model doubles the odds of the rare class: its own expectation would be far off."""

    def too_sure(data):
        odds = 6 * data.eta[:, 1] / data.eta[:, 0]
        data.eta = np.column_stack([1 / (1 + odds), odds / (1 + odds)])
        return data

    data, new = too_sure(drawn(3, n_rows=3000)), too_sure(drawn(4, n_rows=8000))
    problem = problem_of(data)
    assert isinstance(fit_posterior(problem).posterior, Stack)
    found = fitted(rule_of("precision[1] >= 0.7"), replace(problem, metric=RECALL))
    labels = found.labels(Rows.of(new.eta))
    assert np.mean(new.labels[labels == 1] == 1) == pytest.approx(0.7, abs=0.04)


def test_probabilities_that_are_right_are_kept():
    assert isinstance(fit_posterior(problem_of(drawn(5, n_rows=300))).posterior, Identity)


@pytest.mark.parametrize("n_rows", [2, 3, 4])
def test_a_posterior_of_very_few_rows(n_rows):
    data = drawn(6, n_rows=40)
    rows = np.concatenate([np.flatnonzero(data.labels == 0)[:1], np.flatnonzero(data.labels == 1)[: n_rows - 1]])
    data.eta, data.labels = data.eta[rows], data.labels[rows]
    assert fit_posterior(problem_of(data)).held_out.shape == (n_rows, 2)


def test_a_margin_makes_the_rule_safer():
    """Paired over seeds: the same rows with and without a margin."""
    new, found = drawn(1000, n_rows=20_000), []
    for seed in range(7):
        problem = problem_of(drawn(seed, n_rows=200))
        found.append(
            [recall_of(fitted(rule_of("recall[1] >= 0.7", margin=margin), problem), new) for margin in (0.0, 1.5)]
        )
    plain, safe = np.transpose(found)
    assert (safe > plain).all()
    assert np.sum(safe < 0.7) < np.sum(plain < 0.7)


@pytest.mark.slow
def test_margins_make_the_constraint_hold_more_often():
    new = drawn(1000, n_rows=20_000)
    missed = np.zeros((3, 40))
    for seed in range(40):
        problem = problem_of(drawn(seed, n_rows=300))
        for place, margin in enumerate((0.0, 1.0, 2.0)):
            found = fitted(rule_of("recall[1] >= 0.8", margin=margin), problem)
            missed[place, seed] = recall_of(found, new) < 0.8
    assert missed[0].mean() > 0.25  # about a coin flip
    assert missed[1].mean() <= 0.3
    assert missed[1].sum() < missed[0].sum()
    assert missed[2].mean() <= 0.1
    assert (missed[1] <= missed[0]).mean() >= 0.95


def test_weights_of_rows_are_repeated_rows():
    data = drawn(7, n_rows=400)
    times = np.random.default_rng(0).integers(1, 4, size=400)
    rule = rule_of("recall[1] >= 0.8")
    weighted = fitted(rule, problem_of(data, weights=times.astype(float)))
    scaled = fitted(rule, problem_of(data, weights=100.0 * times))
    rows = Rows.of(data.eta)
    np.testing.assert_array_equal(weighted.labels(rows), scaled.labels(rows))
    plain = fitted(rule, problem_of(data))
    heavy = np.where(data.labels == 1, 1.0 + 9 * (data.eta[:, 1] < 0.3), 1.0)  # hits that are hard to find count more
    raised = fitted(rule, problem_of(data, weights=heavy))
    assert np.mean(raised.labels(rows)) > np.mean(plain.labels(rows))


def test_rows_of_weight_0_do_not_count():
    data = drawn(8, n_rows=600)
    weights = (np.arange(600) < 400).astype(float)
    few = drawn(8, n_rows=600)
    few.eta, few.labels = data.eta[:400], data.labels[:400]
    rule, rows = rule_of("precision[1] >= 0.6"), Rows.of(data.eta)
    found = fitted(rule, problem_of(data, weights=weights)).labels(rows)
    alone = fitted(rule, problem_of(few)).labels(rows)
    assert np.mean(found != alone) < 0.02  # the folds of the posterior differ


def test_groups_in_the_basis():
    data, new = drawn(9, n_rows=3000, n_groups=2), drawn(10, n_rows=8000, n_groups=2)
    phi = np.eye(2)[data.groups]
    rule = rule_of("demographic_parity <= 0.05", n_groups=2, basis="phi")
    found = fitted(rule, problem_of(data, phi=phi, groups=data.groups))
    labels = found.labels(Rows.of(new.eta, bases={"phi": np.eye(2)[new.groups]}))
    gap = abs(np.mean(labels[new.groups == 0]) - np.mean(labels[new.groups == 1]))
    free = np.argmax(new.eta, axis=1)
    assert abs(np.mean(free[new.groups == 0]) - np.mean(free[new.groups == 1])) > 0.1
    assert gap < 0.08


@pytest.mark.parametrize("text", ["min_recall >= 0.3", "recall[2] >= 0.3", "precision[2] >= 0.3", "f1[2] >= 0.3"])
@pytest.mark.parametrize("metric", [Accuracy(), GMean()])
def test_a_class_without_labels(text, metric):
    """A fold may lack a class that the model gives probabilities to."""
    data = drawn(11, n_rows=300, n_classes=3)
    keep = data.labels != 2
    data.eta, data.labels = data.eta[keep], data.labels[keep]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)
        problem = problem_of(data, metric)
    found = fitted(rule_of(text, n_classes=3), problem)
    assert found.labels(Rows.of(data.eta)).shape == (len(data.eta),)


@pytest.mark.parametrize("text", ["equal_opportunity <= 0.1", "equalized_odds <= 0.1", "worst_group_accuracy >= 0.5"])
def test_a_group_without_rows_of_a_class(text):
    data = drawn(12, n_rows=300, n_groups=2)
    keep = (data.groups == 0) | (data.labels == 0)
    data.eta, data.labels, data.groups = data.eta[keep], data.labels[keep], data.groups[keep]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)
        problem = problem_of(data, phi=np.eye(2)[data.groups], groups=data.groups)
    found = fitted(rule_of(text, n_groups=2, basis="phi"), problem)
    assert found.labels(problem.val).shape == (len(data.eta),)


@pytest.mark.parametrize("text", ["demographic_parity <= 0.1", "worst_group_accuracy >= 0.5"])
def test_a_group_without_rows(text):
    data = drawn(13, n_rows=300, n_groups=2)
    whole = problem_of(data, phi=np.eye(2)[data.groups], groups=data.groups)
    part = whole.take(np.flatnonzero(data.groups == 0))
    found = fitted(rule_of(text, n_groups=2, basis="phi"), part)
    assert found.labels(part.val).shape == (part.val.n_rows,)


def test_constraints_that_cannot_be_met():
    data = drawn(14)
    rule, problem = rule_of("precision[1] >= 0.99", "recall[1] >= 0.99"), problem_of(data)
    with pytest.raises(InfeasibleError, match="no classifier meets the constraints on these rows"):
        rule.check(problem)
    found = fitted(rule, problem)  # a fold must not stop the fit
    assert found.note == "the constraints cannot be met on these rows"
    rule_of("recall[1] >= 0.99").check(problem)


def test_a_margin_that_cannot_be_met_is_reduced():
    data = drawn(15, n_rows=200)
    rule = rule_of("recall[1] >= 0.97", margin=50.0)
    problem = problem_of(data)
    found, posterior = fitted(rule, problem), fit_posterior(problem).held_out
    assert re.search(rf"{OUT_OF_REACH}: \d+% of the correction is kept\. Relax a bound", found.note)
    assert OUT_OF_REACH not in fitted(rule_of("recall[1] >= 0.7"), problem).note
    labels = found.labels(problem.val)
    assert posterior[labels == 1, 1].sum() / posterior[:, 1].sum() >= 0.97 - 1e-9  # in expectation


def test_a_margin_takes_the_labels_at_their_word_on_the_cautious_side_only():
    """Without a margin a small difference is shrunk; with one it is not, if the labels are worse than expected."""
    data = drawn(17, n_rows=400)
    zeros = np.flatnonzero(data.labels == 0)
    by_chance = zeros[np.argsort(data.eta[zeros, 1])]
    for worse in (True, False):
        changed = drawn(17, n_rows=400)
        changed.labels[by_chance[:6] if worse else by_chance[-6:]] = 1
        problem = problem_of(changed)
        shifts = {}
        for margin in (0.0, 1.0):
            rule = rule_of("recall[1] >= 0.8", margin=margin)
            program = rule.program(problem, FittedPosterior(posterior=Identity(), held_out=changed.eta))
            found = program.solve()
            (shifts[margin],), (by_margin,) = rule._shifts(problem, program, found)
            assert (by_margin > 0) == (margin > 0)
        labels = found.rule.labels(changed.eta, np.ones((400, 1)))
        seen = np.mean(labels[changed.labels == 1] == 1)
        expected = found.confusion[1, 1] / found.confusion[1].sum()
        assert (seen < expected) == worse
        if worse:
            assert shifts[1.0] == pytest.approx(expected - seen)
            assert 0 <= shifts[0.0] < shifts[1.0]
        else:
            assert shifts[1.0] == shifts[0.0]
            assert expected - seen < shifts[0.0] <= 0


def test_a_class_whose_precision_is_bounded_is_predicted_even_if_the_margin_is_too_large():
    data = drawn(18, n_rows=300)
    bound = round(float(np.sort(data.eta[:, 1])[-20:].mean()), 2)
    found = fitted(rule_of(f"precision[1] >= {bound}", margin=8.0), problem_of(data, RECALL))
    assert np.any(found.labels(Rows.of(data.eta)) == 1)


def test_a_stack_is_read_out_of_fold():
    data = drawn(19, n_rows=300)
    data.eta = data.eta**3 / np.sum(data.eta**3, axis=1, keepdims=True)  # too sure
    found = fit_posterior(problem_of(data))
    assert isinstance(found.posterior, Stack)
    inside = found.posterior(data.eta)
    rows = np.arange(300)
    losses = [-np.mean(np.log(table[rows, data.labels])) for table in (found.held_out, inside)]
    assert losses[0] > losses[1]
    assert np.max(np.abs(found.held_out - inside)) < 0.1


def test_the_objective_is_that_of_the_problem():
    data, rows = drawn(16, n_rows=1500), Rows.of(drawn(16, n_rows=1500).eta)
    accurate = fitted(rule_of("precision[1] >= 0.5"), problem_of(data)).labels(rows)
    finding = fitted(rule_of("precision[1] >= 0.5"), problem_of(data, RECALL)).labels(rows)
    assert np.mean(accurate == data.labels) >= np.mean(finding == data.labels)
    hits = [np.mean(labels[data.labels == 1] == 1) for labels in (accurate, finding)]
    assert hits[1] > hits[0] + 0.05

"""The rules with a loop: the paper's method is fw_eg; influence regression is the same by queries and by matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from postshift import PostShifter, Rows, fw_eg
from postshift.core.queries import without_queries
from postshift.core.weighting import Entries
from postshift.exceptions import LabelError, NotFinishedError, SettingError
from postshift.metrics import GMean, MacroF1, from_confusion
from postshift.rules import Influence, Paper, Problem, loops, rule_named
from tests.rules.helpers import answered, labelled, tables


@pytest.mark.parametrize("basis", ["constant", "user"])
def test_the_paper_rule_is_the_paper_method(basis):
    problem = labelled(GMean(), 7, n_val=300)
    rule = without_queries(Paper(basis).fit(problem))
    fit = fw_eg(problem.train.over(basis), problem.val.over(basis), GMean(), tol=loops.SETTLED * 0.5 / np.sqrt(300))
    known = np.stack([member.alpha for member in fit.mixture.members])
    for member in rule.mixture.members:  # the sums of rows at hand are added in another order
        assert np.isclose(known, member.alpha, rtol=1e-9).all(axis=(1, 2)).any()
    assert len(rule.mixture.members) in (1, len(fit.mixture.members))  # all of them, or the best one for labels


def test_the_paper_needs_training_labels():
    train, val = tables()
    unlabelled = replace(train, labels=None)
    with pytest.raises(LabelError, match="needs training rows with labels"):
        without_queries(Paper().fit(Problem.labelled(unlabelled, val, GMean())))
    with pytest.raises(SettingError, match=r"rule 'paper' cannot be used here \(available: validation labels"):
        rule_named("paper", Problem.labelled(unlabelled, val, GMean()))


def test_without_training_rows_the_validation_rows_serve_the_paper_as_both():
    _, val = tables()
    alone = without_queries(Paper("user").fit(Problem.labelled(None, val, GMean())))
    twice = without_queries(Paper("user").fit(Problem.labelled(val, val, GMean())))
    np.testing.assert_array_equal(alone.mixture.members[0].alpha, twice.mixture.members[0].alpha)


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


def test_weights_on_some_entries():
    """The metric says which entries it depends on; so does the rule itself."""
    pairs = ((2, 0), (1, 1), (0, 0))
    metric = from_confusion(lambda table: table[1, 1] + table[0, 0] - 2 * table[2, 0], weighting=pairs)
    problem = labelled(metric)
    found = without_queries(Paper("user").fit(problem))
    assert {each.weighting for each in found.mixture.members} <= {Entries(pairs)}
    full = from_confusion(metric.function)
    asked = without_queries(Paper("user", weighting=pairs).fit(replace(problem, metric=full)))
    np.testing.assert_array_equal(found.labels(problem.val), asked.labels(problem.val))
    assert found.mixture.members[0].alpha.shape[1] == 3


@pytest.mark.filterwarnings("ignore::postshift.exceptions.SmallValidationWarning")
def test_weights_on_some_entries_in_an_estimator():
    _, val = tables()
    metric = from_confusion(lambda table: table[1, 1] - table[0, 1], weighting=[(1, 1), (0, 1)], name="own")
    shifter = PostShifter(metric, method="paper").fit(val.eta, val.labels)
    assert shifter.mixture_.members[0].weighting.name == "entries 1-1 0-1"
    outside = from_confusion(lambda table: table[1, 1], weighting=[(9, 9)], name="own")
    with pytest.raises(SettingError, match=r"weighting has the entry \(9, 9\), but the classes are 0"):
        PostShifter(outside, method="paper").fit(val.eta, val.labels)


def test_many_classes_take_the_gradient(monkeypatch):
    """A probe of radius 0.1 moves more rows than one of many classes has: a run by probes loses what it had."""
    rng = np.random.default_rng(0)
    n_classes, n_rows = 30, 1500
    labels = rng.integers(n_classes, size=n_rows)
    logits = rng.normal(size=(n_rows, n_classes)) + rng.normal(size=n_classes)
    logits[np.arange(n_rows), labels] += 2
    eta = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    problem = Problem.labelled(None, Rows.of(eta, labels=labels), MacroF1())

    def last_score():
        return without_queries(Paper().fit(problem)).trace[-1].score

    by_gradient = last_score()
    monkeypatch.setattr(loops, "MANY_CLASSES", n_classes + 1)
    assert by_gradient > last_score() + 0.05

"""The choice: the guard, budgets, queries, seeds, and metrics of any kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from postshift import Rows, Session
from postshift.core.plugin import onehot
from postshift.core.queries import without_queries
from postshift.exceptions import BudgetError, MetricError, SettingError
from postshift.metrics import Accuracy, GMean, GroupGMean, MinRecall
from postshift.rules import Base, Choice, InversePrior, Problem
from postshift.rules.fitted import plug_in_rule
from tests.rules.helpers import answered, big, tables, value_of


def test_scores_are_those_of_rows_not_used_for_the_fit():
    """An entry that learns the labels by heart gains nothing by it."""

    class ByHeart:
        name = "by heart"

        def usable(self, _problem):
            return True

        def bound(self, _problem):
            return 0

        def fit(self, problem):
            yield from ()
            known = {row.tobytes(): label for row, label in zip(problem.val.eta, problem.val.labels, strict=True)}

            class Parrot:
                name = "by heart"

                def labels(self, table):
                    return np.array([known.get(row.tobytes(), 0) for row in table.eta])

                def scores(self, table):
                    return onehot(self.labels(table), n_classes=table.n_classes)

            return Parrot()

    problem = big(Accuracy(), 2)
    chosen = without_queries(Choice(how="best", entries=(Base(), ByHeart())).fit(problem))
    assert chosen.record.fallback or chosen.rule.rules[0].name == "base"
    assert chosen.record.entries[1].score < 0.6


@pytest.mark.parametrize("how", ["average", "best"])
def test_the_guard_keeps_the_base(how):
    """Two rules that are plainly worse: what is made of them does not beat the base out of fold."""
    rng = np.random.default_rng(0)
    eta = rng.dirichlet(np.ones(2), size=3000)
    labels = (rng.random(3000) < eta[:, 1]).astype(int)
    table = Rows.of(eta, labels=labels)
    problem = Problem.labelled(table.take(np.arange(2000)), table.take(np.arange(2000, 3000)), Accuracy())
    chosen = without_queries(Choice(how=how, entries=(Base(), Shifted(), Shifted("other"))).fit(problem))
    assert chosen.record.fallback or chosen.record.entries[0].weight == 1
    assert chosen.record.score == chosen.record.base_score
    np.testing.assert_array_equal(chosen.rule.labels(problem.val), problem.val.eta.argmax(axis=1))


class Shifted(InversePrior):
    """A rule that is plainly worse."""

    def fit(self, problem):
        yield from ()
        return plug_in_rule("shifted", np.array([1.0, 30.0]), problem=problem)


def test_min_type_and_group_metrics():
    problem = big(MinRecall(), 3)
    chosen = without_queries(Choice().fit(problem))
    base = value_of(MinRecall(), problem.val.labels, problem.val.eta.argmax(axis=1))
    assert value_of(MinRecall(), problem.val.labels, chosen.rule.labels(problem.val)) >= base
    train, val = tables(4, n_train=600, n_val=300, n_classes=2)
    groups = np.arange(300) % 2
    by_group = Problem.labelled(train, val, GroupGMean(n_groups=2, n_classes=2), groups=groups)
    chosen = without_queries(Choice().fit(by_group))
    assert "stack + expected utility" not in [entry.name for entry in chosen.record.entries]


def test_the_same_seed_gives_the_same_result():
    problem = big(GMean(), 5)
    one, two = (without_queries(Choice(random_state=3).fit(problem)) for _ in range(2))
    assert one.record == two.record
    np.testing.assert_array_equal(one.rule.scores(problem.val), two.rule.scores(problem.val))


def test_what_it_refuses():
    with pytest.raises(SettingError, match=r"one of .*'average', 'best', 'only'"):
        without_queries(Choice(how="vote").fit(big(GMean())))


# -- by queries ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["soft", "hard"])
@pytest.mark.parametrize("n_classes", [2, 10, 100])
def test_by_queries_alone(kind, n_classes, record_property):
    """An oracle that takes no subsets: within its bound, and the number of queries is printed."""
    n_val = 40 * n_classes if n_classes < 100 else 1000
    train, val = tables(1, n_classes=n_classes, n_train=4 * n_val, n_val=n_val, n_bases=1)
    problem = Problem.queried(train, val, kind=kind)
    choice = Choice()
    bound = choice.bound(problem)
    chosen, session = answered(lambda: choice.fit(problem), Accuracy(), val.labels)
    assert session.n_queries <= bound
    record_property("figure", f"choice by {kind} queries, m = {n_classes}: {session.n_queries} queries, bound {bound}")
    base = value_of(Accuracy(), val.labels, val.eta.argmax(axis=1))
    assert value_of(Accuracy(), val.labels, chosen.rule.labels(val)) >= base
    assert chosen.record.how == "queries"


@pytest.mark.parametrize("budget", [25, 60, 150, 400])
def test_a_budget_is_never_exceeded(budget):
    train, val = tables(2, n_classes=3, n_train=400, n_val=150)
    problem = Problem.queried(train, val, kind="soft")
    choice = Choice(budget=budget)
    assert choice.bound(problem) <= budget
    _, session = answered(lambda: choice.fit(problem), GMean(), val.labels, budget=budget)
    assert session.n_queries <= budget


def test_a_budget_that_pays_for_nothing():
    train, val = tables(2)
    with pytest.raises(BudgetError, match="budget of 2 queries"):
        Choice(budget=2).bound(Problem.queried(train, val, kind="soft"))


def test_the_base_stands_unless_beaten_by_more_than_noise():
    train, val = tables(3, n_val=200)
    problem = Problem.queried(train, val, kind="hard")
    rng = np.random.default_rng(0)
    session = Session(lambda: Choice().fit(problem))
    while queries := session.ask():
        for query in queries:
            session.tell(query.key, 0.5 + 0.001 * rng.random())  # nothing but noise
    chosen = session.result()
    assert chosen.record.fallback
    np.testing.assert_array_equal(chosen.rule.labels(val), val.eta.argmax(axis=1))


def test_folds_by_queries_where_subsets_are_served():
    train, val = tables(5, n_val=120)
    problem = Problem.queried(train, val, kind="soft", takes_subsets=True)
    choice = Choice(query_folds=3)
    session = Session(lambda: choice.fit(problem))
    sizes = set()
    while queries := session.ask():
        for query in queries:
            rows = np.arange(120) if query.rows is None else query.rows
            sizes.add(len(rows))
            assert (query.n_rows, len(query.predictions)) == (120, len(rows))
            session.tell(query.key, value_of(Accuracy(), val.labels[rows], query.predictions))
    assert sizes == {80, 120}
    assert session.n_queries <= choice.bound(problem)
    assert session.result().record.how == "queries"


def test_folds_by_queries_where_subsets_are_not_served():
    train, val = tables(5, n_val=120)
    problem = Problem.queried(train, val, kind="soft")
    with pytest.raises(MetricError, match="cannot be split into folds"):
        answered(lambda: Choice(query_folds=3).fit(problem), Accuracy(), val.labels)


# -- rows, folds, held-out labels ----------------------------------------------------------------------------


@pytest.mark.parametrize(("n_val", "n_classes"), [(10, 5), (10, 3), (4, 2)])
def test_tiny_validation_samples(n_val, n_classes):
    train, val = tables(8, n_val=max(n_val, 2 * n_classes), n_classes=n_classes)
    problem = Problem.labelled(train, val.take(np.arange(n_val)), Accuracy())
    chosen = without_queries(Choice().fit(problem))
    assert chosen.rule.labels(val).shape == (val.n_rows,)


def test_a_session_survives_an_error():
    train, val = tables(9, n_val=100)
    problem = Problem.queried(train, val, kind="soft")
    session = Session(lambda: Choice().fit(problem), budget=5)

    def go_on():
        while queries := session.ask():
            for query in queries:
                session.tell(query.key, value_of(GMean(), val.labels, query.predictions))

    with pytest.raises(BudgetError, match="the budget is 5"):
        go_on()
    answered_before = session.n_queries
    session.budget = None
    go_on()
    assert session.n_queries > answered_before
    assert session.result().record.how == "queries"


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_the_noise_margin_is_on_the_metrics_scale(scale):
    train, val = tables(10, n_val=300, n_train=900, n_classes=3)
    problem = Problem.queried(train, val, kind="soft", scale=scale)
    session = Session(lambda: Choice().fit(problem))
    while queries := session.ask():
        for query in queries:
            session.tell(query.key, scale * value_of(GMean(), val.labels, query.predictions))
    names = [entry.name for entry in session.result().record.entries if entry.weight == 1]
    assert names == names_at_scale_one(train, val)


def names_at_scale_one(train, val):
    chosen, _ = answered(lambda: Choice().fit(Problem.queried(train, val, kind="soft")), GMean(), val.labels)
    return [entry.name for entry in chosen.record.entries if entry.weight == 1]


def test_the_only_entry_is_taken_whatever_it_scores():
    problem = big(GMean(), n_classes=2)
    chosen = without_queries(Choice(how="only", entries=(Base(), Shifted())).fit(problem))
    assert [entry.weight for entry in chosen.record.entries] == [0.0, 1.0]
    assert not chosen.record.fallback
    queried = Problem.queried(problem.train, problem.val, kind="soft")
    entries = (Base(), Shifted())
    chosen, _ = answered(lambda: Choice(how="only", entries=entries).fit(queried), GMean(), problem.val.labels)
    assert [entry.weight for entry in chosen.record.entries] == [0.0, 1.0]


def test_by_queries_the_labels_are_of_all_rows():
    train, val = tables(2, n_classes=3, n_train=400, n_val=150)
    problem = Problem.queried(train, replace(val, labels=None), kind="soft")
    chosen, _ = answered(lambda: Choice(budget=60).fit(problem), Accuracy(), val.labels)
    assert chosen.held_out.in_fit
    assert np.array_equal(chosen.held_out.labels, chosen.rule.labels(val))
    assert chosen.record.intervals is None

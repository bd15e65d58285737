"""The choice: folds, shrinkage, weights, the guard, budgets, and what the record says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import Rows, Session
from postshift.core.plugin import onehot
from postshift.core.queries import without_queries
from postshift.exceptions import (
    BasisError,
    BudgetError,
    LabelError,
    MetricError,
    MissingClassWarning,
    SettingError,
)
from postshift.metrics import Accuracy, BinaryF1, GMean, GroupGMean, MatthewsCorrelation, MinRecall
from postshift.rules import (
    Base,
    Choice,
    InversePrior,
    Paper,
    PluginSearch,
    Problem,
    SmoothedPlugin,
    Stacked,
    menu,
    rule_named,
)
from postshift.rules.fitted import plug_in_rule
from postshift.rules.scoring import make_folds, shrunk_confusion, shrunk_value
from postshift.rules.selection import average_weights
from tests.rules.helpers import answered, labelled, tables, value_of


def big(metric, seed=0, **kind):
    return labelled(metric, seed, **{"n_train": 600, "n_val": 200, **kind})


@pytest.mark.parametrize("how", ["average", "best"])
def test_the_record_says_why(how):
    problem = big(GMean(), 1)
    chosen = without_queries(Choice(how=how).fit(problem))
    record = chosen.record
    assert record.how == how
    assert len(record.entries) == 10
    assert sum(entry.weight for entry in record.entries) == pytest.approx(1)
    assert record.base_score == record.entries[0].score
    top = max(record.entries, key=lambda entry: entry.weight)
    assert record.fallback or (top.name in record.reason and record.score > record.base_score)
    if how == "best":
        assert len(chosen.rule.rules) == 1


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


@given(seed=st.integers(0, 1000))
def test_shrunk_recalls(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, size=4).astype(float)
    counts[0] = 3
    rows = rng.dirichlet(np.ones(4), size=4)
    confusion = rows * (counts / counts.sum())[:, None]
    shrunk = shrunk_confusion(confusion, counts, n_classes=4)
    mean = np.diag(rows)[counts > 0].mean()
    np.testing.assert_allclose(shrunk.sum(axis=1), confusion.sum(axis=1))
    for i in np.flatnonzero(counts):
        expected = (counts[i] * rows[i, i] + mean) / (counts[i] + 1)
        assert shrunk[i, i] / shrunk[i].sum() == pytest.approx(expected)


def test_weights_of_the_average():
    np.testing.assert_allclose(average_weights(np.array([0.7, 0.8]), 0.05), [1 / (1 + np.e), np.e / (1 + np.e)])
    np.testing.assert_allclose(average_weights(np.array([0.7, 0.8, 0.8]), 0.0), [0, 0.5, 0.5])


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


def test_the_same_seed_gives_the_same_result():
    problem = big(GMean(), 5)
    one, two = (without_queries(Choice(random_state=3).fit(problem)) for _ in range(2))
    assert one.record == two.record
    np.testing.assert_array_equal(one.rule.scores(problem.val), two.rule.scores(problem.val))


def test_what_it_refuses():
    with pytest.raises(SettingError, match=r"one of .*'average', 'best', 'only'"):
        without_queries(Choice(how="vote").fit(big(GMean())))


# -- by queries ----------------------------------------------------------------------------------------------


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
    with pytest.raises(MetricError, match="no folds can be made"):
        answered(lambda: Choice(query_folds=3).fit(problem), Accuracy(), val.labels)


def test_a_stack_needs_labels():
    train, val = tables()
    assert not Stacked().usable(Problem.queried(train, val, kind="soft"))


# -- what an adversarial reader found ------------------------------------------------------------------------


def test_a_hold_out_is_scored_on_its_own_rows(monkeypatch):
    """Above the limit of rows there is one hold-out; groups stay on one side of it."""
    monkeypatch.setattr("postshift.rules.scoring.MAX_VAL", 150)
    problem = big(GMean(), 6)
    groups = np.arange(200) // 4
    chosen = without_queries(Choice(entries=(Base(), InversePrior())).fit(problem, fold_groups=groups))
    assert 0 < chosen.record.base_score < 1
    ((kept, left),) = make_folds(problem, groups, n_folds=5, seed=0)
    assert not set(groups[kept]) & set(groups[left])


def test_shrinkage_invents_no_predictions():
    """Metrics of predicted-class rates are scored as they are: never predicting a rare class is worth nothing."""
    rng = np.random.default_rng(0)
    p = np.clip(rng.beta(0.3, 6, size=150), 1e-3, 0.999)
    labels = np.zeros(150, dtype=int)
    labels[np.argsort(p)[-2:]] = 1
    problem = Problem.labelled(None, Rows.of(np.column_stack([1 - p, p]), labels=labels), MatthewsCorrelation())
    assert shrunk_value(problem, np.zeros(150, dtype=int)) == 0
    assert shrunk_value(problem, labels) == pytest.approx(1)


def test_a_class_missing_in_a_fold_does_not_stop_the_fits():
    """Where a class has no rows its recall counts as 1: the others are still optimised."""
    problem = big(GMean(), 7, n_classes=4)
    part = problem.take(np.flatnonzero(problem.val.labels != 2))
    smoothed = without_queries(SmoothedPlugin().fit(part))
    assert not np.allclose(smoothed.mixture.members[0].alpha, 1)
    (value,) = without_queries(part.label_scores([part.val.labels]))
    assert value == pytest.approx(1)
    confusion = part.confusion(part.val.eta)
    metric = part.scoring_metric
    move = np.zeros_like(confusion)
    move[0, 0], move[0, 1] = 1e-6, -1e-6
    slope = float((metric.gradient(confusion) * move).sum()) / 1e-6
    ahead, behind = (float(metric.value(confusion + sign * move)) for sign in (1, -1))
    assert (ahead - behind) / 2e-6 == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize(("n_val", "n_classes"), [(10, 5), (10, 3), (4, 2)])
def test_tiny_validation_samples(n_val, n_classes):
    train, val = tables(8, n_val=max(n_val, 2 * n_classes), n_classes=n_classes)
    problem = Problem.labelled(train, val.take(np.arange(n_val)), Accuracy())
    chosen = without_queries(Choice().fit(problem))
    assert chosen.rule.labels(val).shape == (val.n_rows,)


@pytest.mark.parametrize("groups", [np.zeros(200), np.arange(5)])
def test_fold_groups_that_cannot_be(groups):
    with pytest.raises(SettingError, match="there must be two or more groups"):
        without_queries(Choice().fit(big(GMean()), fold_groups=groups))


def test_fewer_groups_than_folds():
    chosen = without_queries(Choice(entries=(Base(), InversePrior())).fit(big(GMean()), fold_groups=np.arange(200) % 3))
    assert chosen.record.entries[0].name == "base"


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


def test_bases_that_cover_rows_in_part_are_refused():
    with pytest.raises(BasisError, match=r"sum to less than 1: append the complement"):
        Rows.of(np.full((3, 2), 0.5), bases={"user": np.full((3, 1), 0.5)})
    with pytest.raises(BasisError, match="must not be called 'constant'"):
        Rows.of(np.full((3, 2), 0.5), bases={"constant": np.ones((3, 1))})
    table = Rows.of(np.full((3, 2), 0.5))
    with pytest.raises(BasisError, match=r"these rows have no basis 'user'; their bases are \['constant'\]"):
        table.over("user")


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


def test_the_only_entry_is_taken_whatever_it_scores():
    problem = big(GMean(), n_classes=2)
    chosen = without_queries(Choice(how="only", entries=(Base(), Shifted())).fit(problem))
    assert [entry.weight for entry in chosen.record.entries] == [0.0, 1.0]
    assert not chosen.record.fallback
    queried = Problem.queried(problem.train, problem.val, kind="soft")
    entries = (Base(), Shifted())
    chosen, _ = answered(lambda: Choice(how="only", entries=entries).fit(queried), GMean(), problem.val.labels)
    assert [entry.weight for entry in chosen.record.entries] == [0.0, 1.0]


def test_labels_that_may_be_read_bring_the_stack_to_a_queried_menu():
    train, val = tables()
    names = [rule.name for rule in menu(Problem.queried(train, val, kind="soft", reads_labels=True))]
    assert {"stack", "stack + smoothed plug-in", "stack + influence [user]"} <= set(names)
    assert Problem.queried(train, val, kind="soft").val.labels is None


def test_a_class_without_validation_rows_is_left_as_it_is():
    train, val = tables()
    kept = val.take(np.flatnonzero(val.labels != 0))
    with pytest.warns(MissingClassWarning, match="no validation row of class 0"):
        problem = Problem.labelled(train, kept, GMean())
    assert np.isfinite(without_queries(Choice().fit(problem)).record.score)


def test_a_metric_that_raises_is_named():
    class Broken(GMean):
        def value(self, confusion):  # noqa: ARG002
            raise ZeroDivisionError("no profit today")

    problem = big(Broken())
    with pytest.raises(MetricError, match="raised ZeroDivisionError: no profit today"):
        without_queries(PluginSearch().fit(problem))


@pytest.mark.parametrize("metric", ["f1", GMean, np.mean])
def test_what_is_no_metric_is_refused_at_once(metric):
    train, val = tables()
    with pytest.raises(MetricError, match="metric must be a function of the confusion matrix"):
        Problem.labelled(train, val, metric)


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


@pytest.mark.parametrize("how", ["average", "best", "only"])
def test_held_out_labels_have_the_score_and_its_interval_is_around_it(how):
    problem = big(Accuracy())
    chosen = without_queries(Choice(how=how).fit(problem))
    held, record = chosen.held_out, chosen.record
    assert np.array_equal(held.rows, np.arange(problem.val.n_rows))
    assert not held.in_fit
    assert np.mean(held.base_labels == problem.val.labels) == pytest.approx(
        np.mean(np.argmax(problem.val.eta, axis=1) == problem.val.labels)
    )
    assert np.mean(held.labels == problem.val.labels) == pytest.approx(record.score)
    assert record.intervals.score[0] < record.score < record.intervals.score[1]
    assert record.intervals.base[0] < record.base_score < record.intervals.base[1]
    assert record.candidate.intervals.gain[0] < record.candidate.gain < record.candidate.intervals.gain[1]
    assert record.intervals.gain == (None if record.fallback else record.candidate.intervals.gain)


def test_held_out_rows_above_the_limit_are_numbered_among_all(monkeypatch):
    monkeypatch.setattr("postshift.rules.scoring.MAX_VAL", 150)
    problem = big(Accuracy())
    chosen = without_queries(Choice(how="only", entries=(Base(), InversePrior())).fit(problem))
    held = chosen.held_out
    assert len(held.rows) < 150
    assert len(np.unique(held.rows)) == len(held.rows)
    assert held.rows.max() >= 150  # of all 200, not of those that were drawn
    assert np.array_equal(held.base_labels, np.argmax(problem.val.eta[held.rows], axis=1))


def test_by_queries_the_labels_are_of_all_rows():
    train, val = tables(2, n_classes=3, n_train=400, n_val=150)
    problem = Problem.queried(train, replace(val, labels=None), kind="soft")
    chosen, _ = answered(lambda: Choice(budget=60).fit(problem), Accuracy(), val.labels)
    assert chosen.held_out.in_fit
    assert np.array_equal(chosen.held_out.labels, chosen.rule.labels(val))
    assert chosen.record.intervals is None

"""The loop (Algorithm 3): bounds, budgets, repeated queries, the order of answers, flat metrics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import Rows, fw_eg
from postshift.exceptions import NotFinishedError, UnknownQueryError
from postshift.metrics import GMean, MacroF1, SoftOracle, from_confusion
from tests.core.runs import KINDS, Recorder, new_run, oracle_for
from tests.problems import make_problem, problems


@pytest.mark.parametrize("kind", KINDS)
@given(
    problem=problems(max_bases=3, max_classes=4),
    weighting=st.sampled_from(["diagonal", "columns", "full"]),
    budget=st.one_of(st.none(), st.integers(40, 200)),
)
def test_bound_budget_and_no_query_twice(kind, problem, weighting, budget):
    run = new_run(problem, kind, MacroF1(), weighting=weighting, budget=budget)
    bound = run.max_queries
    recorder = Recorder(oracle_for(kind, problem.val, MacroF1()))
    run.run(recorder)
    assert len(recorder.asked) == run.n_queries <= bound
    assert len(set(recorder.asked)) == len(recorder.asked)
    assert budget is None or bound <= budget
    assert run.result().n_queries == run.n_queries


@pytest.mark.parametrize(
    ("kind", "weighting", "expected"),
    [
        ("confusion", "diagonal", 1 + 3),
        ("soft", "diagonal", 3 * (1 + 2 * 3) + 1),
        ("hard", "columns", 3 * (1 + 2 * 6) + 1),
        ("soft", "full", 3 * (1 + 2 * 6) + 1),
    ],
)
def test_the_bound_is_known_before_the_run(kind, weighting, expected):
    run = new_run(make_problem(seed=0), kind, GMean(), weighting=weighting)
    assert run.max_queries == expected


@pytest.mark.parametrize(("budget", "n_iter"), [(8, 1), (14, 1), (15, 2), (22, 3), (1000, 3)])
def test_a_budget_pays_for_whole_iterations(budget, n_iter):
    problem = make_problem(seed=0)
    run = new_run(problem, "soft", GMean(), budget=budget)
    assert run.max_queries <= budget
    fit = run.run(oracle_for("soft", problem.val, GMean()))
    assert len(fit.trace) == n_iter + 1


def test_an_answer_to_no_open_query():
    run = new_run(make_problem(seed=0), "soft", GMean())
    with pytest.raises(UnknownQueryError, match="query '9:base' is not open; the open queries are"):
        run.tell("9:base", 0.5)
    query = run.ask()[0]
    run.tell(query.key, 0.5)
    with pytest.raises(UnknownQueryError, match="is not open"):
        run.tell(query.key, 0.5)


def test_answers_in_any_order():
    problem = make_problem(seed=0)
    oracle = oracle_for("soft", problem.val, GMean())
    forward, backward = new_run(problem, "soft", GMean()), new_run(problem, "soft", GMean())
    forward.run(oracle)
    while queries := backward.ask():
        for query in reversed(queries):
            backward.tell(query.key, oracle.answer(query))
    one, two = forward.result().vertices, backward.result().vertices
    np.testing.assert_array_equal([rule.alpha for rule in one], [rule.alpha for rule in two])


def test_the_result_of_an_unfinished_run():
    run = new_run(make_problem(seed=0), "soft", GMean())
    with pytest.raises(NotFinishedError, match="the session has 7 open queries"):
        run.result()


def test_a_flat_metric_returns_the_start():
    problem = make_problem(seed=0)
    fit = fw_eg(problem.train, problem.val, SoftOracle(lambda _: 0.25))
    assert (fit.status, fit.iterate, fit.score) == ("flat", 0, 0.25)
    prior = np.bincount(problem.train.labels)
    expected = np.argmax(problem.val.eta / prior, axis=1)
    np.testing.assert_array_equal(fit.mixture.predict(problem.val.eta, problem.val.phi), expected)


def test_a_run_ends_when_the_score_has_settled():
    problem = make_problem(seed=1, n_bases=1)
    whole = fw_eg(problem.train, problem.val, GMean(), max_iter=30)
    scores = [line.score for line in whole.trace]
    ranges = [max(scores[t - 4 : t + 1]) - min(scores[t - 4 : t + 1]) for t in range(5, 31)]
    tol = sorted(ranges)[len(ranges) // 2]
    settled = fw_eg(problem.train, problem.val, GMean(), max_iter=30, tol=tol)
    assert (whole.status, settled.status) == ("finished", "settled")
    assert settled.iterate == 5 + next(t for t, each in enumerate(ranges) if each < tol) < 30
    assert settled.score == scores[settled.iterate]
    assert len(settled.vertices) == settled.iterate


@pytest.mark.parametrize("seed", [4, 5])
def test_a_run_that_drifts_ends_with_its_best_iterate(seed):
    """Full weights of few rows: the score reached -0.62 in one step, fell to -1.1, and the run said "finished"."""
    costs = np.array([[0, 1, 4], [1, 0, 1], [9, 1, 0.0]])
    rng = np.random.default_rng(seed)

    def drawn(n_rows):
        eta = rng.dirichlet([2, 1, 0.7], n_rows)
        return Rows.of(eta, labels=(eta.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1))

    metric = from_confusion(lambda table: -(table * costs).sum((-2, -1)), name="cost", weighting="full")
    fit = fw_eg(drawn(4000), drawn(1500), metric, max_iter=30)
    scores = [line.score for line in fit.trace]
    assert fit.status == "drifted"
    assert fit.iterate == int(np.argmax(scores)) < len(scores) - 5
    assert fit.score == max(scores) > -0.65
    assert len(scores) < 20


def test_a_trap_on_the_way_returns_the_best_iterate():
    """The G-mean's gradient is 0 where a recall is 0: a run that falls in there gives what it had before."""

    class Trap(GMean):
        def gradient(self, confusion):
            return -np.eye(len(confusion)) if self.value(confusion) > 0.3 else np.zeros_like(confusion)

    problem = make_problem(seed=0, n_bases=1)
    fit = fw_eg(problem.train, problem.val, Trap(), linearise="gradient", max_iter=5)
    assert fit.status == "flat"
    assert fit.score == max(line.score for line in fit.trace)
    confusion = np.stack(
        [
            fit.mixture.distribution(problem.val.eta, problem.val.phi)[problem.val.labels == i].sum(axis=0)
            for i in range(3)
        ]
    ) / len(problem.val.labels)
    assert float(GMean().value(confusion)) == pytest.approx(fit.score)


def test_the_mixture_has_the_value_that_the_trace_ends_with():
    problem = make_problem(seed=3, n_bases=3, basis="soft")
    fit = fw_eg(problem.train, problem.val, GMean(), max_iter=8)
    oracle = oracle_for("soft", problem.val, GMean())
    table = fit.mixture.distribution(problem.val.eta, problem.val.phi)
    assert float(oracle._function(table)) == pytest.approx(fit.score, rel=1e-12)

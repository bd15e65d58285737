"""The loop: bounds, budgets, repeated queries, refused answers, flat metrics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import MemoryEngine, Mixture, PlugIn, Rows, fw_eg, fw_eg_session, pi_ew
from postshift.core.sums import weighted_confusions
from postshift.core.weighting import DIAGONAL
from postshift.exceptions import AnswerError, NotFinishedError, UnknownQueryError
from postshift.metrics import Accuracy, ConfusionOracle, GMean, HardOracle, MacroF1, SoftOracle
from tests.problems import make_problem, problems

KINDS = ("confusion", "soft", "hard")


def oracle_for(kind, val, metric):
    """An oracle of each kind for the same metric."""
    labels = val.labels

    def soft(table):
        return metric.value(np.stack([table[labels == i].sum(axis=0) for i in range(val.n_classes)]) / len(labels))

    if kind == "confusion":
        return ConfusionOracle(labels, n_classes=val.n_classes)
    if kind == "soft":
        return SoftOracle(soft)
    return HardOracle(lambda predicted: soft(np.eye(val.n_classes)[predicted]))


def new_run(problem, kind, metric, **settings):
    """A session of FW-EG."""
    psi = metric if kind == "confusion" else None
    return fw_eg_session(
        MemoryEngine(problem.train), problem.val, kind=kind, metric=psi, **{"radius": 0.3, "max_iter": 3, **settings}
    )


class Recorder:
    """An oracle that keeps what it was asked."""

    def __init__(self, oracle):
        self.oracle, self.asked = oracle, []
        self.kind, self.takes_subsets = oracle.kind, oracle.takes_subsets

    def answer(self, query):
        rows = None if query.rows is None else query.rows.tobytes()
        self.asked.append((query.kind, rows, np.asarray(query.predictions).tobytes()))
        return self.oracle.answer(query)


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


def test_identical_basis_functions_are_asked_about_once():
    problem = make_problem(seed=0, n_bases=1)

    def doubled(sample):
        return Rows.of(sample.eta, phi=np.repeat(sample.phi, 2, axis=1), labels=sample.labels)

    twice = type(problem)(train=doubled(problem.train), val=doubled(problem.val), radius=0.1)
    run = new_run(twice, "soft", GMean())
    assert len(run.ask()) == 1 + 3  # the base and three probes, not six


@pytest.mark.parametrize("kind", ["soft", "hard"])
@pytest.mark.parametrize(
    "answer", [float("nan"), float("inf"), "0.5", b"0.5", None, [1, 2], [[1], [2, 3]], 1 + 2j, True, 10**400]
)
def test_an_answer_that_is_no_finite_number_is_refused(kind, answer):
    problem = make_problem(seed=0)
    run = new_run(problem, kind, GMean())
    query = run.ask()[1]
    with pytest.raises(AnswerError, match=r"query '1/0:0\.0' \(the score of iterate 0 with everything to class 0"):
        run.tell(query.key, answer)
    assert run.n_queries == 0
    run.run(oracle_for(kind, problem.val, GMean()))
    assert run.result().status == "finished"


@pytest.mark.parametrize(
    "answer",
    [
        0.5,
        np.zeros((3, 3)),
        np.zeros((3, 3, 3)),
        np.full((3, 3, 3), 1.0),
        np.stack([np.eye(3) / 3, np.eye(3)[::-1] / 3, np.eye(3) / 3]),
        np.ones((3, 3, 3), dtype=bool),
        np.full((3, 3, 3), 1 / 9 + 1j),
        np.full((3, 6, 3), 1 / 18),
        np.full((3, 3, 3), np.nan),
        np.full((3, 3, 3), -1.0),
        np.zeros((2, 3, 3)),
        np.zeros((3, 3, 4)),
        "matrix",
        None,
    ],
)
def test_confusions_that_cannot_be_are_refused(answer):
    problem = make_problem(seed=0)
    run = new_run(problem, "confusion", GMean())
    with pytest.raises(AnswerError, match=r"query '0/0:0\.0' \(confusion matrices of the start\)"):
        run.tell(run.ask()[0].key, answer)
    run.run(oracle_for("confusion", problem.val, GMean()))
    assert run.result().status == "finished"


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


def test_pi_ew_is_one_plug_in_and_the_start_has_no_share():
    problem = make_problem(seed=0)
    fit = pi_ew(problem.train, problem.val, GMean())
    assert len(fit.mixture.members) == 1
    assert fit.trace[0].step == 1.0
    assert fit.n_queries == 2


def test_the_mixture_has_the_value_that_the_trace_ends_with():
    problem = make_problem(seed=3, n_bases=3, basis="soft")
    fit = fw_eg(problem.train, problem.val, GMean(), max_iter=8)
    oracle = oracle_for("soft", problem.val, GMean())
    table = fit.mixture.distribution(problem.val.eta, problem.val.phi)
    assert float(oracle._function(table)) == pytest.approx(fit.score, rel=1e-12)


def test_a_start_of_ones_own():
    problem = make_problem(seed=0)
    rule = PlugIn(weighting=DIAGONAL, alpha=np.array([[1.0, 2, 3], [3.0, 2, 1]]), n_classes=3)
    start = Mixture.of([rule], [1.0])
    fit = fw_eg(problem.train, problem.val, SoftOracle(lambda _: 1.0), start=start)
    assert fit.mixture.members[0].alpha.tobytes() == rule.alpha.tobytes()


def test_halves_are_asked_about_apart():
    problem = make_problem(seed=0)
    halves = (np.arange(0, 60, 2), np.arange(1, 60, 2))
    seen = []
    fit = fw_eg(
        problem.train,
        problem.val,
        GMean(),
        halves=halves,
        linearise="gradient",
        max_iter=2,
        on_answer=lambda query, _: seen.append(query.rows.tolist()),
    )
    assert seen == [half.tolist() for half in halves] * 2 + [halves[0].tolist()]  # the last: its value only
    assert fit.n_queries == 5
    unknown = fw_eg(problem.train, problem.val, GMean(), halves=halves, max_iter=2)
    assert unknown.n_queries == 3  # unknown psi never looks at the second half


def test_an_oracle_that_reuses_its_buffer():
    problem = make_problem(seed=0)
    oracle = oracle_for("confusion", problem.val, GMean())
    buffer = np.zeros((3, 3, 3))

    class Reusing:
        kind, takes_subsets = "confusion", True

        def answer(self, query):
            buffer[:] = oracle.answer(query)
            return buffer

    one = fw_eg(problem.train, problem.val, GMean(), max_iter=4)
    two = fw_eg(problem.train, problem.val, GMean(), max_iter=4, oracle=Reusing())
    assert one.trace == two.trace


@pytest.mark.parametrize("scale", [1e-14, 1e14])
def test_the_scale_of_the_metric_does_not_matter(scale):
    class Scaled(GMean):
        def value(self, confusion):
            return scale * GMean.value(self, confusion)

    problem = make_problem(seed=0)
    fit = fw_eg(problem.train, problem.val, Scaled(), max_iter=4)
    assert fit.status == "finished"
    assert fit.score == pytest.approx(scale * fw_eg(problem.train, problem.val, GMean(), max_iter=4).score)


def test_a_group_wise_metric_has_more_categories_than_classes():
    """Rows of the matrix are (group, class) pairs: the worst group's accuracy, by an owner of matrices."""
    problem = make_problem(seed=0, n_val=300)
    groups = np.arange(300) % 2
    pairs = groups * 3 + problem.val.labels

    class WorstGroup:
        name, weighting, n_categories = "worst_group", "diagonal", 6

        def value(self, confusion):
            by_group = confusion.reshape(*confusion.shape[:-2], 2, 3, 3)
            hits = np.trace(by_group, axis1=-2, axis2=-1) / by_group.sum(axis=(-1, -2))
            return hits.min(axis=-1)

    class Owner:
        kind, takes_subsets = "confusion", True

        def answer(self, query):
            return weighted_confusions(query.columns / 300, pairs, query.predictions, n_categories=6)

    val = Rows.of(problem.val.eta, phi=problem.val.phi)
    fit = fw_eg(problem.train, val, WorstGroup(), oracle=Owner(), max_iter=5)
    table = fit.mixture.distribution(val.eta, val.phi)
    right = table[np.arange(300), problem.val.labels]
    assert fit.score == pytest.approx(min(right[groups == g].mean() for g in (0, 1)))


def test_a_metric_with_noise_and_hard_labels_still_improves():
    problem = make_problem(seed=2, n_train=3000, n_val=1500, n_bases=2)
    oracle = oracle_for("hard", problem.val, Accuracy())
    fit = fw_eg(problem.train, problem.val, oracle, radius=0.4, max_iter=10)
    exact = fw_eg(problem.train, problem.val, Accuracy(), radius=0.4, max_iter=10)
    assert fit.score > exact.score - 0.03

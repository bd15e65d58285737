"""The conversation: bounds, budgets, repeated queries, refused answers, saving and resuming."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import (
    Accuracy,
    ConfusionOracle,
    ExpectedReward,
    FrankWolfe,
    GMean,
    HardOracle,
    MacroF1,
    MemoryEngine,
    Mixture,
    PlugIn,
    Rows,
    Settings,
    SoftOracle,
    converse,
    fw_eg,
    pi_ew,
)
from postshift.core.moments import weighted_confusions
from postshift.core.weighting import DIAGONAL
from postshift.exceptions import AnswerError, ArchiveError, NotFinishedError, UnknownQueryError
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
    return FrankWolfe(
        MemoryEngine(problem.train),
        problem.val,
        kind=kind,
        metric=metric if kind == "confusion" else None,
        settings=Settings(**{"radius": 0.3, "max_iter": 3, **settings}),
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
    converse(run, recorder)
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
    run = new_run(make_problem(seed=0), "soft", GMean(), budget=budget)
    assert run.n_iter == n_iter
    assert run.max_queries <= budget


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
    with pytest.raises(AnswerError, match=r"query '0:0\.0' \(the value of iterate 0 with everything to class 0"):
        run.tell(query.key, answer)
    assert run.n_queries == 0
    converse(run, oracle_for(kind, problem.val, GMean()))
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
    with pytest.raises(AnswerError, match=r"query '0:0\.0' \(confusion matrices of the start\)"):
        run.tell(run.ask()[0].key, answer)
    converse(run, oracle_for("confusion", problem.val, GMean()))
    assert run.result().status == "finished"


def test_an_answer_to_no_open_query():
    run = new_run(make_problem(seed=0), "soft", GMean())
    with pytest.raises(UnknownQueryError, match="no open query '9:base'; open are"):
        run.tell("9:base", 0.5)
    query = run.ask()[0]
    run.tell(query.key, 0.5)
    with pytest.raises(UnknownQueryError, match="no open query"):
        run.tell(query.key, 0.5)


def test_answers_in_any_order():
    problem = make_problem(seed=0)
    oracle = oracle_for("soft", problem.val, GMean())
    forward, backward = new_run(problem, "soft", GMean()), new_run(problem, "soft", GMean())
    converse(forward, oracle)
    while queries := backward.ask():
        for query in reversed(queries):
            backward.tell(query.key, oracle.answer(query))
    np.testing.assert_array_equal(forward.state.vertices, backward.state.vertices)


def test_the_result_of_an_unfinished_run():
    run = new_run(make_problem(seed=0), "soft", GMean())
    with pytest.raises(NotFinishedError, match=r"7 open query\(s\) in iteration 0 of 3"):
        run.result()


def test_a_flat_metric_returns_the_start():
    problem = make_problem(seed=0)
    fit = fw_eg(problem.train, problem.val, SoftOracle(lambda _: 0.25))
    assert (fit.status, fit.iterate, fit.value) == ("flat", 0, 0.25)
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
    assert fit.value == max(line.value for line in fit.trace)
    confusion = np.stack(
        [
            fit.mixture.distribution(problem.val.eta, problem.val.phi)[problem.val.labels == i].sum(axis=0)
            for i in range(3)
        ]
    ) / len(problem.val.labels)
    assert float(GMean().value(confusion)) == pytest.approx(fit.value)


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
    assert float(oracle._function(table)) == pytest.approx(fit.value, rel=1e-12)


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


# -- saving and resuming -------------------------------------------------------------------------------------

RESUME = """
import sys
import numpy as np
from postshift import FrankWolfe, GMean, MemoryEngine, converse
from tests.core.test_frank_wolfe import oracle_for
from tests.problems import make_problem

kind, saved, out = sys.argv[1:]
problem = make_problem(seed=5, n_bases=2, basis="soft", n_val=30)
metric = GMean()
run = FrankWolfe.load(
    saved, MemoryEngine(problem.train), problem.val, kind=kind, metric=metric if kind == "confusion" else None
)
before = run.n_queries
converse(run, oracle_for(kind, problem.val, metric))
run.save(out + ".run.npz")
run.result().mixture.save(out)
print(before, run.n_queries)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_saved_after_any_answer_and_resumed_elsewhere_it_ends_in_the_same_bytes(kind, tmp_path):
    problem, metric = make_problem(seed=5, n_bases=2, basis="soft", n_val=30), GMean()
    oracle = oracle_for(kind, problem.val, metric)
    whole = new_run(problem, kind, metric)
    saves = []

    def keep(_query, _answer):
        saves.append(tmp_path / f"after_{len(saves) + 1}.npz")
        whole.save(saves[-1])

    converse(whole, oracle, on_answer=keep)
    whole.save(tmp_path / "whole.run.npz")
    whole.result().mixture.save(tmp_path / "whole.npz")
    expected = (tmp_path / "whole.npz").read_bytes(), (tmp_path / "whole.run.npz").read_bytes()
    for count, saved in enumerate(saves, start=1):  # every save, in this process
        run = FrankWolfe.load(
            saved,
            MemoryEngine(problem.train),
            problem.val,
            kind=kind,
            metric=metric if kind == "confusion" else None,
        )
        recorder = Recorder(oracle)
        converse(run, recorder)
        assert len(recorder.asked) == len(saves) - count
        run.result().mixture.save(tmp_path / "again.npz")
        run.save(tmp_path / "again.run.npz")
        assert ((tmp_path / "again.npz").read_bytes(), (tmp_path / "again.run.npz").read_bytes()) == expected
    for saved in (saves[0], saves[len(saves) // 2]):  # and two of them in another process
        out = tmp_path / "other.npz"
        done = subprocess.run(
            [sys.executable, "-c", RESUME, kind, str(saved), str(out)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        )
        assert done.stdout.split()[1] == str(len(saves))
        found = out.read_bytes(), Path(f"{out}.run.npz").read_bytes()
        assert found == expected


class TestLoading:
    @pytest.fixture
    def problem(self):
        return make_problem(seed=0)

    @pytest.fixture
    def saved(self, problem, tmp_path):
        run = new_run(problem, "confusion", ExpectedReward(np.eye(3)))
        query = run.ask()[0]
        run.tell(query.key, oracle_for("confusion", problem.val, GMean()).answer(query))
        run.save(tmp_path / "run.npz")
        return tmp_path / "run.npz"

    def load(self, saved, train, val, *, kind="confusion", metric=None, **more):
        return FrankWolfe.load(
            saved, MemoryEngine(train), val, kind=kind, metric=metric or ExpectedReward(np.eye(3)), **more
        )

    def test_the_same(self, saved, problem):
        assert self.load(saved, problem.train, problem.val).n_queries == 1

    @pytest.mark.parametrize("what", ["eta", "labels", "phi"])
    def test_other_training_rows(self, saved, problem, what):
        train = problem.train
        parts = {"eta": train.eta, "phi": train.phi, "labels": train.labels, what: getattr(train, what)[::-1]}
        with pytest.raises(ArchiveError, match="begun with other data"):
            self.load(saved, Rows.of(**parts), problem.val)

    @pytest.mark.parametrize("what", ["eta", "labels", "phi"])
    def test_other_validation_rows(self, saved, problem, what):
        val = problem.val
        parts = {"eta": val.eta, "phi": val.phi, "labels": val.labels, what: getattr(val, what)[::-1]}
        with pytest.raises(ArchiveError, match="begun with other data"):
            self.load(saved, problem.train, Rows.of(**parts))

    @pytest.mark.parametrize("metric", [GMean(), ExpectedReward(-np.eye(3))])
    def test_another_metric(self, saved, problem, metric):
        with pytest.raises(ArchiveError, match="kind of query, metric"):
            self.load(saved, problem.train, problem.val, metric=metric)

    def test_another_start_kind_or_halves(self, saved, problem):
        rule = PlugIn(weighting="diagonal", alpha=np.ones((2, 3)), n_classes=3)
        others = [
            {"start": Mixture.of([rule], [1.0])},
            {"kind": "hard"},
            {"halves": (np.arange(30), np.arange(30, 60))},
        ]
        for other in others:
            with pytest.raises(ArchiveError, match="begun with other data"):
                self.load(saved, problem.train, problem.val, **other)

    def test_another_file(self, problem, tmp_path):
        rule = PlugIn(weighting="diagonal", alpha=np.ones((1, 2)), n_classes=2)
        Mixture.of([rule], [1.0]).save(tmp_path / "m.npz")
        with pytest.raises(ArchiveError, match=r"must hold a postshift run\. Got 'mixture'"):
            self.load(tmp_path / "m.npz", problem.train, problem.val)
        with pytest.raises(FileNotFoundError):
            self.load(tmp_path / "nothing.npz", problem.train, problem.val)

    def test_a_file_that_was_changed(self, saved, problem):
        with np.load(saved) as archive:
            arrays = dict(archive)
        np.savez(
            saved,
            **{**arrays, "view": arrays["view"] * 2} if "view" in arrays else {**arrays, "known": arrays["known"] * 2},
        )
        with pytest.raises(ArchiveError, match="damaged or changed"):
            self.load(saved, problem.train, problem.val)

    def test_every_damaged_byte_is_found_or_harmless(self, saved, problem):
        whole = saved.read_bytes()
        rng = np.random.default_rng(0)
        for place in rng.integers(len(whole), size=150):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << int(rng.integers(8))
            saved.write_bytes(bytes(damaged))
            try:
                assert self.load(saved, problem.train, problem.val).n_queries == 1
            except ArchiveError:
                continue

    def test_numbers_of_numpy_as_settings(self, problem, tmp_path):
        run = new_run(problem, "soft", GMean(), max_iter=np.int64(2), radius=np.float32(0.5))
        run.save(tmp_path / "run.npz")
        loaded = FrankWolfe.load(tmp_path / "run.npz", MemoryEngine(problem.train), problem.val, kind="soft")
        assert loaded.settings == run.settings

    def test_others_may_read_the_file(self, saved):
        umask = os.umask(0)
        os.umask(umask)
        assert saved.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_oracle_that_reuses_its_buffer():
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
    assert fit.value == pytest.approx(scale * fw_eg(problem.train, problem.val, GMean(), max_iter=4).value)


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
    assert fit.value == pytest.approx(min(right[groups == g].mean() for g in (0, 1)))


def test_a_metric_with_noise_and_hard_labels_still_improves():
    problem = make_problem(seed=2, n_train=3000, n_val=1500, n_bases=2)
    oracle = oracle_for("hard", problem.val, Accuracy())
    fit = fw_eg(problem.train, problem.val, oracle, radius=0.4, max_iter=10)
    exact = fw_eg(problem.train, problem.val, Accuracy(), radius=0.4, max_iter=10)
    assert fit.value > exact.value - 0.03

"""Sessions: the journal, resuming, killed processes, two sessions on one journal, damage, the best rule so far."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from postshift import MemoryEngine, Mixture, PlugIn, Rows, Session, fw_eg, fw_eg_session
from postshift.core.queries import Query
from postshift.core.session import _check
from postshift.exceptions import ArchiveError, BudgetError, NotFinishedError
from postshift.metrics import ExpectedReward, GMean, WorstGroup
from postshift.rules import Choice, Problem
from tests.core.runs import KINDS, Recorder, new_run, oracle_for
from tests.problems import make_problem
from tests.rules.helpers import tables, value_of

ROOT = Path(__file__).parents[2]


def small_problem():
    return make_problem(seed=5, n_bases=2, basis="soft", n_val=30)


def alphas(fit):
    return np.array([rule.alpha for rule in fit.vertices])


# -- resuming ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_resumed_after_any_answer_it_ends_in_the_same_bytes(kind, tmp_path):
    problem, oracle = small_problem(), oracle_for(kind, small_problem().val, GMean())
    whole = new_run(problem, kind, GMean(), journal=tmp_path / "whole.jsonl").run(oracle)
    whole.mixture.save(tmp_path / "whole.npz")
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + whole.n_queries
    for count in range(len(lines)):
        path = tmp_path / f"{count}.jsonl"
        path.write_bytes(b"".join(lines[: 1 + count]))
        recorder = Recorder(oracle)
        again = new_run(problem, kind, GMean(), journal=path).run(recorder)
        assert len(recorder.asked) == whole.n_queries - count
        assert again.trace == whole.trace
        again.mixture.save(tmp_path / "again.npz")
        assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
        assert path.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_an_oracle_that_raises_loses_no_answer(kind, tmp_path):
    problem, oracle = small_problem(), oracle_for(kind, small_problem().val, GMean())
    expected = new_run(problem, kind, GMean()).run(oracle)
    rng, count = np.random.default_rng(0), [0]

    class Failing:
        takes_subsets = True

        def answer(self, query):
            count[0] += 1
            if rng.random() < 0.2:
                raise ConnectionError("the line is dead")
            return oracle.answer(query)

    path, fit, failures = tmp_path / "run.jsonl", None, 0
    while fit is None:
        with new_run(problem, kind, GMean(), journal=path) as session:
            try:
                fit = session.run(Failing())
            except ConnectionError:
                failures += 1
    assert failures > 0
    assert count[0] == expected.n_queries + failures  # only the query in flight is asked again
    np.testing.assert_array_equal(alphas(fit), alphas(expected))


def test_a_session_goes_on_after_an_error_without_a_journal():
    problem, oracle = small_problem(), oracle_for("soft", small_problem().val, GMean())
    calls = []

    class Failing:
        def answer(self, query):
            calls.append(query.key)
            if len(calls) == 10:
                raise ConnectionError
            return oracle.answer(query)

    session = new_run(problem, "soft", GMean())
    with pytest.raises(ConnectionError):
        session.run(Failing())
    assert session.n_queries == 9
    fit = session.run(Failing())
    assert len(calls) == fit.n_queries + 1


RUN = """
import sys, time
from postshift import MemoryEngine, fw_eg_session
from tests.core.test_frank_wolfe import oracle_for
from tests.problems import make_problem
from postshift.metrics import GMean

journal, asked, out, threads, pause = sys.argv[1:]
problem = make_problem(seed=5, n_bases=2, basis="soft", n_val=30)
oracle = oracle_for("hard", problem.val, GMean())

class Slow:
    def answer(self, query):
        with open(asked, "a") as stream:
            stream.write(query.fingerprint() + "\\n")
        time.sleep(float(pause))
        return oracle.answer(query)

engine = MemoryEngine(problem.train, n_threads=int(threads), block_rows=40)
with fw_eg_session(engine, problem.val, kind="hard", radius=0.3, max_iter=3, journal=journal) as session:
    session.run(Slow()).mixture.save(out)
"""


def start(tmp_path, *, threads=1, pause=0.0, name="run"):
    files = [str(tmp_path / f"{name}.{end}") for end in ("jsonl", "asked", "npz")]
    return subprocess.Popen([sys.executable, "-c", RUN, *files, str(threads), str(pause)], cwd=ROOT)


@pytest.mark.slow
def test_killed_at_random_moments_it_loses_no_answer(tmp_path):
    """SIGKILL, again and again: at most the query in flight is asked again, and the bytes are the same."""
    assert start(tmp_path, name="whole").wait() == 0
    rng, kills = np.random.default_rng(1), 0
    while True:
        process = start(tmp_path, pause=0.1, threads=1 + kills % 2)
        try:
            process.wait(timeout=1.5 + 1.5 * rng.random() if kills < 6 else None)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            continue
        break
    assert process.returncode == 0
    whole, asked = ((tmp_path / f"{name}.asked").read_text().split() for name in ("whole", "run"))
    assert set(asked) == set(whole)
    assert len(asked) - len(whole) <= kills
    assert (tmp_path / "run.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_another_number_of_threads_gives_the_same_bytes(tmp_path):
    problem = small_problem()
    oracle, found = oracle_for("hard", problem.val, GMean()), []
    for n_threads in (1, 2, 3):
        engine = MemoryEngine(problem.train, n_threads=n_threads, block_rows=40)
        path = tmp_path / "run.jsonl"
        if n_threads > 1:  # resumes the first half of the answers
            path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:9]))
        how = {"kind": "hard", "radius": 0.3, "max_iter": 3, "journal": path}
        with fw_eg_session(engine, problem.val, **how) as session:
            session.run(oracle).mixture.save(tmp_path / "found.npz")
        found.append((tmp_path / "found.npz").read_bytes())
    assert found[0] == found[1] == found[2]


# -- one session a journal -----------------------------------------------------------------------------------


def test_a_second_session_on_a_journal_is_refused_by_name(tmp_path):
    problem, path = small_problem(), tmp_path / "run.jsonl"
    with new_run(problem, "soft", GMean(), journal=path) as first:
        answer(first, problem)
        with pytest.raises(ArchiveError, match=r"run\.jsonl is in use by another session"):
            new_run(problem, "soft", GMean(), journal=path)
        answer(first, problem)
    with new_run(problem, "soft", GMean(), journal=path) as later:
        assert later.n_queries == 2


def test_a_second_process_on_a_journal_is_refused_by_name(tmp_path):
    problem, path = small_problem(), tmp_path / "run.jsonl"
    how = "kind='soft', radius=0.3, max_iter=3"
    code = (
        "import sys; from postshift import MemoryEngine, fw_eg_session; from tests.core.test_session import *;"
        f"p = small_problem(); fw_eg_session(MemoryEngine(p.train), p.val, {how}, journal=sys.argv[1])"
    )
    command = [sys.executable, "-c", code, path]
    with new_run(problem, "soft", GMean(), journal=path) as session:
        answer(session, problem)
        other = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert other.returncode == 1
        assert "run.jsonl is in use by another session" in other.stderr
        answer(session, problem)
        assert session.n_queries == 2
    assert len(path.read_bytes().splitlines()) == 3


def test_a_finished_session_lets_go_of_its_journal(tmp_path):
    problem, path = small_problem(), tmp_path / "run.jsonl"
    oracle = oracle_for("soft", problem.val, GMean())
    session = new_run(problem, "soft", GMean(), journal=path)
    first = session.run(oracle)
    recorder = Recorder(oracle)
    again = fw_eg(problem.train, problem.val, recorder, radius=0.3, max_iter=3, journal=path)
    assert recorder.asked == []
    np.testing.assert_array_equal(alphas(first), alphas(again))


def answer(session, problem, place=0):
    query = session.ask()[place]
    session.tell(query.key, oracle_for(query.kind, problem.val, GMean()).answer(query))


# -- a journal is resumed by the same run only -----------------------------------------------------------------


class TestAbout:
    @pytest.fixture
    def problem(self):
        return make_problem(seed=0)

    @pytest.fixture
    def journal(self, problem, tmp_path):
        path = tmp_path / "run.jsonl"
        with self.resume(path, problem.train, problem.val) as session:
            answer(session, problem)
        return path

    def resume(self, journal, train, val, *, kind="confusion", metric=None, **more):
        metric = metric or ExpectedReward(np.eye(3))
        return fw_eg_session(MemoryEngine(train), val, kind=kind, metric=metric, journal=journal, **more)

    def test_the_same(self, journal, problem):
        with self.resume(journal, problem.train, problem.val) as session:
            assert session.n_queries == 1

    @pytest.mark.parametrize("side", ["train", "val"])
    @pytest.mark.parametrize("what", ["eta", "labels", "phi"])
    def test_other_rows(self, journal, problem, side, what):
        rows = getattr(problem, side)
        parts = {"eta": rows.eta, "phi": rows.phi, "labels": rows.labels, what: getattr(rows, what)[::-1]}
        sides = {"train": problem.train, "val": problem.val, side: Rows.of(**parts)}
        with pytest.raises(ArchiveError, match=r"run\.jsonl was started with other data"):
            self.resume(journal, **sides)

    def test_another_metric_start_kind_radius_or_halves(self, journal, problem):
        rule = PlugIn(weighting="diagonal", alpha=np.ones((2, 3)), n_classes=3)
        others = [
            {"metric": GMean()},
            {"metric": ExpectedReward(-np.eye(3))},
            {"start": Mixture.of([rule], [1.0])},
            {"kind": "hard"},
            {"radius": 0.2},
            {"halves": (np.arange(30), np.arange(30, 60))},
        ]
        for other in others:
            with pytest.raises(ArchiveError, match="started with other data"):
                self.resume(journal, problem.train, problem.val, **other)

    def test_another_file(self, problem, tmp_path):
        path = tmp_path / "m.npz"
        Mixture.of([PlugIn(weighting="diagonal", alpha=np.ones((1, 2)), n_classes=2)], [1.0]).save(path)
        before = path.read_bytes()
        with pytest.raises(ArchiveError, match=r"line 1 of .*m\.npz was damaged"):
            self.resume(path, problem.train, problem.val)
        assert path.read_bytes()[: len(before) // 2] == before[: len(before) // 2]
        with pytest.raises(ArchiveError, match="is not a regular file"):
            self.resume(tmp_path, problem.train, problem.val)
        (tmp_path / "link.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
        with pytest.raises(ArchiveError, match="is not a regular file"):
            self.resume(tmp_path / "link.jsonl", problem.train, problem.val)
        assert not (tmp_path / "elsewhere.jsonl").exists()


# -- damage --------------------------------------------------------------------------------------------------


@pytest.fixture
def journal(tmp_path):
    path, problem = tmp_path / "run.jsonl", small_problem()
    with new_run(problem, "soft", GMean(), journal=path) as session:
        for _ in range(3):
            answer(session, problem)
    return path


def resumed(path):
    with new_run(small_problem(), "soft", GMean(), journal=path) as session:
        return session.n_queries


def test_every_cut_of_the_file_is_resumed(journal):
    whole = journal.read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(0, len(whole) + 1, 7):
        journal.write_bytes(whole[:cut])
        assert resumed(journal) == max(0, sum(end <= cut for end in ends) - 1)


def test_every_damaged_byte_is_found_or_in_the_last_line(journal):
    whole = journal.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(len(whole), size=300):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        journal.write_bytes(bytes(damaged))
        try:
            assert resumed(journal) == 3 or place == len(whole) - 1
        except ArchiveError as error:
            assert "run.jsonl" in str(error)  # noqa: PT017


CONTENTS = [
    b"",
    b"null",
    b"[]",
    b"3",
    b'"text"',
    b"{}",
    b'{"check": "x"}',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"query": "a", "answer": 1}',
]


@pytest.mark.parametrize("content", CONTENTS)
def test_a_line_that_no_session_wrote_is_refused_in_words(content, journal):
    with journal.open("ab") as stream:
        stream.write(content + b"\n")
    with pytest.raises(ArchiveError, match=r"line 5 of .*run\.jsonl was damaged"):
        resumed(journal)


@pytest.mark.parametrize(
    "answered",
    [None, "0.5", [], {}, [[1], [2, 3]], 1e400, float("nan"), True, [0.5, 0.5], 1e200],
)
def test_an_answer_that_cannot_be_one_is_refused_in_words(answered, journal):
    """Even with a right check: a line that was changed by someone who knows how checks are made."""
    lines = journal.read_bytes().splitlines(keepends=True)
    content = json.loads(lines[1])
    content["answer"] = answered
    content.pop("check")
    lines[1] = json.dumps({**content, "check": _check(content)}).encode() + b"\n"
    journal.write_bytes(b"".join(lines))
    problem = small_problem()
    oracle = oracle_for("soft", problem.val, GMean())
    with pytest.raises(ArchiveError, match=r"run\.jsonl was changed|line 2 of .*run\.jsonl was damaged"):
        run_once(problem, journal, oracle)


def run_once(problem, journal, oracle):
    with new_run(problem, "soft", GMean(), journal=journal) as session:
        session.run(oracle)


def test_a_full_disk_leaves_the_journal_whole(journal, monkeypatch):
    problem = small_problem()
    before = journal.read_bytes()
    with new_run(problem, "soft", GMean(), journal=journal) as session:

        def full(_file):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("postshift.core.session.os.fsync", full)
            with pytest.raises(OSError, match="No space left"):
                answer(session, problem)
        assert session.n_queries == 3
        assert journal.read_bytes() == before
        answer(session, problem)
    assert resumed(journal) == 4


# -- budgets and the best so far -------------------------------------------------------------------------------


def asking(*predictions, budget=None):
    """A session that asks about these labels, one after the other, and returns the answers."""

    def fit():
        found = []
        for place, labels in enumerate(predictions):
            shown = np.array(labels)
            found += yield [Query(key=str(place), kind="hard", text="q", n_rows=2, _predict=lambda shown=shown: shown)]
        return found

    return Session(fit, budget=budget)


def test_the_same_labels_are_asked_about_once():
    session = asking([0, 1], [1, 1], [0, 1])
    for value in (0.5, 0.75):
        session.tell(session.ask()[0].key, value)
    assert session.result() == [0.5, 0.75, 0.5]


def test_a_budget_is_never_exceeded_and_can_be_raised():
    session = asking([0, 1], [1, 1], [1, 0], budget=2)
    session.tell(session.ask()[0].key, 0.1)
    session.tell(session.ask()[0].key, 0.2)
    with pytest.raises(BudgetError, match=r"2 queries were answered and 1 more are needed; the budget is 2"):
        session.ask()
    session.budget = 3
    session.tell(session.ask()[0].key, 0.3)
    assert session.result() == [0.1, 0.2, 0.3]


def test_the_best_so_far_can_be_taken_at_any_time():
    problem, oracle = small_problem(), oracle_for("soft", small_problem().val, GMean())
    session = new_run(problem, "soft", GMean())
    with pytest.raises(NotFinishedError, match="no classifier is scored yet"):
        session.best_so_far()
    best = []
    while queries := session.ask():
        for query in queries:
            session.tell(query.key, oracle.answer(query))
        session.ask()
        found = session.best_so_far()
        table = found.rule.predict_distribution(problem.val.eta, problem.val.phi)
        assert value_of(GMean(), problem.val.labels, table) == pytest.approx(found.score)
        best.append(found.score)
    assert best == sorted(best)
    assert best[-1] == max(line.score for line in session.result().trace)


# -- the menu --------------------------------------------------------------------------------------------------


def other_labels(rows):
    return replace(rows, labels=(rows.labels + 1) % rows.n_classes)


def weighted(rows, factor=1.0):
    return replace(rows, weights=factor * np.linspace(1, 2, rows.n_rows))


def renamed(rows):
    return replace(rows, bases={"constant": rows.bases["constant"], "other": rows.bases["user"]})


OTHERS = {
    "training labels": lambda train, val: Problem.queried(other_labels(train), val, kind="soft", reads_labels=True),
    "validation labels": lambda train, val: Problem.queried(train, other_labels(val), kind="soft", reads_labels=True),
    "no labels": lambda train, val: Problem.queried(train, val, kind="soft"),
    "training weights": lambda train, val: Problem.queried(weighted(train), val, kind="soft", reads_labels=True),
    "validation weights": lambda train, val: Problem.queried(train, weighted(val), kind="soft", reads_labels=True),
    "scale": lambda train, val: Problem.queried(train, val, kind="soft", reads_labels=True, scale=100.0),
    "subsets": lambda train, val: Problem.queried(train, val, kind="soft", reads_labels=True, takes_subsets=True),
    "hard": lambda train, val: Problem.queried(train, val, kind="hard", reads_labels=True),
    "no training rows": lambda _, val: Problem.queried(None, val, kind="soft", reads_labels=True),
    "names of bases": lambda train, val: Problem.queried(renamed(train), renamed(val), kind="soft", reads_labels=True),
}  # fmt: skip


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_problems_that_differ_have_other_digests(other):
    sides = tables(9, n_val=100)
    one = Problem.queried(*sides, kind="soft", reads_labels=True)
    same = Problem.queried(*tables(9, n_val=100), kind="soft", reads_labels=True)
    assert one.digest() == same.digest() != other(*sides).digest()


def test_labelled_problems_of_other_groups_differ():
    train, val = tables(9, n_val=100)
    groups = np.arange(val.n_rows) % 2
    metric = WorstGroup("accuracy", n_classes=val.n_classes, n_groups=2)
    problems = [Problem.labelled(train, val, metric, groups=each) for each in (groups, 1 - groups)]
    assert problems[0].digest() != problems[1].digest()


def test_the_menu_is_resumed_and_its_best_rule_can_be_taken(tmp_path):
    train, val = tables(9, n_val=100)
    problem = Problem.queried(train, val, kind="soft")

    def session_of(path):
        return Session(lambda: Choice(budget=80).fit(problem), journal=path, about=problem.digest())

    def tell(session):
        query = session.ask()[0]
        session.tell(query.key, value_of(GMean(), val.labels, query.predictions))

    whole = session_of(None)
    while whole.ask():
        tell(whole)
    path, told = tmp_path / "run.jsonl", 0
    for _ in range(200):
        with session_of(path) as session:
            assert session.n_queries == told
            for _ in range(7):
                if session.ask():
                    tell(session)
                    told += 1
            if session.n_queries > 1:
                assert session.best_so_far().rule.labels(val).shape == (100,)
            if not session.ask():
                break
    assert told == whole.n_queries
    assert session.result().record == whole.result().record


# -- answers that were wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize("has_journal", [False, True])
def test_the_last_answer_is_taken_back(has_journal, tmp_path):
    path = tmp_path / "run.jsonl" if has_journal else None
    problem = small_problem()
    with new_run(problem, "hard", GMean(), journal=path) as session:
        with pytest.raises(NotFinishedError, match="no answer to take back"):
            session.take_back()
        asked = []
        for answer in (0.4, 0.5):
            (query, *_) = session.ask()
            asked.append(query.fingerprint())
            session.tell(query.key, answer)
        before = path.read_bytes() if has_journal else b""
        session.take_back()
        assert session.n_queries == 1
        (query, *_) = session.ask()
        assert query.fingerprint() == asked[-1]
        session.tell(query.key, 0.5)
        assert [answer for _, answer in session.answers] == [0.4, 0.5]
        assert all(text for text, _ in session.answers)
    if has_journal:
        assert path.read_bytes() == before


def test_the_scores_of_a_finished_session_stay():
    problem = small_problem()
    session = new_run(problem, "hard", GMean())
    session.run(oracle_for("hard", problem.val, GMean()))
    assert session.scores
    assert session.best_so_far().score == max(session.scores)

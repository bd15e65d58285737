"""Run files of conversations: two processes on one file, and files that were changed by hand."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from postshift import FrankWolfe, GMean, MemoryEngine, converse
from postshift.core.influence import InfluenceRegression
from postshift.exceptions import ArchiveError
from tests.core.test_frank_wolfe import new_run, oracle_for
from tests.problems import make_problem

KINDS = ("confusion", "soft", "hard")
ANSWER = """
import sys
from postshift import FrankWolfe, GMean, MemoryEngine
from tests.core.test_frank_wolfe import oracle_for
from tests.problems import make_problem

problem = make_problem(seed=5, n_bases=2, basis="soft", n_val=30)
run = FrankWolfe.load(sys.argv[1], MemoryEngine(problem.train), problem.val, kind="soft")
query = run.ask()[int(sys.argv[2])]
run.tell(query.key, oracle_for("soft", problem.val, GMean()).answer(query))
run.save(sys.argv[1])
"""


@pytest.fixture
def problem():
    return make_problem(seed=5, n_bases=2, basis="soft", n_val=30)


def load(path, problem, kind):
    metric = GMean() if kind == "confusion" else None
    return FrankWolfe.load(path, MemoryEngine(problem.train), problem.val, kind=kind, metric=metric)


def answer(run, problem, kind, place=0):
    query = run.ask()[place]
    run.tell(query.key, oracle_for(kind, problem.val, GMean()).answer(query))


@pytest.mark.parametrize("kind", ["soft", "hard"])  # of matrices one query is open at a time
def test_a_run_that_another_process_went_on_with_is_not_overwritten(kind, problem, tmp_path):
    path = tmp_path / "run.npz"
    first = new_run(problem, kind, GMean())
    answer(first, problem, kind)
    first.save(path)
    second = load(path, problem, kind)
    answer(second, problem, kind)
    second.save(path)
    whole = path.read_bytes()
    answer(first, problem, kind, place=-1)
    with pytest.raises(ArchiveError, match=r"run\.npz has 1 answers that this run does not know.*Load it"):
        first.save(path)
    assert path.read_bytes() == whole
    first.save(tmp_path / "other.npz")  # as the message says
    again = load(path, problem, kind)
    converse(again, oracle_for(kind, problem.val, GMean()))
    again.save(path)
    assert load(path, problem, kind).n_queries == again.n_queries


def test_a_new_run_does_not_overwrite_an_older_one(problem, tmp_path):
    path = tmp_path / "run.npz"
    first = new_run(problem, "soft", GMean())
    for _ in range(3):
        answer(first, problem, "soft")
    first.save(path)
    second = new_run(problem, "soft", GMean())
    answer(second, problem, "soft")
    with pytest.raises(ArchiveError, match="has 2 answers that this run does not know"):
        second.save(path)
    for _ in range(3):
        answer(second, problem, "soft")
    second.save(path)  # now it knows them all


def test_of_two_processes_at_once_no_answer_is_lost_silently(problem, tmp_path):
    path = tmp_path / "run.npz"
    run = new_run(problem, "soft", GMean())
    run.save(path)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", ANSWER, str(path), str(place)],
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for place in range(2)
    ]
    errors = [process.communicate(timeout=300)[1] for process in started]
    failed = [process.returncode != 0 for process in started]
    assert sum(failed) + load(path, problem, "soft").n_queries == 2
    for error, went_wrong in zip(errors, failed, strict=True):
        assert not went_wrong or "that this run does not know" in error


def rewritten(path, change):
    """Change header and arrays of a file as somebody would who knows how digests are made."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(str(arrays.pop("header")))
    del header["digest"]
    change(header, arrays)
    digest = hashlib.blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}/{array.dtype.str}/{array.shape}".encode() + array.tobytes())
    np.savez(path, header=np.array(json.dumps({**header, "digest": digest.hexdigest()})), **arrays)


HEADERS = {
    "settings": [None, [], {"max_iter": "many"}, {"max_iter": 3, "radius": -1.0}, {"unknown": 1}],
    "data": [None, 3],
    "iteration": [None, -1, 0, 7, "two", 1.5],
    "steps": [None, [], ["one"], [2.0], [None, None], 3],
    "status": [None, "gone", "finished", [], 3],
    "digests": [None, [], [["a"]], [1, 2, 3], "abc"],
    "trace": [None, [], [{}], [{"index": "a", "value": "b", "n_queries": None}], 3],
}
ARRAYS = {
    "sums_pair": [np.full((2, 2, 3), 1e300), np.zeros(3), np.zeros((2, 2, 3), dtype=int), np.full((2, 2, 3), np.nan)],
    "sums_single": [np.zeros(()), np.array("text")],
    "known": [np.zeros(0), np.array(["a", "b"]), np.full(4, np.inf), np.zeros((2, 2)), np.zeros((9, 1, 3, 3))],
    "vertices": [np.zeros(0), np.zeros((1, 1, 1)), np.zeros((2, 5, 7)), np.full((2, 2, 3), np.inf)],
    "view": [np.zeros(()), np.zeros(3), np.zeros((1, 1, 9, 9, 9)), np.array("text"), np.zeros((0, 3))],
}


def changes():
    for name, values in HEADERS.items():
        yield f"no {name}", lambda header, _, name=name: header.pop(name)
        for value in values:
            yield f"{name} {value}", lambda header, _, name=name, value=value: header.update({name: value})
    for name, values in ARRAYS.items():
        yield f"no {name}", lambda _, arrays, name=name: arrays.pop(name, None)
        for value in values:
            yield f"{name} {value.shape}", lambda _, arrays, name=name, value=value: arrays.update({name: value})


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_file_that_was_changed_by_hand_is_refused_in_words_or_goes_on(kind, problem, tmp_path):
    oracle = oracle_for(kind, problem.val, GMean())
    whole, path = new_run(problem, kind, GMean()), tmp_path / "run.npz"
    while whole.state.iteration < 2:
        query = whole.ask()[0]
        whole.tell(query.key, oracle.answer(query))
        whole.ask()
    whole.save(path)
    saved, refused = path.read_bytes(), []
    for _, change in changes():
        path.write_bytes(saved)
        rewritten(path, change)
        try:
            run = load(path, problem, kind)
            converse(run, oracle)
            run.result()
        except ArchiveError as error:
            refused.append(str(error))
    assert len(refused) > 30
    assert all("run.npz" in text for text in refused)


def test_a_changed_run_of_influence_regression(tmp_path):
    problem = make_problem(seed=5)
    train, path = MemoryEngine(problem.train), tmp_path / "run.npz"
    run = InfluenceRegression(train, problem.val, kind="confusion", metric=GMean())
    answer(run, problem, "confusion")
    run.save(path)
    rewritten(path, lambda header, _: header.update({"trace": [{}]}))
    with pytest.raises(ArchiveError, match="contradicts itself"):
        InfluenceRegression.load(path, train, problem.val, kind="confusion", metric=GMean())

"""SIGKILL of the metric's server, and of the learner, at random moments of a fit.

No answer is lost and none is charged twice. In trusted mode, the result is that of a fit that was never interrupted,
bit for bit. In private mode, it is the one that the ledger's answers give when they are replayed. ``make
interruptions`` kills each forty times or more.
"""

from __future__ import annotations

import contextlib
import os
import time

import numpy as np
import pytest

from tests.cli.helpers import inside
from tests.interruptions.oracle_processes import (
    Notes,
    budget,
    finished,
    fit_in_python,
    fit_in_the_terminal,
    serve,
    started,
    wait_for,
    write_rows,
)
from tests.oracle.loopback import free_port

KILLS = 4  # of a run
RUNS = max(1, int(os.environ.get("POSTSHIFT_INTERRUPTIONS", "1")) // KILLS)
TERMS = {"trusted": ["--mode", "trusted", "--queries", "500"], "private": ["--mode", "private", "--rho", "1"]}
PAUSE = {"trusted": 0.03, "private": 0.09}  # seconds: longer than a query takes


def owner(folder, mode):
    """Make an owner's folder; return the token of a learner."""
    write_rows(folder)
    rows = ["owner.csv", "--label", "y", "--groups", "g", "--id", "id", "--metric", "group_g_mean"]
    kinds = ["--kind", "confusion", "--kind", "value"]
    done = inside("oracle", "init", "owner", *rows, *TERMS[mode], *kinds, "--quiet", cwd=folder)
    assert done.code == 0, done.err
    made = inside("oracle", "token", "create", "owner", "--name", "ann", "--per-minute", "100000", "--json", cwd=folder)
    return made.json["token"]


@contextlib.contextmanager
def serving(folder, port):
    """Serve a folder; at the end, stop."""
    place = {"server": started(serve, folder, port)}
    try:
        yield place
    finally:
        place["server"].kill()
        place["server"].join()


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """Runs that are not interrupted: the result, what was asked, and the number of answers."""
    found = {}

    def run(mode, work):
        if (mode, work) not in found:
            folder, port = tmp_path_factory.mktemp(f"{mode}-{work.__name__}"), free_port()
            token = owner(folder, mode)
            with serving(folder, port):
                finished(started(work, folder, f"http://127.0.0.1:{port}", token, "found"), folder)
            found[mode, work] = result_in(folder / "found"), Notes(folder), budget(folder).n_answers
        return found[mode, work]

    return run


def result_in(place):
    """What a fit found, to the last bit: a file, or those files of a run that do not name the service's address."""
    files = [place] if place.is_file() else [place / "history.csv", place / "validation.csv"]
    return [each.read_bytes() for each in files]


def kill(process):
    """End a process at once, and wait until it is gone."""
    process.kill()
    process.join()


def moments(rng, n_answers, *, mode):
    """The numbers of queries after which a process is killed, spread over the run; noise may make one shorter."""
    last = n_answers if mode == "trusted" else n_answers // 2
    return np.sort(1 + rng.choice(last - 1, size=KILLS, replace=False))


def check_ledger(folder, *, asked):
    """Every query that was asked is charged once, with its own cost."""
    done = inside("oracle", "audit", "owner", "--json", cwd=folder)
    assert done.code == 0, done.err
    found = budget(folder)
    assert found.n_answers == done.json["answers"] == asked
    lines = inside("oracle", "log", "owner", "--limit", "1000", "--json", cwd=folder).json["lines"]
    costs = [line["cost"] for line in lines if line["event"] == "answer"]
    assert (len(costs), sum(costs)) == (asked, found.spent)


def check_result(folder, url, token, *, calm):
    """The result is that of a calm run, if there is one, and the one that the stored answers give."""
    found = Notes(folder)
    assert len(found.got) == len(found.asked) == len({digest for digest, _ in found.got})  # one answer to a query
    check_ledger(folder, asked=len(found.asked))
    if calm is not None:
        wanted, notes, _ = calm
        assert result_in(folder / "found") == wanted
        assert found.got == notes.got
    before = budget(folder)
    finished(started(fit_in_python, folder, url, token, "replayed"), folder)
    assert budget(folder) == before
    assert result_in(folder / "replayed") == result_in(folder / "found")


@pytest.mark.slow
@pytest.mark.parametrize("mode", TERMS)
@pytest.mark.parametrize("case", range(RUNS))
def test_a_server_that_is_killed(case, mode, calm, tmp_path, record_property):
    uninterrupted = calm(mode, fit_in_python)
    rng, port, token = np.random.default_rng([3, case]), free_port(), owner(tmp_path, mode)
    url, n_kills, n_unsent = f"http://127.0.0.1:{port}", 0, 0
    with serving(tmp_path, port) as place:
        learner = started(fit_in_python, tmp_path, url, token, "found")
        for moment in moments(rng, uninterrupted[2], mode=mode):
            assert wait_for(lambda moment=moment: len(Notes(tmp_path).asked) >= moment, learner)
            time.sleep(PAUSE[mode] * rng.random())
            assert place["server"].is_alive()
            kill(place["server"])
            time.sleep(0.02)  # what was sent is written down
            n_kills, n_unsent = n_kills + 1, n_unsent + budget(tmp_path).n_answers - len(Notes(tmp_path).got)
            place["server"] = started(serve, tmp_path, port)
        finished(learner, tmp_path)
        check_result(tmp_path, url, token, calm=uninterrupted if mode == "trusted" else None)
    assert 0 <= n_unsent <= n_kills == KILLS
    record_property("figure", f"server, {mode}: {n_kills} kills, {n_unsent} of them between commit and arrival")


@pytest.mark.slow
@pytest.mark.parametrize("mode", TERMS)
@pytest.mark.parametrize("case", range(RUNS))
def test_a_learner_that_is_killed(case, mode, calm, tmp_path, record_property):
    uninterrupted = calm(mode, fit_in_python)
    rng, port, token = np.random.default_rng([4, case]), free_port(), owner(tmp_path, mode)
    url, n_kills, n_unsent = f"http://127.0.0.1:{port}", 0, 0
    with serving(tmp_path, port):
        for moment in moments(rng, uninterrupted[2], mode=mode):
            learner = started(fit_in_python, tmp_path, url, token, "found")
            assert wait_for(lambda moment=moment: len(Notes(tmp_path).asked) >= moment, learner)
            time.sleep(PAUSE[mode] * rng.random())
            n_kills += learner.is_alive()
            kill(learner)
            time.sleep(0.05)  # the server may still answer
            n_unsent += budget(tmp_path).n_answers - len(Notes(tmp_path).got)
        finished(started(fit_in_python, tmp_path, url, token, "found"), tmp_path)
        check_result(tmp_path, url, token, calm=uninterrupted if mode == "trusted" else None)
    assert 0 <= n_unsent <= n_kills
    record_property("figure", f"learner, {mode}: {n_kills} kills, {n_unsent} of them between commit and arrival")


@pytest.mark.slow
@pytest.mark.parametrize("case", range(RUNS))
def test_a_fit_in_the_terminal_that_is_killed(case, calm, tmp_path, record_property):
    wanted, _, n_answers = calm("trusted", fit_in_the_terminal)
    rng, port, token = np.random.default_rng([5, case]), free_port(), owner(tmp_path, "trusted")
    url, n_kills = f"http://127.0.0.1:{port}", 0
    with serving(tmp_path, port):
        for moment in moments(rng, n_answers, mode="trusted"):
            fit = started(fit_in_the_terminal, tmp_path, url, token, "found")
            assert wait_for(lambda moment=moment: budget(tmp_path).n_answers >= moment, fit)
            time.sleep(PAUSE["trusted"] * rng.random())
            n_kills += fit.is_alive()
            kill(fit)
        finished(started(fit_in_the_terminal, tmp_path, url, token, "found"), tmp_path)
    assert result_in(tmp_path / "found") == wanted
    check_ledger(tmp_path, asked=n_answers)
    record_property("figure", f"learner in the terminal: {n_kills} kills")

"""Sessions in processes of their own: killed at any moment, moved, resumed; the queries and the rule are the same."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.cli.helpers import contents, environment, inside, postshift
from tests.cli.session_helpers import answer_all, score_of, start

KILLS = 12


def killed(arguments, moment):
    """Run a command and kill it after some seconds; return whether it had ended before, and its output."""
    process = subprocess.Popen(
        [sys.executable, "-m", "postshift.cli", *map(str, arguments)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = process.communicate(timeout=moment)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return False, ""
    assert process.returncode == 0, err
    return True, out


def queries_of(week):
    """The predictions and the answers, by file."""
    names = (name for name in contents(week) if not name.endswith(".part"))
    return {name: contents(week)[name] for name in names}


@pytest.mark.slow
def test_killed_at_random_and_moved_it_ends_in_the_same_bytes(files, tmp_path):
    (tmp_path / "whole").mkdir()
    whole = start(tmp_path / "whole", files)
    truth = tmp_path / "whole" / "truth.csv"
    week = tmp_path / "0"
    shutil.copytree(whole, week)
    answer_all(whole, truth)
    rng, kills, moves, took = np.random.default_rng(0), 0, 0, 4.0
    while True:
        moment = rng.uniform(0, took) if kills < KILLS else 300
        begun = time.monotonic()
        ended, out = killed(["run", "next", week, "--json"], moment)
        if ended:
            took = time.monotonic() - begun
            found = json.loads(out)
            if found["finished"]:
                break
            answer = score_of(found["file"], truth)
            moment = rng.uniform(0, took) if kills < KILLS else 300
            ended, _ = killed(["run", "tell", week, answer, "--query", found["query"]], moment)
        kills += not ended
        moves += 1
        moved = tmp_path / f"place {moves}"
        shutil.move(week, moved)
        week = moved
    assert kills == KILLS
    assert queries_of(week) == queries_of(whole)
    for place, name in ((week, "here"), (whole, "there")):
        assert inside("run", "finish", place, "--out", tmp_path / name).code == 0
    for name in ("rule.skops", "validation.csv", "history.csv", "metrics.json"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()


@pytest.mark.slow
def test_two_processes_at_once_lose_no_answer(files, tmp_path):
    week = start(tmp_path, files)
    inside("run", "next", week)
    commands = [["run", "tell", week, value, "--query", 1] for value in ("0.5", "0.6")]
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "postshift.cli", *map(str, each)],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for each in commands
    ]
    shown = [process.communicate() for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes) == [0, 2]
    winner = codes.index(0)
    assert any(text in shown[1 - winner][1] for text in ("already has the answer", "another process is using"))
    found = postshift("run", "status", week, "--json").json
    assert [each["score"] for each in found["answers"]] == [(0.5, 0.6)[winner]]

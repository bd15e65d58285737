"""Fits that are interrupted at random: by an oracle that raises, and by SIGKILL; in Python and in the terminal.

The oracle itself counts: it writes down what it is asked before it answers. An interruption may repeat the one query in
flight and no other, and the result is that of a fit that was never interrupted, bit for bit. ``make interruptions``
tries twenty moments of each kind; pytest alone, one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
TIMES = int(os.environ.get("POSTSHIFT_INTERRUPTIONS", "1"))
N_VAL, N_CLASSES, BUDGET = 60, 3, 30

# The oracle: it writes a line, then waits, raises or answers. COUNT is the query of this process at which it raises.
ORACLE = """
import hashlib, sys, time
import numpy as np

def score(labels, log, count, pause):
    labels = np.asarray(labels).astype(int)
    with open(log, "a") as stream:
        stream.write(hashlib.sha256(labels.tobytes()).hexdigest() + "\\n")
    asked = sum(1 for _ in open(log))
    if asked == count:
        raise ConnectionError("the line is dead")
    time.sleep(pause)
    truth = np.random.default_rng(7).integers(3, size=len(labels))
    return float(np.mean(labels == truth))
"""
FIT = (
    ORACLE
    + """
from postshift import PostShifter
from postshift.metrics import from_predictions

log, journal, out, count, pause = sys.argv[1:]
rng = np.random.default_rng(0)
eta = rng.dirichlet(np.ones(3), size=60)
oracle = from_predictions(lambda labels: score(labels, log, int(count), float(pause)), name="theirs")
shifter = PostShifter(oracle, budget=30, session=journal).fit(eta)
rules = [[member.alpha.tolist() for member in rule.mixture.members] for rule in shifter.rule_.rules]
found = shifter.diagnostics_.choice, shifter.history_, shifter.held_out_.labels.tolist(), shifter.n_queries_, rules
open(out, "w").write(repr(found))
"""
)
PROGRAM = (
    "#!"
    + sys.executable
    + "\n"
    + ORACLE
    + """
labels = [line.split(",")[1] for line in open(sys.argv[1]).read().split()[1:]]
count, pause = open("moment").read().split()
print(score(labels, "asked", int(count), float(pause)))
"""
)


class InPython:
    """A fit of PostShifter in a process of its own."""

    result = "found.txt"

    def prepare(self, folder):
        pass

    def start(self, folder, *, count=-1, pause=0.0):
        files = [folder / name for name in ("asked", "run.jsonl", self.result)]
        return subprocess.Popen(
            [sys.executable, "-c", FIT, *map(str, files), str(count), str(pause)], cwd=ROOT, stderr=subprocess.PIPE
        )

    def stored(self, folder):
        return answers_in(folder / "run.jsonl")


class InTheTerminal:
    """``postshift fit --metric-command``; a run that exists is resumed."""

    result = "run/rule.skops"

    def prepare(self, folder):
        rng = np.random.default_rng(0)
        eta = rng.dirichlet(np.ones(N_CLASSES), size=N_VAL)
        header = ",".join(f"p_{k}" for k in range(N_CLASSES))
        np.savetxt(folder / "val.csv", eta, delimiter=",", header=header, comments="", fmt="%.17g")
        (folder / "score").write_text(PROGRAM)
        (folder / "score").chmod(0o755)

    def start(self, folder, *, count=-1, pause=0.0):
        (folder / "moment").write_text(f"{count} {pause}")
        command = ["--metric-command", "./score {predictions}", "--budget", str(BUDGET)]
        options = ["--val", "val.csv", *command, "--out", "run"]
        resume = ["--resume"] if (folder / "run").exists() else []
        words = [sys.executable, "-m", "postshift.cli", "fit", *options, *resume, "--quiet"]
        return subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE)

    def stored(self, folder):
        return answers_in(folder / "run" / "answers.jsonl")


def answers_in(journal):
    """The number of whole answers in a journal."""
    lines = journal.read_bytes().splitlines(keepends=True) if journal.exists() else []
    return sum("query" in json.loads(line) for line in lines if line.endswith(b"\n"))


def asked(folder):
    file = folder / "asked"
    return file.read_text().split() if file.exists() else []


def finish(place, folder):
    process = place.start(folder)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err.decode()


PLACES = {"python": InPython(), "terminal": InTheTerminal()}


@pytest.fixture(scope="module", params=PLACES)
def uninterrupted(request, tmp_path_factory):
    """A place to fit, what the oracle was asked, and the bytes of the rule."""
    place, folder = PLACES[request.param], tmp_path_factory.mktemp(request.param)
    place.prepare(folder)
    finish(place, folder)
    queries = asked(folder)
    assert len(set(queries)) == len(queries) > 10
    return place, queries, (folder / place.result).read_bytes()


def check(place, folder, queries, rule, *, stored):
    """Finish the fit: no stored answer is asked for again, and the rule is the same."""
    before = len(asked(folder))
    finish(place, folder)
    after = asked(folder)[before:]
    assert not set(after) & set(queries[:stored])
    assert after == queries[stored:]
    assert before - stored in (0, 1)  # the query in flight, if any
    assert (folder / place.result).read_bytes() == rule


@pytest.mark.slow
@pytest.mark.parametrize("case", range(TIMES))
def test_an_oracle_that_raises_at_a_random_query(case, uninterrupted, tmp_path):
    place, queries, rule = uninterrupted
    place.prepare(tmp_path)
    count = 1 + int(np.random.default_rng([1, case]).integers(len(queries)))
    process = place.start(tmp_path, count=count)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert b"the line is dead" in err
    assert place.stored(tmp_path) == count - 1
    check(place, tmp_path, queries, rule, stored=count - 1)


@pytest.mark.slow
@pytest.mark.parametrize("case", range(TIMES))
def test_a_process_killed_at_a_random_moment(case, uninterrupted, tmp_path):
    place, queries, rule = uninterrupted
    place.prepare(tmp_path)
    rng = np.random.default_rng([2, case])
    process = place.start(tmp_path, pause=0.05)
    wanted, wait = int(rng.integers(1, len(queries))), 0.1 * rng.random()
    while process.poll() is None and len(asked(tmp_path)) < wanted:
        pass
    try:
        process.wait(timeout=wait)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    process.communicate()
    settle(tmp_path)
    stored = place.stored(tmp_path)
    check(place, tmp_path, queries, rule, stored=stored)


def settle(folder):
    """Wait for a metric program that outlives its caller: it writes down what it was asked before anything else."""
    seen = -1
    while seen != len(asked(folder)):
        seen = len(asked(folder))
        time.sleep(0.3)

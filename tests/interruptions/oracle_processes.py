"""A server and learners in processes of their own, which can be killed: what they run, and what they leave.

The processes are forked from one that has imported everything: a new one starts in milliseconds. The learner writes
down what it asks before it asks, and what it got.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd

from postshift import PostShifter
from postshift.cli.oracle_work import _ledger
from postshift.oracle import RemoteMetric

N_ROWS, N_CLASSES, N_TRAIN = 80, 2, 160
KINDS = ("confusion", "value")  # a learner fits once with each
FORKED = get_context("forkserver")
FORKED.set_forkserver_preload([
    __name__, "postshift.cli.app", "postshift.cli.fitting", "postshift.cli.run.outputs", "postshift.cli.run.rule_file",
    "postshift.oracle.app", "postshift.report", "uvicorn", "httpx", "sqlite3", "skops.io",
])  # fmt: skip


def write_rows(folder):
    """Write the owner's rows, and the learner's: probabilities and basis functions, not saved with the labels."""
    rng = np.random.default_rng(11)
    pairs = rng.permutation(N_ROWS)
    groups, labels = pairs % 2, pairs // 2 % 2
    pd.DataFrame({"id": np.arange(N_ROWS), "y": labels, "g": groups}).to_csv(folder / "owner.csv", index=False)
    score = rng.normal(size=N_ROWS) + labels * (1 + groups)
    _write_table(folder / "val.csv", score)
    y_train = rng.integers(2, size=N_TRAIN)
    _write_table(folder / "train.csv", rng.normal(size=N_TRAIN) + y_train, y=y_train)


def _write_table(path, score, **columns):
    """Write probabilities as they are read again, to the last bit."""
    p = 1 / (1 + np.exp(2 - score))
    pd.DataFrame({"p_0": 1 - p, "p_1": p, **columns}).to_csv(path, index=False, float_format="%.17g")


def serve(folder, port):
    """Run ``postshift oracle serve``."""
    _command(folder, ["oracle", "serve", str(folder / "owner"), "--port", str(port), "--quiet"])


def fit_in_the_terminal(folder, url, token, name):
    """Run ``postshift fit --metric URL``; a run that was killed is resumed."""
    os.environ["POSTSHIFT_TOKEN"] = token
    files = ["--val", str(folder / "val.csv"), "--train", str(folder / "train.csv"), "--label", "y"]
    how = ["--method", "influence", "--basis", "constant", "--budget", "60"]
    out = ["--out", str(folder / name), *(["--resume"] if (folder / name).exists() else [])]
    _command(folder, ["fit", *files, "--metric", url, *how, *out, "--quiet"])


def _command(folder, words):
    """Run the command line, with its output in a file."""
    _to_file(folder)
    sys.argv = ["postshift", *words]
    from postshift.cli import main

    main()


def _to_file(folder):
    """Send the output of this process to a file."""
    place = os.open(folder / "output", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(place, stream)


class Noting(RemoteMetric):
    """A metric that writes down what it asks, and what it gets."""

    notes: Path

    def asked(self, body, **how):
        """Ask, between two notes."""
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
        self._note("asked", digest)
        answer = super().asked(body, **how)
        self._note("got", digest, hashlib.sha256(answer.tobytes()).hexdigest()[:16])
        return answer

    def _note(self, *words):
        """Append a line, in one call of the system."""
        place = os.open(self.notes, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.write(place, (" ".join(words) + "\n").encode())
        os.close(place)


def fit_in_python(folder, url, token, name):
    """Fit twice, by matrices and by values, and write the rules down."""
    _to_file(folder)
    val, train = (pd.read_csv(folder / f"{each}.csv") for each in ("val", "train"))
    probabilities, bases = ["p_0", "p_1"], [np.eye(3)[np.arange(len(each)) % 3] for each in (val, train)]
    found = []
    for kind in KINDS:
        metric = Noting(url, token=token, kind=kind, rho=0.2, patience=120)
        metric.notes = folder / "notes"
        with contextlib.closing(metric):
            shifter = PostShifter(metric, method="paper", budget=45).fit(
                val[probabilities], None, train[probabilities], train["y"], *bases
            )
        rules = [[member.alpha.tolist() for member in rule.mixture.members] for rule in shifter.rule_.rules]
        found.append((rules, shifter.history_, shifter.held_out_.labels.tolist(), shifter.score_, shifter.n_queries_))
    partial = folder / f"{name}.part"
    partial.write_text(repr(found))
    partial.rename(folder / name)


def started(work, *arguments):
    """Start a process."""
    process = FORKED.Process(target=work, args=arguments, daemon=True)
    process.start()
    return process


def finished(process, folder, *, patience=120):
    """Wait for a process; raise if it failed."""
    process.join(patience)
    assert process.exitcode == 0, (process.exitcode, (folder / "output").read_text()[-3000:])


class Notes:
    """What a learner wrote down."""

    def __init__(self, folder):
        file = folder / "notes"
        lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
        words = [line.decode().split() for line in lines if line.endswith(b"\n")]
        self.asked = {each[1] for each in words if each[0] == "asked"}
        self.got = {(each[1], each[2]) for each in words if each[0] == "got"}


def budget(folder):
    """What the ledger says, read from outside."""
    with _ledger(folder / "owner") as ledger:
        return ledger.budget()


def wait_for(condition, process):
    """Wait until a condition holds or a process ends; return whether it holds."""
    while process.is_alive():
        if condition():
            return True
        time.sleep(0.001)
    return False

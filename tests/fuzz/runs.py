"""Runs of every kind, made once, and the commands that read them."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from sklearn.linear_model import LogisticRegression

from postshift.exceptions import PostshiftWarning
from postshift.persistence import dump
from tests.cli.helpers import FAST, inside, make_rows, script
from tests.fuzz.watch import watched

COSTS = "true,ant,bee,cat\nant,0,1,1\nbee,4,0,1\ncat,9,1,0\n"
HITS = """import numpy as np

def hits(y_true, y_pred, sample_weight=None):
    return np.average(y_true == y_pred, weights=sample_weight)
"""
COUNT = '#!/bin/sh\ngrep -c ,bee "$1"\n'
CODES = (0, 1, 2, 3)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066]")  # what a terminal would obey


def run_inside(*arguments, cwd=None):
    """Run a command in this process: our own warnings are shown, those of others are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", PostshiftWarning)
        return inside(*arguments, cwd=cwd)


@dataclass(frozen=True)
class Made:
    """A run, the options of the fit that made it, and what its commands say as long as nobody damaged it."""

    path: Path
    options: tuple
    labels: list
    scores: dict
    trust: tuple = ()
    metric: tuple = ()
    programs: tuple = ()


def write_inputs(folder):
    """Write rows, a model, costs, a metric and a program of the user's."""
    make_rows(120, 0, flipped=0.3).to_csv(folder / "train.csv", index=False)
    make_rows(120, 1).to_csv(folder / "val.csv", index=False)
    make_rows(40, 2).to_csv(folder / "test.csv", index=False)
    train = make_rows(120, 3)
    dump(LogisticRegression().fit(train[["x1", "x2"]], train["y"]), folder / "mine.skops")
    (folder / "costs.csv").write_text(COSTS)
    (folder / "mine.py").write_text(HITS)
    script(folder / "count.sh", "").write_text(COUNT)
    return folder


def kinds(folder):
    """Return the options of a fit by the kind of run that it makes."""
    val = ("--val", folder / "val.csv", "--label", "y", *FAST)
    groups = ("--train", folder / "train.csv", "--basis", "col:region,tree:3")
    command = ("--metric-command", f"{folder / 'count.sh'} {{predictions}}", "--metric-scale", "120")
    return {
        "bases": (*val, *groups, "--metric", "g_mean", "--method", "influence [region]"),
        "groups": (*val, "--metric", "worst_group_accuracy", "--groups", "region", "--sample-weight", "amount"),
        "model": (*val, "--metric", "f1_macro", "--model", folder / "mine.skops", "--features", "x1,x2"),
        "costs": (*val, "--metric", f"cost:{folder / 'costs.csv'}"),
        "file": (*val, "--metric", f"{folder / 'mine.py'}:hits"),
        "program": (*val, *command, "--budget", "60", "--method", "influence", "--basis", "constant"),
    }


def make(kind, inputs, out):
    """Make a run."""
    options = kinds(inputs)[kind]
    done = run_inside("fit", *options, "--out", out)
    assert done.code == 0, done.err
    more = {
        "file": {"trust": ("--trust-metric",)},
        "program": {"programs": (str(inputs / "count.sh"),), "metric": ("--metric", "accuracy")},
    }.get(kind, {})
    test, labels = inputs / "test.csv", out.parent / f"{kind}.csv"
    scored = run_inside("evaluate", out, test, "--json", *more.get("trust", ()), *more.get("metric", ()))
    done = run_inside("predict", out, test, "-o", labels)
    assert scored.code == done.code == 0, scored.err + done.err
    return Made(path=out, options=options, labels=labels_in(labels), scores=scored.json, **more)


def labels_in(path):
    """Return the labels that a command wrote."""
    return pd.read_csv(path)["label"].tolist()


@dataclass(frozen=True)
class Used:
    """A copy of a run in a folder of its own, and the commands on it, each watched."""

    made: Made
    run: Path
    inputs: Path
    secret: Path

    @classmethod
    def copy_of(cls, made, inputs, folder, secret):
        (folder / "work").mkdir()
        shutil.copytree(made.path, folder / "work" / "run", symlinks=True)
        return cls(made, folder / "work" / "run", inputs, secret)

    def command(self, *arguments):
        """Run a command; it is fine, or one line says why not."""
        with watched(self.run.parent, self.secret, allowed=self.made.programs):
            done = run_inside(*arguments, cwd=self.run.parent)
        assert done.code in CODES, done
        if done.code:
            assert "unexpected" not in done.error, done.error
        assert "Traceback" not in done.err + done.out
        assert not CONTROL.search(done.err + done.out), ascii(done.err + done.out)
        return done

    def predict(self):
        """Return the labels of new rows, or None where they were refused."""
        out = self.run.parent / "labels.csv"
        out.unlink(missing_ok=True)
        done = self.command("predict", self.run, self.inputs / "test.csv", "-o", out)
        assert out.exists() == (done.code == 0)
        return None if done.code else labels_in(out)

    def evaluate(self, *more):
        """Return the scores of rows with labels, or None where they were refused."""
        how = (*self.made.trust, *(more or self.made.metric), "--json")
        done = self.command("evaluate", self.run, self.inputs / "test.csv", *how)
        return None if done.code else json.loads(done.out)

    def rescored(self, scores):
        """Return what the run as it was made says by the metric of other scores."""
        done = run_inside("evaluate", self.made.path, self.inputs / "test.csv", "--metric", scores["metric"], "--json")
        assert done.code == 0, done.err
        return done.json

    def report(self):
        """Return the page, or None where it was refused."""
        out = self.run.parent / "page.html"
        out.unlink(missing_ok=True)
        done = self.command("report", self.run, "-o", out)
        return None if done.code else out.read_text()

    def resume(self):
        """Go on with the fit that made the run."""
        return self.command("fit", *self.made.options, "--json", "--out", self.run, "--resume")

    def force(self):
        """Make the run anew in its place."""
        return self.command("fit", *self.made.options, "--json", "--out", self.run, "--force")

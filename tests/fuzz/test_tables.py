"""Odd CSV, Parquet, Arrow and npz files through fit, predict and evaluate: the right labels, or a refusal."""

import numpy as np
import pandas as pd
import pytest

from tests.cli.helpers import CLASSES, make_rows
from tests.fuzz.cases import cases
from tests.fuzz.runs import Used
from tests.fuzz.tables import HARMLESS, odd

NAMES = list(HARMLESS)
WAYS = (
    ("--metric", "g_mean"),
    ("--metric", "f1_macro", "--sample-weight", "amount"),
    ("--metric", "worst_group_accuracy", "--groups", "region"),
    ("--metric", "accuracy", "--basis", "col:region", "--method", "influence"),
    ("--metric", "f1[ant]", "--normalise"),
)


@pytest.fixture
def commands(used):
    """Return a function that gives the commands on a run, and on files of this content."""

    def with_file(kind, suffix, content):
        run = used(kind)
        path = run.run.parent / f"odd{suffix}"
        path.write_bytes(content)
        return run, path

    return with_file


def labelled(run, path):
    """Return the labels of the rows of a file, or None where they were refused."""
    out = run.run.parent / "labels.parquet"
    out.unlink(missing_ok=True)
    done = run.command("predict", run.run, path, "-o", out)
    return None if done.code else pd.read_parquet(out)["label"].tolist()


def fitted(run, path, *options):
    """Fit to the rows of a file."""
    how = ("--label", "y", "--method", "smoothed plug-in", "--quiet", "--json", "--force")
    return run.command("fit", "--val", path, *how, *options, "--out", run.run.parent / "new")


@cases(40, 6)
def test_harmless(case, commands, inputs):
    """The same rows in another file."""
    suffix, write = HARMLESS[NAMES[case % len(NAMES)]]
    frame = pd.read_csv(inputs / "test.csv")
    run, path = commands(("bases", "model")[case % 2], suffix, write(frame, np.random.default_rng(case)))
    assert labelled(run, path) == run.made.labels
    scored = run.command("evaluate", run.run, path, "--json")
    assert scored.code == 0, scored.err
    assert scored.json == run.made.scores
    done = fitted(run, path, *WAYS[case // 2 % len(WAYS)])
    assert done.code == 0, done.err


@cases(180, 18)
def test_odd(case, commands, inputs):
    rng = np.random.default_rng(case)
    frame = make_rows(40, 2) if case % 2 else pd.read_csv(inputs / "test.csv")
    _, suffix, content = odd(frame, rng)
    run, path = commands(("bases", "groups", "model")[case % 3], suffix, content)
    labels = labelled(run, path)
    if labels is not None:
        assert labels
        assert set(labels) <= set(CLASSES)
    scored = run.command("evaluate", run.run, path, "--json")
    assert scored.code or np.isfinite([scored.json["before"], scored.json["after"]]).all()
    done = fitted(run, path, *WAYS[case % len(WAYS)])
    if done.code == 0:
        assert np.isfinite(done.json["after"])
        used = Used(run.made, run.run.parent / "new", inputs, run.secret)
        assert len(labelled(used, path)) >= done.json["scored_on"]["rows"]

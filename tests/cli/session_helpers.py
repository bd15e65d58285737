"""Sessions that tests start, ask and answer; the oracle here knows the labels."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tests.cli.helpers import inside

BUDGET = 16


def write_session_files(folder, files):
    """Write rows without labels, with identifiers, beside training rows; return the options of ``start``."""
    frame = pd.read_csv(files / "val.csv").head(60)
    frame.insert(0, "id", [f"r{place}" for place in range(len(frame))])
    frame.to_csv(folder / "truth.csv", index=False)
    frame.drop(columns="y").to_csv(folder / "val.csv", index=False)
    pd.read_csv(files / "train.csv").to_csv(folder / "train.csv", index=False)
    return ["--val", folder / "val.csv", "--train", folder / "train.csv", "--label", "y", "--budget", BUDGET]


def start(folder, files, *more, out="week", run=inside):
    """Start a session in a new folder, and return its path."""
    options = write_session_files(folder, files)
    done = run("run", "start", *options, "--id", "id", "--out", folder / out, *more)
    assert done.code == 0, done.err
    return folder / out


def score_of(file, truth):
    """The score of a file of labels: the mean recall, and noise that depends on the labels only."""
    found = pd.read_csv(file).merge(pd.read_csv(truth)[["id", "y"]], on="id")
    recall = float((found["label"] == found["y"]).groupby(found["y"]).mean() @ [0.2, 0.3, 0.5])
    noise = np.random.default_rng(sum(map(len, found["label"]))).normal(scale=0.01)
    return round(recall + noise, 4)


def answer_all(week, truth, *, most=1000, run=inside):
    """Answer queries until there is none left; return how many were answered."""
    for count in range(most):
        found = run("run", "next", week, "--json").json
        if found["finished"]:
            return count
        done = run("run", "tell", week, score_of(found["file"], truth), "--query", found["query"])
        assert done.code == 0, done.err
    return most

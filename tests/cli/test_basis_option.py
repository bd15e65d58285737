"""Bases label new rows as in the fit, whatever the type of a column."""

import json

import numpy as np
import pandas as pd
import pytest

from postshift.cli.run.rule_file import LoadedRun
from tests.cli.helpers import fit_inside, inside, make_rows


@pytest.mark.parametrize("basis", ["kmeans:2", "rbf", "col:region+kind", "auto"])
def test_bases_label_new_rows_as_in_the_fit(basis, files, tmp_path):
    for name in ("train", "val"):
        frame = pd.read_csv(files / f"{name}.csv")
        frame.assign(kind=np.where(frame["x2"] > 0, "up", "down")).to_csv(tmp_path / f"{name}.csv", index=False)
    method = "influence" if basis != "auto" else "influence [tree]"
    how = ["--basis", basis, "--method", method, "--out", tmp_path / "run"]
    files_of = ["--train", tmp_path / "train.csv", "--val", tmp_path / "val.csv", "--label", "y"]
    done = fit_inside(*files_of, "--metric", "g_mean", *how)
    assert done.code == 0, done.err
    loaded = LoadedRun.open(tmp_path / "run", trust_model=False)
    assert len(loaded.bases) == 1
    done = inside("predict", tmp_path / "run", tmp_path / "val.csv", "-o", tmp_path / "out.csv", "--quiet")
    assert done.code == 0, done.err
    labels = pd.read_csv(tmp_path / "out.csv")["label"]
    if basis != "rbf":  # in its fit, rows are not near to themselves
        assert labels.tolist() == pd.read_csv(tmp_path / "run" / "validation.csv")["after"].tolist()
    if basis in ("auto", "kmeans:2"):  # a tree takes missing values, clusters do not
        gap = pd.read_csv(tmp_path / "val.csv")
        gap.loc[3, "x1"] = np.nan
        gap.to_csv(tmp_path / "gap.csv", index=False)
        done = inside("predict", tmp_path / "run", tmp_path / "gap.csv", "-o", tmp_path / "out.csv", "--force")
        assert done.code == (0 if basis == "auto" else 2)
        assert basis == "auto" or "'x1', 'x2'" in done.error


def test_groups_are_the_same_whatever_their_type_is(tmp_path):
    """One text among numbers makes texts of a whole column: the groups of the other rows are still those of the fit."""
    for name, seed in (("train", 0), ("val", 1), ("test", 2)):
        frame = make_rows(320, seed)
        frame = frame.assign(region=np.where(frame["region"] == "north", 1, 2))
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    test = pd.read_csv(tmp_path / "test.csv")
    texts = test.astype({"region": object})
    texts.loc[0, "region"] = "elsewhere"
    texts.to_csv(tmp_path / "texts.csv", index=False)
    test.astype({"region": float}).to_parquet(tmp_path / "floats.parquet")
    run, how = tmp_path / "run", ["--basis", "col:region", "--method", "influence [region]", "--quiet"]
    files_of = ["--train", tmp_path / "train.csv", "--val", tmp_path / "val.csv", "--label", "y"]
    assert inside("fit", *files_of, "--metric", "g_mean", *how, "--out", run).code == 0
    labels = {}
    for name in ("test.csv", "texts.csv", "floats.parquet"):
        done = inside("predict", run, tmp_path / name, "-o", tmp_path / f"{name}.labels.csv", "--quiet")
        assert done.code == 0, done.err
        labels[name] = pd.read_csv(tmp_path / f"{name}.labels.csv")["label"].tolist()
    assert labels["texts.csv"][1:] == labels["test.csv"][1:]
    assert labels["floats.parquet"] == labels["test.csv"]

    mixed = pd.read_csv(tmp_path / "train.csv").astype({"region": object})
    mixed.loc[0, "region"] = "elsewhere"
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    files_of[1] = tmp_path / "mixed.csv"
    done = inside("fit", *files_of, "--metric", "g_mean", *how, "--out", tmp_path / "other")
    assert done.code == 0, done.err
    page = (tmp_path / "other" / "report.html").read_text()
    assert "region=1" in page
    for each in ("run", "other"):
        scores = json.loads((tmp_path / each / "metrics.json").read_text())
        assert scores["after"] > scores["before"]
    assert inside("predict", tmp_path / "other", tmp_path / "test.csv", "-o", tmp_path / "o.csv").code == 0
    known = pd.read_csv(tmp_path / "o.csv")["label"]
    assert (known == labels["test.csv"]).mean() > 0.97  # one row of the training rows is of another group

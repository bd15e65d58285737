"""What is read of a table: one column of probabilities for two classes, types of labels, weights."""

import numpy as np
import pandas as pd
import pytest

from postshift.cli.files.file_table import read_rows
from postshift.cli.run.rule_file import LoadedRun
from tests.cli.helpers import CLASSES, fit_inside, inside, postshift


@pytest.fixture
def folder(files, tmp_path):
    """Rows of two classes, with the probability of one of them."""
    for name in ("val", "test"):
        frame = pd.read_csv(files / f"{name}.csv")
        frame = frame.assign(y=frame["y"].where(frame["y"] == "ant", "other"), score=1 - frame["p_ant"])
        frame[["y", "score", "x1", "region"]].to_csv(tmp_path / f"{name}.csv", index=False)
        both = frame[["y", "x1", "region"]].assign(p_ant=1 - frame["score"], p_other=frame["score"])
        both.to_csv(tmp_path / f"{name}_both.csv", index=False)
    return tmp_path


HOW = ("--label", "y", "--metric", "g_mean")


def test_one_column_is_as_good_as_two(folder):
    one = postshift(
        "fit", "--val", "val.csv", *HOW, "--proba", "score", "--positive", "other", "--method", "smoothed plug-in",
        "--quiet", "--json", "--out", "one", cwd=folder,
    )  # fmt: skip
    assert one.code == 0, one.err
    two = fit_inside("--val", "val_both.csv", *HOW, "--json", "--out", "two", cwd=folder)
    assert one.json["after"] == two.json["after"] > one.json["before"] == two.json["before"]
    for run, data in (("one", "test.csv"), ("two", "test_both.csv")):
        assert inside("predict", run, data, "-o", f"{run}.csv", "--quiet", cwd=folder).code == 0
    assert (folder / "one.csv").read_text() == (folder / "two.csv").read_text()
    scored = inside("evaluate", "one", "test.csv", "--json", cwd=folder)
    assert scored.json["after"] > scored.json["before"]
    page = (folder / "one" / "report.html").read_text()
    assert "column score" in page


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--proba", "score"), "name it with --positive"),
        (
            ("--proba", "score", "--positive", "othre"),
            "Got 'othre'; column 'y' of val.csv has the labels 'ant', 'other'",
        ),
        (("--proba", "scor", "--positive", "other"), "did you mean 'score'?"),
        (("--proba", "x1", "--positive", "other"), "give probabilities from 0 to 1"),
        (("--positive", "other"), "--positive goes with one column"),
        (("--proba", "p_*", "--positive", "other"), "--positive goes with one column"),
    ],
)
def test_what_one_column_needs(options, text, folder):
    done = fit_inside("--val", "val.csv", *HOW, *options, "--out", "run", cwd=folder)
    assert done.code == 2
    assert text in done.error
    assert not (folder / "run").exists()


def test_a_program_needs_the_labels_of_a_single_column(folder):
    done = fit_inside(
        "--val", "val.csv", "--metric-command", "wc {predictions}", "--proba", "score", "--positive", "other",
        "--out", "run", cwd=folder,
    )  # fmt: skip
    assert done.code == 2
    assert "--label" in done.error


def test_more_than_two_labels_are_refused(files, tmp_path):
    done = fit_inside(
        "--val", files / "val.csv", *HOW, "--proba", "p_ant", "--positive", "ant", "--out", tmp_path / "run"
    )
    assert done.code == 2
    assert "'ant', 'bee', 'cat'" in done.error


def test_the_column_of_the_groups_can_be_a_basis(folder):
    how = ["--label", "y", "--metric", "worst_group_balanced_accuracy", "--groups", "region", "--method", "influence"]
    done = fit_inside("--val", "val_both.csv", *how, "--basis", "col:region", "--json", "--out", "run", cwd=folder)
    assert done.code == 0, done.err
    assert any("region" in rule["name"] for rule in done.json["rules"])
    assert inside("evaluate", "run", "test_both.csv", "--json", cwd=folder).code == 0
    unnamed = fit_inside("--val", "val_both.csv", *how, "--basis", "tree:3", "--out", "tree", cwd=folder)
    assert unnamed.code == 2  # a tree reads features only, and needs training rows


def test_numbers_as_labels_keep_their_type_and_weights_count(files, tmp_path):
    codes = {"ant": 1.0, "bee": 2.0, "cat": 3.0}
    for name in ("val", "test"):
        frame = pd.read_csv(files / f"{name}.csv").replace({"y": codes})
        frame["y"] = frame["y"].astype(float)
        frame.rename(columns={"p_ant": "p_1", "p_bee": "p_2", "p_cat": "p_3"}).to_csv(tmp_path / f"{name}.csv")
    run = tmp_path / "run"
    how = ["--val", tmp_path / "val.csv", "--label", "y", "--metric", "accuracy", "--out", run]
    done = fit_inside(*how, "--sample-weight", "amount", "--features", "x*", "--json")
    assert done.code == 0, done.err
    plain = pd.read_csv(tmp_path / "val.csv")
    right = plain[["p_1", "p_2", "p_3"]].to_numpy().argmax(axis=1) + 1 == plain["y"]
    assert done.json["before"] == pytest.approx(np.average(right, weights=plain["amount"]), abs=0.02)
    assert inside("predict", run, tmp_path / "test.csv", "-o", tmp_path / "out.parquet", "--quiet").code == 0
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert list(found.columns) == ["row", "label"]
    assert found["label"].dtype == np.float64
    assert set(found["label"]) <= {1.0, 2.0, 3.0}


def test_normalise_divides_each_row_by_its_sum(files, tmp_path):
    frame = pd.read_csv(files / "val.csv")
    scaled = frame.copy()
    scaled.loc[:, [f"p_{name}" for name in CLASSES]] *= 7
    scaled.to_csv(tmp_path / "scaled.csv", index=False)
    how = ["--label", "y", "--metric", "f1_macro"]
    plain = fit_inside("--val", files / "val.csv", *how, "--out", tmp_path / "a")
    done = fit_inside("--val", tmp_path / "scaled.csv", *how, "--normalise", "--out", tmp_path / "b")
    assert (plain.code, done.code) == (0, 0), done.err
    labels = [pd.read_csv(tmp_path / name / "validation.csv")["after"].tolist() for name in "ab"]
    assert labels[0] == labels[1]
    loaded = LoadedRun.open(tmp_path / "b", trust_model=False)
    rows = loaded.reader().rows(read_rows(tmp_path / "scaled.csv"))
    assert rows.eta.sum(axis=1) == pytest.approx(1)

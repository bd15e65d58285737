"""One column of probabilities for two classes, and the column of the groups as a basis."""

import pandas as pd
import pytest

from tests.cli.helpers import fit_inside, inside, postshift


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

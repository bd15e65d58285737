"""Every documented failure: one line that says what to do, its exit code, and no files left behind."""

import json

import pandas as pd
import pytest

from postshift.cli.errors import WorkError, explained
from postshift.exceptions import ArchiveError, BudgetError, MetricError, SettingError
from tests.cli.helpers import fit, fit_inside, inside, postshift

pytestmark = pytest.mark.slow

BASE = ("--label", "y", "--metric", "f1_macro")


@pytest.fixture
def val(files):
    return files / "val.csv"


@pytest.fixture
def changed(val, tmp_path):
    """Write the validation rows after a change, and return the path."""

    def write(change):
        frame = pd.read_csv(val)
        change(frame)
        frame.to_csv(tmp_path / "changed.csv", index=False)
        return tmp_path / "changed.csv"

    return write


def refused(done, code, *texts, out=None):
    """The exit code, the texts in the one line, and no folder."""
    assert done.code == code, (done.code, done.err)
    assert done.out == ""
    for text in texts:
        assert text in done.error
    assert out is None or not out.exists()


def test_missing_file(files, tmp_path):
    out = tmp_path / "run"
    refused(fit("--val", files / "vla.csv", *BASE, "--out", out), 3, "there is no file", "val.csv", out=out)


def test_damaged_and_unknown_formats(tmp_path):
    damaged = tmp_path / "rows.parquet"
    damaged.write_bytes(b"PAR1 and no more")
    refused(fit_inside("--val", damaged, *BASE, "--out", tmp_path / "run"), 3, "cannot be read as .parquet")
    (tmp_path / "rows.xlsx").write_bytes(b"")
    refused(fit_inside("--val", tmp_path / "rows.xlsx", *BASE, "--out", tmp_path / "run"), 2, "'.csv'", "'.npz'")


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (["--label", "yy", "--metric", "f1_macro"], ["no column 'yy'", "did you mean 'y'?", "--label"]),
        ([*BASE, "--proba", "q_*"], ["'q_*' matches no column", "'p_ant'", "--proba"]),
        (["--label", "y", "--metric", "f1_marco"], ["no metric 'f1_marco'", "did you mean 'f1_macro'?"]),
        ([*BASE, "--basis", "kmaens:5"], ["no basis 'kmaens'", "did you mean 'kmeans'?"]),
        ([*BASE, "--method", "infulence"], ["no method 'infulence'", "did you mean 'influence'?"]),
    ],
)
def test_wrong_columns_and_names(options, texts, val, tmp_path):
    out = tmp_path / "run"
    refused(fit("--val", val, *options, "--out", out), 2, *texts, out=out)


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ([*BASE, "--proba", "p_ant"], ["a pattern with one star", "'p_cat'"]),
        ([*BASE, "--sample-weight", "amuont"], ["no column 'amuont'", "did you mean 'amount'?"]),
        ([*BASE, "--features", "x*,regoin"], ["no feature column 'regoin'", "did you mean 'region'?"]),
        ([*BASE, "--basis", "tree:4"], ["labels of training rows", "--train"]),
        ([*BASE, "--basis", "col:regoin"], ["no column 'regoin'", "did you mean 'region'?"]),
        (["--label", "y", "--metric", "worst_group_accuracy"], ["--groups"]),
        ([*BASE, "--groups", "region"], ["does not read groups", "--groups"]),
        (["--label", "y"], ["--metric NAME", "postshift metrics"]),
        (["--metric", "f1_macro"], ["--label"]),
        ([*BASE, "--less-is-better"], ["--metric-command"]),
        ([*BASE, "--proba", "p_*", "--model", "m.skops"], ["--proba and --model"]),
        ([*BASE, "--metric-command", "sh {predictions}"], ["give one metric: either"]),
        (["--label", "y", "--metric-command", "sh"], ["{predictions}"]),
        (["--label", "y", "--metric-command", "./none {predictions}"], ["there is no program", "chmod +x"]),
    ],
)
def test_options_that_cannot_be_used(options, texts, val, tmp_path):
    out = tmp_path / "run"
    refused(fit_inside("--val", val, *options, "--out", out), 2, *texts, out=out)


def test_probabilities_that_do_not_sum_to_one(changed, tmp_path):
    def change(frame):
        frame.loc[[3, 8], "p_ant"] += 0.25

    done = fit("--val", changed(change), *BASE, "--out", tmp_path / "run")
    refused(done, 2, "row 3", "sum to 1.25", "2 of 320 rows", "--normalise", out=tmp_path / "run")


def test_labels_that_the_model_has_never_seen(changed, tmp_path):
    def change(frame):
        frame.loc[[5, 7], "y"] = "dog"

    done = fit("--val", changed(change), *BASE, "--out", tmp_path / "run")
    refused(done, 2, "'dog'", "2 rows", "row 5", "3 classes", out=tmp_path / "run")


def test_rows_without_a_label_or_a_number(changed, tmp_path):
    def unlabelled(frame):
        frame.loc[4, "y"] = None

    def unnumbered(frame):
        frame["p_bee"] = frame["p_bee"].astype(object)
        frame.loc[4, "p_bee"] = "none"

    refused(fit_inside("--val", changed(unlabelled), *BASE, "--out", tmp_path / "run"), 2, "row 4", "without a label")
    refused(fit_inside("--val", changed(unnumbered), *BASE, "--out", tmp_path / "run"), 2, "'p_bee'", "numbers")


def test_folders_that_cannot_be_written(val, tmp_path):
    (tmp_path / "file").write_text("")
    done = fit("--val", val, *BASE, "--out", tmp_path / "file" / "run")
    refused(done, 3, "cannot create the folder", "Not a directory")
    refused(fit_inside("--val", val, *BASE, "--out", tmp_path / "file"), 3, "is a file")


def test_folders_with_something_else_are_left_alone(made, val, tmp_path):
    run, _ = made
    refused(fit("--val", val, *BASE, "--out", run), 2, "already has a run", "--force", "--resume")
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("all of it")
    refused(fit_inside("--val", val, *BASE, "--out", other, "--force"), 2, "not a run folder")
    assert (other / "thesis.tex").read_text() == "all of it"
    refused(postshift("predict", other, val, "-o", tmp_path / "o.csv"), 2, "not a run folder")
    refused(inside("report", tmp_path / "nowhere"), 3, "there is no run folder")


def test_runs_of_another_version_unfinished_and_damaged(made, files, tmp_path):
    run, _ = made
    header = json.loads((run / "run.json").read_text())
    test, out = files / "test.csv", tmp_path / "o.csv"
    (run / "run.json").write_text(json.dumps({**header, "format": 99, "postshift": "9.9"}))
    refused(postshift("predict", run, test, "-o", out), 2, "postshift 9.9", "format 99", "reads format 2", out=out)
    (run / "run.json").write_text(json.dumps({**header, "state": "running"}))
    refused(inside("report", run), 2, "not finished", "--resume")
    (run / "run.json").write_text("{")
    refused(inside("report", run), 3, "run.json was damaged")
    (run / "run.json").write_text(json.dumps(header))
    (run / "rule.skops").write_bytes(b"PK and no more")
    refused(postshift("predict", run, test, "-o", out), 3, "rule.skops", "damaged", out=out)
    facts = json.loads((run / "facts.json").read_text())
    (run / "facts.json").write_text(json.dumps({**facts, "format": 99}))
    refused(inside("report", run), 3, "99")


def test_files_that_predict_and_evaluate_cannot_use(made, files, tmp_path):
    run, _ = made
    frame = pd.read_csv(files / "test.csv")
    frame.drop(columns="p_bee").to_csv(tmp_path / "two.csv", index=False)
    frame.drop(columns="region").to_csv(tmp_path / "place.csv", index=False)
    out = tmp_path / "o.csv"
    refused(postshift("predict", run, tmp_path / "two.csv", "-o", out), 2, "'p_bee'", "same in all files", out=out)
    refused(inside("predict", run, tmp_path / "place.csv", "-o", out), 2, "no column 'region'", out=out)
    done = inside("predict", run, files / "test.csv", "-o", tmp_path / "no" / "o.csv")
    refused(done, 3, "there is no folder")
    frame.assign(y="dog").to_csv(tmp_path / "dogs.csv", index=False)  # labels that predict does not read
    assert inside("predict", run, tmp_path / "dogs.csv", "-o", out, "--keep").code == 0
    assert set(pd.read_csv(out)["y"]) == {"dog"}
    done = inside("evaluate", run, files / "test.csv", "--label", "regoin")
    refused(done, 2, "no column 'regoin'", "'region'")


def test_debug_shows_the_traceback(val, tmp_path):
    done = fit("--val", val, "--label", "yy", "--metric", "f1_macro", "--debug", "--out", tmp_path / "run")
    assert done.code == 2
    assert "Traceback" in done.err
    assert done.err.splitlines()[-1].startswith("error: there is no column 'yy'")


def test_exit_codes():
    assert explained(SettingError("x"))[0] == explained(BudgetError("x"))[0] == 2
    assert explained(ArchiveError("x"))[0] == explained(OSError(13, "Permission denied", "f"))[0] == 3
    assert explained(MetricError("x"))[0] == explained(MemoryError())[0] == 1
    assert explained(KeyError("k")) == (1, "unexpected KeyError: 'k' (--debug shows where)")
    wrapped = MetricError("long")
    wrapped.__cause__ = WorkError("short")
    assert explained(wrapped) == (1, "short")

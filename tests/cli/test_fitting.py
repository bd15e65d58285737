"""From files to a run."""

import json

import lightgbm
import numpy as np
import pandas as pd
import pytest

from postshift.datasets import load_adult
from postshift.exceptions import DataNotFoundError
from tests.cli.helpers import CLASSES, fit, fit_inside, inside, make_rows, postshift

FILES = {
    "run.json", "rule.skops", "metrics.json", "history.csv", "validation.csv", "facts.json", "report.html",
}  # fmt: skip


def test_a_run_holds_all_that_it_should(made, files):
    run, done = made
    assert done.code == 0, done.err
    assert done.err == ""
    assert {path.name for path in run.iterdir()} == FILES
    header = json.loads((run / "run.json").read_text())
    assert (header["state"], header["format"], header["settings"]["metric"]) == ("finished", 2, "g_mean")
    metrics = json.loads((run / "metrics.json").read_text())
    assert {name: value for name, value in done.json.items() if name not in ("run", "report")} == metrics
    assert metrics["after"] > metrics["before"]
    low, high = metrics["intervals"]["gain"]
    assert low <= metrics["gain"] <= high
    assert [rule["name"] for rule in metrics["rules"]] == ["base", "influence [region]"]
    validation = pd.read_csv(run / "validation.csv")
    given = pd.read_csv(files / "val.csv")
    assert validation["label"].tolist() == given["y"].tolist()
    assert validation["before"].tolist() == given[[f"p_{name}" for name in CLASSES]].idxmax(axis=1).str[2:].tolist()
    assert validation["held_out"].notna().all()
    assert (validation["after"] != validation["before"]).any()
    np.testing.assert_allclose(validation["p_bee"], given["p_bee"])
    history = pd.read_csv(run / "history.csv")
    assert set(history["rule"]) == {"influence [region]"}
    page = (run / "report.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "north" in page


@pytest.mark.slow
def test_the_same_command_makes_the_same_bytes_and_resume_of_a_finished_run_is_no_work(files, tmp_path):
    how = ["--val", files / "val.csv", "--label", "y", "--metric", "f1_macro", "--n-jobs", 2]
    first = postshift("fit", *how, "--method", "smoothed plug-in", "--out", tmp_path / "a")
    assert first.code == 0, first.err
    assert f"report: {tmp_path / 'a' / 'report.html'}" in first.out
    assert "fit: step 1 of at most" in first.err
    assert fit(*how, "--out", tmp_path / "b").code == 0
    for name in ("rule.skops", "metrics.json", "validation.csv", "history.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    stamp = (tmp_path / "a" / "rule.skops").stat().st_mtime_ns
    again = fit_inside(*how, "--resume", "--json", "--out", tmp_path / "a")
    assert again.code == 0, again.err
    assert again.json["after"] == json.loads((tmp_path / "a" / "metrics.json").read_text())["after"]
    assert (tmp_path / "a" / "rule.skops").stat().st_mtime_ns == stamp
    other = fit_inside(*how, "--resume", "--random-state", 1, "--out", tmp_path / "a")
    assert other.code == 2
    assert "--random-state was 0 and is now 1" in other.error


def test_force_replaces_a_run_only_after_the_new_one_is_made(made, files):
    run, _ = made
    how = ["--val", files / "val.csv", "--label", "y", "--out", run, "--force"]
    old = (run / "rule.skops").read_bytes()
    refused = fit_inside(*how, "--metric", "f1")  # for two classes, and there are three
    assert refused.code == 2
    assert "f1_macro" in refused.error
    assert (run / "rule.skops").read_bytes() == old
    assert fit_inside(*how, "--metric", "f1_macro").code == 0
    assert (run / "rule.skops").read_bytes() != old
    assert {path.name for path in run.iterdir()} == FILES
    assert [path.name for path in run.parent.iterdir()] == ["run"]  # nothing is left beside it


def test_warnings_are_one_line_each(tmp_path):
    make_rows(120, 3).to_csv(tmp_path / "few.csv", index=False)
    done = postshift(
        "fit", "--val", tmp_path / "few.csv", "--label", "y", "--metric", "accuracy", "--method", "smoothed plug-in",
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.code == 0, done.err
    warned = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    assert len(warned) == 1
    assert "there are 120 validation rows" in warned[0]
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["warnings"]


NUMBERS = ["age", "education-num", "capital-gain", "capital-loss", "hours-per-week"]


@pytest.fixture
def adult(tmp_path):
    """Write the probabilities of a model of LightGBM for three sets of rows, with a few of the columns."""
    try:
        tables = load_adult(download=False)
    except DataNotFoundError as error:
        pytest.skip(f"Adult is not here (set POSTSHIFT_DATA): {str(error).splitlines()[0]}")
    train, pool = (pd.DataFrame(dict(table)) for table in (tables.train, tables.test))
    for frame in (train, pool):
        frame[NUMBERS] = frame[NUMBERS].astype(float)
        frame["income"] = frame["income"].str.strip().str.rstrip(".")
    data = lightgbm.Dataset(train[NUMBERS][:12_000], label=train["income"][:12_000] == ">50K")
    settings = {"objective": "binary", "verbosity": -1, "num_threads": 1, "seed": 0, "deterministic": True}
    booster = lightgbm.train(settings, data, num_boost_round=40)
    parts = {"train": train[12_000:15_000], "val": pool[:1500], "test": pool[1500:9500]}
    for name, frame in parts.items():
        share = booster.predict(frame[NUMBERS])
        kept = frame[["income", "sex", "age", "hours-per-week"]]
        kept.assign(**{"prob <=50K": 1 - share, "prob >50K": share}).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


@pytest.mark.slow
def test_adult_from_a_table_of_probabilities_to_a_report_in_one_command(adult):
    done = postshift(
        "fit", "--train", "train.csv", "--val", "val.csv", "--label", "income", "--proba", "prob *",
        "--metric", "g_mean", "--basis", "col:sex", "--method", "influence", "--out", "run", "--json", cwd=adult,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["gain"] > 0
    page = (adult / "run" / "report.html").read_text(encoding="utf-8")
    assert "&gt;50K" in page
    scored = inside("evaluate", "run", "test.csv", "--json", cwd=adult)
    assert scored.code == 0, scored.err
    assert scored.json["intervals"]["gain"][0] > 0
    assert scored.json["classes"] == ["<=50K", ">50K"]

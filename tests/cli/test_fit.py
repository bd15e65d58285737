"""From files to a run, and from a run to labels, scores and a report."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from postshift.cli.parquet_files import read_rows
from postshift.cli.predicting import LoadedRun
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
    assert (header["state"], header["format"], header["settings"]["metric"]) == ("finished", 1, "g_mean")
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


def test_predict_evaluate_and_report(made, files, tmp_path):
    run, _ = made
    done = postshift("predict", run, files / "test.csv", "-o", tmp_path / "out.parquet", "--keep", "--proba-out")
    assert done.code == 0, done.err
    found = pd.read_parquet(tmp_path / "out.parquet")
    given = pd.read_csv(files / "test.csv")
    assert [*given.columns, "label", *(f"shifted_{name}" for name in CLASSES)] == list(found.columns)
    np.testing.assert_allclose(found[[f"shifted_{name}" for name in CLASSES]].sum(axis=1), 1)
    before = given[[f"p_{name}" for name in CLASSES]].idxmax(axis=1).str[2:]
    assert f"{int((before != found['label']).sum())} otherwise" in done.out

    scored = postshift("evaluate", run, files / "test.csv", "--json")
    assert scored.code == 0, scored.err
    result = scored.json
    confusion = pd.crosstab(given["y"], found["label"]).reindex(index=CLASSES, columns=CLASSES, fill_value=0)
    assert result["confusion"]["after"] == confusion.to_numpy().tolist()
    recalls = np.diag(confusion) / confusion.sum(axis=1)
    assert result["after"] == pytest.approx(np.prod(recalls) ** (1 / 3))
    low, high = result["intervals"]["gain"]
    assert low < result["gain"] < high
    shown = inside("evaluate", run, files / "test.csv", "--metric", "accuracy")
    assert f"{(found['label'] == given['y']).mean():.4f}" in shown.out
    assert "after: true" in shown.out

    page = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    assert postshift("report", run).out.strip() == f"report: {run / 'report.html'}"
    assert (run / "report.html").read_bytes() == page


@pytest.mark.slow
def test_the_same_command_makes_the_same_bytes_and_resume_of_a_finished_run_is_no_work(files, tmp_path):
    how = ["--val", files / "val.csv", "--label", "y", "--metric", "f1_macro", "--jobs", 2]
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
    other = fit_inside(*how, "--resume", "--seed", 1, "--out", tmp_path / "a")
    assert other.code == 2
    assert "--seed was 0 and is now 1" in other.error


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


def test_numbers_as_labels_keep_their_type_and_weights_count(files, tmp_path):
    codes = {"ant": 1.0, "bee": 2.0, "cat": 3.0}
    for name in ("val", "test"):
        frame = pd.read_csv(files / f"{name}.csv").replace({"y": codes})
        frame["y"] = frame["y"].astype(float)
        frame.rename(columns={"p_ant": "p_1", "p_bee": "p_2", "p_cat": "p_3"}).to_csv(tmp_path / f"{name}.csv")
    run = tmp_path / "run"
    how = ["--val", tmp_path / "val.csv", "--label", "y", "--metric", "accuracy", "--out", run]
    done = fit_inside(*how, "--weight", "amount", "--features", "x*", "--json")
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
    part = loaded.reading().part(read_rows(tmp_path / "scaled.csv"))
    assert part.eta.sum(axis=1) == pytest.approx(1)


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
    assert len(loaded.rule.bases) == 1
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


def test_metrics_over_groups(files, tmp_path):
    how = ["--val", files / "val.csv", "--label", "y", "--groups", "region", "--metric", "worst_group_accuracy"]
    done = fit_inside(*how, "--json", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    scored = inside("evaluate", tmp_path / "run", files / "test.csv", "--json")
    assert scored.code == 0, scored.err
    test = pd.read_csv(files / "test.csv")
    right = test[[f"p_{name}" for name in CLASSES]].idxmax(axis=1).str[2:] == test["y"]
    assert scored.json["before"] == pytest.approx(right.groupby(test["region"]).mean().min(), abs=1e-6)
    test.drop(columns="region").to_csv(tmp_path / "test.csv", index=False)
    done = inside("evaluate", tmp_path / "run", tmp_path / "test.csv")
    assert done.code == 2
    assert "no column 'region'" in done.error


@pytest.mark.parametrize("name", ["val", "train"])
def test_evaluate_says_that_rows_were_used_for_the_fit(name, made, files, tmp_path):
    run, _ = made
    shutil.copy(files / f"{name}.csv", tmp_path / "test.csv")  # under any name
    done = inside("evaluate", run, tmp_path / "test.csv")
    assert done.code == 0, done.err
    (line,) = done.err.splitlines()
    assert line.startswith("warning: ")
    assert {"val": "validation", "train": "training"}[name] in line
    assert "other rows" in line
    found = inside("evaluate", run, tmp_path / "test.csv", "--json")
    assert found.json["used_for_the_fit"] == {"val": "validation", "train": "training"}[name]
    fresh = inside("evaluate", run, files / "test.csv", "--json")
    assert (fresh.err, fresh.json["used_for_the_fit"]) == ("", None)


def test_evaluate_knows_the_files_of_the_fit_among_several(files, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    frame = pd.read_csv(files / "val.csv")
    for number, part in enumerate((frame.iloc[:160], frame.iloc[160:])):
        part.to_parquet(folder / f"part-{number}.parquet")
    run = tmp_path / "run"
    assert fit_inside("--val", folder, "--label", "y", "--metric", "f1_macro", "--out", run).code == 0
    for data in (folder, folder / "*.parquet"):
        done = inside("evaluate", run, data)
        assert done.code == 0, done.err
        assert "validation rows of the fit" in done.err


def test_predict_replaces_a_file_only_where_that_is_asked_for(made, files, tmp_path):
    run, _ = made
    out = tmp_path / "labels.csv"
    out.write_text("my notes")
    done = inside("predict", run, files / "test.csv", "-o", out)
    assert done.code == 2
    assert "--force" in done.error
    assert out.read_text() == "my notes"
    done = inside("predict", run, files / "test.csv", "-o", out, "--force")
    assert done.code == 0, done.err
    assert len(pd.read_csv(out)) == 200
    rows = tmp_path / "rows.csv"
    shutil.copy(files / "test.csv", rows)
    done = inside("predict", run, rows, "-o", tmp_path / ".." / tmp_path.name / "rows.csv", "--force")
    assert done.code == 2
    assert "the rows themselves" in done.error
    assert rows.read_bytes() == (files / "test.csv").read_bytes()


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


@pytest.mark.filterwarnings("ignore::postshift.exceptions.MissingClassWarning")
def test_a_group_without_rows_of_a_class(files, tmp_path):
    """The class is left out of the group's mean recall, as in scikit-learn, in the fit as in evaluate."""
    for name in ("val", "test"):
        rows = pd.read_csv(files / f"{name}.csv")
        rows["region"] = np.where(rows["y"] == "cat", "north", rows["region"])
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    how = ["--label", "y", "--groups", "region", "--metric", "worst_group_balanced_accuracy"]
    done = fit_inside("--val", tmp_path / "val.csv", *how, "--out", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    for name in ("val", "test"):
        given = pd.read_csv(tmp_path / f"{name}.csv")
        right = given[[f"p_{label}" for label in CLASSES]].idxmax(axis=1).str[2:] == given["y"]
        recalls = right.groupby([given["region"], given["y"]]).mean()
        found = inside("evaluate", tmp_path / "run", tmp_path / "test.csv", "--json") if name == "test" else done
        assert found.json["before"] == pytest.approx(recalls.groupby(level="region").mean().min())


def test_intervals_of_evaluate_have_the_width_of_shares(tmp_path):
    """Rows drawn anew within each class have the same accuracy where a class is always right: no width at all."""
    n_rows = 300
    rows = pd.DataFrame({"p_a": [0.9] * n_rows, "p_b": [0.1] * n_rows, "y": ["a"] * 180 + ["b"] * 120})
    rows.to_csv(tmp_path / "always_a.csv", index=False)
    run = tmp_path / "run"
    how = ("--label", "y", "--metric", "accuracy", "--method", "base", "--out", run)
    assert inside("fit", "--val", tmp_path / "always_a.csv", *how).code == 0
    rows.sample(frac=1, random_state=0).to_csv(tmp_path / "others.csv", index=False)
    found = inside("evaluate", run, tmp_path / "others.csv", "--json").json
    low, high = found["intervals"]["after"]
    spread = 1.96 * np.sqrt(0.6 * 0.4 / n_rows)
    assert found["after"] == pytest.approx(0.6)
    assert (low, high) == pytest.approx((0.6 - spread, 0.6 + spread), abs=0.01)


def test_a_base_that_was_kept_gains_nothing_for_certain(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(800)
    rows = pd.DataFrame({"p_a": 1 - p, "p_b": p, "y": np.where(rng.random(800) < p, "b", "a")})
    rows[:400].to_csv(tmp_path / "val.csv", index=False)
    rows[400:].to_csv(tmp_path / "test.csv", index=False)
    how = ("--label", "y", "--metric", "accuracy", "--method", "best", "--out", tmp_path / "run")
    assert inside("fit", "--val", tmp_path / "val.csv", *how, "--json").json["fallback"]
    found = inside("evaluate", tmp_path / "run", tmp_path / "test.csv", "--json").json
    assert found["intervals"]["gain"] == [0, 0]
    assert found["intervals"]["after"] == found["intervals"]["before"]

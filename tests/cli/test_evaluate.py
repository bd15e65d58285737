"""Scores of rows with labels."""

import shutil

import numpy as np
import pandas as pd
import pytest

from tests.cli.helpers import CLASSES, fit_inside, inside


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

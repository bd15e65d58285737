"""The user's model in a file."""

import re

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from postshift.persistence import dump
from tests.cli.helpers import CLASSES, fit, fit_inside, inside, make_rows, postshift

pytestmark = pytest.mark.slow  # many whole runs


@pytest.fixture
def model():
    """A model of two features, fitted to a frame."""
    frame = make_rows(400, 7)
    return LogisticRegression().fit(frame[["x1", "x2"]], frame["y"])


def test_a_skops_model_is_read_as_it_is(model, files, tmp_path):
    dump(model, tmp_path / "m.skops")
    how = ["--val", files / "val.csv", "--label", "y", "--metric", "g_mean", "--model", tmp_path / "m.skops"]
    run = tmp_path / "run"
    done = fit(
        *how,
        "--train",
        files / "train.csv",
        "--basis",
        "tree:2",
        "--features",
        "x*",
        "--method",
        "influence",
        "--out",
        run,
    )
    assert done.code == 0, done.err
    assert (run / "model.skops").read_bytes() == (tmp_path / "m.skops").read_bytes()
    found = pd.read_csv(run / "validation.csv")
    given = pd.read_csv(files / "val.csv")
    np.testing.assert_allclose(found[[f"p_{name}" for name in CLASSES]], model.predict_proba(given[["x1", "x2"]]))
    (tmp_path / "m.skops").unlink()
    given.drop(columns=["y", *(f"p_{name}" for name in CLASSES)]).to_csv(tmp_path / "new.csv", index=False)
    done = postshift("predict", run, tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert done.code == 0, done.err
    assert pd.read_csv(tmp_path / "out.csv")["label"].tolist() == found["after"].tolist()


def test_a_pickle_is_read_only_where_it_is_trusted_each_time(model, files, tmp_path):
    joblib.dump(model, tmp_path / "m.joblib")
    run, out = tmp_path / "run", tmp_path / "out.csv"
    how = ["--val", files / "val.csv", "--label", "y", "--metric", "g_mean", "--model", tmp_path / "m.joblib"]
    refused = fit(*how, "--out", run)
    assert refused.code == 2
    assert "--trust-model" in refused.error
    assert not run.exists()
    assert fit_inside(*how, "--trust-model", "--out", run).code == 0
    refused = postshift("predict", run, files / "test.csv", "-o", out)
    assert refused.code == 2
    assert "--trust-model" in refused.error
    assert not out.exists()
    assert inside("predict", run, files / "test.csv", "-o", out, "--trust-model", "--quiet").code == 0
    assert len(pd.read_csv(out)) == 200


def test_types_of_others_in_a_skops_model_need_trust_each_time(files, tmp_path):
    frame = make_rows(400, 7)
    dump(RandomForestClassifier(5, random_state=0).fit(frame[["x1", "x2"]], frame["y"]), tmp_path / "m.skops")
    run, out = tmp_path / "run", tmp_path / "out.csv"
    how = ["--val", files / "val.csv", "--label", "y", "--metric", "g_mean", "--model", tmp_path / "m.skops"]
    refused = fit_inside(*how, "--out", run)
    assert refused.code == 3
    assert "not trusted: sklearn.tree._tree.Tree. Add --trust-model" in refused.error
    assert fit_inside(*how, "--trust-model", "--out", run).code == 0
    advised = re.search("postshift predict [^<]*", (run / "report.html").read_text())
    assert "--trust-model" in advised.group()
    refused = inside("predict", run, files / "test.csv", "-o", out)
    assert refused.code == 3
    assert "Add --trust-model" in refused.error
    assert not out.exists()
    assert inside("predict", run, files / "test.csv", "-o", out, "--trust-model", "--quiet").code == 0
    assert len(pd.read_csv(out)) == 200


def test_damaged_models_and_columns_that_a_model_misses(model, files, tmp_path):
    (tmp_path / "m.skops").write_bytes(b"PK and no more")
    how = ["--label", "y", "--metric", "g_mean", "--out", tmp_path / "run"]
    damaged = fit("--val", files / "val.csv", *how, "--model", tmp_path / "m.skops")
    assert damaged.code == 3
    assert "m.skops" in damaged.error
    (tmp_path / "m.joblib").write_bytes(b"no pickle")
    damaged = fit_inside("--val", files / "val.csv", *how, "--model", tmp_path / "m.joblib", "--trust-model")
    assert damaged.code == 3
    dump(model, tmp_path / "m.skops")
    pd.read_csv(files / "val.csv").rename(columns={"x2": "x_2"}).to_csv(tmp_path / "val.csv", index=False)
    missing = fit_inside("--val", tmp_path / "val.csv", *how, "--model", tmp_path / "m.skops")
    assert missing.code == 2
    assert "did you mean 'x_2'?" in missing.error


def half_fitted(model, **parts):
    """The model with other parts, as in a file that was changed."""
    for name, part in parts.items():
        setattr(model, name, part)
    return model


CHANGES = {
    "no intercept": {"intercept_": None},
    "a text": {"coef_": "none"},
    "fewer classes": {"classes_": np.array(["ant", "bee"])},
    "more columns": {"coef_": np.ones((4, 2)), "intercept_": np.zeros(4)},
    "one class": {"classes_": "ant"},
    "nothing finite": {"coef_": np.full((3, 2), np.nan)},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_models_that_cannot_predict_are_refused_in_words(change, model, files, tmp_path):
    dump(half_fitted(model, **change), tmp_path / "m.skops")
    how = ["--val", files / "val.csv", "--label", "y", "--metric", "g_mean", "--out", tmp_path / "run"]
    done = fit_inside(*how, "--model", tmp_path / "m.skops")
    assert done.code in (2, 3)
    assert "unexpected" not in done.error

"""Labels of new rows."""

import shutil

import numpy as np
import pandas as pd
import pytest

from tests.cli.helpers import CLASSES, inside, postshift


def test_predict_evaluate_and_report(made, files, tmp_path):
    run, _ = made
    done = postshift("predict", run, files / "test.csv", "-o", tmp_path / "out.parquet", "--keep", "--proba-out")
    assert done.code == 0, done.err
    found = pd.read_parquet(tmp_path / "out.parquet")
    given = pd.read_csv(files / "test.csv")
    assert [*given.columns, "label", *(f"shifted_{name}" for name in CLASSES)] == list(found.columns)
    np.testing.assert_allclose(found[[f"shifted_{name}" for name in CLASSES]].sum(axis=1), 1)
    before = given[[f"p_{name}" for name in CLASSES]].idxmax(axis=1).str[2:]
    assert f"{int((before != found['label']).sum())} labels differ" in done.out

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
    assert "is the file with the rows" in done.error
    assert rows.read_bytes() == (files / "test.csv").read_bytes()

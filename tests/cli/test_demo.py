"""The demo."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.cli.helpers import contents, inside, postshift


def test_the_demo_replaces_no_rows_of_others(tmp_path):
    (tmp_path / "train.csv").write_text("a,b\n1,2\n")
    before = contents(tmp_path)
    done = inside("demo", "--out", tmp_path, "--force")
    assert done.code == 2, done.err
    assert "train.csv" in done.error
    assert contents(tmp_path) == before


def test_the_demo_writes_nothing_beside_a_run_of_others(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    done = inside("demo", "--out", tmp_path, "--force")
    assert done.code == 2, done.err
    assert contents(tmp_path) == {"run/run.json": b"{}"}


@pytest.mark.slow
def test_demo(tmp_path):
    out = tmp_path / "demo"
    done = postshift("demo", "--out", out)
    assert done.code == 0, done.err
    assert "stack" in done.out
    assert done.out.splitlines()[-1] == f"report: {out / 'run' / 'report.html'}"
    assert (out / "run" / "report.html").is_file()
    metrics = json.loads((out / "run" / "metrics.json").read_text())
    test = pd.read_csv(out / "test.csv")
    before = test.filter(like="p_").to_numpy().argmax(axis=1)
    assert metrics["after"] > metrics["before"]
    assert f"on 500 test rows: {np.mean(before == test['digit']):.3f} -> " in done.out
    refused = inside("demo", "--out", out)
    assert refused.code == 2
    assert "--force" in refused.error
    (out / "run" / "run.json").unlink()  # as where the demo was stopped before there was a run
    for path in (out / "run").iterdir():
        path.unlink()
    again = inside("demo", "--out", out, "--force", "--json")
    assert again.code == 0, again.err
    assert again.json["fit"]["after"] == metrics["after"]
    (tmp_path / "thesis.tex").write_text("all of it")
    refused = inside("demo", "--out", tmp_path, "--force")
    assert refused.code == 2
    assert "nothing in it was changed" in refused.error

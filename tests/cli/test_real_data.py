"""The main job on real data: Adult, from another program's probabilities to a report in one command, and the demo."""

import json

import lightgbm
import numpy as np
import pandas as pd
import pytest

from postshift.datasets import load_adult
from postshift.exceptions import DataNotFoundError
from tests.cli.helpers import inside, postshift

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
    assert "nothing in it was touched" in refused.error

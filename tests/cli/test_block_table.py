"""``--memory-limit``: training rows that stay in their files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from postshift.estimators import dask_rows
from tests.cli.helpers import inside

FIT = ("--label", "y", "--metric", "f1_macro", "--method", "influence", "--basis", "col:region", "--sample-weight", "w")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    eta = rng.dirichlet([1.0, 0.5, 0.3], size=4_000)
    frame = pd.DataFrame(eta, columns=["p_a", "p_b", "p_c"])
    frame["y"] = np.array(["a", "b", "c"])[(eta.cumsum(axis=1) > rng.random((4_000, 1))).argmax(axis=1)]
    frame["w"] = rng.uniform(0.5, 2, size=len(frame))
    frame["region"] = np.where(rng.random(len(frame)) < 0.4, "north", "south")
    frame[:600].to_parquet(folder / "val.parquet")
    frame[600:].to_parquet(folder / "train.parquet", row_group_size=500)
    frame[600:].reset_index(drop=True).to_feather(folder / "train.arrow", chunksize=500)
    frame[600:].to_csv(folder / "train.csv", index=False)
    return folder


def _fit(rows, out, *more, train="train.parquet"):
    return inside("fit", "--train", rows / train, "--val", rows / "val.parquet", *FIT, "--out", out, *more)


@pytest.mark.parametrize("train", ["train.parquet", "train.arrow"])
def test_few_rows_give_the_run_of_rows_in_memory(rows, tmp_path, train):
    whole = _fit(rows, tmp_path / "whole", train=train)
    blocks = _fit(rows, tmp_path / "blocks", "--memory-limit", "100 MB", train=train)
    assert whole.code == blocks.code == 0, blocks.err
    for name in ("metrics.json", "validation.csv", "history.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "blocks" / name).read_bytes()


def test_many_rows_are_summed_in_their_files(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_rows, "DRAWN_ROWS", 1_000)
    done = _fit(rows, tmp_path / "run", "--memory-limit", "100 MB")
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert found["training_rows"] == 3_400
    assert "3,400 rows, of which 1,000 were drawn" in (tmp_path / "run" / "facts.json").read_text()
    assert _fit(rows, tmp_path / "whole").code == 0
    wanted = json.loads((tmp_path / "whole" / "metrics.json").read_text())
    after = [pd.read_csv(tmp_path / name / "validation.csv")["after"].tolist() for name in ("run", "whole")]
    assert after[0] == after[1]  # the rule is fitted to the sums over all rows
    assert abs(found["after"] - wanted["after"]) < 0.05


def test_an_error_names_file_and_row(rows, tmp_path, monkeypatch):
    frame = pd.read_parquet(rows / "train.parquet")
    frame.iloc[3_000, 0] = np.nan
    frame.to_parquet(tmp_path / "bad.parquet")
    monkeypatch.setattr(dask_rows, "DRAWN_ROWS", 10)
    done = _fit(rows, tmp_path / "run", "--memory-limit", "100 MB", train=tmp_path / "bad.parquet")
    assert done.code == 2
    assert "bad.parquet" in done.err
    assert "row 3000" in done.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("more", "train", "why"),
    [
        (("--memory-limit", "100 MB"), "train.csv", "can only be read as a whole"),
        (("--memory-limit", "much"), "train.parquet", "--memory-limit must be a number of bytes"),
        (("--memory-limit", "1 kB"), "train.parquet", "memory_limit must be at least"),
        (("--memory-limit", "1 GB", "--scheduler", "local"), "train.parquet", "leave --scheduler out"),
    ],
)
def test_what_cannot_be_done_is_refused(rows, tmp_path, more, train, why):
    done = _fit(rows, tmp_path / "run", *more, train=train)
    assert done.code == 2
    assert why in done.err

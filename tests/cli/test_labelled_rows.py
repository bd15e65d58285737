"""Rows that are labelled block by block give the scores of all rows at once."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from postshift.cli.files import table_blocks
from tests.cli.helpers import inside


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocks")
    rng = np.random.default_rng(0)
    eta = rng.dirichlet([1.0, 0.5, 0.3], size=1_500)
    frame = pd.DataFrame(eta, columns=["p_a", "p_b", "p_c"])
    frame["y"] = np.array(["a", "b", "c"])[(eta.cumsum(axis=1) > rng.random((1_500, 1))).argmax(axis=1)]
    frame["w"] = rng.uniform(0.5, 2, size=len(frame))
    frame["region"] = np.where(rng.random(len(frame)) < 0.4, "north", "south")
    frame[:500].to_parquet(folder / "val.parquet")
    frame[500:].to_parquet(folder / "test.parquet", row_group_size=300)
    done = inside(
        *("fit", "--val", folder / "val.parquet", "--label", "y", "--sample-weight", "w", "--metric", "f1_macro"),
        *("--basis", "col:region", "--method", "influence", "--out", folder / "run"),
    )
    assert done.code == 0, done.err
    return folder


def test_scores_do_not_depend_on_the_blocks(run, monkeypatch):
    whole = inside("evaluate", run / "run", run / "test.parquet", "--json")
    monkeypatch.setattr(table_blocks.TableBlocks.blocks, "__defaults__", (128,))
    blocks = inside("evaluate", run / "run", run / "test.parquet", "--json")
    assert whole.code == blocks.code == 0
    assert json.loads(whole.out) == json.loads(blocks.out)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
@pytest.mark.parametrize("keep", [(), ("--keep",)])
def test_labels_do_not_depend_on_the_blocks(run, monkeypatch, tmp_path, suffix, keep):
    paths = [tmp_path / f"{name}{suffix}" for name in ("whole", "blocks")]
    assert inside("predict", run / "run", run / "test.parquet", "-o", paths[0], *keep).code == 0
    monkeypatch.setattr(table_blocks.TableBlocks.blocks, "__defaults__", (128,))
    assert inside("predict", run / "run", run / "test.parquet", "-o", paths[1], *keep).code == 0
    read = {".parquet": pd.read_parquet, ".csv": pd.read_csv, ".arrow": pd.read_feather}[suffix]
    pd.testing.assert_frame_equal(read(paths[0]), read(paths[1]))
    assert len(read(paths[0])) == 1_000


def test_an_error_names_the_rows_and_nothing_is_written(run, monkeypatch, tmp_path):
    frame = pd.read_parquet(run / "test.parquet")
    frame.iloc[700, 0] = np.nan
    frame.to_parquet(tmp_path / "bad.parquet")
    monkeypatch.setattr(table_blocks.TableBlocks.blocks, "__defaults__", (128,))
    done = inside("predict", run / "run", tmp_path / "bad.parquet", "-o", tmp_path / "labels.csv")
    assert done.code == 2
    assert "bad.parquet (rows 640 to 767) has 1 rows whose probabilities are missing or infinite (first: row 700)" in (
        done.err
    )
    assert [each.name for each in tmp_path.iterdir()] == ["bad.parquet"]


def test_progress_of_a_long_file_is_shown(run, monkeypatch):
    monkeypatch.setattr(table_blocks.TableBlocks.blocks, "__defaults__", (128,))
    monkeypatch.setattr("postshift.cli.console._LONG", 500)
    done = inside("evaluate", run / "run", run / "test.parquet")
    assert "test.parquet: 128 of 1,000 rows" in done.err
    assert "test.parquet: 1,000 of 1,000 rows" in done.err
    assert not inside("evaluate", run / "run", run / "test.parquet", "--quiet").err

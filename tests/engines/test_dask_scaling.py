"""The measurement of the Dask engine runs at a small size, and its page is made of the stored figures."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed")

from benchmarks import dask_scaling


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells anonymous memory apart")
def test_a_small_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(dask_scaling.os, "getloadavg", lambda: (0.5, 0.5, 0.5))
    arguments = ["--rows", "2000", "--partition-rows", "600", "--iterations", "2", "--workers", "1", "--store"]
    dask_scaling.main([*arguments, "--out", str(tmp_path)])
    dask_scaling.main([*arguments, "--out", str(tmp_path)])  # takes the place of the first
    with (tmp_path / "dask_bench.csv").open(newline="") as stream:
        blocks, dask = csv.DictReader(stream)
    assert (blocks["engine"], dask["engine"], dask["partitions"]) == ("blocks", "dask", "4")
    assert blocks["value"] == dask["value"]
    assert "dask   file            2,000 rows    4 partitions" in capsys.readouterr().out
    text = (tmp_path / "dask_bench.md").read_text()
    assert "| 2,000 | dask | file | 4 | 1 |" in text
    assert "| 1,000,000,000 | 64 |" in text


def test_nothing_is_predicted_from_a_busy_machine():
    busy = {"engine": "dask", "load": "9.0"}
    assert "Nothing yet" in dask_scaling.model([busy])[-1]


def test_rows_are_the_same_wherever_they_are_made(tmp_path):
    rows = dask_scaling.Rows(n_rows=50, partition_rows=20)
    pairs = zip(rows.pieces(), rows.written(tmp_path).pieces(), strict=True)
    for one, other in pairs:
        made, read = (piece.make(piece.place, *piece.given).block for piece in (one, other))
        made.check(n_labels=dask_scaling.N_CLASSES)
        for name in ("eta", "phi", "labels"):
            np.testing.assert_array_equal(getattr(made, name), getattr(read, name))


def test_many_rows_are_generated_on_the_workers(monkeypatch):
    seen = []
    monkeypatch.setattr(dask_scaling, "MOST_FILE_ROWS", 10)
    monkeypatch.setattr(dask_scaling, "of_dask", lambda rows, **how: seen.append((rows.folder, how["n_workers"])))
    monkeypatch.setattr(dask_scaling, "_said", lambda figures: figures)
    dask_scaling.measured(20, 10, [1, 2], 3)
    assert seen == [(None, 1), (None, 2)]

"""The measurement of the Dask engine runs at a small size, and its page is made of the stored figures."""

from __future__ import annotations

import csv
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed")

from benchmarks import dask_page, dask_scaling, dask_work


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells anonymous memory apart")
@pytest.mark.parametrize("passes", [dask_scaling.SORTED, dask_scaling.SOFT])
def test_a_small_run(tmp_path, capsys, passes):
    arguments = ["--rows", "2000", "--partition-rows", "600", "--iterations", "2", "--workers", "1", "--store"]
    arguments += ["--passes", passes, "--out", str(tmp_path)]
    dask_scaling.main(arguments)
    with (tmp_path / "dask_bench.csv").open(newline="") as stream:
        blocks, dask = csv.DictReader(stream)
    assert (blocks["engine"], dask["engine"], dask["partitions"]) == ("blocks", "dask", "4")
    assert blocks["value"] == dask["value"]
    assert float(dask["others"]) >= 0
    assert f"dask   {passes:9}       2,000 rows    4 partitions" in capsys.readouterr().out
    assert f"| {passes} | 2,000 | dask | 4 | 1 |" in (tmp_path / "dask_bench.md").read_text()


def test_a_measurement_takes_the_place_of_an_earlier_one(tmp_path):
    fields = {"engine": "dask", "passes": "soft", "source": "file", "rows": 8, "partitions": 2, "workers": 1}
    numbers = (
        "prepare",
        "iteration",
        "busiest",
        "share",
        "fit",
        "value",
        "client_mb",
        "worker_mb",
        "sent_kb",
        "others",
    )
    for share in (0.5, 0.25):
        found = dask_page.Figures(**fields, **dict.fromkeys(numbers, 1.0) | {"share": share}, versions="dask 1")
        dask_page.store([found], tmp_path)
    with (tmp_path / "dask_bench.csv").open(newline="") as stream:
        assert [line["share"] for line in csv.DictReader(stream)] == ["0.25"]


def test_the_page_is_made_from_the_stored_figures():
    with (dask_page.OUT / "dask_bench.csv").open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert (dask_page.OUT / "dask_bench.md").read_text() == dask_page.page(lines)
    assert {10**6, 8 * 10**6, 10**8} <= {int(line["rows"]) for line in lines}


def measurement(*, rows, partitions, workers, others=0.0):
    """A made-up one of 10 ns a row, 5 ms an iteration, 2 ms a partition and 1 ms a worker."""
    at_work = min(workers, partitions)
    busiest, beside = 1e-8 * rows / at_work, 5e-3 + 2e-3 * partitions + 1e-3 * at_work
    numbers = {"iteration": busiest + beside, "busiest": busiest, "share": beside / (busiest + beside)}
    numbers |= {"rows": rows, "partitions": partitions, "workers": workers, "others": others}
    return {"engine": "dask", "passes": "soft", **{name: str(value) for name, value in numbers.items()}}


def test_the_model_finds_what_the_measurements_were_made_with():
    lines = [measurement(rows=k * 10**6, partitions=k, workers=w) for k in (1, 8) for w in (1, 2)]
    found = dask_page.Model.of(lines)
    overhead = (found.fixed, found.per_partition, found.per_worker)
    assert (found.per_row["soft"], *overhead) == pytest.approx((1e-8, 5e-3, 2e-3, 1e-3))
    told = dask_page.model(lines)
    assert "| soft | 8,000,000 | 8 | 2 | 63.0 | 37% | 63.0 | 37% |" in told
    assert "| soft | 1,000,000,000 | 1,000 | 16 | 2.65 | 76% | 1.3 |" in told


def test_the_busiest_worker_of_every_pass():
    work = {"a": [(0.0, 2.0), (2.0, 1.0), (10.0, 1.0)], "b": [(0.1, 4.0), (10.1, 1.0), (11.1, 4.0)]}
    assert dask_work.busiest_of(work, n_partitions=3) == 4.5  # of 4 and 5


def test_the_goals_are_judged():
    line = measurement(rows=8 * 10**6, partitions=8, workers=2)
    assert dask_page._judged(line) == "soft, 2 workers: 23.0 ms, NOT reached; share 37%, NOT reached"
    line |= {"passes": "sorted", "iteration": "0.05"}
    assert dask_page._judged(line) == "sorted, 2 workers: 10.0 ms, reached; share 37%"


def test_nothing_is_predicted_from_a_busy_machine():
    lines = [measurement(rows=k * 10**6, partitions=k, workers=1, others=1.5) for k in (1, 8)]
    assert "Nothing yet" in dask_page.model(lines)


@pytest.mark.parametrize("passes", dask_scaling.PASSES)
def test_rows_are_the_same_wherever_they_are_made(tmp_path, passes):
    rows = dask_scaling.MeasuredRows(n_rows=50, partition_rows=20, passes=passes)
    pairs = zip(rows.partitions(), rows.written(tmp_path).partitions(), strict=True)
    for one, other in pairs:
        made, read = (partition.make(partition.place, *partition.given) for partition in (one, other))
        made.check(n_labels=dask_scaling.N_CLASSES)
        for name in ("eta", "phi", "labels"):
            np.testing.assert_array_equal(getattr(made.rows, name), getattr(read.rows, name))


def test_many_rows_are_generated_on_the_workers(monkeypatch):
    seen = []
    monkeypatch.setattr(dask_scaling, "MOST_FILE_ROWS", 10)
    monkeypatch.setattr(dask_scaling, "of_dask", lambda rows, **how: seen.append((rows.folder, how["n_workers"])))
    monkeypatch.setattr(dask_scaling, "_said", lambda figures: figures)
    dask_scaling.measured(dask_scaling.MeasuredRows(n_rows=20, partition_rows=10), [1, 2], 3)
    assert seen == [(None, 1), (None, 2)]


FAULTS = """
import resource
import numpy as np
from postshift import MemoryEngine, PlugIn, Rows
from postshift.engines.dask.pass_task import keep_freed_memory

rng = np.random.default_rng(0)
eta, phi = (rng.dirichlet(np.ones(width), size=40_000) for width in (10, 3))
rows = Rows.of(eta, phi=phi, labels=np.arange(40_000) % 10)
engine = MemoryEngine(rows, kernels="numpy")

def faults():
    rule = PlugIn(weighting="diagonal", alpha=rng.uniform(0.5, 2, size=(3, 10)), n_classes=10)
    engine.classifier_sums(rule, confusions=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    engine.classifier_sums(rule, confusions=False)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()
keep_freed_memory()
faults()
print(first, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what is said to glibc's allocator")
def test_workers_do_not_fetch_their_memory_anew_in_every_pass():
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}  # as Dask's nanny sets it
    done = subprocess.run([sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 300
    assert after < before / 10

"""How the Dask engine scales: time of an iteration, the scheduler's share of it, and the memory of the client.

``python -m benchmarks.dask_scaling`` measures one and eight partitions of 10^6 rows (10 classes, 3 basis functions,
float32), on one worker and on two, beside :class:`BlockEngine` on the same memory-mapped files, and prints the figures;
``--store`` adds them to ``docs/results/dask_bench.csv`` and writes the page. Passes are of three kinds: over rows that
were sorted in hard clusters, over every row of hard clusters, and over every row of a soft basis. ``--rows 1e8 --passes
sorted`` generates the rows on the workers (about 13 GB): above 2 * 10^7 rows there are no files. It needs an idle
machine, and what others did to it is stored with the figures; ``--rows 1e6 --partition-rows 125000`` is a trial.

The scheduler's share is what is left of the wall time of an iteration beside the work of the busiest worker. Memory is
the growth of the client's anonymous memory, with the scheduler, which runs in the same process, in it.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.dask_page import NAME, OUT, Figures, store
from benchmarks.dask_work import busiest_of, record_work, recorded_work
from benchmarks.memory import PeakMemory, anonymous_bytes
from benchmarks.others import Others
from experiments.harness.files import versions
from postshift import PlugIn, Rows, fw_eg
from postshift.core.weighting import DIAGONAL
from postshift.engines import ArraySource, BlockEngine, DaskEngine
from postshift.engines.blocks import RowBlock
from postshift.engines.dask.partitions import LazyPartition, block_of
from postshift.metrics import GMean

N_CLASSES, N_BASES = 10, 3
MOST_FILE_ROWS = 20_000_000
SORTED, EVERY_ROW, SOFT = "sorted", "every row", "soft"
PASSES = (SORTED, EVERY_ROW, SOFT)


def rows_of(n_rows: int, number: int, *, soft: bool = False) -> dict[str, np.ndarray]:
    """Return the rows of one partition: the same wherever they are made."""
    rng = np.random.default_rng([7, number])
    prior = np.geomspace(1, 0.2, N_CLASSES)
    labels = rng.choice(N_CLASSES, size=n_rows, p=prior / prior.sum())
    eta = rng.standard_normal((n_rows, N_CLASSES), dtype=np.float32)
    eta[np.arange(n_rows), labels] += 2
    eta = 2 * eta + np.log(prior).astype(np.float32)
    np.exp(eta - eta.max(axis=1, keepdims=True), out=eta)
    eta /= eta.sum(axis=1, keepdims=True)
    if soft:
        phi = rng.dirichlet(np.ones(N_BASES), size=n_rows).astype(np.float32)
    else:
        phi = np.zeros((n_rows, N_BASES), dtype=np.float32)
        phi[np.arange(n_rows), rng.integers(N_BASES, size=n_rows)] = 1
    return {"eta": eta, "phi": phi, "labels": labels}


def generated(place: str, n_rows: int, number: int, soft: bool) -> RowBlock:  # noqa: FBT001
    """Make the rows of a partition on a worker."""
    return block_of(place, **rows_of(n_rows, number, soft=soft))


def mapped_file(place: str, folder: str, first: int, stop: int) -> RowBlock:
    """Read the rows of a partition from mapped files on a worker."""
    parts = {name: np.load(Path(folder) / f"{name}.npy", mmap_mode="r") for name in ("eta", "phi", "labels")}
    return block_of(place, **{name: np.array(part[first:stop]) for name, part in parts.items()})


@dataclass(frozen=True, kw_only=True)
class MeasuredRows:
    """The rows of a measurement as a source of partitions, generated or in a folder."""

    n_rows: int
    partition_rows: int
    passes: str = SORTED
    folder: Path | None = None

    @property
    def soft(self) -> bool:
        """Whether the basis is soft."""
        return self.passes == SOFT

    @property
    def edges(self) -> list[tuple[int, int]]:
        """First row and end of every partition."""
        return [(at, min(at + self.partition_rows, self.n_rows)) for at in range(0, self.n_rows, self.partition_rows)]

    def partitions(self) -> list[LazyPartition]:
        """Return the partitions, in the order of the rows."""
        found = []
        for number, (first, stop) in enumerate(self.edges):
            if self.folder is None:
                partition = LazyPartition(
                    place=f"partition {number}", make=generated, given=(stop - first, number, self.soft)
                )
            else:
                partition = LazyPartition(
                    place=f"partition {number}", make=mapped_file, given=(str(self.folder), first, stop)
                )
            found.append(partition)
        return found

    def written(self, folder: Path) -> MeasuredRows:
        """Write the rows to files, a partition at a time."""
        shapes = {"eta": (np.float32, (N_CLASSES,)), "phi": (np.float32, (N_BASES,)), "labels": (np.intp, ())}
        files = {
            name: np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=kind, shape=(self.n_rows, *more))
            for name, (kind, more) in shapes.items()
        }
        for number, (first, stop) in enumerate(self.edges):
            for name, part in rows_of(stop - first, number, soft=self.soft).items():
                files[name][first:stop] = part
        return replace(self, folder=folder)


def rules(count: int) -> list[PlugIn]:
    """Return plug-in rules as a run meets them, each another one: engines keep the last table."""
    rng = np.random.default_rng(1)
    weights = [rng.uniform(0.5, 2, size=(N_BASES, N_CLASSES)) for _ in range(count)]
    return [PlugIn(weighting=DIAGONAL, alpha=alpha, n_classes=N_CLASSES) for alpha in weights]


def validation() -> Rows:
    """Return validation rows, none of the training rows."""
    return Rows.of(**rows_of(5000, 10**6))


def passes(engine: Any, count: int) -> list[float]:
    """Return the wall times of passes over all rows, one for each of so many rules."""
    times = []
    for rule in rules(count + 2)[2:]:
        start = time.perf_counter()
        engine.classifier_sums(rule, confusions=False)
        times.append(time.perf_counter() - start)
    return times


def prepared(engine: Any) -> None:
    """Make two passes: rows are sorted, and loops compiled."""
    for rule in rules(2):
        engine.classifier_sums(rule, confusions=False)


def of_dask(rows: MeasuredRows, *, n_workers: int, count: int) -> Figures:
    """Measure the Dask engine on a local cluster."""
    with local(n_workers) as client, PeakMemory() as memory:
        before = sum(client.run(anonymous_bytes).values())
        start = time.perf_counter()
        with DaskEngine(rows, client=client, sort_rows=rows.passes == SORTED) as engine:
            prepared(engine)
            prepare = time.perf_counter() - start
            held = sum(client.run(anonymous_bytes).values()) - before
            client.run(record_work)
            with Others() as others:
                times = passes(engine, count)
            busiest = busiest_of(client.run(recorded_work), n_partitions=engine.n_partitions)
            sums = engine.classifier_sums(rules(1)[0], confusions=False)
            sent = n_workers * len(pickle.dumps(rules(1)[0])) + engine.n_partitions * len(pickle.dumps(sums))
            start = time.perf_counter()
            fit = fw_eg(engine, validation(), GMean(), max_iter=10)
            fit_seconds = time.perf_counter() - start
    return Figures(
        engine="dask",
        passes=rows.passes,
        source="generated" if rows.folder is None else "file",
        rows=rows.n_rows,
        partitions=len(rows.edges),
        workers=n_workers,
        prepare=prepare,
        iteration=float(np.median(times)),
        busiest=busiest,
        share=max(0.0, 1 - busiest / float(np.median(times))),
        fit=fit_seconds,
        value=float(fit.score),
        client_mb=(memory.peak - memory.before) / 1e6,
        worker_mb=held / 1e6,
        sent_kb=sent / 1e3,
        others=others.cores,
        versions=versions("dask", "distributed"),
    )


def of_blocks(rows: MeasuredRows, folder: Path, *, count: int) -> Figures:
    """Measure the engine of one process that reads the mapped files in every pass."""
    with PeakMemory() as memory:
        start = time.perf_counter()
        source = ArraySource(folder / "eta.npy", phi=folder / "phi.npy", labels=folder / "labels.npy")
        engine = BlockEngine(source)
        prepared(engine)
        prepare = time.perf_counter() - start
        with Others() as others:
            times = passes(engine, count)
        start = time.perf_counter()
        fit = fw_eg(engine, validation(), GMean(), max_iter=10)
        fit_seconds = time.perf_counter() - start
    return Figures(
        engine="blocks",
        passes=rows.passes,
        source="file",
        rows=rows.n_rows,
        partitions=1,
        workers=1,
        prepare=prepare,
        iteration=float(np.median(times)),
        busiest=float(np.median(times)),
        share=0.0,
        fit=fit_seconds,
        value=float(fit.score),
        client_mb=(memory.peak - memory.before) / 1e6,
        worker_mb=0.0,
        sent_kb=0.0,
        others=others.cores,
        versions=versions("dask", "distributed"),
    )


@contextmanager
def local(n_workers: int) -> Iterator[Any]:
    """Start a cluster of processes; nothing is spilt, so that no disk is measured."""
    from distributed import Client, LocalCluster

    how: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "memory_limit": 0, "dashboard_address": ":0"}
    with LocalCluster(n_workers=n_workers, **how) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


def measured(rows: MeasuredRows, workers: Sequence[int], count: int) -> list[Figures]:
    """Return the figures of one size."""
    if rows.n_rows > MOST_FILE_ROWS:
        return [_said(of_dask(rows, n_workers=n_workers, count=count)) for n_workers in workers]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = rows.written(folder)
        found = [_said(of_blocks(written, folder, count=count))]
        found += [_said(of_dask(written, n_workers=n_workers, count=count)) for n_workers in workers]
    values = {round(each.value, 12) for each in found}
    if len(values) > 1:
        raise SystemExit(f"the engines came to different results: {sorted(values)}")
    return found


def _said(figures: Figures) -> Figures:
    """Print a line."""
    print(
        f"{figures.engine:6} {figures.passes:9} {figures.rows:>11,} rows {figures.partitions:>4} partitions "
        f"{figures.workers} worker(s): prepare {figures.prepare:7.2f} s, iteration {1e3 * figures.iteration:8.1f} ms, "
        f"busiest {1e3 * figures.busiest:8.1f} ms, beside it {1e3 * (figures.iteration - figures.busiest):5.1f} ms, "
        f"share {figures.share:6.1%}, fit {figures.fit:7.2f} s, "
        f"client +{figures.client_mb:.0f} MB, sent {figures.sent_kb:.0f} kB, others {figures.others:.2f} cores, "
        f"value {figures.value:.6f}",
        flush=True,
    )
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and perhaps store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 8e6], help="one size or several")
    parser.add_argument("--partition-rows", type=float, default=1e6)
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=PASSES, help="which kinds of passes")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--store", action="store_true", help=f"add the figures to docs/results/{NAME}.csv")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    for n_rows, kind in product(given.rows, given.passes):
        rows = MeasuredRows(n_rows=int(n_rows), partition_rows=int(given.partition_rows), passes=kind)
        found = measured(rows, given.workers, given.iterations)
        if given.store:
            store(found, given.out)


if __name__ == "__main__":
    main()

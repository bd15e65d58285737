"""How the Dask engine scales: time of an iteration, the scheduler's share of it, and the memory of the client.

``python -m benchmarks.dask_scaling`` measures 8 partitions of 10^6 rows (10 classes, 3 hard clusters, float32), on one
worker and on two, beside :class:`BlockEngine` on the same memory-mapped files, and prints the figures; ``--store`` adds
them to ``docs/results/dask_bench.csv`` and writes the page. ``--rows 1e8`` generates the rows on the workers (about
13 GB): above 2 * 10^7 rows there are no files. It needs an idle machine, and the load is stored with the figures;
``--rows 1e6 --partition-rows 125000`` is a trial.

The scheduler's share is what is left of the wall time of an iteration beside the work of the busiest worker. Memory is
the growth of the client's anonymous memory, with the scheduler, which runs in the same process, in it.
"""

from __future__ import annotations

import argparse
import csv
import os
import pickle
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory import PeakMemory, anonymous_bytes
from experiments.menu_study import versions
from postshift import GMean, PlugIn, Sample, fw_eg
from postshift.core.weighting import DIAGONAL
from postshift.engines import ArraySource, BlockEngine, DaskEngine
from postshift.engines.dask_parts import Piece
from postshift.engines.dask_reading import block_of
from postshift.engines.dask_worker import Read

N_CLASSES, N_BASES = 10, 3
MOST_FILE_ROWS = 20_000_000
IDLE = 2.5  # load average up to which a machine of two cores counts as idle: a measurement before this one is in it
OUT = Path(__file__).parents[1] / "docs" / "results"
NAME = "dask_bench"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One measurement; times in seconds."""

    engine: str  # "dask" or "blocks"
    source: str  # "file" or "generated"
    rows: int
    partitions: int
    workers: int
    prepare: float  # rows read or made, checked and sorted, and the first two passes
    iteration: float  # wall time, the median
    busiest: float  # work of the busiest worker in an iteration
    share: float  # of an iteration that is not the work of the busiest worker
    fit: float
    value: float
    client_mb: float
    worker_mb: float  # anonymous memory that the workers took, together
    sent_kb: float  # of an iteration: arguments out, sums back
    load: float  # average of the machine over the minute before: above 1 with nothing else running, it is our own


def rows_of(n_rows: int, number: int) -> dict[str, np.ndarray]:
    """Return the rows of one partition: the same wherever they are made."""
    rng = np.random.default_rng([7, number])
    prior = np.geomspace(1, 0.2, N_CLASSES)
    labels = rng.choice(N_CLASSES, size=n_rows, p=prior / prior.sum())
    eta = rng.standard_normal((n_rows, N_CLASSES), dtype=np.float32)
    eta[np.arange(n_rows), labels] += 2
    eta = 2 * eta + np.log(prior).astype(np.float32)
    np.exp(eta - eta.max(axis=1, keepdims=True), out=eta)
    eta /= eta.sum(axis=1, keepdims=True)
    phi = np.zeros((n_rows, N_BASES), dtype=np.float32)
    phi[np.arange(n_rows), rng.integers(N_BASES, size=n_rows)] = 1
    return {"eta": eta, "phi": phi, "labels": labels}


def generated(place: str, n_rows: int, number: int) -> Read:
    """Make the rows of a partition on a worker."""
    return Read(block=block_of(place, **rows_of(n_rows, number)))


def mapped_file(place: str, folder: str, first: int, stop: int) -> Read:
    """Read the rows of a partition from mapped files on a worker."""
    parts = {name: np.load(Path(folder) / f"{name}.npy", mmap_mode="r") for name in ("eta", "phi", "labels")}
    return Read(block=block_of(place, **{name: np.array(part[first:stop]) for name, part in parts.items()}))


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of a measurement as a source of partitions, generated or in a folder."""

    n_rows: int
    partition_rows: int
    folder: Path | None = None

    @property
    def edges(self) -> list[tuple[int, int]]:
        """First row and end of every partition."""
        return [(at, min(at + self.partition_rows, self.n_rows)) for at in range(0, self.n_rows, self.partition_rows)]

    def pieces(self) -> list[Piece]:
        """Return the partitions, in the order of the rows."""
        found = []
        for number, (first, stop) in enumerate(self.edges):
            make, given = (generated, (stop - first, number))
            if self.folder is not None:
                make, given = mapped_file, (str(self.folder), first, stop)
            found.append(Piece(place=f"partition {number}", make=make, given=given))
        return found

    def written(self, folder: Path) -> Rows:
        """Write the rows to files, a partition at a time."""
        shapes = {"eta": (np.float32, (N_CLASSES,)), "phi": (np.float32, (N_BASES,)), "labels": (np.intp, ())}
        files = {
            name: np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=kind, shape=(self.n_rows, *more))
            for name, (kind, more) in shapes.items()
        }
        for number, (first, stop) in enumerate(self.edges):
            for name, part in rows_of(stop - first, number).items():
                files[name][first:stop] = part
        return Rows(n_rows=self.n_rows, partition_rows=self.partition_rows, folder=folder)


def rules(count: int) -> list[PlugIn]:
    """Return plug-in rules as a run meets them, each another one: engines keep the last table."""
    rng = np.random.default_rng(1)
    weights = [rng.uniform(0.5, 2, size=(N_BASES, N_CLASSES)) for _ in range(count)]
    return [PlugIn(weighting=DIAGONAL, alpha=alpha, n_classes=N_CLASSES) for alpha in weights]


def validation() -> Sample:
    """Return validation rows, none of the training rows."""
    return Sample.of(**rows_of(5000, 10**6))


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


def of_dask(rows: Rows, *, n_workers: int, count: int) -> Figures:
    """Measure the Dask engine on a local cluster."""
    from distributed import get_task_stream

    load = os.getloadavg()[0]
    with local(n_workers) as client, PeakMemory() as memory:
        before = sum(client.run(anonymous_bytes).values())
        start = time.perf_counter()
        with DaskEngine(rows, client=client) as engine:
            prepared(engine)
            prepare = time.perf_counter() - start
            held = sum(client.run(anonymous_bytes).values()) - before
            with get_task_stream(client) as stream:
                times = passes(engine, count)
            work: dict[str, float] = {}
            for task in stream.data:
                spent = sum(part["stop"] - part["start"] for part in task["startstops"] if part["action"] == "compute")
                work[task["worker"]] = work.get(task["worker"], 0.0) + spent
            sums = engine.classifier_sums(rules(1)[0], confusions=False)
            sent = engine.n_partitions * (len(pickle.dumps(rules(1)[0])) + len(pickle.dumps(sums)))
            start = time.perf_counter()
            fit = fw_eg(engine, validation(), GMean(), max_iter=10)
            fit_seconds = time.perf_counter() - start
    busiest = max(work.values()) / count
    return Figures(
        engine="dask",
        source="generated" if rows.folder is None else "file",
        rows=rows.n_rows,
        partitions=len(rows.edges),
        workers=n_workers,
        prepare=prepare,
        iteration=float(np.median(times)),
        busiest=busiest,
        share=max(0.0, 1 - busiest / float(np.mean(times))),
        fit=fit_seconds,
        value=float(fit.value),
        client_mb=(memory.peak - memory.before) / 1e6,
        worker_mb=held / 1e6,
        sent_kb=sent / 1e3,
        load=load,
    )


def of_blocks(rows: Rows, folder: Path, *, count: int) -> Figures:
    """Measure the engine of one process that reads the mapped files in every pass."""
    load = os.getloadavg()[0]
    with PeakMemory() as memory:
        start = time.perf_counter()
        source = ArraySource(folder / "eta.npy", phi=folder / "phi.npy", labels=folder / "labels.npy")
        engine = BlockEngine(source)
        prepared(engine)
        prepare = time.perf_counter() - start
        times = passes(engine, count)
        start = time.perf_counter()
        fit = fw_eg(engine, validation(), GMean(), max_iter=10)
        fit_seconds = time.perf_counter() - start
    return Figures(
        engine="blocks",
        source="file",
        rows=rows.n_rows,
        partitions=1,
        workers=1,
        prepare=prepare,
        iteration=float(np.median(times)),
        busiest=float(np.median(times)),
        share=0.0,
        fit=fit_seconds,
        value=float(fit.value),
        client_mb=(memory.peak - memory.before) / 1e6,
        worker_mb=0.0,
        sent_kb=0.0,
        load=load,
    )


@contextmanager
def local(n_workers: int) -> Iterator[Any]:
    """Start a cluster of processes; nothing is spilt, so that no disk is measured."""
    from distributed import Client, LocalCluster

    how: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "memory_limit": 0, "dashboard_address": ":0"}
    with LocalCluster(n_workers=n_workers, **how) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


def measured(n_rows: int, partition_rows: int, workers: Sequence[int], count: int) -> list[Figures]:
    """Return the figures of one size."""
    rows = Rows(n_rows=n_rows, partition_rows=partition_rows)
    if n_rows > MOST_FILE_ROWS:
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
        f"{figures.engine:6} {figures.source:9} {figures.rows:>11,} rows {figures.partitions:>4} partitions "
        f"{figures.workers} worker(s): prepare {figures.prepare:7.2f} s, iteration {1e3 * figures.iteration:8.1f} ms, "
        f"busiest {1e3 * figures.busiest:8.1f} ms, share {figures.share:6.1%}, fit {figures.fit:7.2f} s, "
        f"client +{figures.client_mb:.0f} MB, sent {figures.sent_kb:.0f} kB, value {figures.value:.6f}",
        flush=True,
    )
    return figures


def store(found: Sequence[Figures], out: Path) -> None:
    """Add figures to the stored ones, in place of those of the same case, and write the page."""
    path = out / f"{NAME}.csv"
    names = [field.name for field in fields(Figures)]
    kept: dict[tuple[str, ...], dict[str, str]] = {}
    if path.exists():
        with path.open(newline="") as stream:
            kept = {_case(line): line for line in csv.DictReader(stream)}
    for each in found:
        line = {
            name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in asdict(each).items()
        }
        kept[_case(line)] = line
    lines = sorted(kept.values(), key=lambda line: (int(line["rows"]), line["source"], line["engine"], line["workers"]))
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    (out / f"{NAME}.md").write_text(page(lines))


def _case(line: dict[str, str]) -> tuple[str, ...]:
    """Return what tells measurements apart."""
    return tuple(line[name] for name in ("engine", "source", "rows", "partitions", "workers"))


def page(lines: Sequence[dict[str, str]]) -> str:
    """Return the page of stored figures."""
    head = ["rows", "engine", "source", "partitions", "workers", "prepare s", "iteration ms", "busiest worker ms"]
    head += ["scheduler's share", "fit of 10 iterations s", "client MB", "workers MB", "sent kB", "load"]
    body = []
    for line in lines:
        dask = line["engine"] == "dask"
        cells = [f"{int(line['rows']):,}", line["engine"], line["source"], line["partitions"], line["workers"]]
        cells += [f"{float(line['prepare']):.1f}", f"{1e3 * float(line['iteration']):.1f}"]
        cells += [f"{1e3 * float(line['busiest']):.1f}", f"{float(line['share']):.0%}" if dask else ""]
        cells += [f"{float(line['fit']):.1f}", f"{float(line['client_mb']):.0f}"]
        cells += [f"{float(line['worker_mb']):.0f}", f"{float(line['sent_kb']):.0f}"]
        cells.append(f"{float(line['load']):.1f}")
        body.append("| " + " | ".join(cells) + " |")
    text = [
        "# The Dask engine: time of an iteration, the scheduler's share, the client's memory",
        "",
        f"<!-- Made by `python -m benchmarks.dask_scaling --store` from {NAME}.csv; do not edit. -->",
        "",
        f"{N_CLASSES} classes, {N_BASES} hard clusters, float32. *blocks* is `BlockEngine` on the same mapped files.",
        "The scheduler's share is what an iteration takes beside the work of its busiest worker. *load* is the load",
        "average of the machine before the measurement: where it is well above 1, others were at work, and the times,",
        "the scheduler's first of all, are theirs too.",
        "",
        "| " + " | ".join(head) + " |",
        "| " + " | ".join(["---:"] * len(head)) + " |",
        *body,
        *model(lines),
        "",
        f"Made with {versions('dask', 'distributed')}.",
        "",
    ]
    return "\n".join(text)


def model(lines: Sequence[dict[str, str]]) -> list[str]:
    """Return what the largest measurement of an idle machine says of more rows: t = c n / W + o K."""
    title = ["", "## What the model of docs/scaling.md says", ""]
    dask = [line for line in lines if line["engine"] == "dask" and float(line["load"]) <= IDLE]
    if not dask:
        return [*title, f"Nothing yet: every measurement was made on a busy machine (load above {IDLE:g})."]
    last = max(dask, key=lambda line: (int(line["rows"]), int(line["workers"])))
    n_rows, n_parts, n_workers = (int(last[name]) for name in ("rows", "partitions", "workers"))
    per_row = float(last["busiest"]) * n_workers / n_rows
    per_task = max(float(last["iteration"]) - float(last["busiest"]), 0.0) / n_parts
    per_row_bytes = float(last["worker_mb"]) * 1e6 / n_rows
    text = [
        *title,
        f"From the largest measurement above ({n_rows:,} rows, {n_workers} workers): c = {1e9 * per_row:.2f} ns a row,",
        f"o = {1e3 * per_task:.2f} ms a task; the workers took {per_row_bytes:.0f} bytes a row.",
        "Partitions of 10^6 rows; predicted, not measured.",
        "",
        "| rows | workers | iteration s | scheduler's share | fit of 30 iterations min |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for rows, workers in ((10**8, 2), (10**8, 16), (10**9, 16), (10**9, 64), (10**10, 256)):
        work, tasks = per_row * rows / workers, per_task * rows / 1e6
        cells = [f"{rows:,}", str(workers), f"{work + tasks:.2f}", f"{tasks / (work + tasks):.0%}"]
        text.append("| " + " | ".join([*cells, f"{(work + tasks) / 2:.1f}"]) + " |")
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and perhaps store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, nargs="+", default=[8e6], help="one size or several, as in 1e6 8e6")
    parser.add_argument("--partition-rows", type=float, default=1e6)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--store", action="store_true", help=f"add the figures to docs/results/{NAME}.csv")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    for n_rows in given.rows:
        found = measured(int(n_rows), int(given.partition_rows), given.workers, given.iterations)
        if given.store:
            store(found, given.out)


if __name__ == "__main__":
    main()

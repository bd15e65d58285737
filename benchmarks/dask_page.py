"""The page of the Dask benchmark: figures as they are stored, and what the cost model makes of them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from textwrap import fill

import numpy as np
from scipy.optimize import nnls

from experiments.harness.figures import COLOURS, MARKERS, plain_axes, save_figure
from experiments.harness.files import OUT
from experiments.harness.page import opened_text
from experiments.harness.tables import markdown

__all__ = ["NAME", "OUT", "Figures", "model", "page", "store"]

NAME = "dask_bench"
IDLE = 0.25  # cores that others may keep busy in a measurement that the model is fitted to
SHARE, BESIDE = 0.15, 0.012  # the goals: the scheduler's share, and seconds beside the work of the busiest worker
BEYOND = ((10**9, 1000, 16), (10**9, 100, 16), (10**9, 100, 64), (10**10, 1000, 256))  # rows, partitions, workers
Line = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One measurement; times in seconds."""

    engine: str  # "dask" or "blocks"
    passes: str  # "sorted", "every row" or "soft"
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
    others: float  # cores that other programs kept busy in the meantime
    versions: str


def store(found: Sequence[Figures], out: Path) -> None:
    """Add figures to the stored ones, in place of those of the same case, and write the page."""
    path = out / f"{NAME}.csv"
    names = [field.name for field in fields(Figures)]
    kept: dict[tuple[str, ...], Line] = {}
    if path.exists():
        with path.open(newline="") as stream:
            kept = {_case(line): line for line in csv.DictReader(stream)}
    for each in found:
        line = {
            name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in asdict(each).items()
        }
        kept[_case(line)] = line
    order = ("sorted", "every row", "soft")
    lines = sorted(kept.values(), key=lambda line: (order.index(line["passes"]), int(line["rows"]), *_case(line)))
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    (out / f"{NAME}.md").write_text(page(lines))
    write_plot(lines, out)


def _case(line: Line) -> tuple[str, ...]:
    """Return what tells measurements apart."""
    return tuple(line[name] for name in ("passes", "engine", "source", "rows", "partitions", "workers"))


def page(lines: Sequence[Line]) -> str:
    """Return the page of stored figures."""
    head = ["passes", "rows", "engine", "partitions", "workers", "prepare s", "iteration ms", "busiest worker ms"]
    head += ["scheduler's share", "fit of 10 iterations s", "client MB", "workers MB", "sent kB", "others' cores"]
    text = f"""# The Dask engine: time of an iteration, the scheduler's share, the client's memory

<!-- Made by `python -m benchmarks.dask_scaling --store` from {NAME}.csv; do not edit. -->

The data have 10 classes, 3 basis functions and type float32. *Passes*: *sorted* has hard clusters with rows that were
sorted when the engine was created, so a pass reads few of them. *every row* has hard clusters without sorting. *soft*
has basis functions that overlap. *blocks* is `BlockEngine` on the same memory-mapped files, which are in the page
cache. Above 2 * 10^7 rows there are no files: the workers generate the rows. *scheduler's share*: the part of an
iteration that is not work of the busiest worker. *client MB*: the growth of the client's memory. It includes the
scheduler, which runs in the same process. *others' cores*: the number of cores that other programs kept busy.

{markdown(head, [_cells(line) for line in lines])}

{_goal(lines)}

## What the model of docs/scaling.md says

{model(lines)}

Made with {"; ".join(dict.fromkeys(line["versions"] for line in lines))}.
"""
    picture = f"![Time of an iteration against the number of rows]({NAME}.png)"
    return opened_text(text, picture=picture, lead=fill(_lead(lines), 120))


def _lead(lines: Sequence[Line]) -> str:
    """Say in two sentences what it is about, and what came out."""
    most = max(lines, key=lambda line: (line["engine"] == "dask", int(line["rows"]), -float(line["iteration"])))
    return (
        "Time of an iteration of `DaskEngine`, and of `BlockEngine` on the same rows. An iteration over "
        f"{int(most['rows']):,} rows takes {float(most['iteration']):.2f} s on {most['workers']} workers "
        f"({most['passes']})."
    )


def write_plot(lines: Sequence[Line], out: Path) -> None:
    """Draw the time of an iteration against the number of rows, a panel for each kind of pass."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    kinds = list(dict.fromkeys(line["passes"] for line in lines))
    figure = Figure(figsize=(11.5, 3.9), layout="constrained")
    grid = figure.subplots(1, len(kinds), sharex=True, sharey=True, squeeze=False)
    for axes, kind in zip(grid[0], kinds, strict=True):
        plain_axes(axes)
        cases: dict[str, list[tuple[int, float]]] = {}
        for line in lines:
            if line["passes"] == kind:
                workers = f", {line['workers']} worker{'' if line['workers'] == '1' else 's'}"
                name = f"{line['engine']}{workers if line['engine'] == 'dask' else ''}"
                cases.setdefault(name, []).append((int(line["rows"]), 1e3 * float(line["iteration"])))
        for rank, (name, points) in enumerate(cases.items()):
            axes.plot(*zip(*sorted(points), strict=True), color=COLOURS[rank], marker=MARKERS[rank], label=name)
        axes.set(xscale="log", yscale="log", xlabel="rows", title=kind)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        axes.legend(frameon=False, fontsize=8)
    figure.axes[0].set_ylabel("time of an iteration (ms)")
    save_figure(figure, out, NAME)


def _cells(line: Line) -> list[str]:
    """Return a line of the table."""
    dask = line["engine"] == "dask"
    cells = [line["passes"], f"{int(line['rows']):,}", line["engine"], line["partitions"], line["workers"]]
    cells += [f"{float(line['prepare']):.1f}", f"{1e3 * float(line['iteration']):.1f}"]
    cells += [f"{1e3 * float(line['busiest']):.1f}", f"{float(line['share']):.0%}" if dask else ""]
    cells += [f"{float(line['fit']):.1f}", f"{float(line['client_mb']):.0f}", f"{float(line['worker_mb']):.0f}"]
    return [*cells, f"{float(line['sent_kb']):.0f}", f"{float(line['others']):.1f}"]


def _goal(lines: Sequence[Line]) -> str:
    """Say where the goals are reached, with 8 partitions of 10^6 rows."""
    told = [
        _judged(line)
        for line in lines
        if line["engine"] == "dask" and line["rows"] == "8000000" and line["partitions"] == "8"
    ]
    if not told:
        return ""
    return f"""**Goals.** With 8 partitions of 10^6 rows, at most {1e3 * BESIDE:.0f} ms of an iteration beside the work
of the busiest worker, and a share of at most {SHARE:.0%} (sorted rows have no goal for the share):

{chr(10).join(f"* {each}" for each in told)}

The time of the scheduler is similar in all cases. The time of a pass differs. Over sorted rows a pass is so short that
the scheduler takes a large share, although the iteration is the fastest of the three."""


def _judged(line: Line) -> str:
    """Say what a measurement has of the goals."""
    beside, share = float(line["iteration"]) - float(line["busiest"]), float(line["share"])
    workers = f"{line['workers']} {'worker' if line['workers'] == '1' else 'workers'}"
    told = f"{line['passes']}, {workers}: {1e3 * beside:.1f} ms, {_reached(beside <= BESIDE)}; share {share:.0%}"
    return told if line["passes"] == "sorted" else f"{told}, {_reached(share <= SHARE)}"


def _reached(is_reached: bool) -> str:  # noqa: FBT001
    """Say whether a goal is reached."""
    return "reached" if is_reached else "NOT reached"


@dataclass(frozen=True, kw_only=True)
class Model:
    """An iteration takes ``c n / W + f + o K + r W``: c a row of each kind of pass, o a partition, r a worker."""

    per_row: Mapping[str, float]
    fixed: float
    per_partition: float
    per_worker: float

    @classmethod
    def of(cls, calm: Sequence[Line]) -> Model:
        """Fit it: f, o and r to what iterations took beside work, c is the median of the measurements of each kind."""
        shares, busiest = (np.array([float(line[name]) for line in calm]) for name in ("share", "busiest"))
        beside = np.maximum(busiest * shares / (1 - shares), 1e-3)
        sizes = [(int(line["partitions"]), int(line["workers"])) for line in calm]
        terms = np.array([[1.0, partitions, _at_work(workers, partitions)] for partitions, workers in sizes])
        found, _ = nnls(terms / beside[:, None], np.ones(len(calm)))  # errors count in proportion
        fixed, per_partition, per_worker = map(float, found)
        costs: dict[str, list[float]] = {}
        for line in calm:
            cost = float(line["busiest"]) * _at_work(int(line["workers"]), int(line["partitions"])) / int(line["rows"])
            costs.setdefault(line["passes"], []).append(cost)
        per_row = {kind: float(np.median(found)) for kind, found in costs.items()}
        return cls(per_row=per_row, fixed=fixed, per_partition=per_partition, per_worker=per_worker)

    def predicted(self, kind: str, *, rows: int, partitions: int, workers: int) -> tuple[float, float]:
        """Return the seconds of an iteration and the scheduler's share of them."""
        work = self.per_row[kind] * rows / _at_work(workers, partitions)
        beside = self.fixed + self.per_partition * partitions + self.per_worker * _at_work(workers, partitions)
        return work + beside, beside / (work + beside)


def _at_work(workers: int, partitions: int) -> int:
    """Return how many workers have something to do."""
    return min(workers, partitions)


def model(lines: Sequence[Line]) -> str:
    """Return what the measurements of an idle machine say of themselves, and of more rows."""
    calm = [line for line in lines if line["engine"] == "dask" and float(line["others"]) <= IDLE]
    if len({line["partitions"] for line in calm}) < 2:
        return "Nothing yet: the model needs measurements with two numbers of partitions on an idle machine."
    found = Model.of(calm)
    costs = ", ".join(f"{1e9 * value:.2f} ns ({kind})" for kind, value in found.per_row.items())
    head = ["passes", "rows", "partitions", "workers", "model ms", "model share", "measured ms", "measured share"]
    further = ["passes", "rows", "partitions", "workers", "iteration s", "scheduler's share", "30 iterations min"]
    return f"""An iteration takes `c n / W + f + o K + r W`. Fitted to the measurements during which other programs kept
at most {IDLE:g} cores busy: f = {1e3 * found.fixed:.1f} ms, o = {1e3 * found.per_partition:.2f} ms for a partition, and
r = {1e3 * found.per_worker:.2f} ms for a worker. The median of c for a row is {costs}.

{markdown(head, [_checked(found, line) for line in calm])}

Predictions for more rows, with partitions of 10^6 and of 10^7 rows. With so many rows, large partitions are better.

{markdown(further, [_beyond(found, kind, *case) for kind in found.per_row for case in BEYOND])}"""


def _checked(found: Model, line: Line) -> list[str]:
    """Return a measurement beside what the model says of it."""
    size = {name: int(line[name]) for name in ("rows", "partitions", "workers")}
    seconds, share = found.predicted(line["passes"], **size)
    told = [f"{1e3 * seconds:.1f}", f"{share:.0%}", f"{1e3 * float(line['iteration']):.1f}"]
    return [line["passes"], *(f"{number:,}" for number in size.values()), *told, f"{float(line['share']):.0%}"]


def _beyond(found: Model, kind: str, rows: int, parts: int, workers: int) -> list[str]:
    """Return what the model says of a size that was not measured."""
    seconds, share = found.predicted(kind, rows=rows, partitions=parts, workers=workers)
    return [
        kind,
        f"{rows:,}",
        f"{parts:,}",
        f"{workers:,}",
        f"{seconds:.2f}",
        f"{share:.0%}",
        f"{30 * seconds / 60:.1f}",
    ]

"""The page of the service's measurement, made of the stored figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from experiments.harness.figures import COLOURS, MARKERS, plain_axes, save_figure
from experiments.harness.files import OUT, write_text
from experiments.harness.page import opened_text
from experiments.harness.tables import markdown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["NAME", "OUT", "Figures", "Memory", "memory_in_words", "page", "read", "store"]

NAME, MEMORY = "service_bench", "service_memory"
BARE, STORED, OTHER_TEXT, NEW = "bare", "stored", "stored, other text", "new"
ANSWERS = (BARE, STORED, OTHER_TEXT, NEW)
GOAL = 2  # times the bare endpoint, for stored answers
Line = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one kind of query and answer; medians of several rounds, CPU time their mean."""

    mode: str
    kind: str
    answers: str
    rows: int
    clients: int
    body_kb: float
    queries: int
    per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    cpu_ms: float  # of the server, for a query
    client_cores: float  # that the clients kept busy
    others: float  # cores that other programs kept busy
    fsync_ms: float  # in which a small write reaches the disk of the ledger
    versions: str


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The memory of the service after so many queries: at the start, after the warm-up, and along more of them."""

    mode: str
    queries: int
    mb: float


# -- what is stored -----------------------------------------------------------------------------------------


def store(figures: Sequence[Figures], memory: Sequence[Memory], out: Path) -> None:
    """Put the figures in the place of stored ones of the same modes; write the page and the picture."""
    modes = {each.mode for each in figures}
    for name, kind, found in ((NAME, Figures, figures), (MEMORY, Memory, memory)):
        kept = [line for line in read(out, name) if line["mode"] not in modes]
        _write(out / f"{name}.csv", [field.name for field in fields(kind)], [*kept, *map(_as_line, found)])
    lines, points = read(out, NAME), read(out, MEMORY)
    write_text(out / f"{NAME}.md", page(lines, points))
    write_plot(lines, points, out)


def read(folder: Path, name: str) -> list[Line]:
    """Return the stored lines of a file; none where there is no file."""
    path = folder / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _write(path: Path, names: Sequence[str], lines: Sequence[Line]) -> None:
    """Write lines, those of private mode first."""
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(lines, key=lambda line: line["mode"]))
    write_text(path, text.getvalue())


def _as_line(found: Figures | Memory) -> Line:
    """Return a measurement as it is stored."""
    return {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in asdict(found).items()}


# -- the page -----------------------------------------------------------------------------------------------


def page(lines: Sequence[Line], points: Sequence[Line]) -> str:
    """Return the page of stored figures."""
    head = ["mode", "query", "answers", "body kB", "queries/s", "p50 ms", "p95 ms", "p99 ms", "CPU ms"]
    head += ["time / bare", "CPU / bare", "clients' cores", "others' cores", "fsync ms"]
    first = lines[0]
    text = f"""# The metric as a service: queries a second, latency, memory

<!-- Made by `python -m benchmarks.service --store` from {NAME}.csv and {MEMORY}.csv; do not edit. -->

`postshift oracle serve` holds {int(first["rows"]):,} rows, two classes and two groups, and has an SQLite ledger on
disk. {first["clients"]} clients send queries at once over loopback; each sends the next when it has the answer to the
last. So the latency is about the number of clients divided by the queries a second. The bodies are those that
`RemoteMetric` sends: a table of 80 cells, and labels for confusion matrices and values.

*bare* is one FastAPI endpoint, served in the same way, that parses the same bodies and does nothing else: no token, no
ledger. *stored*: the same body again. *stored, other text*: the same query with other spaces. Its array is decoded and
its answer comes from the ledger, as for the first repetition after a restart of the server. *new*: the answer is
computed, charged and on disk before it is sent. In private mode it has noise, and is sent at a multiple of 50 ms.

All four are measured in turns with the same clients; the figures are medians of the rounds. *CPU* is the processor
time of the server for a query, the mean of all. *time / bare*: the time of a query in proportion to the bare
endpoint's. *clients' cores*: how busy the clients were; below 1 they do not limit what is measured. *others' cores*:
the number of cores that other programs kept busy. *fsync*: how long a small write takes to reach the disk of the ledger
(0.0: the ledger was in memory). A new answer waits for several of them.

{markdown(head, [_cells(line, lines) for line in lines], n_texts=3)}

{_goal(lines)}

## Memory

The memory (RSS) of a fresh server, along new queries of all three kinds in turns:

{chr(10).join(f"* {_memory_text(each)}" for each in _by_mode(points).values())}

Made with {"; ".join(dict.fromkeys(line["versions"] for line in lines))}.
"""
    picture = f"![Latencies of the kinds of query and answer, and memory against the number of queries]({NAME}.png)"
    return opened_text(text, picture=picture, lead=fill(_lead(lines, points), 120))


def _lead(lines: Sequence[Line], points: Sequence[Line]) -> str:
    """Say in two sentences what it is about, and what came out."""
    stored = [_ratio(line, lines, "per_second") for line in lines if line["answers"] == STORED]
    rates = [float(line["per_second"]) for line in lines if line["answers"] == NEW]
    spread = max(_spread(each) for each in _by_mode(points).values())
    return (
        f"The service under {lines[0]['clients']} clients, with {int(lines[0]['rows']):,} rows, and a bare endpoint "
        f"that parses the same bodies. Stored answers take {min(stored):.2g} to {max(stored):.2g} times as long as the "
        f"bare endpoint (goal: at most {GOAL}), {min(rates):.0f} to {max(rates):.0f} new answers are given in a second,"
        f" and after the warm-up the memory stays within {spread:.0f} MB."
    )


def _cells(line: Line, lines: Sequence[Line]) -> list[str]:
    """Return a line of the table."""
    cells = [line["mode"], line["kind"], line["answers"], f"{float(line['body_kb']):.0f}"]
    cells += [
        f"{float(line['per_second']):.0f}",
        *(f"{float(line[name]):.0f}" for name in ("p50_ms", "p95_ms", "p99_ms")),
    ]
    cells.append(f"{float(line['cpu_ms']):.2f}")
    beside = line["answers"] != BARE
    cells += [f"{_ratio(line, lines, name):.2f}x" if beside else "" for name in ("per_second", "cpu_ms")]
    return [
        *cells,
        f"{float(line['client_cores']):.2f}",
        f"{float(line['others']):.2f}",
        f"{float(line['fsync_ms']):.1f}",
    ]


def _ratio(line: Line, lines: Sequence[Line], name: str) -> float:
    """Return the time of a query in proportion to that of the bare endpoint."""
    same = (each for each in lines if each["answers"] == BARE)
    theirs = next(each for each in same if (each["mode"], each["kind"]) == (line["mode"], line["kind"]))
    found = float(line[name]) / float(theirs[name])
    return 1 / found if name == "per_second" else found


def _goal(lines: Sequence[Line]) -> str:
    """Say where the goal is reached."""
    told = []
    for line in lines:
        if line["answers"] == STORED:
            time, cpu = (_ratio(line, lines, name) for name in ("per_second", "cpu_ms"))
            reached = "reached" if max(time, cpu) <= GOAL else "NOT reached"
            told.append(f"* {line['mode']}, {line['kind']}: time {time:.2f}x, CPU {cpu:.2f}x, {reached}")
    return f"**Goal.** A stored answer takes at most {GOAL} times as long as the bare endpoint:\n\n" + "\n".join(told)


# -- memory -------------------------------------------------------------------------------------------------


def memory_in_words(found: Sequence[Memory]) -> str:
    """Say how much memory the service takes."""
    return _memory_text([_as_line(each) for each in found])


def _memory_text(points: Sequence[Line]) -> str:
    """Say how much memory the service takes in one mode."""
    start, warm, *_, last = points
    along, most = int(last["queries"]) - int(warm["queries"]), max(map(_mb, points))
    return (
        f"{start['mode']} mode: {_mb(start):.0f} MB when the server has started, {_mb(warm):.0f} MB after a warm-up of "
        f"{int(warm['queries']):,} queries, and {_mb(last):.0f} MB after {along:,} more; flat within "
        f"{_spread(points):.0f} MB, at most {most:.0f} MB"
    )


def _by_mode(points: Sequence[Line]) -> dict[str, list[Line]]:
    """Return the points of each mode."""
    modes = dict.fromkeys(point["mode"] for point in points)
    return {mode: [point for point in points if point["mode"] == mode] for mode in modes}


def _spread(points: Sequence[Line]) -> float:
    """Return by how much the memory differs after the warm-up."""
    warm = [_mb(point) for point in points[1:]]
    return max(warm) - min(warm)


def _mb(point: Line) -> float:
    """Return the memory at a point."""
    return float(point["mb"])


# -- the picture --------------------------------------------------------------------------------------------


def write_plot(lines: Sequence[Line], points: Sequence[Line], out: Path) -> None:
    """Draw the latencies, p50 to p99, a panel for each mode; and the memory against the number of queries."""
    from matplotlib.figure import Figure

    modes = _by_mode(points)
    figure = Figure(figsize=(11.5, 4.2), layout="constrained")
    panels = figure.subplots(1, len(modes) + 1, squeeze=False)[0]
    for axes in panels:
        plain_axes(axes)
    for axes, mode in zip(panels, modes, strict=False):
        _draw_latencies(axes, [line for line in lines if line["mode"] == mode])
        axes.set(title=f"{mode} mode", ylabel="latency, p50 to p99 (ms)")
    for rank, (mode, found) in enumerate(modes.items()):
        queries, memory = zip(*((int(point["queries"]), _mb(point)) for point in found), strict=True)
        panels[-1].plot(queries, memory, color=COLOURS[rank], marker=MARKERS[rank], markersize=4, label=mode)
    panels[-1].set(title="memory of the server", xlabel="new queries", ylabel="RSS (MB)")
    panels[-1].set_ylim(0, 1.2 * max(map(_mb, points)))
    panels[-1].legend(frameon=False, fontsize=8)
    save_figure(figure, out, NAME)


def _draw_latencies(axes: Axes, lines: Sequence[Line]) -> None:
    """Draw the latencies of one mode: a group for each kind of query."""
    kinds = list(dict.fromkeys(line["kind"] for line in lines))
    for rank, answers in enumerate(ANSWERS):
        found = {kinds.index(line["kind"]): line for line in lines if line["answers"] == answers}
        p50, p99 = ([float(line[name]) for line in found.values()] for name in ("p50_ms", "p99_ms"))
        beyond = [[0.0] * len(p50), [high - low for low, high in zip(p50, p99, strict=True)]]
        style = {"fmt": MARKERS[rank], "color": COLOURS[rank], "markersize": 5, "elinewidth": 1.5}
        places = [place + 0.18 * (rank - 1.5) for place in found]
        axes.errorbar(places, p50, yerr=beyond, label=answers, **style)
    axes.set_xticks(range(len(kinds)), kinds)
    axes.set(yscale="log", xlim=(-0.5, len(kinds) - 0.5))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=len(ANSWERS), frameon=False, fontsize=8)

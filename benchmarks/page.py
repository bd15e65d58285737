"""The tables, the page and the plot, all made of stored rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import numpy as np

from benchmarks.record import Row
from benchmarks.registry import BY_NAME, COMPARISONS, Comparison
from experiments.harness.page import opened_text
from experiments.harness.tables import markdown

PLOT = "bench_growth"
_HEAD = (
    "comparison",
    "goal",
    "CPU time",
    "wall time",
    "met",
    "ours (CPU)",
    "other (CPU)",
    "metric: ours, other",
    "note",
)
_COLOURS = ("#0072b2", "#d55e00", "#009e73")


def ratio_of(comparison: Comparison, row: Row, *, clock: str = "cpu") -> float | None:
    """Return the figure that the goal is about: a ratio of times, or a value."""
    if comparison.reading == "value":
        return row.ours_value
    ours, theirs = getattr(row, f"ours_{clock}"), getattr(row, f"theirs_{clock}")
    if ours is None or theirs is None:
        return None
    return theirs / ours if comparison.reading == "theirs / ours" else ours / theirs


def verdict(comparison: Comparison, row: Row) -> str:
    """Say whether the goal is met."""
    if row.failed:
        return row.failed.split(":")[0]
    found = ratio_of(comparison, row)
    if comparison.goal is None or found is None:
        return ""
    scaled = 100 * found if comparison.goal.unit == "%" else found
    return "yes" if comparison.goal.met(scaled) else "NO"


def line(row: Row) -> list[str]:
    """Return the cells of one comparison."""
    comparison = BY_NAME[row.name]
    unit = comparison.goal.unit if comparison.goal else "x"
    clocks = ("cpu",) if comparison.reading == "value" else ("cpu", "wall")
    ratios = [_figure(ratio_of(comparison, row, clock=clock), unit) for clock in clocks]
    values = ""
    if row.ours_value is not None and row.theirs_value is not None:
        values = f"{row.ours_value:.5f}, {row.theirs_value:.5f}"
    return [
        comparison.title,
        "" if comparison.goal is None else str(comparison.goal),
        *ratios,
        *[""] * (2 - len(ratios)),
        verdict(comparison, row),
        _seconds(row.ours_cpu),
        _seconds(row.theirs_cpu),
        values,
        "; ".join(text for text in (row.failed, row.note) if text),
    ]


def table(rows: Sequence[Row], kind: str) -> str:
    """Return one of the tables of ratios."""
    return markdown(_HEAD, [line(row) for row in rows if BY_NAME[row.name].table == kind])


def slopes(rows: Sequence[Row]) -> str:
    """Return the table of growth: times at both ends, and the slope of their logarithms."""
    lines = []
    for comparison, case, points in series(rows):
        first, last = points[0], points[-1]
        ends = (f"{_count(first.x)}: {_seconds(first.ours_cpu)}", f"{_count(last.x)}: {_seconds(last.ours_cpu)}")
        lines.append([comparison.title, case, *ends, f"{slope(points):.2f}"])
    return markdown(["grows", "case", "first", "last", "slope"], lines)


def series(rows: Sequence[Row]) -> list[tuple[Comparison, str, list[Row]]]:
    """Return the lines of the plot: comparison, case, points."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if BY_NAME[row.name].table == "growth" and row.ours_cpu is not None:
            found.setdefault((row.name, row.case), []).append(row)
    return [(BY_NAME[name], case, points) for (name, case), points in found.items()]


def slope(points: Sequence[Row]) -> float:
    """Return the slope of CPU time on log-log axes, by least squares."""
    x, y = (np.log([getattr(row, key) for row in points]) for key in ("x", "ours_cpu"))
    return float(np.polyfit(x, y, deg=1)[0])


def render(rows: Sequence[Row], made_with: str) -> str:
    """Return the page."""
    page = f"""# Benchmarks

<!-- Made by `make bench` from bench.csv; do not edit. -->

The goals are for CPU time (of all threads) on one thread. *Other* is the program compared with: the probe loop, another
library, a plain read, or, for the growth of an iteration, the smaller sample. Both sides run in turns in one process.
The lowest time of several repeats is shown, separately for CPU time and wall time.

{table(rows, "ratios")}

## Threads

The same pass on one thread (*other*) and on all cores (*ours*). Here the wall time matters.

{table(rows, "threads")}

## Growth

Time of one iteration (a pass over the training rows, a look at the validation rows, the solution) after the rows are
prepared. A slope of 1 means that the time is proportional.

{slopes(rows)}

## What is compared

* *The probe loop* keeps the classifier as a table (n, m) and builds such a table for every one of the L m probes; the
  phi-confusions of a probe are the diagonals of L matrix products of tables, as in the authors' program. The *tight*
  loop in the notes computes them by one product of an (n, L) and an (n, m) table. Both loops are NumPy, vectorised over
  rows. The time is that of an iteration over the training rows: the new plug-in classifier is mixed in, and the
  equations of all probes are computed, which must agree to 1e-9. Ours is the mean of ten iterations in a row, each with
  another rule, as in a run: caches are warm, and the engine, which keeps its last table, has to compute a new one. One
  iteration of the probe loop takes longer than all ten. One-time preparation is not included; the notes state ours.
* *TunedThresholdClassifierCV* tries 100 thresholds (`cv="prefit"`, `refit=False`) for a frozen model that returns
  given probabilities, so only the tuning takes time. Ours is `PostShifter(...).fit(eta, y)`, including all checks.
  Both are scored by scikit-learn on the rows they were fitted to; ours must not be lower by more than 1e-4.
* *xCOLUMNs* is its Frank-Wolfe method with k = 1. Its score is computed from the average confusion matrix of its
  randomised classifier, ours from the labels. Ours must not be lower by more than 1e-4.
* *Differential evolution* is SciPy's, over the logarithms of the class weights, population 10 m, 30 generations.
* *The rate program* maximises the expected accuracy subject to a recall of at least 0.55 of every class in every
  cluster, to a gap of 1e-4. *HiGHS on all rows* solves the same program with a variable for each row and class, on half
  as many rows. On these rows, both optima must agree up to the gap. Both values are those of the fewer rows.
* *A hundred members* are the mixture of a run of 100 iterations for the G-mean over five hard clusters. Both sides
  return the same distribution, to 1e-9. A reduced mixture keeps the hits of each class on the validation rows.
* *A thousand classes*: a run of the core for the G-mean with its gradient, from rows to mixture, including a new
  engine. The same rows are training and validation rows, so an iteration reads them twice.
* *A plain read* is the faster of NumPy's sum and a compiled sum in any order.
* *Reading with pandas* is `pandas.read_parquet` in a fresh interpreter. Ours is the command in a fresh interpreter, so
  imports count on both sides: NumPy, pandas and pyarrow on theirs, and SciPy, scikit-learn and skops on ours too. The
  file has classes with names; `evaluate` uses a run that was fitted to 5,000 rows, `fit` takes the file as its
  validation rows. The note has the time of the same command on 5,000 rows. Times and memory are those that the system
  reports of the process.
* Compiled loops (ours and theirs) are compiled before anything is timed: each side is called once on the same rows or
  on a few rows. Imports are timed inside fresh interpreters, in turns.
* Rows are drawn from normal classes with their exact posteriors (`benchmarks/data.py`).

To repeat it: `make bench`. Made with {made_with}.
"""
    picture = f"![Time of an iteration by rows, classes and basis functions]({PLOT}.svg)"
    return opened_text(page, picture=picture, lead=fill(lead_of(rows), 120))


def lead_of(rows: Sequence[Row]) -> str:
    """Say in two sentences what it is about, and what came out."""
    judged = [verdict(BY_NAME[row.name], row) for row in rows if BY_NAME[row.name].goal is not None]
    growing = [(comparison.title, slope(points)) for comparison, _, points in series(rows)]
    steepest = f"; the time grows most with the {max(growing, key=lambda each: each[1])[0]}" if growing else ""
    return (
        "CPU time of our engines and fits compared with other programs, and how the time of an iteration grows. "
        f"{judged.count('yes')} of {len(judged)} goals are met{steepest}."
    )


def write_plot(folder: Path, rows: Sequence[Row]) -> None:
    """Draw the growth on log-log axes, a panel for each of n, m and L, as PNG and SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    panels = [comparison for comparison in COMPARISONS if comparison.table == "growth"]
    figure = Figure(figsize=(11.5, 3.9), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), sharey=True), panels, strict=True):
        drawn = [(case, points) for comparison, case, points in series(rows) if comparison is panel]
        for (case, points), colour, marker in zip(drawn, _COLOURS, "osD", strict=False):
            label = f"{case}: slope {slope(points):.2f}"
            x, y = [row.x for row in points], [1e3 * (row.ours_cpu or 0) for row in points]
            axes.plot(x, y, color=colour, marker=marker, markersize=4, linewidth=1.5, label=label)
        axes.set(xscale="log", yscale="log", xlabel=panel.title)
        axes.grid(visible=True, which="major", color="0.88", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.label_outer()
        if drawn:
            axes.legend(fontsize=8, framealpha=1, edgecolor="none")
    figure.axes[0].set_ylabel("CPU time of an iteration (ms)")
    with mpl.rc_context({"svg.hashsalt": PLOT}):
        figure.savefig(folder / f"{PLOT}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{PLOT}.png", dpi=160)


def _figure(value: float | None, unit: str) -> str:
    """Return a ratio or value with its unit."""
    if value is None:
        return ""
    return f"{100 * value:.0f}%" if unit == "%" else f"{value:.3g}{unit}" if value < 100 else f"{value:.0f}{unit}"


def _seconds(value: float | None) -> str:
    """Return a time."""
    if value is None:
        return ""
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"


def _count(value: float | None) -> str:
    """Return a size."""
    return f"{value or 0:,.0f}"

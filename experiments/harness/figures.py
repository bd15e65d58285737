"""Figures: lines with bands, a dot with its interval for each method, panels side by side or one above the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.harness.experiment import Results
from experiments.harness.tables import Summary, summary
from postshift.core.archive import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw = Callable[[Results, "Axes"], None]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666", "#000000")
MARKERS = "osD^vP*X"
WIDTH, LINE, MARGIN = 9.0, 0.22, 1.2  # inches: of a picture, of a method's line, above and below the lines


# -- figures and files --------------------------------------------------------------------------------------


def side_by_side(*draws: Draw, size: tuple[float, float] = (5.9, 4.4)) -> Callable[[Results], Figure]:
    """Return what makes a figure of panels in a row, each of a size in inches."""

    def make(results: Results) -> Figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(size[0] * len(draws), size[1]), layout="constrained")
        for place, draw in enumerate(draws, start=1):
            axes = figure.add_subplot(1, len(draws), place)
            plain_axes(axes)
            draw(results, axes)
        return figure

    return make


@dataclass(frozen=True)
class Panel:
    """One panel of a figure: values by the names of its lines, and what the axis shows; ``zero`` draws a line at 0."""

    title: str
    lines: Mapping[str, np.ndarray]
    axis: str
    zero: bool = False


def stacked(panels_of: Callable[[Results], Sequence[Panel]]) -> Callable[[Results], Figure]:
    """Return what makes a figure of panels one above the other: each line has its mean and 95 % interval."""

    def make(results: Results) -> Figure:
        from matplotlib.figure import Figure

        panels = panels_of(results)
        heights = [MARGIN + LINE * len(panel.lines) for panel in panels]
        figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
        rows = figure.subplots(len(panels), squeeze=False, height_ratios=heights)[:, 0]
        for axes, panel in zip(rows, panels, strict=True):
            plain_axes(axes)
            _draw_panel(axes, panel)
        return figure

    return make


def task_panels(titles: Mapping[str, str], axis: str) -> Callable[[Results], Figure]:
    """Return what makes a figure with a panel for each task, by title, and a line for each method."""

    def panels(results: Results) -> list[Panel]:
        return [Panel(title, results.by_method(task), axis) for task, title in titles.items() if task in results.tasks]

    return stacked(panels)


def save_figure(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure as PNG and SVG; the same figure makes the same SVG."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": name}):
        write_atomically(
            folder / f"{name}.svg", lambda stream: figure.savefig(stream, format="svg", metadata={"Date": None})
        )
    write_atomically(folder / f"{name}.png", lambda stream: figure.savefig(stream, format="png", dpi=150))


def plain_axes(axes: Axes) -> None:
    """Draw a light grid behind, and no frame."""
    axes.grid(visible=True, color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


# -- lines --------------------------------------------------------------------------------------------------


def draw_line(
    axes: Axes,
    places: Sequence[float],
    samples: Sequence[np.ndarray],
    *,
    label: str,
    rank: int,
    band: bool = True,
) -> None:
    """Draw means against places, in a band of their 95 % intervals; ``rank`` decides colour and marker."""
    found = [(place, summary(values)) for place, values in zip(places, samples, strict=True) if len(values)]
    if not found:
        return
    colour = COLOURS[rank % len(COLOURS)]
    x = [place for place, _ in found]
    if band and all(each.n > 1 for _, each in found):
        axes.fill_between(
            x, [s.low for _, s in found], [s.high for _, s in found], color=colour, alpha=0.15, linewidth=0
        )
    axes.plot(
        x,
        [each.mean for _, each in found],
        color=colour,
        marker=MARKERS[rank % len(MARKERS)],
        markersize=4.5,
        linewidth=1.5,
        label=label,
    )


# -- a dot for each method ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """Whose a method is, and how it is drawn."""

    whose: str
    colour: str
    marker: str


RIVAL = Kind("rivals", COLOURS[6], "o")
SIMPLE = Kind("simple rules of ours", COLOURS[5], "s")
PAPER = Kind("the paper's method", COLOURS[1], "^")
OURS = Kind("our rules", COLOURS[0], "P")
KINDS = (RIVAL, SIMPLE, PAPER, OURS)
PAPERS = ("FW-EG", "PI-EW", "ours: paper's method")


def kind_of(name: str, prefixes: tuple[str, ...]) -> Kind:
    """Return whose a method is; ``prefixes`` are those of the paper's method and of our rules but for simple ones."""
    if name.startswith(PAPERS):
        return PAPER
    if name.startswith(prefixes):
        return OURS
    return SIMPLE if name.startswith("ours") else RIVAL


def dots_figure(prefixes: tuple[str, ...], *, metric: str, n_methods: int) -> Callable[[Results], Figure]:
    """Return what makes the figure of a table: a line for each method."""
    return side_by_side(dots(prefixes, metric=metric), size=(WIDTH, MARGIN + LINE * n_methods))


def dots(
    prefixes: tuple[str, ...],
    *,
    metric: str,
    methods: Collection[str] | None = None,
    called: Callable[[str], str] = str,
    n_columns: int = 3,
) -> Draw:
    """Return what draws a table: means and 95 % intervals in the table's order, and the highest mean of the others.

    ``methods`` are the lines, by default all; ``called`` is from a method's name to what the picture calls it;
    ``n_columns`` those of the legend.
    """

    def draw(results: Results, axes: Axes) -> None:
        shown = [method for method in results.methods if methods is None or method in methods]
        if not shown:
            return
        found = {method: summary(results.values(method)) for method in shown}
        kinds = {method: kind_of(called(method), prefixes) for method in shown}
        for kind in KINDS:
            _draw_kind(axes, kind, {place: found[each] for place, each in enumerate(shown) if kinds[each] == kind})
        low, high = axes.get_xlim()
        theirs = [each.mean for method, each in found.items() if kinds[method] in (RIVAL, SIMPLE)]
        if theirs:
            axes.axvline(max(theirs), color="0.5", linewidth=0.9, linestyle="--", label="the best of the others")
        paper = results.experiment.paper
        printed = {place: paper[each][0] for place, each in enumerate(shown) if each in paper}
        _draw_printed(axes, printed, low=low)
        axes.set(xlim=(low, max([high, *printed.values()])), ylim=(len(shown) - 0.4, -0.6))
        axes.set_xlabel(f"{metric}, mean and 95 % interval")
        axes.set_yticks(range(len(shown)), map(called, shown), fontsize=8)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=n_columns, frameon=False, fontsize=8)

    return draw


def _draw_panel(axes: Axes, panel: Panel) -> None:
    """Draw the lines of a panel."""
    found = {place: summary(np.asarray(values)) for place, values in enumerate(panel.lines.values())}
    _draw_kind(axes, OURS, found)
    if panel.zero:
        axes.axvline(0, color="0.5", linewidth=0.9, linestyle="--")
    axes.set_title(fill(panel.title, 80), loc="left", fontsize=10)
    axes.set(xlabel=f"{panel.axis}, mean and 95 % interval", ylim=(len(found) - 0.4, -0.6))
    axes.set_yticks(range(len(found)), list(panel.lines), fontsize=8)


def _draw_kind(axes: Axes, kind: Kind, found: Mapping[int, Summary]) -> None:
    """Draw means with their intervals at the places of methods of one kind."""
    if found:
        half = [0 if each.n < 2 else each.high - each.mean for each in found.values()]
        means = [each.mean for each in found.values()]
        style: dict[str, Any] = {"fmt": kind.marker, "color": kind.colour, "markersize": 5.5, "elinewidth": 1.5}
        axes.errorbar(means, list(found), xerr=half, label=kind.whose, **style)


def _draw_printed(axes: Axes, printed: Mapping[int, float], *, low: float) -> None:
    """Draw the paper's figures; those far below all of ours are written at the edge, with an arrow."""
    near = {place: value for place, value in printed.items() if value > low}
    if near:
        axes.plot(list(near.values()), list(near), "D", color="black", fillstyle="none", label="the paper's figure")
    for place in printed.keys() - near.keys():
        text = f"← ◇ {printed[place]:.3f}"
        axes.text(0.01, place, text, transform=axes.get_yaxis_transform(), va="center", fontsize=8)

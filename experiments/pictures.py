"""The pictures of tables: a line for each method, its mean with the interval, and the paper's figure beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.study import COLOURS, Results, Summary, plain_axes, save_figure, summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, LINE, MARGIN = 9.0, 0.22, 1.2  # inches: of a picture, of a method's line, above and below the lines
PAPERS = ("FW-EG", "PI-EW", "ours: paper's method")


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


def kind_of(name: str, prefixes: tuple[str, ...]) -> Kind:
    """Return whose a method is; ``prefixes`` are those of the paper's method and of our rules but for simple ones."""
    if name.startswith(PAPERS):
        return PAPER
    if name.startswith(prefixes):
        return OURS
    return SIMPLE if name.startswith("ours") else RIVAL


def dots_size(n_methods: int) -> tuple[float, float]:
    """Return width and height of the picture of so many methods."""
    return WIDTH, MARGIN + LINE * n_methods


def dots(
    prefixes: tuple[str, ...],
    *,
    metric: str,
    methods: Collection[str] | None = None,
    called: Callable[[str], str] = str,
    n_columns: int = 3,
) -> Callable[[Results, Axes], None]:
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
        theirs = [told.mean for method, told in found.items() if kinds[method] in (RIVAL, SIMPLE)]
        if theirs:
            axes.axvline(max(theirs), color="0.5", linewidth=0.9, linestyle="--", label="the best of the others")
        paper = results.experiment.paper
        said = {place: paper[each][0] for place, each in enumerate(shown) if each in paper}
        _draw_said(axes, said, low=low)
        axes.set(xlim=(low, max([high, *said.values()])), ylim=(len(shown) - 0.4, -0.6))
        axes.set_xlabel(f"{metric}, mean and 95 % interval")
        axes.set_yticks(range(len(shown)), map(called, shown), fontsize=8)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=n_columns, frameon=False, fontsize=8)

    return draw


@dataclass(frozen=True)
class Panel:
    """One panel of a picture: values by the names of its lines, and what the axis shows; ``zero`` draws a line at 0."""

    title: str
    lines: Mapping[str, np.ndarray]
    axis: str
    zero: bool = False


def write_panels(panels: Sequence[Panel], folder: Path, name: str) -> None:
    """Write a picture of some panels, one above the other: each line has its mean and 95 % interval."""
    from matplotlib.figure import Figure

    heights = [MARGIN + LINE * len(panel.lines) for panel in panels]
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    for axes, panel in zip(
        figure.subplots(len(panels), squeeze=False, height_ratios=heights)[:, 0], panels, strict=True
    ):
        plain_axes(axes)
        found = {place: summary(np.asarray(values)) for place, values in enumerate(panel.lines.values())}
        _draw_kind(axes, OURS, found)
        if panel.zero:
            axes.axvline(0, color="0.5", linewidth=0.9, linestyle="--")
        axes.set_title(fill(panel.title, 80), loc="left", fontsize=10)
        axes.set(xlabel=f"{panel.axis}, mean and 95 % interval", ylim=(len(found) - 0.4, -0.6))
        axes.set_yticks(range(len(found)), list(panel.lines), fontsize=8)
    save_figure(figure, folder, name)


def _draw_kind(axes: Axes, kind: Kind, told: Mapping[int, Summary]) -> None:
    """Draw means with their intervals at the places of methods of one kind."""
    if told:
        half = [0 if each.n < 2 else each.high - each.mean for each in told.values()]
        means = [each.mean for each in told.values()]
        style: dict[str, Any] = {"fmt": kind.marker, "color": kind.colour, "markersize": 5.5, "elinewidth": 1.5}
        axes.errorbar(means, list(told), xerr=half, label=kind.whose, **style)


def _draw_said(axes: Axes, said: Mapping[int, float], *, low: float) -> None:
    """Draw the paper's figures; those far below all of ours are written at the edge, with an arrow."""
    near = {place: value for place, value in said.items() if value > low}
    if near:
        axes.plot(list(near.values()), list(near), "D", color="black", fillstyle="none", label="the paper's figure")
    for place in said.keys() - near.keys():
        axes.text(0.01, place, f"← ◇ {said[place]:.3f}", transform=axes.get_yaxis_transform(), va="center", fontsize=8)

"""Heat maps: the confusion matrices before and after and their difference, and labels exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.report.counts import matrices
from postshift.report.facts import Facts
from postshift.report.svg import WIDTH, Chart, Table, drawing, fitting, room, tag, to_csv, words
from postshift.report.text import amount, percent

SHOWN_CLASSES = 12  # of more, those that changed most
_DIGIT = 6.8  # width of one, in a cell
_AXIS, _GAP = 14.0, 6.0  # of the word beside the names, and between names and cells
_CELL, _LARGEST_CELL = 34.0, 76.0  # what a cell keeps beside long names, and the most that it has
_LEAST_NAME, _UPRIGHT_NAME = 80.0, 220.0  # width that names have in any case, and height of those that stand upright

_COLOURS = "Blue cells are hits, orange ones errors."


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """A square heat map: numbers, how strong their colours are (in [-1, 1]), and what is said of each cell.

    Colours above 0 are blue, below 0 orange.
    """

    names: list[str]
    values: FloatArray
    shades: FloatArray
    tips: list[str]
    signed: bool = False
    rows: str = "true"
    columns: str = "predicted"

    @cached_property
    def labels(self) -> list[str]:
        """The names of the rows, cut to what the cells leave."""
        free = WIDTH - _AXIS - _GAP - _CELL * len(self.names)
        return [fitting(name, max(_LEAST_NAME, free)) for name in self.names]

    @cached_property
    def left(self) -> float:
        """Where the cells begin."""
        return _AXIS + room(self.labels) + _GAP

    @cached_property
    def side(self) -> float:
        """The side of a cell."""
        return min((WIDTH - self.left) / len(self.names), _LARGEST_CELL)

    @cached_property
    def are_turned(self) -> bool:
        """Whether the names of the columns stand upright."""
        return room(self.names) > self.side - 4

    @cached_property
    def heads(self) -> list[str]:
        """The names of the columns; upright ones have more room."""
        return [fitting(name, _UPRIGHT_NAME if self.are_turned else self.side) for name in self.names]

    @cached_property
    def top(self) -> float:
        """Where the cells begin."""
        return _AXIS + (room(self.heads) + _GAP if self.are_turned else 16)


def confusion_charts(facts: Facts) -> tuple[Chart, ...]:
    """Return the matrices before and after and their difference; none where the true labels are not known."""
    if facts.confusion is None:
        return ()
    before, after = matrices(facts.confusion.cells, n_classes=len(facts.classes))
    shown = most_changed(before, after)
    cut = np.ix_(shown, shown)
    unit, note = "weight" if facts.confusion.weighted else "rows", _left_out(len(shown), len(facts.classes))
    names = [facts.classes[k] for k in shown]
    found = []
    for key, title, matrix in (("before", "Before", before), ("after", "After", after)):
        sums = matrix.sum(axis=1, keepdims=True)
        shares = np.divide(matrix, sums, out=np.zeros_like(matrix), where=sums > 0)[cut]
        tips = [
            f"true {a}, predicted {b}: {amount(matrix[cut][i, j])} {unit}, {percent(shares[i, j])} of {a}"
            for i, a in enumerate(names)
            for j, b in enumerate(names)
        ]
        grid = Grid(names=names, values=matrix[cut], shades=_hits_less_errors(shares), tips=tips)
        about = f"Confusion matrix {key} the shift: rows are true classes, columns predicted ones. {_COLOURS}"
        found.append(_drawn(f"confusion-{key}", title, about, grid, note=note))
    return (*found, _difference(names, (after - before)[cut], unit=unit, note=note))


def _difference(names: list[str], change: FloatArray, *, unit: str, note: str) -> Chart:
    """Return what became of the confusion matrix."""
    tips = [
        f"true {a}, predicted {b}: {amount(change[i, j], signed=True)} {unit}{_outcome(change[i, j], hit=i == j)}"
        for i, a in enumerate(names)
        for j, b in enumerate(names)
    ]
    shades = _hits_less_errors(change / (np.abs(change).max() or 1.0))
    grid = Grid(names=names, values=change, shades=shades, tips=tips, signed=True)
    about = "After less before. Blue is better: more hits or fewer errors. Orange is worse: fewer hits or more errors."
    return _drawn("confusion-change", "Difference", about, grid, note=note)


def _outcome(change: float, *, hit: bool) -> str:
    """Say whether a change of hits or of errors is for the better."""
    return "" if change == 0 else ", better" if (change > 0) == hit else ", worse"


def _hits_less_errors(shares: FloatArray) -> FloatArray:
    """Return the numbers with a minus where they are of errors, which is everywhere but on the diagonal."""
    return np.where(np.eye(len(shares), dtype=bool), shares, -shares)


def exchange_chart(facts: Facts) -> Chart | None:
    """Return how many rows went from which label to which; None where no row did."""
    if not facts.changes.pairs:
        return None
    n_classes = len(facts.classes)
    moved = np.zeros((n_classes, n_classes))
    for pair in facts.changes.pairs:
        moved[pair.before, pair.after] = pair.n_rows
    shown = most_changed(np.zeros_like(moved), moved)
    names, values = [facts.classes[k] for k in shown], moved[np.ix_(shown, shown)]
    tips = [f"{a} to {b}: {amount(values[i, j])} rows" for i, a in enumerate(names) for j, b in enumerate(names)]
    shades = values / (values.max() or 1.0)
    grid = Grid(names=names, values=values, shades=shades, tips=tips, rows="before", columns="after")
    about = "Rows that change their label: each row of the chart is a label before, each column one after."
    return _drawn("exchange", "Labels exchanged", about, grid, note=_left_out(len(shown), n_classes))


def confusion_csv(facts: Facts) -> str:
    """Return the address of all cells, as a CSV file."""
    cells = () if facts.confusion is None else facts.confusion.cells
    lines = [(facts.name(c.true), facts.name(c.predicted), c.before, c.after, c.change) for c in cells]
    return to_csv(("true", "predicted", "before", "after", "change"), lines)


def most_changed(before: FloatArray, after: FloatArray, *, limit: int = SHOWN_CLASSES) -> IntArray:
    """Return the classes whose rows and columns changed most, then the largest, in their order; all where few."""
    apart = np.abs(after - before)
    moved = apart.sum(axis=0) + apart.sum(axis=1)
    size = before.sum(axis=1) + after.sum(axis=1)
    return np.sort(np.lexsort((-size, -moved))[:limit])


def _left_out(shown: int, n_classes: int) -> str:
    """Say that not all classes are shown, if they are not."""
    return "" if shown == n_classes else f"The {shown} classes of {n_classes:,} that changed most."


def _drawn(key: str, title: str, about: str, grid: Grid, *, note: str) -> Chart:
    """Return the chart of a grid."""
    n = len(grid.names)
    height = grid.top + grid.side * n + 2
    cells = [_cell(grid, i, j) for i in range(n) for j in range(n)]
    svg = drawing(key, title=title, about=about, height=height, back=_frame(grid), marks=cells, columns=n)
    rows = tuple(
        (name, *(amount(value, signed=grid.signed) for value in line.tolist()))
        for name, line in zip(grid.names, grid.values, strict=True)
    )
    table = Table(caption=about, header=(f"{grid.rows} \\ {grid.columns}", *grid.names), rows=rows)
    return Chart(key=key, title=title, svg=svg, table=table, note=note)


def _frame(grid: Grid) -> list[str]:
    """Return the labels of rows and columns."""
    half = grid.side * len(grid.names) / 2
    x, y = grid.left + half, grid.top + half
    found = [
        words(grid.columns, x, 10, _class="axis", text_anchor="middle"),
        words(grid.rows, 10, y, _class="axis", text_anchor="middle", transform=f"rotate(-90 10 {y:.1f})"),
    ]
    for k, (label, head) in enumerate(zip(grid.labels, grid.heads, strict=True)):
        middle = (k + 0.5) * grid.side
        found.append(words(label, grid.left - 5, grid.top + middle + 4, _class="label", text_anchor="end"))
        x, y = grid.left + middle, grid.top - 5
        if grid.are_turned:
            found.append(words(head, x + 4, y, _class="label", transform=f"rotate(-90 {x + 4:.1f} {y:.1f})"))
        else:
            found.append(words(head, x, y, _class="label", text_anchor="middle"))
    return found


def _cell(grid: Grid, i: int, j: int) -> str:
    """Return one cell, with its number where there is room for it."""
    x, y, side = grid.left + j * grid.side, grid.top + i * grid.side, grid.side
    value, shade = float(grid.values[i, j]), float(grid.shades[i, j])
    box = {"x": x + 0.5, "y": y + 0.5, "width": side - 1, "height": side - 1, "rx": 2}
    parts = [tag("rect", **box, _class="cell")]
    if shade:
        parts.append(tag("rect", **box, _class="more" if shade > 0 else "fewer", fill_opacity=abs(shade)))
    text = _fitting(value, side, signed=grid.signed) if value else ""
    if text:
        parts.append(words(text, x + side / 2, y + side / 2 + 4, _class="count", text_anchor="middle"))
    return tag("g", *parts, data_tip=grid.tips[i * len(grid.names) + j], _class="mark")


def _fitting(value: float, side: float, *, signed: bool) -> str:
    """Return a number that fits into a cell: in full, rounded, in thousands, or not at all."""
    tries = [amount(value, signed=signed), amount(float(round(value)), signed=signed)]
    if abs(value) >= 1000:
        tries.append(amount(float(round(value / 1000)), signed=signed) + "k")
    return next((text for text in tries if len(text) * _DIGIT <= side), "")

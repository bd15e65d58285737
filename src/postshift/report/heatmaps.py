"""Heat maps: the confusion matrices before and after, their difference, and the changes of labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.report.counts import matrices
from postshift.report.facts import Facts
from postshift.report.formats import amount, percent
from postshift.report.svg import WIDTH, Chart, fitting, make_chart, room, tag, text_at

SHOWN_CLASSES = 12  # if there are more, those that change most
_DIGIT = 6.8  # width of a digit in a cell
_AXIS, _GAP = 14.0, 6.0  # width of the word beside the names, and of the gap between names and cells
_CELL, _LARGEST_CELL = 34.0, 76.0  # side of a cell beside long names, and the largest side
_LEAST_NAME, _UPRIGHT_NAME = 80.0, 220.0  # smallest width of names, and largest height of upright names
_COLOURS = "Hits are blue, errors are orange."


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """A square heat map: numbers, shades in [-1, 1] (above 0 blue, below 0 orange), and the tip of each cell."""

    names: list[str]
    values: FloatArray
    shades: FloatArray
    tips: list[str]
    signed: bool = False
    rows: str = "true"
    columns: str = "predicted"

    @cached_property
    def labels(self) -> list[str]:
        """The names of the rows, cut to the width beside the cells."""
        free = WIDTH - _AXIS - _GAP - _CELL * len(self.names)
        return [fitting(name, max(_LEAST_NAME, free)) for name in self.names]

    @cached_property
    def left(self) -> float:
        """The left side of the cells."""
        return _AXIS + room(self.labels) + _GAP

    @cached_property
    def side(self) -> float:
        """The side of a cell."""
        return min((WIDTH - self.left) / len(self.names), _LARGEST_CELL)

    @cached_property
    def are_turned(self) -> bool:
        """Whether the names of the columns are upright."""
        return room(self.names) > self.side - 4

    @cached_property
    def heads(self) -> list[str]:
        """The names of the columns, cut to their space."""
        return [fitting(name, _UPRIGHT_NAME if self.are_turned else self.side) for name in self.names]

    @cached_property
    def top(self) -> float:
        """The upper side of the cells."""
        return _AXIS + (room(self.heads) + _GAP if self.are_turned else 16)


def confusion_charts(facts: Facts) -> tuple[Chart, ...]:
    """Return the matrices before and after and their difference; none if the true labels are not known."""
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
        about = f"Confusion matrix {key}: rows are true classes, columns are predicted classes. {_COLOURS}"
        found.append(_drawn(f"confusion-{key}", title, about, grid, note=note))
    return (*found, _difference(names, (after - before)[cut], unit=unit, note=note))


def _difference(names: list[str], change: FloatArray, *, unit: str, note: str) -> Chart:
    """Return the difference of the confusion matrices."""
    tips = [
        f"true {a}, predicted {b}: {amount(change[i, j], signed=True)} {unit}{_outcome(change[i, j], hit=i == j)}"
        for i, a in enumerate(names)
        for j, b in enumerate(names)
    ]
    shades = _hits_less_errors(change / (np.abs(change).max() or 1.0))
    grid = Grid(names=names, values=change, shades=shades, tips=tips, signed=True)
    about = "After minus before. Blue is better: more hits or fewer errors. Orange is worse: fewer hits or more errors."
    return _drawn("confusion-change", "Difference", about, grid, note=note)


def _outcome(change: float, *, hit: bool) -> str:
    """Say whether a change of hits or of errors is better or worse."""
    return "" if change == 0 else ", better" if (change > 0) == hit else ", worse"


def _hits_less_errors(shares: FloatArray) -> FloatArray:
    """Return the numbers with a minus off the diagonal, where the errors are."""
    return np.where(np.eye(len(shares), dtype=bool), shares, -shares)


def label_changes_chart(facts: Facts) -> Chart | None:
    """Return how many labels change from each class to each other; None if none does."""
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
    about = "Numbers of rows whose label changes: rows are labels before, columns are labels after."
    return _drawn("label-changes", "Labels that change", about, grid, note=_left_out(len(shown), n_classes))


def most_changed(before: FloatArray, after: FloatArray, *, limit: int = SHOWN_CLASSES) -> IntArray:
    """Return the classes whose rows and columns change most, then the largest, in their order; all if there are few."""
    apart = np.abs(after - before)
    moved = apart.sum(axis=0) + apart.sum(axis=1)
    size = before.sum(axis=1) + after.sum(axis=1)
    return np.sort(np.lexsort((-size, -moved))[:limit])


def _left_out(shown: int, n_classes: int) -> str:
    """Say which classes are shown if not all are."""
    return "" if shown == n_classes else f"The {shown} classes of {n_classes:,} that change most."


def _drawn(key: str, title: str, about: str, grid: Grid, *, note: str) -> Chart:
    """Return the chart of a grid."""
    n = len(grid.names)
    return make_chart(
        key,
        title=title,
        about=about,
        height=grid.top + grid.side * n + 2,
        back=_frame(grid),
        marks=[_cell(grid, i, j) for i in range(n) for j in range(n)],
        header=(f"{grid.rows} \\ {grid.columns}", *grid.names),
        rows=(
            (name, *(amount(value, signed=grid.signed) for value in line.tolist()))
            for name, line in zip(grid.names, grid.values, strict=True)
        ),
        note=note,
        columns=n,
    )


def _frame(grid: Grid) -> list[str]:
    """Return the labels of rows and columns."""
    half = grid.side * len(grid.names) / 2
    x, y = grid.left + half, grid.top + half
    found = [
        text_at(x, 10, grid.columns, _class="axis", text_anchor="middle"),
        text_at(10, y, grid.rows, _class="axis", text_anchor="middle", transform=f"rotate(-90 10 {y:.1f})"),
    ]
    for k, (label, head) in enumerate(zip(grid.labels, grid.heads, strict=True)):
        middle = (k + 0.5) * grid.side
        found.append(text_at(grid.left - 5, grid.top + middle + 4, label, _class="label", text_anchor="end"))
        x, y = grid.left + middle, grid.top - 5
        if grid.are_turned:
            found.append(text_at(x + 4, y, head, _class="label", transform=f"rotate(-90 {x + 4:.1f} {y:.1f})"))
        else:
            found.append(text_at(x, y, head, _class="label", text_anchor="middle"))
    return found


def _cell(grid: Grid, i: int, j: int) -> str:
    """Return one cell, with its number if there is space for it."""
    x, y, side = grid.left + j * grid.side, grid.top + i * grid.side, grid.side
    value, shade = float(grid.values[i, j]), float(grid.shades[i, j])
    box = {"x": x + 0.5, "y": y + 0.5, "width": side - 1, "height": side - 1, "rx": 2}
    parts = [tag("rect", **box, _class="cell")]
    if shade:
        parts.append(tag("rect", **box, _class="more" if shade > 0 else "fewer", fill_opacity=abs(shade)))
    text = _fitting(value, side, signed=grid.signed) if value else ""
    if text:
        parts.append(text_at(x + side / 2, y + side / 2 + 4, text, _class="count", text_anchor="middle"))
    return tag("g", *parts, data_tip=grid.tips[i * len(grid.names) + j], _class="mark")


def _fitting(value: float, side: float, *, signed: bool) -> str:
    """Return a number that fits into a cell: in full, rounded, in thousands, or not at all."""
    tries = [amount(value, signed=signed), amount(float(round(value)), signed=signed)]
    if abs(value) >= 1000:
        tries.append(amount(float(round(value / 1000)), signed=signed) + "k")
    return next((text for text in tries if len(text) * _DIGIT <= side), "")

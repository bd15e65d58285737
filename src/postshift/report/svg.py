"""Inline SVG without a library: elements, charts with their tables, scales and lines of text.

A chart is 340 units wide; on a phone a unit is about a pixel. Colours are CSS classes, so that light, dark and print
can differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise
from unicodedata import category, east_asian_width

from postshift.report.formats import MINUS

WIDTH = 340
LINE = 22.0  # height of a line of marks
TOP = 8.0
ABOVE = 16.0  # height of a name above its line
_SLIM, _NARROW, _LOWER, _UPPER, _WIDE = 4.0, 5.0, 7.5, 8.8, 12.0  # widths of letters, in a wide font
_SLIM_LETTERS, _NARROW_LETTERS = frozenset("ijlIJ'|.,:; "), frozenset("frt!()[]{}/\\-")
_WIDE_LETTERS = frozenset("mwMW@%&…")

Scale = Callable[[float], float]


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """A table of the page: its caption, the headers of its columns, and rows that begin with their header."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart with its table; ``note`` says what is left out."""

    key: str
    title: str
    svg: str
    table: TextTable
    note: str = ""


def tag(name: str, *children: str, **attributes: object) -> str:
    """Return an element; ``_`` in names of attributes becomes ``-``, a leading one is dropped."""
    given = {key.removeprefix("_").replace("_", "-"): value for key, value in attributes.items()}
    text = "".join(f' {key}="{escape(_plain(value), quote=True)}"' for key, value in given.items())
    return f"<{name}{text}>{''.join(children)}</{name}>"


def text_at(x: float, y: float, text: str, **attributes: object) -> str:
    """Return a text at a place."""
    return tag("text", escape(text), x=x, y=y, **attributes)


def make_chart(
    key: str,
    *,
    title: str,
    about: str,
    height: float,
    back: Iterable[str],
    marks: Iterable[str],
    header: tuple[str, ...],
    rows: Iterable[tuple[str, ...]],
    note: str = "",
    columns: int = 1,
) -> Chart:
    """Return a chart and its table: ``back`` is drawn behind the marks, which form rows of ``columns`` marks each.

    The group of the marks has an empty title, so that browsers do not show the chart's title over every mark.
    """
    svg = tag(
        "svg",
        tag("title", escape(title), id=f"{key}-title"),
        tag("desc", escape(about), id=f"{key}-desc"),
        tag("g", tag("title"), *back, tag("g", *marks)),
        id=key,
        _class="chart",
        viewBox=f"0 0 {WIDTH} {_plain(height)}",
        role="img",
        tabindex=0,
        aria_labelledby=f"{key}-title {key}-desc",
        data_columns=columns,
    )
    table = TextTable(caption=about, header=header, rows=tuple(rows))
    return Chart(key=key, title=title, svg=svg, table=table, note=note)


def linear(low: float, high: float, *, start: float, stop: float) -> Scale:
    """Return the map of [low, high] onto [start, stop]."""
    width = (high - low) or 1.0
    return lambda value: start + (stop - start) * (value - low) / width


def width_of(text: str) -> float:
    """Return the approximate width of a text."""
    return sum(map(_width_of_letter, text))


def room(texts: Iterable[str]) -> float:
    """Return the approximate width of the widest text."""
    return max(map(width_of, texts))


def fitting(text: str, width: float) -> str:
    """Return a text cut in the middle to a width, so that names that differ at their ends stay different."""
    flat = " ".join(text.split())
    if width_of(flat) <= width:
        return flat
    cuts = ((n - n // 3, n // 3) for n in range(len(flat) - 1, 0, -1))
    found = (f"{flat[:head]}…{flat[len(flat) - tail :]}" for head, tail in cuts)
    return next((each for each in found if width_of(each) <= width), "…")


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The lines of a chart, each with a name: beside its marks, or above them if a name is wider than ``beside``."""

    names: tuple[str, ...]
    beside: float
    top: float = TOP

    @cached_property
    def are_above(self) -> bool:
        """Whether the names are above the marks."""
        return room(self.names) > self.beside

    @cached_property
    def labels(self) -> list[str]:
        """The names, cut to the width of the chart."""
        return [fitting(name, WIDTH - 4) for name in self.names]

    @cached_property
    def left(self) -> float:
        """Where the marks begin."""
        return 10.0 if self.are_above else room(self.labels) + 10

    @cached_property
    def height(self) -> float:
        """The height of one line."""
        return LINE + ABOVE if self.are_above else LINE

    @property
    def bottom(self) -> float:
        """Where the last line ends."""
        return self.top + self.height * len(self.names)

    def middle(self, line: int) -> float:
        """Return the middle of the marks of a line."""
        return self.top + (line + 1) * self.height - LINE / 2

    def drawn(self) -> list[str]:
        """Return the names."""
        found = []
        for line, label in enumerate(self.labels):
            y = self.middle(line)
            how = {"x": 2, "y": y - 10} if self.are_above else {"x": self.left - 8, "y": y + 4, "text_anchor": "end"}
            found.append(text_at(text=label, **how, _class="label"))
        return found

    def grid(self, x: float, label: str, *, look: str = "grid") -> list[str]:
        """Return a vertical line with its number below; it is interrupted by names above the marks."""
        bands = [(self.top, self.bottom)]
        if self.are_above:
            bands = [(self.middle(line) - 6, self.middle(line) + LINE / 2) for line in range(len(self.names))]
        lines = [tag("line", x1=x, x2=x, y1=high, y2=low, _class=look) for high, low in bands]
        return [*lines, text_at(x, self.bottom + 14, label, _class="tick", text_anchor="middle")]

    def hit(self, line: int) -> str:
        """Return the area of a line that reacts to the pointer."""
        y = self.middle(line) + LINE / 2 - self.height
        return tag("rect", x=0, y=y, width=WIDTH, height=self.height, _class="hit")


def vertical_grid(
    lines: Lines, place: Scale, limits: tuple[float, float], *, wanted: int, factor: float = 1.0, unit: str = ""
) -> list[str]:
    """Return vertical lines at round numbers, with the numbers, times a factor, below them."""
    values = ticks(*limits, wanted=wanted)
    found = []
    for value in values:
        found += lines.grid(place(value), tick_label(factor * value, [factor * each for each in values]) + unit)
    return found


def ticks(low: float, high: float, *, wanted: int = 4) -> list[float]:
    """Return about ``wanted`` round numbers within [low, high]; at least two, unless the limits are equal."""
    width = high - low
    if width <= 0:
        return [low]
    for step in _steps(width / wanted):
        first = math.ceil(low / step - 1e-9)
        found = [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]
        if len(found) > 1:
            return found
    return [low, high]


def _steps(wanted: float) -> list[float]:
    """Return round steps, the first about as wide as wanted, each narrower than the one before."""
    power = 10.0 ** math.floor(math.log10(wanted))
    every = [power * k for k in (10, 5, 2, 1, 0.5, 0.2, 0.1)]
    first = max(place for place, step in enumerate(every) if step >= wanted * (1 - 1e-9))
    return every[first:]


def tick_label(value: float, values: Sequence[float]) -> str:
    """Return the text of a tick, with as many decimals as the ticks need."""
    step = min((abs(b - a) for a, b in pairwise(values)), default=abs(value) or 1.0)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    text = f"{value:,.{decimals}f}"
    return (text.replace("-", "") if float(text.replace(",", "")) == 0 else text).replace("-", MINUS)


def _width_of_letter(letter: str) -> float:
    """Return the approximate width of a letter; combining marks have none."""
    if letter in _SLIM_LETTERS:
        return _SLIM
    if letter in _NARROW_LETTERS:
        return _NARROW
    if letter in _WIDE_LETTERS or east_asian_width(letter) in ("W", "F"):
        return _WIDE
    if category(letter) in ("Mn", "Me", "Cf"):
        return 0.0
    return _LOWER if letter.isascii() and not letter.isupper() else _UPPER


def _plain(value: object) -> str:
    """Return the text of an attribute; numbers have two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)

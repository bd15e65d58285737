"""Inline SVG without a library: elements, charts with their tables, and scales.

Lengths are in units of which a chart is 340 wide, about a pixel each on a phone. Colours are CSS classes, so that
light, dark and print can differ.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise
from unicodedata import category, east_asian_width
from urllib.parse import quote

WIDTH = 340
LINE = 22.0  # height of a line of a chart with one line for each thing
TOP = 8.0
ABOVE = 16.0  # height of a name that stands above its line
_SLIM, _NARROW, _LOWER, _UPPER, _WIDE = 4.0, 5.0, 7.5, 8.8, 12.0  # widths of letters, in a wide font
_SLIM_LETTERS, _NARROW_LETTERS = frozenset("ijlIJ'|.,:; "), frozenset("frt!()[]{}/\\-")
_WIDE_LETTERS = frozenset("mwMW@%&…")

Scale = Callable[[float], float]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with these, spreadsheets begin a formula


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: its caption, the heads of its columns, and rows whose first cell is their head."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart with its table; ``note`` says what is left out or how to read it."""

    key: str
    title: str
    svg: str
    table: Table
    note: str = ""


def tag(name: str, *children: str, **attributes: object) -> str:
    """Return an element; ``_`` in names of attributes is ``-``, a leading one is dropped, None leaves one out."""
    given = {key.removeprefix("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    text = "".join(f' {key}="{escape(_plain(value), quote=True)}"' for key, value in given.items())
    return f"<{name}{text}>{''.join(children)}</{name}>"


def words(text: str, x: float, y: float, **attributes: object) -> str:
    """Return a text at a place."""
    return tag("text", escape(text), x=x, y=y, **attributes)


def drawing(
    key: str, *, title: str, about: str, height: float, back: Iterable[str], marks: Iterable[str], columns: int = 1
) -> str:
    """Return a chart: ``back`` is behind the marks, ``columns`` is how many of them stand in a row.

    The group of the marks has an empty title, so that browsers do not show the chart's over every mark.
    """
    return tag(
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


def to_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an address of the data themselves, as a CSV file; texts that spreadsheets would run are quoted."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(each) for each in row] for row in rows)
    return "data:text/csv;charset=utf-8," + quote(stream.getvalue(), safe="", errors="replace")


def linear(low: float, high: float, *, start: float, stop: float) -> Scale:
    """Return the map of [low, high] onto [start, stop]."""
    width = (high - low) or 1.0
    return lambda value: start + (stop - start) * (value - low) / width


def width_of(text: str) -> float:
    """Return the width of a text, about."""
    return sum(map(_width_of_letter, text))


def room(texts: Iterable[str]) -> float:
    """Return the width of the widest text, about."""
    return max(map(width_of, texts))


def fitting(text: str, width: float) -> str:
    """Return a text that is cut in its middle to a width: names that differ at their ends stay different."""
    flat = " ".join(text.split())
    if width_of(flat) <= width:
        return flat
    cuts = ((n - n // 3, n // 3) for n in range(len(flat) - 1, 0, -1))
    found = (f"{flat[:head]}…{flat[len(flat) - tail :]}" for head, tail in cuts)
    return next((each for each in found if width_of(each) <= width), "…")


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The lines of a chart, each with a name: beside its marks or, where a name is wider than that, above them."""

    names: tuple[str, ...]
    beside: float
    top: float = TOP

    @cached_property
    def are_above(self) -> bool:
        """Whether the names stand above the marks."""
        return room(self.names) > self.beside

    @cached_property
    def labels(self) -> list[str]:
        """The names, cut where they are wider than the chart."""
        return [fitting(name, WIDTH - 4) for name in self.names]

    @cached_property
    def left(self) -> float:
        """Where the marks may begin."""
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
            found.append(words(label, **how, _class="label"))
        return found

    def grid(self, x: float, label: str, *, look: str = "grid") -> list[str]:
        """Return a vertical line with its number below; it leaves out the names that stand above the marks."""
        bands = [(self.top, self.bottom)]
        if self.are_above:
            bands = [(self.middle(line) - 6, self.middle(line) + LINE / 2) for line in range(len(self.names))]
        lines = [tag("line", x1=x, x2=x, y1=high, y2=low, _class=look) for high, low in bands]
        return [*lines, words(label, x, self.bottom + 14, _class="tick", text_anchor="middle")]

    def hit(self, line: int) -> str:
        """Return what answers the pointer in a line."""
        y = self.middle(line) + LINE / 2 - self.height
        return tag("rect", x=0, y=y, width=WIDTH, height=self.height, _class="hit")


def vertical_grid(
    lines: Lines, place: Scale, limits: tuple[float, float], *, wanted: int, factor: float = 1.0, unit: str = ""
) -> list[str]:
    """Return vertical lines at round numbers, with the numbers, times a factor, below."""
    values = ticks(*limits, wanted=wanted)
    found = []
    for value in values:
        found += lines.grid(place(value), tick_label(factor * value, [factor * each for each in values]) + unit)
    return found


def ticks(low: float, high: float, *, wanted: int = 4) -> list[float]:
    """Return round numbers within [low, high], about so many; two at least, unless the limits are one number."""
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
    """Return the text of a tick, with the decimals that the ticks need."""
    step = min((abs(b - a) for a, b in pairwise(values)), default=abs(value) or 1.0)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    text = f"{value:,.{decimals}f}"
    return (text.replace("-", "") if float(text.replace(",", "")) == 0 else text).replace("-", "−")


def _width_of_letter(letter: str) -> float:
    """Return the width of a letter, about; marks that stand on another one have none."""
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
    """Return the text of an attribute; numbers with two decimals at the most."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _cell(value: object) -> object:
    """Return a cell of a CSV file that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value) else value


def _is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True

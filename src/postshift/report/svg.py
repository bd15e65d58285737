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
from html import escape
from itertools import pairwise
from urllib.parse import quote

WIDTH = 340
LINE = 22.0  # height of a line of a chart with one line for each thing
TOP = 8.0
LETTER = 7.4  # width of one, about, in a wide font

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


def room(texts: Iterable[str]) -> float:
    """Return the width of the longest text, about."""
    return LETTER * max(map(len, texts))


def vertical_grid(
    place: Scale,
    limits: tuple[float, float],
    *,
    bottom: float,
    wanted: int,
    top: float = TOP,
    factor: float = 1.0,
    unit: str = "",
) -> list[str]:
    """Return vertical lines at round numbers, with the numbers, times a factor, below."""
    values = ticks(*limits, wanted=wanted)
    found = []
    for value in values:
        label = tick_label(factor * value, [factor * each for each in values]) + unit
        found.append(tag("line", x1=place(value), x2=place(value), y1=top, y2=bottom, _class="grid"))
        found.append(words(label, place(value), bottom + 14, _class="tick", text_anchor="middle"))
    return found


def ticks(low: float, high: float, *, wanted: int = 4) -> list[float]:
    """Return round numbers within [low, high], about so many."""
    width = high - low
    if width <= 0:
        return [low]
    raw = width / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_label(value: float, values: Sequence[float]) -> str:
    """Return the text of a tick, with the decimals that the ticks need."""
    step = min((abs(b - a) for a, b in pairwise(values)), default=abs(value) or 1.0)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    text = f"{value:,.{decimals}f}"
    return (text.replace("-", "") if float(text.replace(",", "")) == 0 else text).replace("-", "−")


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

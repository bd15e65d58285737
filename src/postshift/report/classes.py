"""Charts with one line for every class: weights, and class shares."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from postshift._validation import FloatArray
from postshift.report.facts import Facts, Shares
from postshift.report.svg import LINE, TOP, WIDTH, Chart, Scale, Table, drawing, linear, room, tag, vertical_grid, words
from postshift.report.text import NO_BREAK, factor, percent, short

SHOWN_CLASSES = 20  # of more, the most telling ones
SHOWN_FUNCTIONS = 6  # basis functions; of more, those with most rows
_NAME = 12  # letters
_VALUE = 40.0  # width of a number beside a bar
_TICKS = (0.001, 0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0)
_FEW_TICKS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
_LEGEND = 18.0

Kind = tuple[str, Sequence[float], str]  # what, the share of every class, the class of its mark


# -- weights ------------------------------------------------------------------------------------------------


def weight_charts(facts: Facts) -> tuple[Chart, ...]:
    """Return the weights per class over all rows, and in the basis functions with most rows, on one scale."""
    functions = sorted(facts.weights.functions, key=lambda f: -f.n_rows)[:SHOWN_FUNCTIONS]
    every = np.log([facts.weights.by_class, *(f.by_class for f in functions)])
    shown = _most_telling(np.abs(every).max(axis=0))
    reach = max(math.log(2.5), float(np.abs(every).max()))
    titles = ["All rows", *(f"{short(f.name, 40)} ({f.n_rows:,.0f} rows)" for f in functions)]
    weights = [facts.weights.by_class, *(f.by_class for f in functions)]
    note = "" if len(shown) == len(facts.classes) else f"The {len(shown)} largest weights of {len(facts.classes):,}."
    return tuple(
        _bars(facts, f"weights-{place}", title, each, shown=shown, reach=reach, note=note)
        for place, (title, each) in enumerate(zip(titles, weights, strict=True))
    )


def _bars(
    facts: Facts, key: str, title: str, weights: Sequence[float], *, shown: list[int], reach: float, note: str
) -> Chart:
    """Return bars that go out from 1, on a log scale."""
    names = [short(facts.classes[k], _NAME) for k in shown]
    left = room(names) + 6
    place = linear(-reach, reach, start=left + _VALUE, stop=WIDTH - _VALUE)
    bottom = TOP + LINE * len(shown)
    back = []
    for tick in _TICKS if reach < math.log(10) else _FEW_TICKS:
        if abs(math.log(tick)) <= reach + 1e-9:
            x = place(math.log(tick))
            back.append(tag("line", x1=x, x2=x, y1=TOP, y2=bottom, _class="one" if tick == 1 else "grid"))
            back.append(words(f"{tick:g}", x, bottom + 14, _class="tick", text_anchor="middle"))
    marks = []
    for line, (k, name) in enumerate(zip(shown, names, strict=True)):
        y = TOP + line * LINE
        back.append(words(name, left - 4, y + 15, _class="label", text_anchor="end"))
        marks.append(_bar(facts.classes[k], weights[k], place, y, left=left))
    about = f"Weight of every class, {title}: 1 is the class in the middle; the scale is logarithmic."
    svg = drawing(key, title=f"Weights: {title}", about=about, height=bottom + 20, back=back, marks=marks)
    rows = tuple((name, f"{weight:.3g}") for name, weight in zip(facts.classes, weights, strict=True))
    table = Table(caption=about, header=("class", "weight"), rows=rows)
    return Chart(key=key, title=title, svg=svg, table=table, note=note)


def _bar(name: str, weight: float, place: Scale, y: float, *, left: float) -> str:
    """Return the bar of one class, with its weight at the end."""
    up, x, one = weight >= 1, place(math.log(weight)), place(0.0)
    as_it_is = factor(weight) == factor(1.0)
    said = "as it is" if as_it_is else "up-weighted" if up else "down-weighted"
    look, anchor, shift = ("more", "start", 4) if up else ("fewer", "end", -4)
    width = max(abs(x - one), 1.5)
    return tag(
        "g",
        tag("rect", x=left, y=y, width=WIDTH - left, height=LINE, _class="hit"),
        tag("rect", x=min(x, one), y=y + 4, width=width, height=LINE - 8, rx=2, _class=look),
        words(factor(weight), x + shift, y + 15, _class="value", text_anchor=anchor),
        data_tip=f"{name}: {factor(weight)}, {said}",
        _class="mark",
    )


# -- class shares -------------------------------------------------------------------------------------------


def shares_chart(facts: Facts) -> Chart:
    """Return the share of every class among labels and predictions."""
    kinds = _kinds(facts.shares)
    shown = _most_telling(np.abs(np.array(facts.shares.after) - np.array(facts.shares.before)))
    names = [short(facts.classes[k], _NAME) for k in shown]
    left, top = room(names) + 8, _LEGEND * math.ceil(len(kinds) / 2) + 10
    most = max(values[k] for _, values, _ in kinds for k in shown)
    place = linear(0, most, start=left + 8, stop=WIDTH - 16.0)
    bottom = top + LINE * len(shown)
    back = _legend(kinds)
    back += vertical_grid(place, (0, most), bottom=bottom, wanted=4, top=top, factor=100, unit=f"{NO_BREAK}%")
    marks = []
    for line, (k, name) in enumerate(zip(shown, names, strict=True)):
        y = top + (line + 0.5) * LINE
        back.append(words(name, left - 2, y + 4, _class="label", text_anchor="end"))
        tip = f"{facts.classes[k]}: " + ", ".join(f"{kind} {percent(values[k])}" for kind, values, _ in kinds)
        hit = tag("rect", x=0, y=y - LINE / 2, width=WIDTH, height=LINE, _class="hit")
        dots = [_marker(look, place(values[k]), y) for _, values, look in kinds]
        marks.append(tag("g", hit, *dots, data_tip=tip, _class="mark"))
    about = "Share of every class among the labels, and among the predictions before and after."
    svg = drawing("shares", title="Class shares", about=about, height=bottom + 20, back=back, marks=marks)
    n_classes = len(facts.classes)
    note = "" if len(shown) == n_classes else f"The {len(shown)} classes of {n_classes:,} whose shares changed most."
    return Chart(key="shares", title="Class shares", svg=svg, table=_shares_table(facts, about), note=note)


def _kinds(shares: Shares) -> list[Kind]:
    """Return the shares that are known, to be drawn in this order."""
    every = (
        ("training labels", shares.training, "s-train"),
        ("validation labels", shares.validation, "s-val"),
        ("predicted before", shares.before, "s-before"),
        ("predicted after", shares.after, "s-after"),
    )
    return [(name, values, look) for name, values, look in every if values is not None]


def _legend(kinds: Sequence[Kind]) -> list[str]:
    """Return the marks with their names, two in a line."""
    found = []
    for k, (name, _, look) in enumerate(kinds):
        x, y = 10.0 + 165 * (k % 2), 10.0 + _LEGEND * (k // 2)
        found += [_marker(look, x, y), words(name, x + 10, y + 4, _class="label")]
    return found


def _marker(look: str, x: float, y: float) -> str:
    """Return a mark whose shape tells what it is of, without its colour."""
    if look == "s-train":
        return tag("path", d=f"M{x:.1f} {y - 5:.1f}l5 9h-10z", _class=look)
    if look == "s-val":
        return tag("rect", x=x - 4, y=y - 4, width=8, height=8, _class=look)
    return tag("circle", cx=x, cy=y, r=4.5 if look == "s-before" else 3.5, _class=look)


def _shares_table(facts: Facts, caption: str) -> Table:
    """Return all that is known of the class shares."""
    shares = facts.shares
    columns = (
        ("training labels", shares.training),
        ("validation labels", shares.validation),
        ("mean probability by the model, training rows", shares.by_model_in_training),
        ("mean probability by the model, validation rows", shares.by_model),
        ("predicted before", shares.before),
        ("predicted after", shares.after),
    )
    known = [(name, values) for name, values in columns if values is not None]
    rows = tuple((name, *(percent(values[k]) for _, values in known)) for k, name in enumerate(facts.classes))
    return Table(caption=caption, header=("class", *(name for name, _ in known)), rows=rows)


def _most_telling(sizes: FloatArray) -> list[int]:
    """Return the classes of the largest sizes, in their order; all where they are few."""
    return [int(k) for k in np.sort(np.argsort(-sizes, kind="stable")[:SHOWN_CLASSES])]

"""Charts with one line for each class: weights, and class shares."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from postshift._validation import FloatArray
from postshift.report.facts import Facts
from postshift.report.formats import NO_BREAK, factor, percent
from postshift.report.svg import (
    LINE,
    WIDTH,
    Chart,
    Lines,
    Scale,
    fitting,
    linear,
    make_chart,
    tag,
    text_at,
    vertical_grid,
)

SHOWN_CLASSES = 20  # if there are more, those with the largest values
SHOWN_FUNCTIONS = 6  # basis functions; if there are more, those with most rows
_BESIDE = 140.0  # names up to this width are beside their marks, wider ones above
_VALUE = 40.0  # width of a number beside a bar
_TITLE = 300.0  # width of the name of a basis function in a title
_TICKS = (0.001, 0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0)
_FEW_TICKS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
_LEGEND = 18.0

Series = tuple[str, Sequence[float], str]  # its name, the share of every class, the CSS class of its marks or ""


# -- weights ------------------------------------------------------------------------------------------------


def weight_charts(facts: Facts) -> tuple[Chart, ...]:
    """Return the weights per class over all rows, and under the basis functions with the most rows, on one scale."""
    functions = sorted(facts.weights.functions, key=lambda f: -f.n_rows)[:SHOWN_FUNCTIONS]
    weights = [facts.weights.by_class, *(f.by_class for f in functions)]
    titles = ["Weights, all rows", *(f"Weights, {fitting(f.name, _TITLE)} ({f.n_rows:,.0f} rows)" for f in functions)]
    sizes = np.abs(np.log(weights))
    shown = _largest(sizes.max(axis=0))
    reach = max(math.log(2.5), float(sizes.max()))
    return tuple(
        _bars(facts, f"weights-{place}", title, each, shown=shown, reach=reach)
        for place, (title, each) in enumerate(zip(titles, weights, strict=True))
    )


def _bars(facts: Facts, key: str, title: str, weights: Sequence[float], *, shown: list[int], reach: float) -> Chart:
    """Return bars that start at 1, on a log scale."""
    lines = Lines(names=tuple(facts.classes[k] for k in shown), beside=_BESIDE)
    place = linear(-reach, reach, start=lines.left + _VALUE, stop=WIDTH - _VALUE)
    back = lines.drawn()
    for tick in _TICKS if reach < math.log(10) else _FEW_TICKS:
        if abs(math.log(tick)) <= reach + 1e-9:
            back += lines.grid(place(math.log(tick)), f"{tick:g}", look="one" if tick == 1 else "grid")
    n_classes = len(facts.classes)
    return make_chart(
        key,
        title=title,
        about=f"{title}: the median of the classes is 1; the scale is logarithmic.",
        height=lines.bottom + 20,
        back=back,
        marks=[_bar(lines, line, facts.classes[k], weights[k], place) for line, k in enumerate(shown)],
        header=("class", "weight"),
        rows=((name, f"{weight:.3g}") for name, weight in zip(facts.classes, weights, strict=True)),
        note="" if len(shown) == n_classes else f"The {len(shown)} largest and smallest weights of {n_classes:,}.",
    )


def _bar(lines: Lines, line: int, name: str, weight: float, place: Scale) -> str:
    """Return the bar of one class, with its weight at the end."""
    y = lines.middle(line) - LINE / 2
    up, x, one = weight >= 1, place(math.log(weight)), place(0.0)
    said = "unchanged" if factor(weight) == factor(1.0) else "up-weighted" if up else "down-weighted"
    look, anchor, shift = ("more", "start", 4) if up else ("fewer", "end", -4)
    width = max(abs(x - one), 1.5)
    return tag(
        "g",
        lines.hit(line),
        tag("rect", x=min(x, one), y=y + 4, width=width, height=LINE - 8, rx=2, _class=look),
        text_at(x + shift, y + 15, factor(weight), _class="value", text_anchor=anchor),
        data_tip=f"{name}: {factor(weight)}, {said}",
        _class="mark",
    )


# -- class shares -------------------------------------------------------------------------------------------


def shares_chart(facts: Facts) -> Chart:
    """Return the share of every class among labels and predictions."""
    columns = _known_shares(facts)
    series = [each for each in columns if each[2]]
    shown = _largest(np.abs(np.array(facts.shares.after) - np.array(facts.shares.before)))
    names = tuple(facts.classes[k] for k in shown)
    lines = Lines(names=names, beside=_BESIDE, top=_LEGEND * math.ceil(len(series) / 2) + 10)
    most = max(values[k] for _, values, _ in series for k in shown)
    place = linear(0, most, start=lines.left + 8, stop=WIDTH - 16.0)
    grid = vertical_grid(lines, place, (0, most), wanted=4, factor=100, unit=f"{NO_BREAK}%")
    marks = []
    for line, (k, name) in enumerate(zip(shown, names, strict=True)):
        y = lines.middle(line)
        tip = f"{name}: " + ", ".join(f"{what} {percent(values[k])}" for what, values, _ in series)
        dots = [_marker(look, place(values[k]), y) for _, values, look in series]
        marks.append(tag("g", lines.hit(line), *dots, data_tip=tip, _class="mark"))
    n_classes = len(facts.classes)
    return make_chart(
        "shares",
        title="Class shares",
        about="Share of every class among the labels, and among the predictions before and after.",
        height=lines.bottom + 20,
        back=[*_legend(series), *lines.drawn(), *grid],
        marks=marks,
        header=("class", *(name for name, _, _ in columns)),
        rows=((name, *(percent(values[k]) for _, values, _ in columns)) for k, name in enumerate(facts.classes)),
        note="" if len(shown) == n_classes else f"The {len(shown)} classes of {n_classes:,} whose shares change most.",
    )


def _known_shares(facts: Facts) -> list[Series]:
    """Return the columns of the table of shares; those with marks are drawn in this order."""
    shares = facts.shares
    every = (
        ("training labels", shares.training, "s-train"),
        (f"{facts.sample} labels", shares.validation, "s-val"),
        ("model's mean probability, training rows", shares.by_model_in_training, ""),
        (f"model's mean probability, {facts.sample} rows", shares.by_model, ""),
        ("predicted before", shares.before, "s-before"),
        ("predicted after", shares.after, "s-after"),
    )
    return [(name, values, look) for name, values, look in every if values is not None]


def _legend(series: Sequence[Series]) -> list[str]:
    """Return the marks with their names, two per line."""
    found = []
    for k, (name, _, look) in enumerate(series):
        x, y = 10.0 + 165 * (k % 2), 10.0 + _LEGEND * (k // 2)
        found += [_marker(look, x, y), text_at(x + 10, y + 4, name, _class="label")]
    return found


def _marker(look: str, x: float, y: float) -> str:
    """Return a mark that can be recognised by its shape alone."""
    if look == "s-train":
        return tag("path", d=f"M{x:.1f} {y - 5:.1f}l5 9h-10z", _class=look)
    if look == "s-val":
        return tag("rect", x=x - 4, y=y - 4, width=8, height=8, _class=look)
    return tag("circle", cx=x, cy=y, r=4.5 if look == "s-before" else 3.5, _class=look)


def _largest(sizes: FloatArray) -> list[int]:
    """Return the largest classes, in the order of the classes; all if there are few."""
    return [int(k) for k in np.sort(np.argsort(-sizes, kind="stable")[:SHOWN_CLASSES])]

"""The chart of the trace: the metric at every iteration of the rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from postshift.report.facts import Facts, Look
from postshift.report.formats import number
from postshift.report.svg import TOP, WIDTH, Chart, fitting, linear, make_chart, tag, text_at, tick_label, ticks

SHOWN_LINES = 6
SHOWN_POINTS = 40  # marks on one line
_LEFT, _BOTTOM = 48.0, 190.0
_LEGEND = 18.0

Point = tuple[int, float]  # the iteration or the number of queries, and the metric


def trace_chart(facts: Facts) -> Chart | None:
    """Return the metric against iterations, or against queries if there were some; None if no rule has a loop."""
    if not facts.trace:
        return None
    by_query = facts.n_queries > 0
    along = "queries" if by_query else "iteration"
    looks = [replace(look, metric=facts.metric.own_number(look.metric)) for look in facts.trace]
    lines: dict[str, list[Point]] = {}
    for look in looks:
        lines.setdefault(look.rule, []).append((look.position(by_query=by_query), look.metric))
    weight = {rule.name: rule.weight for rule in facts.rules}
    shown = sorted(lines, key=lambda name: -weight.get(name, 0.0))[:SHOWN_LINES]
    place, back = _axes([point for name in shown for point in lines[name]], along)
    marks = []
    for k, name in enumerate(shown):
        back += _line(name, [place(point) for point in lines[name]], k)
        marks += [_mark(name, along, point, place(point), k) for point in _some(lines[name])]
    better = "lower" if facts.metric.is_cost else "higher"
    left_out = len(lines) - len(shown)
    return make_chart(
        "trace-chart",
        title=f"{facts.metric.name} against {along}",
        about=f"{facts.metric.name} on the rows of the fit, against {along}; {better} is better.",
        height=_BOTTOM + 36 + _LEGEND * len(shown),
        back=back,
        marks=marks,
        header=("rule", "iteration", "metric", "step", "queries"),
        rows=map(_table_row, looks),
        note=f"{left_out} more rules are in the table." if left_out else "",
    )


def _axes(points: list[Point], along: str) -> tuple[Callable[[Point], tuple[float, float]], list[str]]:
    """Return the map from points to places in the chart, and the drawing of the axes."""
    last = max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    spare = 0.05 * (high - low) or 0.05
    across = linear(0, last, start=_LEFT + 6, stop=WIDTH - 12.0)
    up = linear(low - spare, high + spare, start=_BOTTOM, stop=TOP)
    drawn = []
    values = ticks(low - spare, high + spare, wanted=4)
    for value in values:
        y = up(value)
        drawn.append(tag("line", x1=_LEFT, x2=WIDTH - 4, y1=y, y2=y, _class="grid"))
        drawn.append(text_at(_LEFT - 5, y + 4, tick_label(value, values), _class="tick", text_anchor="end"))
    drawn += [
        text_at(across(value), _BOTTOM + 14, f"{value:,.0f}", _class="tick", text_anchor="middle")
        for value in ticks(0, last, wanted=5)
        if float(value).is_integer()
    ]
    drawn.append(text_at((_LEFT + WIDTH) / 2, _BOTTOM + 29, along, _class="axis", text_anchor="middle"))
    return lambda point: (across(point[0]), up(point[1])), drawn


def _line(name: str, places: list[tuple[float, float]], k: int) -> list[str]:
    """Return the line of a rule, and its entry in the legend."""
    y = _BOTTOM + 47 + _LEGEND * k
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    sample = f"{_LEFT:.0f},{y - 4:.0f} {_LEFT + 28:.0f},{y - 4:.0f}"
    return [
        tag("polyline", points=path, _class=f"line l{k}"),
        tag("polyline", points=sample, _class=f"line l{k}"),
        text_at(_LEFT + 34, y, fitting(name, WIDTH - _LEFT - 38), _class="label"),
    ]


def _some(points: list[Point]) -> list[Point]:
    """Return the points that get a mark, always including the last one."""
    every = math.ceil(len(points) / SHOWN_POINTS)
    return points[::every] if (len(points) - 1) % every == 0 else [*points[::every], points[-1]]


def _mark(name: str, along: str, point: Point, place: tuple[float, float], k: int) -> str:
    """Return the mark of a point."""
    x, y = place
    return tag(
        "g",
        tag("circle", cx=x, cy=y, r=9, _class="hit"),
        tag("circle", cx=x, cy=y, r=3, _class=f"point l{k}"),
        data_tip=f"{name}, {along} {point[0]:,}: {number(point[1])}",
        _class="mark",
    )


def _table_row(look: Look) -> tuple[str, ...]:
    """Return one iteration as a row of the table."""
    step = "" if look.step is None else f"{look.step:.3g}"
    return look.rule, str(look.iteration), number(look.metric), step, f"{look.queries:,}"

"""Charts of scores: before and after, every rule of the menu beside the result, and the iterations of the rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from postshift.estimators.records import HistoryRecord
from postshift.report.facts import Facts
from postshift.report.formats import NO_BREAK, interval, number, percent
from postshift.report.svg import (
    TOP,
    WIDTH,
    Chart,
    Lines,
    Scale,
    fitting,
    linear,
    make_chart,
    room,
    tag,
    text_at,
    tick_label,
    ticks,
    vertical_grid,
)

SHOWN_RULES = 30
_BESIDE = 80.0  # names up to this width are beside their marks, wider ones above
_SIZE = 4.5  # of a mark
SHOWN_LINES = 6  # rules whose iterations are drawn
SHOWN_POINTS = 40  # marks on one line
_LEFT, _BOTTOM = 48.0, 190.0  # where the iterations are drawn
_LEGEND = 18.0

Point = tuple[int, float]  # the iteration or the number of queries, and the metric


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A line of the chart: a value, and its interval if there is one; ``look`` is the CSS class of the mark."""

    label: str
    value: float
    tip: str
    look: str
    limits: tuple[float, float] | None = None


# -- before and after, and the rules ---------------------------------------------------------------------------


def verdict_chart(facts: Facts) -> Chart:
    """Return the scores before and after, with their intervals."""
    scores = facts.scored
    names = ("before", "after") if facts.constraints is None else ("without constraints", "with constraints")
    dots = [
        _score(facts, names[0], scores.before, scores.before_interval, "base"),
        _score(facts, names[1], scores.after, scores.after_interval, "ours"),
    ]
    lines = "" if scores.after_interval is None else f"Lines are 95{NO_BREAK}% intervals. "
    return _dots(
        "scores",
        dots,
        title="Before and after",
        about=f"{facts.metric.name} before and after. {lines}{_better(facts)}",
        header=("when", "score", f"95{NO_BREAK}% interval"),
        rows=((d.label, number(d.value), "not known" if d.limits is None else interval(d.limits)) for d in dots),
    )


def rules_chart(facts: Facts) -> Chart:
    """Return the scores of the result and of every rule of the menu, best first."""
    metric, verdict, base = facts.metric, facts.verdict, facts.rules[0]
    order = sorted(facts.rules, key=lambda rule: -rule.score)
    dots = [_score(facts, "the result", verdict.after, verdict.after_interval, "ours")]
    rows = [("the result", number(metric.own_number(verdict.after)), "")]
    for rule in order:
        value, weight = metric.own_number(rule.score), percent(rule.weight)
        tip = f"{rule.name}: {number(value)}, weight {weight}"
        dots.append(Dot(label=rule.name, value=value, tip=tip, look="base" if rule is base else "rule"))
        rows.append((rule.name, number(value), weight))
    left_out = len(order) - SHOWN_RULES
    return _dots(
        "rules",
        dots[: 1 + SHOWN_RULES],
        title="Scores of the rules",
        about=f"{metric.name} of the result and of every rule of the menu. {_better(facts)}",
        header=("rule", "score", "weight in the result"),
        rows=rows,
        note=f"{left_out} more rules are in the table." if left_out > 0 else "",
    )


def _better(facts: Facts) -> str:
    """Say in which direction scores are better."""
    return f"Further {'left' if facts.metric.is_cost else 'right'} is better."


def _score(facts: Facts, label: str, score: float, limits: tuple[float, float] | None, look: str) -> Dot:
    """Return a score with its interval as the user knows them."""
    value, own = facts.metric.own_number(score), None if limits is None else facts.metric.own_interval(limits)
    within = "" if own is None else f", 95{NO_BREAK}% interval {interval(own)}"
    return Dot(label=label, value=value, tip=f"{label}: {number(value)}{within}", look=look, limits=own)


def _dots(key: str, dots: Sequence[Dot], **texts: Any) -> Chart:
    """Return one line for each dot, with the values on the right."""
    lines = Lines(names=tuple(dot.label for dot in dots), beside=_BESIDE)
    values = [value for dot in dots for value in (dot.value, *(dot.limits or ()))]
    low, high = min(values), max(values)
    spare = 0.06 * (high - low) or 0.5
    right = WIDTH - 10 - room(number(dot.value) for dot in dots)
    place = linear(low - spare, high + spare, start=lines.left, stop=right)
    back = vertical_grid(lines, place, (low - spare, high + spare), wanted=3) + lines.drawn()
    marks = [_mark(dot, place, lines, line) for line, dot in enumerate(dots)]
    return make_chart(key, height=lines.bottom + 20, back=back, marks=marks, **texts)


def _mark(dot: Dot, place: Scale, lines: Lines, line: int) -> str:
    """Return a dot with its interval and its value; the result is a diamond."""
    x, y = place(dot.value), lines.middle(line)
    parts = [lines.hit(line)]
    if dot.limits is not None:
        low, high = (place(each) for each in dot.limits)
        parts.append(tag("line", x1=low, x2=high, y1=y, y2=y, _class=f"whisker {dot.look}"))
    if dot.look == "ours":
        size, turned = 2 * _SIZE, f"rotate(45 {x:.1f} {y:.1f})"
        parts.append(
            tag("rect", x=x - _SIZE, y=y - _SIZE, width=size, height=size, transform=turned, _class="dot ours")
        )
    else:
        parts.append(tag("circle", cx=x, cy=y, r=_SIZE, _class=f"dot {dot.look}"))
    parts.append(text_at(WIDTH - 2, y + 4, number(dot.value), _class="value", text_anchor="end"))
    return tag("g", *parts, data_tip=dot.tip, _class="mark")


# -- the iterations --------------------------------------------------------------------------------------------


def trace_chart(facts: Facts) -> Chart | None:
    """Return the metric against iterations, or against queries if there were some; None if no rule has a loop."""
    if not facts.trace:
        return None
    by_query = facts.n_queries > 0
    along = "queries" if by_query else "iteration"
    looks = [replace(look, metric=facts.metric.own_number(look.metric)) for look in facts.trace]
    lines: dict[str, list[Point]] = {}
    for look in looks:
        lines.setdefault(look.rule, []).append((look.queries if by_query else look.iteration, look.metric))
    weight = {rule.name: rule.weight for rule in facts.rules}
    shown = sorted(lines, key=lambda name: -weight.get(name, 0.0))[:SHOWN_LINES]
    place, back = _axes([point for name in shown for point in lines[name]], along)
    marks = []
    for k, name in enumerate(shown):
        back += _line(name, [place(point) for point in lines[name]], k)
        marks += [_point(name, along, point, place(point), k) for point in _some(lines[name])]
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


def _point(name: str, along: str, point: Point, place: tuple[float, float], k: int) -> str:
    """Return the mark of a point."""
    x, y = place
    return tag(
        "g",
        tag("circle", cx=x, cy=y, r=9, _class="hit"),
        tag("circle", cx=x, cy=y, r=3, _class=f"point l{k}"),
        data_tip=f"{name}, {along} {point[0]:,}: {number(point[1])}",
        _class="mark",
    )


def _table_row(look: HistoryRecord) -> tuple[str, ...]:
    """Return one iteration as a row of the table."""
    step = "" if look.step is None else f"{look.step:.3g}"
    return look.rule, str(look.iteration), number(look.metric), step, f"{look.queries:,}"

"""The chart of the trace: the metric at every iteration of the rules."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from postshift.report.facts import Facts, Look
from postshift.report.formats import number
from postshift.report.svg import TOP, WIDTH, Chart, Scale, fitting, linear, make_chart, tag, text_at, tick_label, ticks

SHOWN_LINES = 6
SHOWN_POINTS = 40  # marks on one line
_LEFT, _BOTTOM = 48.0, 190.0
_LEGEND = 18.0


@dataclass(frozen=True, kw_only=True)
class Axes:
    """The axes: ``along`` is the name of the horizontal one, iteration or queries."""

    along: str
    across: Scale
    up: Scale

    def position(self, look: Look) -> int:
        """Return the horizontal position of a look."""
        return look.queries if self.along == "queries" else look.iteration

    def place(self, look: Look) -> tuple[float, float]:
        """Return the coordinates of a look in the chart."""
        return self.across(self.position(look)), self.up(look.metric)


def trace_chart(facts: Facts) -> Chart | None:
    """Return the metric against iterations, or against queries if there were some; None if no rule loops."""
    if not facts.trace:
        return None
    looks = [replace(look, metric=facts.metric.own_number(look.metric)) for look in facts.trace]
    lines: dict[str, list[Look]] = {}
    for look in looks:
        lines.setdefault(look.rule, []).append(look)
    weight = {rule.name: rule.weight for rule in facts.rules}
    shown = sorted(lines, key=lambda name: -weight.get(name, 0.0))[:SHOWN_LINES]
    axes, back = _axes([look for name in shown for look in lines[name]], by_query=facts.n_queries > 0)
    marks = []
    for place, name in enumerate(shown):
        back += _line(axes, name, lines[name], place)
        marks += _points(axes, name, lines[name], place)
    better = "lower" if facts.metric.is_cost else "higher"
    about = f"{facts.metric.name} on the rows of the fit, against {axes.along}; {better} is better."
    left_out = len(lines) - len(shown)
    return make_chart(
        "trace-chart",
        title=f"{facts.metric.name} against {axes.along}",
        about=about,
        height=_BOTTOM + 36 + _LEGEND * len(shown),
        back=back,
        marks=marks,
        header=("rule", "iteration", "metric", "step", "queries"),
        rows=map(_table_row, looks),
        note=f"{left_out} more rules are in the table." if left_out else "",
    )


def _axes(looks: list[Look], *, by_query: bool) -> tuple[Axes, list[str]]:
    """Return the axes of some looks, and their drawing."""
    along = "queries" if by_query else "iteration"
    last = max(look.queries if by_query else look.iteration for look in looks)
    low, high = min(look.metric for look in looks), max(look.metric for look in looks)
    spare = 0.05 * (high - low) or 0.05
    axes = Axes(
        along=along,
        across=linear(0, last, start=_LEFT + 6, stop=WIDTH - 12.0),
        up=linear(low - spare, high + spare, start=_BOTTOM, stop=TOP),
    )
    drawn = []
    values = ticks(low - spare, high + spare, wanted=4)
    for value in values:
        y = axes.up(value)
        drawn.append(tag("line", x1=_LEFT, x2=WIDTH - 4, y1=y, y2=y, _class="grid"))
        drawn.append(text_at(_LEFT - 5, y + 4, tick_label(value, values), _class="tick", text_anchor="end"))
    drawn += [
        text_at(axes.across(value), _BOTTOM + 14, f"{value:,.0f}", _class="tick", text_anchor="middle")
        for value in ticks(0, last, wanted=5)
        if float(value).is_integer()
    ]
    drawn.append(text_at((_LEFT + WIDTH) / 2, _BOTTOM + 29, along, _class="axis", text_anchor="middle"))
    return axes, drawn


def _line(axes: Axes, name: str, looks: list[Look], place: int) -> list[str]:
    """Return the line of a rule, and its entry in the legend."""
    y = _BOTTOM + 47 + _LEGEND * place
    path = " ".join("{:.1f},{:.1f}".format(*axes.place(look)) for look in looks)
    sample = f"{_LEFT:.0f},{y - 4:.0f} {_LEFT + 28:.0f},{y - 4:.0f}"
    return [
        tag("polyline", points=path, _class=f"line l{place}"),
        tag("polyline", points=sample, _class=f"line l{place}"),
        text_at(_LEFT + 34, y, fitting(name, WIDTH - _LEFT - 38), _class="label"),
    ]


def _points(axes: Axes, name: str, looks: list[Look], place: int) -> list[str]:
    """Return marks of some looks, always including the last one."""
    every = math.ceil(len(looks) / SHOWN_POINTS)
    found = []
    for look in dict.fromkeys((*looks[::every], looks[-1])):
        x, y = axes.place(look)
        tip = f"{name}, {axes.along} {axes.position(look):,}: {number(look.metric)}"
        hit = tag("circle", cx=x, cy=y, r=9, _class="hit")
        found.append(
            tag("g", hit, tag("circle", cx=x, cy=y, r=3, _class=f"point l{place}"), data_tip=tip, _class="mark")
        )
    return found


def _table_row(look: Look) -> tuple[str, ...]:
    """Return a look as a row of the table."""
    step = "" if look.step is None else f"{look.step:.3g}"
    return look.rule, str(look.iteration), number(look.metric), step, f"{look.queries:,}"

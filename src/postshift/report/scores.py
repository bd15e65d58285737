"""Charts of scores: before and after, and the rivals beside the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from postshift.report.facts import Facts
from postshift.report.svg import WIDTH, Chart, Lines, Scale, Table, drawing, linear, room, tag, vertical_grid, words
from postshift.report.text import NO_BREAK, interval, number, percent
from postshift.report.words import own_interval, own_number

SHOWN_RIVALS = 30
_BESIDE = 80.0  # width of a label that may stand beside the dots; wider ones stand above
_SIZE = 4.5  # of a mark


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A line of the chart: a value, perhaps with an interval; ``look`` is the class of the mark."""

    label: str
    value: float
    tip: str
    look: str
    limits: tuple[float, float] | None = None

    @property
    def reach(self) -> tuple[float, ...]:
        """All that must be in sight."""
        return (self.value, *(self.limits or ()))


def verdict_chart(facts: Facts) -> Chart:
    """Return the scores before and after, with their intervals."""
    shown = facts.scored
    dots = [
        _score(facts, "before", shown.before, shown.before_interval, "base"),
        _score(facts, "after", shown.after, shown.after_interval, "ours"),
    ]
    about = f"{facts.metric.name} before and after; lines are intervals of 95{NO_BREAK}%. {_better(facts)}"
    rows = tuple((d.label, number(d.value), "not known" if d.limits is None else interval(d.limits)) for d in dots)
    table = Table(caption=about, header=("when", "score", f"95{NO_BREAK}% interval"), rows=rows)
    return _dots("scores", "Before and after", about, dots, table=table)


def rivals_chart(facts: Facts) -> Chart:
    """Return the score of every entry of the menu, the best first, with the result marked."""
    verdict = facts.verdict
    order = sorted(facts.rivals, key=lambda rival: -rival.score)
    dots = [_score(facts, "the result", verdict.after, verdict.after_interval, "ours")]
    for rival in order[:SHOWN_RIVALS]:
        value = own_number(facts, rival.score)
        tip = f"{rival.name}: {number(value)}, weight {percent(rival.weight)}"
        dots.append(Dot(label=rival.name, value=value, tip=tip, look="base" if rival is facts.rivals[0] else "rival"))
    about = f"{facts.metric.name} of the result and of every rule of the menu. {_better(facts)}"
    rows = tuple((r.name, number(own_number(facts, r.score)), percent(r.weight)) for r in order)
    ours = ("the result", number(own_number(facts, verdict.after)), "")
    table = Table(caption=about, header=("rule", "score", "weight in the result"), rows=(ours, *rows))
    chart = _dots("rivals", "Scores of the rivals", about, dots, table=table)
    left_out = len(order) - SHOWN_RIVALS
    return replace(chart, note=f"{left_out} more are in the table." if left_out > 0 else "")


def _better(facts: Facts) -> str:
    """Say where the better scores are."""
    return f"Further {'left' if facts.metric.is_cost else 'right'} is better."


def _score(facts: Facts, label: str, score: float, limits: tuple[float, float] | None, look: str) -> Dot:
    """Return a score with its interval, in the user's own numbers."""
    value, own = own_number(facts, score), None if limits is None else own_interval(facts, limits)
    within = "" if own is None else f", 95{NO_BREAK}% interval {interval(own)}"
    return Dot(label=label, value=value, tip=f"{label}: {number(value)}{within}", look=look, limits=own)


def _dots(key: str, title: str, about: str, dots: Sequence[Dot], *, table: Table) -> Chart:
    """Return one line for each dot, values on the right."""
    lines = Lines(names=tuple(dot.label for dot in dots), beside=_BESIDE)
    low, high = min(min(dot.reach) for dot in dots), max(max(dot.reach) for dot in dots)
    spare = 0.06 * (high - low) or 0.5
    right = WIDTH - 10 - room(number(dot.value) for dot in dots)
    place = linear(low - spare, high + spare, start=lines.left, stop=right)
    back = vertical_grid(lines, place, (low - spare, high + spare), wanted=3) + lines.drawn()
    marks = [_mark(dot, place, lines, line) for line, dot in enumerate(dots)]
    svg = drawing(key, title=title, about=about, height=lines.bottom + 20, back=back, marks=marks)
    return Chart(key=key, title=title, svg=svg, table=table)


def _mark(dot: Dot, place: Scale, lines: Lines, line: int) -> str:
    """Return a dot with its interval and its value; ours is a diamond."""
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
    parts.append(words(number(dot.value), WIDTH - 2, y + 4, _class="value", text_anchor="end"))
    return tag("g", *parts, data_tip=dot.tip, _class="mark")

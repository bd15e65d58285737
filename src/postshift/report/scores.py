"""Charts of scores: before and after, and the rivals beside the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from postshift.report.facts import Facts
from postshift.report.svg import LINE, TOP, WIDTH, Chart, Scale, Table, drawing, linear, room, tag, vertical_grid, words
from postshift.report.text import NO_BREAK, interval, number, percent, short

SHOWN_RIVALS = 30
_LABEL = 40  # letters
_NARROW = 10  # letters that may stand beside the dots; longer labels stand above
_ABOVE = 13.0  # height of a label
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
    verdict = facts.verdict
    dots = [
        _score("before", verdict.before, verdict.before_interval, "base"),
        _score("after", verdict.after, verdict.after_interval, "ours"),
    ]
    about = f"{facts.metric.name} before and after; lines are intervals of 95{NO_BREAK}%. Further right is better."
    rows = tuple((d.label, number(d.value), "not known" if d.limits is None else interval(d.limits)) for d in dots)
    table = Table(caption=about, header=("when", "score", f"95{NO_BREAK}% interval"), rows=rows)
    return _dots("scores", "Before and after", about, dots, table=table)


def rivals_chart(facts: Facts) -> Chart:
    """Return the score of every entry of the menu, the best first, with the result marked."""
    verdict = facts.verdict
    order = sorted(range(len(facts.rivals)), key=lambda k: -facts.rivals[k].score)
    dots = [_score("the result", verdict.after, verdict.after_interval, "ours")]
    for k in order[:SHOWN_RIVALS]:
        rival = facts.rivals[k]
        tip = f"{rival.name}: {number(rival.score)}, weight {percent(rival.weight)}"
        dots.append(Dot(label=rival.name, value=rival.score, tip=tip, look="rival" if k else "base"))
    about = f"{facts.metric.name} of the result and of every rule of the menu. Further right is better."
    rows = tuple((r.name, number(r.score), percent(r.weight)) for r in (facts.rivals[k] for k in order))
    ours = ("the result", number(verdict.after), "")
    table = Table(caption=about, header=("rule", "score", "weight in the result"), rows=(ours, *rows))
    chart = _dots("rivals", "Scores of the rivals", about, dots, table=table)
    left_out = len(order) - SHOWN_RIVALS
    return replace(chart, note=f"{left_out} more are in the table." if left_out > 0 else "")


def _score(label: str, value: float, limits: tuple[float, float] | None, look: str) -> Dot:
    """Return a score with its interval."""
    within = "" if limits is None else f", 95{NO_BREAK}% interval {interval(limits)}"
    return Dot(label=label, value=value, tip=f"{label}: {number(value)}{within}", look=look, limits=limits)


def _dots(key: str, title: str, about: str, dots: Sequence[Dot], *, table: Table) -> Chart:
    """Return one line for each dot, labels on the left, values on the right."""
    labels = [short(dot.label, _LABEL) for dot in dots]
    above = max(map(len, labels)) > _NARROW
    left, right = 10 if above else room(labels) + 10, WIDTH - 10 - room(number(dot.value) for dot in dots)
    low, high = min(min(dot.reach) for dot in dots), max(max(dot.reach) for dot in dots)
    spare = 0.06 * (high - low) or 0.5
    place = linear(low - spare, high + spare, start=left, stop=right)
    height = LINE + _ABOVE if above else LINE
    bottom = TOP + height * len(dots)
    back = vertical_grid(place, (low - spare, high + spare), bottom=bottom, wanted=3)
    marks = []
    for line, (dot, label) in enumerate(zip(dots, labels, strict=True)):
        y = TOP + (line + 1) * height - LINE / 2
        how = {"x": 2, "y": y - 9} if above else {"x": left - 8, "y": y + 4, "text_anchor": "end"}
        back.append(words(label, **how, _class="label"))
        marks.append(_mark(dot, place, y, height=height))
    svg = drawing(key, title=title, about=about, height=bottom + 20, back=back, marks=marks)
    return Chart(key=key, title=title, svg=svg, table=table)


def _mark(dot: Dot, place: Scale, y: float, *, height: float) -> str:
    """Return a dot with its interval and its value; ours is a diamond."""
    x = place(dot.value)
    parts = [tag("rect", x=0, y=y + LINE / 2 - height, width=WIDTH, height=height, _class="hit")]
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

"""Charts of scores: before and after, and every rule of the menu beside the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from postshift.report.facts import Facts
from postshift.report.formats import NO_BREAK, interval, number, percent
from postshift.report.svg import WIDTH, Chart, Lines, Scale, linear, make_chart, room, tag, text_at, vertical_grid

SHOWN_RULES = 30
_BESIDE = 80.0  # names up to this width are beside their marks, wider ones above
_SIZE = 4.5  # of a mark


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A line of the chart: a value, and its interval if there is one; ``look`` is the CSS class of the mark."""

    label: str
    value: float
    tip: str
    look: str
    limits: tuple[float, float] | None = None


def verdict_chart(facts: Facts) -> Chart:
    """Return the scores before and after, with their intervals."""
    scores = facts.scored
    dots = [
        _score(facts, "before", scores.before, scores.before_interval, "base"),
        _score(facts, "after", scores.after, scores.after_interval, "ours"),
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

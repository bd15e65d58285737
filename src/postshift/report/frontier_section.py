"""The section about the frontier: its sentences, its chart, and the texts that the page shows for each point."""

from __future__ import annotations

import json
from typing import Any

from postshift.report.facts import Facts
from postshift.report.formats import amount, number, percent
from postshift.report.frontier_facts import FrontierFacts, PointFacts
from postshift.report.svg import TOP, WIDTH, Chart, Scale, linear, make_chart, tag, text_at, tick_label, ticks

MOST_CLASSES = 20  # of the confusion matrix; with more it is left out
_LEFT, _BOTTOM = 48.0, 190.0
_SENSES = {">=": "at least", "<=": "at most"}


def frontier_sentences(facts: Facts) -> list[str]:
    """Return what the frontier is, and how far its values can be trusted; empty if there is none."""
    found = facts.frontier
    if found is None:
        return []
    metric, points = facts.of_the_fit.metric.name, found.points
    first = f"For each bound, this is the rule with the best {metric} whose {found.constraint} is "
    first += f"{_SENSES[found.sense]} the bound. Bounds from {bound_text(points[0].bound)} to "
    first += f"{bound_text(points[-1].bound)} were tried; the fit asked for {bound_text(points[found.asked].bound)}."
    sentences = [first]
    if found.others:
        sentences.append(f"The other constraints are held: {', '.join(found.others)}.")
    if found.confidence is None:
        sentences.append(
            f"The values are of the {found.n_rows:,} validation rows, which also made the rules, so they are a little "
            "too good. They are no guarantee; a fit with confidence=0.95 gives one."
        )
    else:
        n_certified = sum(bool(point.certified) for point in points)
        sentences.append(
            f"{n_certified} of {len(points)} bounds are certified (filled points): with a probability of at least "
            f"{percent(found.confidence)}, all of them hold together for new rows. The values are of the "
            f"{found.n_rows:,} rows that tested."
        )
    return sentences


def frontier_content(facts: Facts) -> dict[str, Any] | None:
    """Return what the template shows; None if there is no frontier."""
    found = facts.frontier
    if found is None:
        return None
    texts = [point_texts(facts, point) for point in found.points]
    return {
        "about": found,
        "sense": _SENSES[found.sense],
        "metric": facts.of_the_fit.metric.name,
        "sentences": frontier_sentences(facts),
        "chart": frontier_chart(facts, found),
        "has_matrix": len(facts.classes) <= MOST_CLASSES,
        "now": texts[found.asked],
        "points": json.dumps(texts, ensure_ascii=False),
    }


def point_texts(facts: Facts, point: PointFacts) -> dict[str, Any]:
    """Return the texts of one point; ``matrix`` has the rows of the confusion matrix."""
    found, n_classes = facts.frontier, len(facts.classes)
    assert found is not None  # noqa: S101
    counts = {(true, predicted): value for true, predicted, value in point.cells}
    places = range(n_classes if n_classes <= MOST_CLASSES else 0)
    return {
        "bound": bound_text(point.bound),
        "metric": number(facts.of_the_fit.metric.own_number(point.metric)),
        "constraint": number(point.constraint),
        "changed": f"{point.n_changed:,} of {found.n_rows:,}",
        "verdict": verdict_text(point),
        "matrix": [[amount(counts.get((true, predicted), 0.0)) for predicted in places] for true in places],
    }


def verdict_text(point: PointFacts) -> str:
    """Return whether a bound is certified, and how many rows would be needed if it is not."""
    if point.certified is None or point.p_value is None:
        return "not tested"
    p_value = f"p = {point.p_value:.3f}" if point.p_value >= 0.0005 else "p < 0.001"
    if point.certified:
        return f"certified ({p_value})"
    if point.rows_needed is None:
        return f"not certified ({p_value})"
    return f"not certified ({p_value}; about {point.rows_needed:,} rows are needed)"


def bound_text(bound: float) -> str:
    """Return a bound, with up to four decimals."""
    return f"{bound:,.4f}".rstrip("0").rstrip(".")


def frontier_chart(facts: Facts, found: FrontierFacts) -> Chart:
    """Return the metric against the bound, a mark for each point."""
    metric = facts.of_the_fit.metric
    values = [metric.own_number(point.metric) for point in found.points]
    bounds = [point.bound for point in found.points]
    across, up = _scales(bounds, values)
    places = [(across(bound), up(value)) for bound, value in zip(bounds, values, strict=True)]
    texts = [point_texts(facts, point) for point in found.points]
    line = tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places), _class="line l0")
    better = "lower" if metric.is_cost else "higher"
    rows = [(t["bound"], t["metric"], t["constraint"], t["changed"], t["verdict"]) for t in texts]
    return make_chart(
        "frontier-chart",
        title=f"{metric.name} against the bound of {found.constraint}",
        about=f"The best {metric.name} for each bound of {found.constraint} ({found.sense}); {better} is better.",
        height=_BOTTOM + 36,
        back=[*_axes(bounds, values, across, up, name=f"bound of {found.constraint}"), line],
        marks=[_mark(k, point, places[k], texts[k], metric.name) for k, point in enumerate(found.points)],
        header=("bound", metric.name, found.constraint, "changed labels", "certified"),
        rows=rows,
    )


def _scales(bounds: list[float], values: list[float]) -> tuple[Scale, Scale]:
    """Return the maps from bounds and values to places in the chart; strict bounds are on the right."""
    low, high = _around(values)
    across = linear(bounds[0], bounds[-1], start=_LEFT + 10, stop=WIDTH - 14.0)
    return across, linear(low, high, start=_BOTTOM, stop=TOP)


def _around(values: list[float]) -> tuple[float, float]:
    """Return limits with some room around values."""
    spare = 0.05 * (max(values) - min(values)) or 0.05
    return min(values) - spare, max(values) + spare


def _axes(bounds: list[float], values: list[float], across: Scale, up: Scale, *, name: str) -> list[str]:
    """Return the drawing of the axes."""
    drawn = []
    marks = ticks(*_around(values), wanted=4)
    for value in marks:
        drawn.append(tag("line", x1=_LEFT, x2=WIDTH - 4, y1=up(value), y2=up(value), _class="grid"))
        drawn.append(text_at(_LEFT - 5, up(value) + 4, tick_label(value, marks), _class="tick", text_anchor="end"))
    marks = ticks(min(bounds), max(bounds), wanted=5)
    for value in marks:
        label = tick_label(value, marks)
        drawn.append(text_at(across(value), _BOTTOM + 14, label, _class="tick", text_anchor="middle"))
    drawn.append(text_at((_LEFT + WIDTH) / 2, _BOTTOM + 29, name, _class="axis", text_anchor="middle"))
    return drawn


def _mark(place: int, point: PointFacts, at: tuple[float, float], texts: dict[str, Any], metric: str) -> str:
    """Return the mark of a point; it is open if the bound was tested and is not certified."""
    x, y = at
    look = "base" if point.certified is False else "ours"
    verdict = "" if point.certified is None else f"; {texts['verdict']}"
    return tag(
        "g",
        tag("circle", cx=x, cy=y, r=9, _class="hit"),
        tag("circle", cx=x, cy=y, r=4, _class=f"dot {look}"),
        data_tip=f"bound {texts['bound']}: {metric} {texts['metric']}, constraint {texts['constraint']}{verdict}",
        data_point=place,
        _class="mark",
    )

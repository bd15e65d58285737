"""The chart of the trace."""

from __future__ import annotations

from dataclasses import replace

from postshift.report import trace_chart
from postshift.report.facts import Look
from postshift.report.formats import number
from tests.report import cases


def looks(rule, n):
    """Some iterations of a rule."""
    return tuple(Look(rule=rule, iteration=k, metric=k / n, step=None, queries=2 * k) for k in range(n))


def test_without_a_loop_there_is_no_chart():
    assert trace_chart.trace_chart(cases.untouched()) is None


def test_every_iteration_is_in_the_table():
    facts = cases.by_method("paper")
    chart = trace_chart.trace_chart(facts)
    assert [row[2] for row in chart.table.rows] == [number(look.metric) for look in facts.trace]
    assert chart.title == "f1_macro against iteration"
    assert trace_chart.trace_chart(replace(facts, n_queries=9)).title == "f1_macro against queries"


def test_some_rules_and_some_iterations_are_drawn():
    n = 4 * trace_chart.SHOWN_POINTS
    facts = replace(cases.untouched(), trace=tuple(look for k in range(8) for look in looks(f"rule {k}", n)))
    chart = trace_chart.trace_chart(facts)
    assert chart.svg.count("data-tip") == trace_chart.SHOWN_LINES * (trace_chart.SHOWN_POINTS + 1)
    assert chart.note == "2 more rules are in the table."
    assert len(chart.table.rows) == 8 * n

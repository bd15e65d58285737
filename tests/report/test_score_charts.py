"""The charts of scores: before and after, the rules of the menu, and their iterations."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from postshift.estimators import HistoryRecord
from postshift.report import score_charts
from postshift.report.formats import MINUS, number, percent
from postshift.rules.record import Entry
from tests.report import cases
from tests.report.pages import page_of


@pytest.mark.parametrize("name", ["a cost", "a cost of test rows"])
def test_costs_are_positive_everywhere(name):
    facts, page = cases.ALL[name](), page_of(name)
    scored = facts.scored
    own = {key: f"{-getattr(scored, key):.3f}" for key in ("before", "after")}
    assert [e["text"] for e in page.all("dd", _class="value")][:2] == [own["before"], own["after"]]
    for key in ("scores", "rules", "trace-chart"):
        for chart in page.all("svg", id=key):
            shown = [e["text"] for e in page.inside(chart, "text")]
            shown += [e["attrs"]["data-tip"] for e in page.inside(chart, "g") if "data-tip" in e["attrs"]]
            assert shown
            assert not [each for each in shown if MINUS in each or re.search(r"-\d", each)]
        for table in page.all("table", id=f"{key}-table"):
            assert not [e for e in page.inside(table, "td") if MINUS in e["text"]]
    (section,) = page.all("section", id="rules-section")
    assert "You chose 'smoothed plug-in'." in section["text"]
    (verdict,) = page.all("section", id="verdict")
    assert "a minus" not in verdict["text"]
    (rules,) = page.all("table", id="rules-table")
    values = [float(page.inside(row, "td")[0]["text"]) for row in page.inside(rules, "tr")[2:]]
    assert values == sorted(values)  # the cheapest first


def test_scores_and_rules_are_those_of_the_facts():
    facts = cases.digits_auto()
    rows = score_charts.verdict_chart(facts).table.rows
    assert [row[1] for row in rows] == [number(facts.verdict.before), number(facts.verdict.after)]
    first, *rules = score_charts.rules_chart(facts).table.rows
    assert first == ("the result", number(facts.verdict.after), "")
    order = sorted(facts.rules, key=lambda rule: -rule.score)
    assert rules == [(rule.name, number(rule.score), percent(rule.weight)) for rule in order]


def test_more_rules_than_are_drawn():
    many = tuple(Entry(name=f"rule {k}", score=k / 100, weight=0.02) for k in range(50))
    chart = score_charts.rules_chart(replace(cases.digits_auto(), rules=many))
    assert chart.svg.count("data-tip") == 1 + score_charts.SHOWN_RULES
    assert len(chart.table.rows) == 51
    assert chart.note == "20 more rules are in the table."


def looks(rule, n):
    """Some iterations of a rule."""
    return tuple(HistoryRecord(rule=rule, iteration=k, metric=k / n, step=None, queries=2 * k) for k in range(n))


def test_without_a_loop_there_is_no_chart():
    assert score_charts.trace_chart(cases.untouched()) is None


def test_every_iteration_is_in_the_table():
    facts = cases.by_method("paper")
    chart = score_charts.trace_chart(facts)
    assert [row[2] for row in chart.table.rows] == [number(look.metric) for look in facts.trace]
    assert chart.title == "f1_macro against iteration"
    assert score_charts.trace_chart(replace(facts, n_queries=9)).title == "f1_macro against queries"


def test_some_rules_and_some_iterations_are_drawn():
    n = 4 * score_charts.SHOWN_POINTS
    facts = replace(cases.untouched(), trace=tuple(look for k in range(8) for look in looks(f"rule {k}", n)))
    chart = score_charts.trace_chart(facts)
    assert chart.svg.count("data-tip") == score_charts.SHOWN_LINES * (score_charts.SHOWN_POINTS + 1)
    assert chart.note == "2 more rules are in the table."
    assert len(chart.table.rows) == 8 * n

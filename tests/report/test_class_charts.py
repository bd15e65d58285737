"""The charts with one line for each class."""

from __future__ import annotations

import pytest

from postshift.report import class_charts
from postshift.report.formats import factor, percent
from tests.report import cases
from tests.report.pages import page_of, tips_in


@pytest.mark.parametrize("name", ["long names", "two classes, bases", "digits"])
def test_names_of_classes_are_not_cut(name):
    facts, page = cases.ALL[name](), page_of(name)
    whole = {" ".join(each.split()) for each in facts.classes}
    for chart in page.all("svg"):
        if chart["attrs"]["id"].startswith(("weights-", "shares")):
            shown = [e["text"] for e in page.inside(chart, "text") if e["attrs"]["class"] == "label"]
            assert whole <= set(shown)


def test_every_class_has_its_weight_and_its_shares():
    facts, page = cases.digits_auto(), page_of("digits")
    (weights,) = page.all("svg", id="weights-0")
    for tip, name, weight in zip(tips_in(page, weights), facts.classes, facts.weights.by_class, strict=True):
        assert tip.startswith(f"{name}: {factor(weight)}, ")
        assert tip.endswith(
            "unchanged" if factor(weight) == "×1.00" else "up-weighted" if weight > 1 else "down-weighted"
        )
    (shares,) = page.all("svg", id="shares")
    for k, tip in enumerate(tips_in(page, shares)):
        assert f"training labels {percent(facts.shares.training[k])}" in tip
        assert tip.endswith(f"predicted after {percent(facts.shares.after[k])}")


def test_the_classes_with_the_largest_weights_are_drawn():
    facts, page = cases.many_classes(), page_of("120 classes")
    (chart,) = page.all("svg", id="weights-0")
    assert len(tips_in(page, chart)) == class_charts.SHOWN_CLASSES
    (table,) = page.all("table", id="weights-0-table")
    assert len(page.inside(table, "tr")) == 1 + len(facts.classes)
    notes = {e["text"] for e in page.all("p", _class="note")}
    assert "The 20 largest and smallest weights of 120." in notes
    assert "The 20 classes of 120 whose shares change most." in notes

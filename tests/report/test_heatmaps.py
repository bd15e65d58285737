"""The heat maps: confusion matrices, their difference, and the changes of labels."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.report import heatmaps
from postshift.report.counts import matrices
from tests.report import cases
from tests.report.pages import page_of


@pytest.mark.parametrize("name", ["long names", "two classes, bases", "digits"])
def test_names_of_classes_are_not_cut_if_there_is_space(name):
    facts, page = cases.ALL[name](), page_of(name)
    whole = {" ".join(each.split()) for each in facts.classes}
    for chart in page.all("svg"):
        if chart["attrs"]["id"].startswith("confusion-"):
            upright = [e["text"] for e in page.inside(chart, "text") if "transform" in e["attrs"]]
            beside = [e["text"] for e in page.inside(chart, "text") if e["attrs"].get("text-anchor") == "end"]
            assert whole <= {*upright, *beside}  # there is space above
            assert len(set(beside)) == len(beside)  # names that are cut stay different
            assert len(whole) > 3 or whole <= set(beside)


@pytest.mark.parametrize("name", ["digits", "test rows", "weighted", "over groups"])
def test_colours_of_the_difference_say_better_and_worse(name):
    facts, page = cases.ALL[name](), page_of(name)
    before, after = matrices(facts.confusion.cells, n_classes=len(facts.classes))
    change = after - before
    (chart,) = page.all("svg", id="confusion-change")
    cells = [e for e in page.inside(chart, "g") if "data-tip" in e["attrs"]]
    for cell, (i, j) in zip(cells, np.ndindex(change.shape), strict=True):
        looks = {e["attrs"]["class"] for e in page.inside(cell, "rect")} & {"more", "fewer"}
        better = (change[i, j] > 0) == (i == j)
        assert looks == (set() if change[i, j] == 0 else {"more" if better else "fewer"})
        assert change[i, j] == 0 or cell["attrs"]["data-tip"].endswith("better" if better else "worse")


def test_of_many_classes_those_that_change_most_are_shown():
    facts, page = cases.many_classes(), page_of("120 classes")
    assert len(page.elements) < 12_000
    (chart,) = page.all("svg", id="confusion-change")
    cells = [e for e in page.inside(chart, "g") if "data-tip" in e["attrs"]]
    assert len(cells) == heatmaps.SHOWN_CLASSES**2
    assert any(e["text"] == "The 12 classes of 120 that change most." for e in page.all("p"))
    before, after = matrices(facts.confusion.cells, n_classes=120)
    moved = np.abs(after - before).sum(axis=0) + np.abs(after - before).sum(axis=1)
    shown = heatmaps.most_changed(before, after)
    assert moved[shown].min() >= np.delete(moved, shown).max()


def test_a_page_without_labels_shows_which_labels_change():
    page = page_of("by queries")
    assert not page.all("svg", id="confusion-before")
    assert page.all("svg", id="label-changes")
    pairs = {(p.before, p.after): p.n_rows for p in cases.queried_facts().changes.pairs}
    (table,) = page.all("table", id="label-changes-table")
    shown = [[int(e["text"]) for e in page.inside(row, "td")] for row in page.inside(table, "tr")[1:]]
    assert {(i, j): n for i, row in enumerate(shown) for j, n in enumerate(row) if n} == pairs
    assert "truth" not in {e["text"] for e in page.all("th")}

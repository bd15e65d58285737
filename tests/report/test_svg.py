"""SVG: texts are escaped, names stay off the grid, and ticks are round numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift.report import svg
from tests.report.pages import CASES, Page, page_of


@given(st.text(min_size=1))
def test_attributes_and_texts_are_escaped(text):
    drawn = Page(svg.tag("g", svg.text_at(1, 2, text), data_tip=text))
    assert [e["tag"] for e in drawn.elements] == ["g", "text"]
    kept = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    assert drawn.elements[0]["attrs"]["data-tip"].replace("\x00", "") in (kept, text.replace("\x00", ""))


def box_of(text):
    """Left, right, top and bottom of a text that is not turned, about."""
    attrs = text["attrs"]
    x, y, width = float(attrs["x"]), float(attrs["y"]), 6.0 * len(text["text"])
    left = {"end": x - width, "middle": x - width / 2}.get(attrs.get("text-anchor"), x)
    return left, left + width, y - 9, y + 3


@CASES
def test_no_name_is_on_a_grid_line(name):
    page = page_of(name)
    for chart in page.all("svg"):
        lines = [e["attrs"] for e in page.inside(chart, "line") if e["attrs"]["class"] in ("grid", "one")]
        upright = [{key: float(line[key]) for key in ("x1", "y1", "y2")} for line in lines if line["x1"] == line["x2"]]
        names = [e for e in page.inside(chart, "text") if e["attrs"]["class"] == "label"]
        for text in names:
            left, right, top, bottom = box_of(text)
            crossed = [e for e in upright if left < e["x1"] < right and e["y1"] < bottom and e["y2"] > top]
            assert not crossed, (chart["attrs"]["id"], text["text"])


def test_ticks_are_two_at_least():
    assert svg.ticks(1.0, 400002.0, wanted=2) == [200000, 400000]
    assert svg.ticks(0.213, 0.285, wanted=3) == pytest.approx([0.22, 0.24, 0.26, 0.28])
    assert svg.ticks(2.0, 2.0) == [2.0]


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 6))
def test_ticks_are_within_the_limits_and_different(low, width, wanted):
    high = low + width
    found = svg.ticks(low, high, wanted=wanted)
    assert 2 <= len(found) <= 2 * wanted + 2 or width < 1e-9 * abs(low)
    slack = 1e-6 * (high - low) + 1e-9 * abs(low)
    assert all(low - slack <= each <= high + slack for each in found)
    labels = [svg.tick_label(each, found) for each in found]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(("width", "cut"), [(500, "hypothyroid, compensated under"), (100, "hypothyr…nder"), (1, "…")])
def test_names_are_cut_in_the_middle(width, cut):
    assert svg.fitting("hypothyroid,\ncompensated under", width) == cut

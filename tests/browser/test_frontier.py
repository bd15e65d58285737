"""The frontier of the report in a real browser: its numbers are those of the Python call."""

from __future__ import annotations

import numpy as np
import pytest

import postshift
from postshift.report import write_report
from postshift.report.formats import amount, number
from postshift.report.frontier_section import bound_text
from postshift.report.gather import _BOUNDS
from tests.browser.chromium import complaints_of
from tests.report import cases

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[None, 0.9], ids=["plain", "certified"])
def made(request):
    return cases.with_frontier(request.param)


@pytest.fixture(scope="module")
def frontier(made):
    return postshift.frontier(made.shifter, made.rows.eta_val, made.rows.y_val, bounds=_BOUNDS)


@pytest.fixture
def page(browser, made, tmp_path):
    path = tmp_path / "frontier.html"
    write_report(made.facts, path)
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    complaints = complaints_of(opened)
    opened.goto(path.as_uri())
    yield opened
    opened.close()
    assert complaints == []


def assert_shown(page, frontier, place):
    """The page shows the numbers of a point."""
    point = frontier.points[place]
    section = page.locator("#frontier")
    wanted = {
        "bound": bound_text(point.bound),
        "metric": number(point.metric),
        "constraint": number(point.constraint),
        "changed": f"{point.n_changed:,} of {frontier.n_rows:,}",
    }
    for name, text in wanted.items():
        assert section.locator(f"[data-shows={name}]").text_content() == text
    if frontier.confidence is not None:
        told = section.locator("[data-shows=verdict]").text_content()
        assert told.startswith("certified" if point.certified else "not certified")
    cells = section.locator("#frontier-matrix td").all_text_contents()
    assert cells == [amount(value) for value in np.asarray(point.confusion).ravel()]
    assert page.locator("#frontier-bound").get_attribute("aria-valuetext") == wanted["bound"]
    assert page.locator("#frontier .mark.chosen").get_attribute("data-point") == str(place)


def test_it_begins_at_the_bound_of_the_fit(page, frontier):
    assert_shown(page, frontier, frontier.points.index(frontier.at(0.6)))


def test_the_keyboard_moves_it(page, frontier):
    last = len(frontier.points) - 1
    page.locator("#frontier-bound").focus()
    for key, place in (("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", last)):
        page.keyboard.press(key)
        assert_shown(page, frontier, place)


def test_the_mouse_moves_it(page, frontier):
    slider = page.locator("#frontier-bound")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.click(box["x"] + 2, middle)
    assert_shown(page, frontier, 0)
    page.mouse.move(box["x"] + 8, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, middle, steps=8)
    page.mouse.up()
    assert_shown(page, frontier, len(frontier.points) - 1)


def test_a_click_on_a_point_moves_it(page, frontier):
    for place in (0, 3):
        page.locator(f"#frontier [data-point='{place}']").click(force=True)
        assert_shown(page, frontier, place)
        assert page.locator("#frontier-bound").input_value() == str(place)


def test_a_picture_of_it(page, artefacts, made):
    name = "certified" if made.shifter.confidence else "plain"
    page.locator("#frontier").screenshot(path=artefacts / f"frontier-{name}.png")

"""Every page of the built documentation in a real browser, from the disk; screenshots of a few are left behind."""

from __future__ import annotations

import re

import pytest

from tests.browser.chromium import (
    SCHEMES,
    WIDTHS,
    complaints_of,
    is_dark,
    overflow,
    requests_of,
    serious_violations,
)
from tests.docs.building import pages_of

pytestmark = pytest.mark.slow

FOLDERS = (".", "api", "extend", "guide", "results")
SHOWN = ("index", "situations", "mathematics", "gallery", "api/estimators", "results/bench")


@pytest.fixture
def page(browser, built):
    """A page that fails the test where it complains, or asks for anything outside the folder."""
    context = browser.new_context(reduced_motion="reduce")  # colours change at once
    inside = f"{built.as_uri()}/"
    requests = requests_of(context, allowed=lambda address: address.startswith(inside))
    page = context.new_page()
    complaints = complaints_of(page)
    yield page
    context.close()
    assert complaints == []
    assert requests
    assert [address for address in requests if not address.startswith(inside)] == []


@pytest.fixture
def visits(page, built):
    """Open the pages of some folders one after the other, at a width; their names."""

    def visit(width, folders=FOLDERS):
        page.set_viewport_size({"width": WIDTHS[width], "height": 900})
        for path in pages_of(built):
            name = path.relative_to(built).with_suffix("")
            if name.parent.as_posix() in folders:
                page.goto(path.as_uri())
                yield name.as_posix()

    return visit


def change_scheme(page, scheme):
    """Change the colours as the reader's system does, and wait until the page follows."""
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
    assert is_dark(page) == (scheme == "dark")


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overflows(page, built, visits, artefacts, width):
    wide = {}
    for name in visits(width):
        wide[name] = overflow(page, WIDTHS[width])
        for scheme in SCHEMES if name in SHOWN else ():
            change_scheme(page, scheme)
            page.screenshot(path=artefacts / f"docs-{name.replace('/', '-')}-{width}-{scheme}.png")
    assert len(wide) == len(pages_of(built))
    assert {name: found for name, found in wide.items() if found} == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_axe_finds_nothing_serious(page, visits, folder):
    """All rules in light; in dark the colours; on a phone what scrolls, which must be within reach of the keyboard."""
    found = {}
    for name in visits("desktop", [folder]):
        change_scheme(page, "light")
        found[name] = serious_violations(page)
        change_scheme(page, "dark")
        found[name] += serious_violations(page, runOnly=["color-contrast"])
        page.set_viewport_size({"width": WIDTHS["phone"], "height": 900})
        found[name] += serious_violations(page, runOnly=["scrollable-region-focusable"])
        page.set_viewport_size({"width": WIDTHS["desktop"], "height": 900})
    assert found
    assert {name: bad for name, bad in found.items() if bad} == {}


@pytest.mark.parametrize("words", ["frank wolfe", "g_mean", "PostShiftClassifier"])
@pytest.mark.parametrize(("start", "width"), [("index", "phone"), ("api/metrics", "desktop")])
def test_search_finds(page, built, start, width, words):
    page.set_viewport_size({"width": WIDTHS[width], "height": 900})
    page.goto((built / f"{start}.html").as_uri())
    if width == "phone":
        page.locator("button.search-button__button:visible").click()
    else:
        page.keyboard.press("Control+k")
    page.keyboard.type(words)
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?**")
    page.wait_for_selector("#search-results li a")
    assert overflow(page, WIDTHS[width]) == []
    page.locator("#search-results li a").first.click()
    page.wait_for_url(re.compile(r"/(?!search\.html)[\w-]+\.html"))
    text = page.locator("article").inner_text().lower()
    assert [word for word in words.lower().split() if word not in text] == []

"""The report in a real browser; screenshots and a printed PDF are left among the artefacts."""

from __future__ import annotations

import pytest

from postshift.report import write_report
from tests.browser.chromium import (
    SCHEMES,
    WIDTHS,
    complaints_of,
    is_dark,
    overflow,
    requests_of,
    serious_violations,
)
from tests.report import cases

pytestmark = pytest.mark.slow

REPORTS = {
    "digits": cases.digits_auto,
    "two-classes": cases.two_classes_facts,
    "long-names": cases.long_names,
    "test-rows": lambda: cases.on_test_rows().facts,
    "certified": lambda: cases.with_frontier(0.9).facts,
}
TIP = "#tip:not([hidden])"


@pytest.fixture(scope="module", params=REPORTS)
def report(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / f"{request.param}.html"
    write_report(REPORTS[request.param](), path)
    return path


@pytest.fixture
def opened(browser, report):
    """Open the report; whatever the page asks for besides itself, and whatever it complains of, fails the test."""
    contexts, complaints, requests = [], [], []

    def visit(*, width=1280, height=900, wait="load", **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        complaints.append(complaints_of(page))
        requests.append(requests_of(context, allowed=lambda address: address == report.as_uri()))
        page.goto(report.as_uri(), wait_until=wait)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert [text for each in complaints for text in each] == []
    assert {address for each in requests for address in each} == {report.as_uri()}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overflows(opened, report, artefacts, width, scheme):
    page = opened(width=WIDTHS[width], color_scheme=scheme)
    page.screenshot(path=artefacts / f"{report.stem}-{width}-{scheme}.png", full_page=True)
    assert overflow(page, WIDTHS[width]) == []
    for summary in page.locator("summary").all():
        summary.click()
    assert overflow(page, WIDTHS[width]) == []
    assert is_dark(page) == (scheme == "dark")


def test_texts_of_charts_can_be_read_on_a_phone(opened):
    page = opened(width=360)
    sizes = page.evaluate(
        """() => [...document.querySelectorAll("svg text")].map(e => {
            const chart = e.ownerSVGElement;
            const scale = chart.getBoundingClientRect().width / chart.viewBox.baseVal.width;
            return scale * parseFloat(getComputedStyle(e).fontSize);
        })"""
    )
    assert min(sizes) >= 10


@pytest.mark.parametrize("width", WIDTHS)
def test_texts_stay_in_their_charts(opened, width):
    page = opened(width=WIDTHS[width])
    outside = page.evaluate(
        """() => [...document.querySelectorAll("svg text")].filter(e => {
            const own = e.getBoundingClientRect(), all = e.ownerSVGElement.getBoundingClientRect();
            return own.left < all.left - 2 || own.right > all.right + 2 || own.top < all.top - 2
                || own.bottom > all.bottom + 2;
        }).map(e => e.ownerSVGElement.id + ": " + e.textContent)"""
    )
    assert outside == []


@pytest.mark.parametrize("width", WIDTHS)
def test_no_name_stands_on_a_grid_line(opened, width):
    page = opened(width=WIDTHS[width])
    crossed = page.evaluate(
        """() => [...document.querySelectorAll("svg text.label")].filter(e => {
            const own = e.getBoundingClientRect();
            return [...e.ownerSVGElement.querySelectorAll("line.grid, line.one")].some(each => {
                const line = each.getBoundingClientRect();
                return line.left < own.right - 1 && line.right > own.left + 1 && line.top < own.bottom - 2
                    && line.bottom > own.top + 2;
            });
        }).map(e => e.ownerSVGElement.id + ": " + e.textContent)"""
    )
    assert crossed == []


def test_pairs_of_labels_stay_on_one_line_on_a_phone(browser, tmp_path):
    path = tmp_path / "digits.html"
    write_report(cases.digits_auto(), path)
    page = browser.new_page(viewport={"width": 360, "height": 900})
    page.goto(path.as_uri())
    heights = page.evaluate(
        """() => [...document.querySelectorAll("#pairs-table tbody th")].map(e => {
            const range = document.createRange();
            range.selectNodeContents(e);
            return range.getClientRects().length;
        })"""
    )
    page.close()
    assert heights
    assert set(heights) == {1}


def test_charts_answer_a_hover(opened):
    page = opened()
    for chart in page.locator("svg.chart").all():
        chart.scroll_into_view_if_needed()
        mark = chart.locator("[data-tip]").last
        mark.hover(force=True)
        assert page.locator(TIP).text_content() == mark.get_attribute("data-tip")
        box = page.locator(TIP).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1280
        page.mouse.move(0, 0)
        page.wait_for_selector("#tip", state="hidden")


def test_charts_answer_the_keyboard(opened):
    page = opened()
    for chart in page.locator("svg.chart").all():
        tips = chart.evaluate("e => [...e.querySelectorAll('[data-tip]')].map(each => each.dataset.tip)")
        columns = int(chart.get_attribute("data-columns"))
        assert reached_by_tab(page, chart)
        assert_told(page, tips[0])
        for key, place in (("End", len(tips) - 1), ("Home", 0), ("ArrowRight", 1), ("ArrowLeft", 0), ("ArrowUp", 0)):
            page.keyboard.press(key)
            assert_told(page, tips[place])
        page.keyboard.press("ArrowDown")
        assert_told(page, tips[columns])
        page.keyboard.press("Escape")
        page.wait_for_selector("#tip", state="hidden")


def reached_by_tab(page, chart):
    """Go on with the tab key until the chart has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if chart.evaluate("e => e === document.activeElement"):
            return True
    return False


def assert_told(page, tip):
    """The tip is seen, and read out to those who do not see it."""
    page.wait_for_function(
        "tip => !document.getElementById('tip').hidden && document.getElementById('tip').textContent === tip"
        " && document.getElementById('live').textContent === tip",
        arg=tip,
        timeout=5000,
    )


def test_charts_answer_a_touch(opened):
    page = opened(width=360, has_touch=True, is_mobile=True)
    mark = page.locator("#rules [data-tip]").first
    mark.scroll_into_view_if_needed()
    mark.tap(force=True)
    page.wait_for_selector(TIP)
    assert page.locator(TIP).text_content() == mark.get_attribute("data-tip")
    page.locator("#rules-heading").tap()
    page.wait_for_selector("#tip", state="hidden")


def test_tables_open_and_scroll_inside_their_region(opened):
    page = opened(width=360)
    page.locator("#changed-table").scroll_into_view_if_needed()
    region = page.locator(".scroll:has(#changed-table)")
    assert region.evaluate("e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight")
    region.focus()
    page.keyboard.press("End")
    page.wait_for_function("e => e.scrollTop > 0", arg=region.element_handle())


def test_it_prints(opened, report, artefacts):
    page = opened(color_scheme="dark")
    path = artefacts / f"{report.stem}.pdf"
    page.pdf(path=path, format="A4", print_background=True)
    assert path.read_bytes().startswith(b"%PDF")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert sum(map(int, ink.strip("rgb()").split(","))) < 3 * 64
    assert not page.locator("nav").is_visible()
    assert page.locator("#confusion-change").is_visible()


def test_names_of_classes_run_no_code(browser, tmp_path):
    path = tmp_path / "hostile.html"
    write_report(cases.hostile(), path)
    context = browser.new_context()
    page, dialogs = context.new_page(), []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto(path.as_uri())
    assert page.title() == cases.HOSTILE[0]
    assert page.locator("script").count() == 1
    context.close()
    assert dialogs == []


def test_the_policy_holds(browser, report):
    """Code that is added to the page does not run, and nothing can be sent from it."""
    context = browser.new_context()
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(report.as_uri())
    page.evaluate(
        """() => {
            const code = document.createElement("script");
            code.textContent = "document.title = 'owned'";
            document.body.append(code);
            const image = document.createElement("img");
            image.src = "https://example.invalid/x.png";
            document.body.append(image);
        }"""
    )
    page.wait_for_timeout(200)
    assert page.title() != "owned"
    assert sum("Content Security Policy" in each for each in complaints) == 2
    context.close()


@pytest.mark.parametrize(("width", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_axe_finds_nothing_serious(opened, width, scheme):
    page = opened(width=WIDTHS[width], color_scheme=scheme, bypass_csp=True)
    for summary in page.locator("summary").all():
        summary.click()
    assert serious_violations(page) == []

"""Headless Chromium, driven by Playwright: what all tests of pages need."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from importlib.resources import files

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS = {"phone": 360, "desktop": 1280}
SCHEMES = ("light", "dark")
SCROLLS = ".scroll, .pst-scrollable-table-container, .math-block, pre"  # boxes of the report and of the documentation
WIDE = """scrolls => [...document.querySelectorAll("main *, header *")]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && e.checkVisibility({visibilityProperty: true}))
    .filter(e => !e.parentElement.closest(scrolls) && !e.closest(".hidden, .skip"))
    .map(e => e.outerHTML.slice(0, 120))"""


@contextmanager
def chromium():
    """Start the browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as oracle:
        running = oracle.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        yield running
        running.close()


def complaints_of(page):
    """Return the list that fills with what the page complains of."""
    complaints = []
    page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return complaints


def requests_of(context, *, allowed):
    """Return the list that fills with the addresses that pages ask for; those that are not allowed get no answer."""
    requests = []

    def answer(route):
        requests.append(route.request.url)
        if allowed(route.request.url):
            route.continue_()
        else:
            route.abort()

    context.route("**/*", answer)
    return requests


def overflow(page, width):
    """Return what is wider than the page, but for what scrolls inside a box of its own."""
    whole = page.evaluate("document.documentElement.scrollWidth")
    return page.evaluate(WIDE, SCROLLS) + ([f"the page is {whole} wide"] if whole != width else [])


def is_dark(page):
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, back.strip("rgb()").split(","))) < 3 * 128


def serious_violations(page, **options):
    """Return what axe-core finds serious or critical, by its rules or those that ``runOnly`` names."""
    if not page.evaluate("'axe' in window"):
        page.evaluate((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("options => axe.run(options)", options | {"resultTypes": ["violations"]})
    assert len(found["passes"]) > 20 or "runOnly" in options
    return [
        (rule["id"], rule["impact"], [node["html"][:200] for node in rule["nodes"][:3]])
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
    ]

"""The owner's page in a real browser, from a real server."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.browser.chromium import SCHEMES, WIDTHS, complaints_of, is_dark, overflow, requests_of, serious_violations
from tests.browser.serving import serving
from tests.oracle.ledgers import Clock

pytestmark = pytest.mark.slow

MODES = ("private", "trusted")
LOGGED_OUT = "Failed to load resource"  # what Chromium says of a refused or lost request
HOSTILE = "<img src=x onerror=alert(1)> & </td>" + "w" * 60


@pytest.fixture
def private(tmp_path):
    with serving(tmp_path) as running:
        yield running


@pytest.fixture(params=MODES)
def running(request, tmp_path):
    with serving(tmp_path, mode=request.param) as running:
        yield running


@pytest.fixture
def opens(browser):
    """Open the page; other complaints than of lost requests fail the test, and so does any other address."""
    opened = []

    def visit(running, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        requests = requests_of(context, allowed=lambda address: address.startswith(running.url))
        page = context.new_page()
        opened.append((context, complaints_of(page), requests, running))
        page.goto(running.url)
        return page

    yield visit
    for context, complaints, requests, running in opened:
        context.close()
        assert [text for text in complaints if LOGGED_OUT not in text] == []
        assert [address for address in requests if not address.startswith(running.url)] == []
        assert [address for address in requests if "ps" + "o_" in address] == []


def log_in(page, secret):
    page.get_by_label("The owner’s token").fill(secret)
    page.keyboard.press("Enter")


def watch(opens, running, **options):
    """Open the page and log in as the owner."""
    page = opens(running, **options)
    log_in(page, running.owner)
    page.locator("#view").wait_for()
    return page


def shown(page, name):
    return page.locator(f"[data-shows={name}]").first.text_content()


def assert_locked_out(page, message):
    page.wait_for_function("message => document.getElementById('refused').textContent.includes(message)", arg=message)
    assert page.locator("#login").is_visible()
    assert not page.locator("#view").is_visible()
    assert set(page.locator("#view [data-shows]:not(th)").all_text_contents()) == {""}
    assert page.locator("#view tbody tr, #chart svg").count() == 0
    assert page.title() == "postshift oracle"
    assert page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]") == [0, 0, ""]


def full(running, pause=lambda: None):
    """Fill the log with answers, and the list of tokens; ``pause`` comes after each answer."""
    soon = datetime.now(UTC) + timedelta(days=30)
    ann = running.token("ann", expires=soon, per_minute=600)[1]
    most = 20_000 if running.service.terms.mode == "private" else 20
    bob = running.token("a team with a rather long name", most=most, expires=soon)[1]
    gone = running.token(HOSTILE)[0]
    running.service.ledger.revoke_token(gone)
    for seed in range(9):
        running.ask(ann if seed % 3 else bob, cost=1 + 2_500 * (running.service.terms.mode == "private"), seed=seed)
        pause()


def test_a_wrong_token_is_locked_out(opens, private):
    page = opens(private)
    log_in(page, private.owner[:-1] + ("A" if private.owner[-1] != "A" else "B"))
    assert_locked_out(page, "not known here")
    log_in(page, "something else, ü")
    assert_locked_out(page, "not known here")
    log_in(page, private.owner)
    page.locator("#view").wait_for()


def test_a_learners_token_is_locked_out(opens, private):
    page = opens(private)
    log_in(page, private.token()[1])
    assert_locked_out(page, "learner’s token")


@pytest.mark.parametrize("reason", ["expired", "revoked"])
def test_a_token_that_ends_is_locked_out(opens, private, reason):
    """It ends while its owner looks at the page."""
    soon = datetime.now(UTC) + timedelta(seconds=4)
    identifier, secret = private.token("deputy", scope="owner", expires=soon if reason == "expired" else None)
    page = opens(private)
    log_in(page, secret)
    page.locator("#view").wait_for()
    if reason == "revoked":
        private.service.ledger.revoke_token(identifier)
    assert_locked_out(page, f"This token {'expired' if reason == 'expired' else 'was revoked'}")


def test_it_shows_what_the_ledger_says(opens, running):
    full(running)
    page = watch(opens, running)
    budget = running.service.budget()
    is_private = running.service.terms.mode == "private"
    for name in ("spent", "left", "total"):
        assert float(shown(page, name)) == pytest.approx(budget[name] / (1e6 if is_private else 1))
        wanted = f"epsilon {budget[f'{name}_epsilon']:.2f}" if is_private else ""
        assert shown(page, f"{name}-too") == wanted
    assert shown(page, "answers") == "9"
    assert page.locator("#bar").evaluate("bar => bar.value / bar.max") == pytest.approx(
        budget["spent"] / budget["total"]
    )
    assert page.locator("h1").text_content() == "Loans of 2024"
    assert shown(page, "metric") == running.service.about["metric_name"]
    assert shown(page, "kinds") == ", ".join(running.service.terms.kinds)
    assert page.locator("#answers tbody tr").count() == 9
    assert page.locator("#chart svg circle").count() == 9
    assert page.locator("#tokens tbody th").last.text_content().startswith(HOSTILE)
    assert "revoked" in page.locator("#tokens tbody tr").last.text_content()


def test_it_says_what_an_attack_can_learn(opens, running):
    page = watch(opens, running)
    text = page.locator("section", has=page.locator("#risk-heading")).text_content()
    if running.service.terms.mode == "private":
        assert f"at most about {100 * running.service.budget()['attack_bound']:.1f} % of cases" in text
    else:
        assert "Exact answers give labels away" in text
    assert "A restored backup forgets charges" in text
    assert "The same rows under another name escape the budget" in text


def test_a_query_arrives_without_a_reload(opens, running):
    page = watch(opens, running)
    assert page.locator("#answers tbody").text_content() == "No query was answered yet."
    page.evaluate("window.mark = 'not reloaded'")
    _, ann = running.token("ann")
    running.ask(ann)
    row = page.locator("#answers tbody tr", has_text="ann")
    row.wait_for()
    kind = "table" if running.service.terms.mode == "private" else "value"
    assert kind in row.text_content()
    assert re.match(r"New answer for ann: \w+ of .*\. Left: ", page.locator("#live").text_content())
    assert page.locator("#live").get_attribute("aria-live") == "polite"
    running.ask(ann)  # again: it is free
    running.ask(ann, seed=1)
    page.wait_for_function("() => document.querySelectorAll('#answers tbody tr').length === 2")
    assert page.evaluate("window.mark") == "not reloaded"
    assert shown(page, "answers") == "2"


def test_answers_beyond_one_summary_arrive(opens, tmp_path):
    with serving(tmp_path, mode="trusted") as running:
        _, ann = running.token("ann")
        for seed in range(60):
            running.ask(ann, seed=seed)
        page = watch(opens, running)
        assert page.locator("#chart svg circle").count() == 60
        assert page.locator("#answers tbody tr").count() == 50


def test_a_reload_keeps_the_log_in_and_logging_out_ends_it(opens, private):
    page = watch(opens, private)
    page.reload()
    page.locator("#view").wait_for()
    page.get_by_role("button", name="Log out").click()
    assert_locked_out(page, "")
    page.reload()
    assert page.locator("#login").is_visible()
    assert not page.locator("#view").is_visible()


def test_it_says_when_the_server_is_stopped(opens, private, artefacts):
    full(private)
    page = watch(opens, private)
    private.stop()
    trouble = page.locator("#trouble", has_text="The server cannot be reached. What you see is from")
    trouble.wait_for()
    assert page.locator("#checked").text_content() == "not connected"
    page.screenshot(path=artefacts / "owner-stopped.png")
    private.start()
    trouble.wait_for(state="hidden")
    page.locator("#checked", has_text="live").wait_for()


def test_a_log_in_without_a_server(opens, private):
    page = opens(private)
    private.stop()
    log_in(page, private.owner)
    page.locator("#trouble", has_text="The server cannot be reached.").wait_for()
    assert not page.locator("#view").is_visible()
    private.start()
    page.locator("#view").wait_for()


def test_the_keyboard_alone_is_enough(opens, private):
    page = opens(private)
    assert page.evaluate("document.activeElement.id") == "token"
    page.keyboard.type(private.owner)
    page.keyboard.press("Enter")
    page.locator("#view").wait_for()
    assert page.evaluate("document.activeElement.id") == "title"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "leave"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "token"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_serious(opens, running, scheme):
    full(running)
    page = opens(running, color_scheme=scheme, reduced_motion="reduce")
    assert is_dark(page) == (scheme == "dark")
    found = serious_violations(page)
    log_in(page, "wrong")
    assert_locked_out(page, "not known here")
    found += serious_violations(page)
    log_in(page, running.owner)
    page.locator("#view").wait_for()
    found += serious_violations(page)
    page.set_viewport_size({"width": 360, "height": 800})
    found += serious_violations(page)
    running.stop()
    page.locator("#trouble").wait_for()
    found += serious_violations(page)
    running.start()
    assert found == []


@pytest.fixture(params=MODES)
def since_yesterday(request, tmp_path):
    """A service that was asked every two hours."""
    clock = Clock()
    clock.now = datetime.now(UTC) - timedelta(hours=20)
    with serving(tmp_path, mode=request.param, clock=clock) as running:
        full(running, pause=lambda: clock.turn(hours=2))
        yield running


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overflows(opens, since_yesterday, artefacts, width, scheme):
    page = opens(since_yesterday, viewport={"width": WIDTHS[width], "height": 900}, color_scheme=scheme)
    name = f"{since_yesterday.service.terms.mode}-{width}-{scheme}"
    assert overflow(page, WIDTHS[width]) == []
    page.screenshot(path=artefacts / f"owner-login-{name}.png")
    log_in(page, since_yesterday.owner)
    page.locator("#chart svg").wait_for()
    page.screenshot(path=artefacts / f"owner-{name}.png", full_page=True)
    assert overflow(page, WIDTHS[width]) == []
    page.set_viewport_size({"width": 320, "height": 900})
    page.wait_for_function("() => document.querySelector('#chart svg').clientWidth <= 300")
    assert overflow(page, 320) == []

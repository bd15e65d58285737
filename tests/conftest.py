"""Settings of the whole suite: property tests draw the same examples every time, and never time out."""

import signal
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings

from tests.docs.building import build

settings.register_profile(
    "postshift", deadline=None, derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("postshift")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background: what is started here would ignore it too
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder with the pages of the documentation, built once."""
    return build(tmp_path_factory.mktemp("docs"))


def pytest_terminal_summary(terminalreporter):
    """Print the figures that tests recorded with ``record_property("figure", text)``."""
    reports = [report for status in ("passed", "failed") for report in terminalreporter.stats.get(status, [])]
    figures = [text for report in reports for name, text in getattr(report, "user_properties", ()) if name == "figure"]
    if figures:
        terminalreporter.section("figures reached")
        for text in figures:
            terminalreporter.write_line(text)

"""The picture of a report for the README: its head, the verdict and both confusion matrices (``make picture``)."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.browser.chromium import WIDTHS, chromium


def take(report: Path, picture: Path) -> None:
    """Store the top of a report, as a desktop shows it, down to the end of the confusion matrices."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": WIDTHS["desktop"], "height": 900}, color_scheme="light")
        page.goto(report.resolve().as_uri())
        end = page.locator("#confusion").bounding_box()
        page.screenshot(
            path=picture,
            full_page=True,
            clip={"x": 0, "y": 0, "width": WIDTHS["desktop"], "height": end["y"] + end["height"]},
        )


if __name__ == "__main__":
    take(*map(Path, sys.argv[1:]))

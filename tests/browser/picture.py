"""The pictures of reports for the documentation (``make picture``).

``report.png`` has the head, the verdict and both confusion matrices of the demo; ``frontier.png`` has the frontier of
the example in ``docs/guide/constraints.md``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from postshift import PostShifter
from postshift.report import Facts, write_report
from tests.browser.chromium import WIDTHS, chromium


def take(demo: Path, folder: Path) -> None:
    """Store the pictures of the demo's report and of a frontier, as a desktop shows them."""
    with chromium() as browser, tempfile.TemporaryDirectory() as made:
        page = browser.new_page(viewport={"width": WIDTHS["desktop"], "height": 900}, color_scheme="light")
        page.goto(demo.resolve().as_uri())
        end = page.locator("#confusion").bounding_box()
        page.screenshot(
            path=folder / "report.png",
            full_page=True,
            clip={"x": 0, "y": 0, "width": WIDTHS["desktop"], "height": end["y"] + end["height"]},
        )
        page.goto(write_frontier(Path(made) / "frontier.html").as_uri())
        page.locator("#frontier").screenshot(path=folder / "frontier.png")


def write_frontier(path: Path) -> Path:
    """Write the report of the guide's example, and return its path."""
    rng = np.random.default_rng(0)
    p = rng.beta(1, 3, size=5000)
    y = (rng.random(5000) < p).astype(int)
    eta = np.column_stack([1 - p, p])
    sure = PostShifter("precision", subject_to="recall >= 0.7", confidence=0.95)
    sure.fit(eta[:2000], y[:2000], eta_unlabelled=eta[2000:])
    write_report(Facts.of(sure, eta[:2000], y[:2000]), path)
    return path


if __name__ == "__main__":
    take(*map(Path, sys.argv[1:]))

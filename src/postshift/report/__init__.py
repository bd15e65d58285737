"""The report of a fit: facts, one self-contained HTML page, and figures for notebooks.

jinja2 and matplotlib are imported only when a page or a figure is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postshift.report.facts import Facts
from postshift.report.page import render, write_report

if TYPE_CHECKING:
    from postshift.report.displays import ConfusionChangeDisplay, FrontierDisplay, HistoryDisplay, WeightsDisplay

__all__ = [
    "ConfusionChangeDisplay",
    "Facts",
    "FrontierDisplay",
    "HistoryDisplay",
    "WeightsDisplay",
    "render",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import the displays when they are first used."""
    if name not in ("ConfusionChangeDisplay", "FrontierDisplay", "HistoryDisplay", "WeightsDisplay"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from postshift.report import displays

    return getattr(displays, name)

"""Where results go, what they were made with, and texts written in one piece."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from postshift.core.archive import write_atomically

OUT = Path(__file__).parents[2] / "docs" / "results"


def versions(*more: str) -> str:
    """Return the versions of what results are made with now; of ``more``, those that are installed."""
    names = ("postshift", "numpy", "scipy", "scikit-learn", *filter(_is_installed, more))
    return ", ".join([*(f"{name} {version(name)}" for name in names), f"Python {platform.python_version()}"])


def _is_installed(name: str) -> bool:
    """Return whether a package is installed."""
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def write_text(path: Path, text: str) -> None:
    """Write a text; an interrupted write leaves what was there."""
    write_atomically(path, lambda stream: stream.write(text.encode()))

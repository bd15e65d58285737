"""One way to build the pages, for all tests of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(folder):
    """Build the pages below a folder, where a warning is an error; return where they are."""
    for package in ("sphinx", "myst_parser", "pydata_sphinx_theme"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install '.[docs]'")
    options = ["-b", "html", "-q", "-E", "-W", "--keep-going", "-d", str(folder / "trees")]
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def pages_of(built):
    """Return the paths of the pages."""
    return [path for path in sorted(built.rglob("*.html")) if "_static" not in path.relative_to(built).parts]

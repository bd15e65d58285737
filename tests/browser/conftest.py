"""The browser, and the folder for screenshots: the one that POSTSHIFT_ARTEFACTS names, by default pytest's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser.chromium import PROGRAM, chromium


@pytest.fixture(scope="module")
def browser():
    for package in ("playwright.sync_api", "axe_core_python"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install '.[browser]'")
    if PROGRAM is None:
        pytest.skip("needs the program chromium")
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory):
    named = os.environ.get("POSTSHIFT_ARTEFACTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("artefacts")
    folder.mkdir(parents=True, exist_ok=True)
    return folder

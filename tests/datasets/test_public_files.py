"""The table of public files."""

from __future__ import annotations

import re
from pathlib import Path

from postshift.datasets._public_files import ADIENCE, SOURCES

DOCS = Path(__file__).parents[2] / "docs" / "datasets.md"


def test_what_is_downloaded_has_a_checksum() -> None:
    for source in SOURCES:
        if source is not ADIENCE:
            assert source.url.startswith("https://")
            assert re.fullmatch(r"[0-9a-f]{64}", source.sha256)


def test_the_page_on_data_sets_has_every_source() -> None:
    page = DOCS.read_text()
    for source in SOURCES:
        for fact in (source.page, source.url, source.sha256, source.licence, f"{source.folder}/"):
            assert fact in page, fact

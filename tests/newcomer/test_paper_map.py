"""docs/paper_map.md is true: its names exist, and the equations that the core's docstrings cite are on it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs" / "paper_map.md").read_text()
CITED = re.compile(r"Eq\. \(\d+\)|Algorithm \d\*?|Appendix [A-H]")


def resolve(name):
    """Import the longest module prefix, then take attributes."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`((?:postshift|experiments)\.[\w.]+)`", MAP))))
def test_every_name_exists(name):
    assert resolve(name) is not None


def test_every_cited_equation_is_on_the_map():
    cited = set()
    for file in (ROOT / "src" / "postshift").rglob("*.py"):
        cited |= set(CITED.findall(file.read_text()))
    assert len(cited) > 8
    assert cited <= set(CITED.findall(MAP))


def test_deviations_name_files_that_exist():
    text = (ROOT / "docs" / "deviations.md").read_text()
    for name in re.findall(r"`((?:docs|tests|experiments)/[\w./]+)`", text):
        assert (ROOT / name).exists(), name

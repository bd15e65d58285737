"""docs/paper_map.md is true: no number of the paper is missing, and what it names exists."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from experiments.registry import EXPERIMENTS

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


def has(tree, name):
    """Whether a parsed file defines a function of that name, without importing it (it may need torch)."""
    return any(getattr(node, "name", None) == name for node in tree.body)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(postshift\.[\w.]+)`", MAP))))
def test_every_name_exists(name):
    assert resolve(name) is not None


def test_every_experiment_exists():
    named = set(re.findall(r"`(experiments\.[\w.]+)`", MAP))
    of_the_paper = {module for module in EXPERIMENTS.values() if ".paper." in module or "adience" in module}
    assert of_the_paper <= named
    assert all((ROOT / f"{name.replace('.', '/')}.py").exists() for name in named)


def test_every_test_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", MAP)
    assert len(named) > 20
    for file, function in named:
        tree = ast.parse((ROOT / file).read_text())
        assert not function or has(tree, function), f"{file}::{function}"


def test_every_number_of_the_paper_is_on_the_map():
    first_cells = [line.split("|")[1] for line in MAP.splitlines() if line.startswith("| ")]
    numbers = []
    for cell in first_cells:
        found = [int(number) for number in re.findall(r"Eq\. \((\d+)\)", cell) if "after" not in cell]
        numbers += range(found[0], found[-1] + 1) if found else []
    assert numbers == list(range(1, 29))
    text = " ".join(first_cells)
    for name in [*(f"Table {k}" for k in range(1, 8)), *(f"Figure 2{k}" for k in "abcd")]:
        assert name in text, name
    for name in [*(f"Appendix {k}" for k in "ABCDEFGH"), *(f"Algorithm {k}" for k in ("1", "2", "3", "3*"))]:
        assert name in text, name


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


def test_the_architecture_page_names_files_and_functions_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"\| `(\w+/[\w/]+\.py)`(?::[^|`]*`(\w+)[.`])?", page)  # the first name after the file
    assert len(rows) >= 12
    for file, name in rows:
        source = (ROOT / "src" / "postshift" / file).read_text()
        assert not name or re.search(rf"\b{name}\b", source), (file, name)

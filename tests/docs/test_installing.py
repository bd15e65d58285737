"""How to install: the project is on no index, so every page and message names a clone, and extras that there are."""

import re
import tomllib
from pathlib import Path

import pytest

from postshift._installing import needed
from postshift.exceptions import ExportError

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "docs", "examples", "experiments", "src", "tests")
SUFFIXES = (".py", ".md", ".toml", ".txt", ".html", ".jinja")


def pages():
    """Every file in which somebody reads how to install something."""
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.suffix in SUFFIXES)
    for folder in FOLDERS:
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES)


def test_nobody_is_sent_to_an_index_for_postshift():
    wrong = re.compile(r"pip install\s+(-\S+\s+)*['\"]?postshift\b|postshift\[[a-z]")
    found = [f"{path.relative_to(ROOT)}: {hit[0]}" for path in pages() for hit in wrong.finditer(path.read_text())]
    assert found == []


def test_every_extra_that_a_page_names_is_there():
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    named = re.compile(r"pip install (?:-e )?'\.\[([a-z,]+)\]'|\binstall\(([\"'][a-z\"', ]+[\"'])\)")
    found = {
        extra
        for path in pages()
        for hit in named.finditer(path.read_text())
        for extra in re.findall(r"[a-z]+", hit[1] or hit[2])
    }
    assert {"cli", "report", "export", "deep", "dask", "fast", "data"} <= found  # both ways to name them are seen
    assert found <= extras


def test_a_package_that_is_missing_is_named_with_the_command():
    assert needed("json").__name__ == "json"
    with pytest.raises(ExportError, match=re.escape("'no_such_package': pip install '.[export]' in a clone")):
        needed("no_such_package.inside")

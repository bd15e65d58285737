"""The oldest versions of packages are written in pyproject.toml only, and tested by ``make minimum-test``."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.packaging.minimum_versions import EXTRAS, PROJECT, declared, oldest

ROOT = Path(__file__).parents[2]


def test_every_tested_package_has_one_oldest_version():
    found = declared()
    assert {"numpy", "scipy", "scikit-learn", "numba", "pandas", "typer", "skops", "onnx", "dask"} <= found.keys()
    assert all(re.fullmatch(r"\d+(\.\d+)*", version) for version in found.values())


def test_development_packages_are_not_older():
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    found = oldest(extras["dev"])
    assert {name: found[name] for name in found.keys() & declared().keys()} == {
        name: version for name, version in declared().items() if name in found
    }


def test_an_oldest_version_must_be_named():
    with pytest.raises(ValueError, match="'rich' must have the form name>=version"):
        oldest(["rich"])
    with pytest.raises(ValueError, match=r"pandas has two oldest versions, 2\.1 and 2\.2"):
        oldest(["pandas>=2.1", "pandas>=2.2"])


def test_the_oldest_versions_are_tried_by_the_one_command():
    assert "make minimum-test" in (ROOT / ".ci" / "run").read_text().splitlines()


def test_networks_have_the_version_that_is_tested():
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert set(extras["deep"]) <= set((ROOT / "constraints.txt").read_text().splitlines())
    assert "deep" not in EXTRAS

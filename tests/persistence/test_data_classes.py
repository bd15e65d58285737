"""Only classes that hold data are loaded without being named, and they do nothing when they are made."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import subprocess
import sys

import pytest

import postshift
from postshift.exceptions import ArchiveError, UntrustedError
from postshift.persistence import load
from postshift.persistence.data_classes import NAMES, class_name
from tests.persistence.skops_files import made_by_every_loader


def classes_of_postshift():
    """All classes that modules of postshift define, by their full names."""
    found = {}
    for module in pkgutil.walk_packages(postshift.__path__, "postshift."):
        if not module.name.endswith("__main__"):
            for each in vars(importlib.import_module(module.name)).values():
                if isinstance(each, type) and each.__module__ == module.name:
                    found[class_name(each)] = each
    return found


@pytest.mark.slow
def test_only_classes_that_hold_data_are_loaded(tmp_path):
    found = classes_of_postshift()
    assert found.keys() >= NAMES
    for name in found.keys() - NAMES:
        for content in made_by_every_loader(name, str(tmp_path / "ran")):
            (tmp_path / "model.skops").write_bytes(content)
            with pytest.raises(UntrustedError, match="holds more than data"):
                load(tmp_path / "model.skops")
    assert [each.name for each in tmp_path.iterdir()] == ["model.skops"]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_no_class_that_is_loaded_does_anything_when_it_is_made(tmp_path, name):
    for content in made_by_every_loader(name, str(tmp_path / "ran")):
        (tmp_path / "model.skops").write_bytes(content)
        with contextlib.suppress(ArchiveError):
            load(tmp_path / "model.skops")
    assert [each.name for each in tmp_path.iterdir()] == ["model.skops"]


def test_importing_the_package_imports_neither_baselines_nor_onnx():
    code = (
        "import sys, postshift.persistence\n"
        "print([name for name in sys.modules if name.startswith('postshift.baselines') or 'onnx' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

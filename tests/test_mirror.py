"""The tests mirror the source: every module with logic has a test module of its name, in the folder of its package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src" / "postshift", ROOT / "tests"
WITHOUT_A_TEST: dict[str, str] = {}  # the module, and the reason
NOT_A_TOPIC = {"review", "newcomer", "bad", "misc", "stuff", "regressions"}  # who found it, or nothing at all


def has_logic(path):
    """Whether a module defines a function or a class."""
    found = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in found)


MODULES = [
    path.relative_to(SOURCE)
    for path in sorted(SOURCE.rglob("*.py"))
    if path.stem not in {"__init__", "__main__"} and has_logic(path)
]


def found_tests(module):
    """The test modules of a module: ``tests/core/**/test_rows.py`` for ``core/rows.py``."""
    folder = TESTS / module.parts[0] if len(module.parts) > 1 else TESTS
    return list(folder.rglob(f"test_{module.stem.lstrip('_')}.py"))


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_every_module_has_a_test_module_of_its_name(module):
    assert bool(found_tests(module)) != (module.as_posix() in WITHOUT_A_TEST)


def test_there_is_no_exception_for_a_module_that_is_gone():
    assert WITHOUT_A_TEST.keys() <= {module.as_posix() for module in MODULES}
    assert all(WITHOUT_A_TEST.values())


def test_names_say_what_is_tested():
    for path in TESTS.rglob("*.py"):
        words = {word for part in path.relative_to(TESTS).with_suffix("").parts for word in part.split("_")}
        assert not words & NOT_A_TOPIC, path.relative_to(ROOT)


def test_every_module_of_tests_is_collected():
    """A file of tests whose name does not begin with ``test_`` would never run."""
    for path in TESTS.rglob("*.py"):
        if not path.name.startswith("test_") and path.parent.name != "contracts":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
            assert not [name for name in names if name.startswith(("test_", "Test"))], path.relative_to(ROOT)

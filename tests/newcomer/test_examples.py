"""Every example runs and reaches what it promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def output_of(name):
    command = [sys.executable, str(ROOT / "examples" / name)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_lightgbm_with_costs():
    shown = output_of("lightgbm_costs.py")
    plain, shifted = (float(value) for value in re.findall(r"cost of a case, .*?(\d\.\d+)", shown))
    assert shifted < plain / 2
    assert "150 validation rows" in shown


def test_every_example_has_a_test():
    tested = Path(__file__).read_text() + (ROOT / "tests" / "newcomer" / "test_public_api.py").read_text()
    for example in (ROOT / "examples").glob("[!_]*.py"):
        assert example.name in tested, example.name

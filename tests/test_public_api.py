"""The public names, pinned; what importing postshift brings along; the examples, run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import postshift

ROOT = Path(__file__).parents[1]

PUBLIC = {
    "FitResult",
    "MemoryEngine",
    "Mixture",
    "PlugIn",
    "PostShiftClassifier",
    "PostShifter",
    "Rows",
    "Session",
    "elicit_weights",
    "fw_eg",
    "fw_eg_session",
    "pi_ew",
}


def run(*arguments, **kwargs):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, **kwargs)


def test_the_public_names():
    assert set(postshift.__all__) == PUBLIC
    assert all(hasattr(postshift, name) for name in PUBLIC)


def test_every_public_name_is_documented():
    for name in PUBLIC:
        assert getattr(postshift, name).__doc__, name


def test_importing_brings_no_optional_package_along():
    code = "import json, sys, postshift; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    loaded = set(json.loads(run("-c", code).stdout))
    assert not loaded & {"pandas", "numba", "matplotlib", "dask", "torch", "typer", "rich", "skops", "onnx", "pyarrow"}


def test_the_demo_prints_what_was_elicited():
    shown = run(str(ROOT / "examples" / "digits_demo.py"), cwd=ROOT).stdout
    paper, menu = shown.split("the menu ")
    scores = {line[:36].strip(): float(line[36:46]) for line in paper.splitlines() if line[36:46].strip()[:2] == "0."}
    assert "stack + influence [constant]" in menu
    assert "Why: " in menu
    base = scores.pop("base: argmax eta")
    assert len(scores) == 4
    assert min(scores.values()) > base + 0.1
    for sentence in (
        "9 gets more weight against 1: many 9s have the training label 1",
        "2 gets more weight against 0: many 2s have the training label 0",
        "4 gets more weight against 7: many 4s have the training label 7",
        "training label 3 is mostly a 5",
        "training label 5 is mostly a 3",
    ):
        assert sentence in shown

"""The public names, pinned; the packages that importing postshift loads."""

from __future__ import annotations

import json
import subprocess
import sys

import postshift

PUBLIC = {
    "FitResult",
    "Frontier",
    "MemoryEngine",
    "Mixture",
    "PlugIn",
    "PostShiftClassifier",
    "PostShifter",
    "Rows",
    "Session",
    "elicit_weights",
    "frontier",
    "fw_eg",
    "fw_eg_session",
    "pi_ew",
    "power",
}


def test_the_public_names():
    assert set(postshift.__all__) == PUBLIC
    assert all(hasattr(postshift, name) for name in PUBLIC)


def test_every_public_name_is_documented():
    for name in PUBLIC:
        assert getattr(postshift, name).__doc__, name


def test_importing_brings_no_optional_package_along():
    code = "import json, sys, postshift; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & {"pandas", "numba", "matplotlib", "dask", "torch", "typer", "rich", "skops", "onnx", "pyarrow"}

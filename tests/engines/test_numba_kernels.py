"""Compiled loops where numba has no folder to keep them in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import postshift

pytest.importorskip("numba")

FIT = """
import numpy as np
import postshift
from postshift import MemoryEngine, Rows, fw_eg
from postshift.metrics import GMean

eta = np.random.default_rng(0).dirichlet(np.ones(3), size=500)
sample = Rows.of(eta, labels=np.arange(500) % 3)
values = [fw_eg(MemoryEngine(sample, kernels=name), sample, GMean(), max_iter=2).score for name in ("numpy", "numba")]
assert values[0] == values[1]
print(postshift.__file__)
"""


def test_a_place_where_nothing_can_be_kept(tmp_path):
    source = tmp_path / "src" / "postshift"
    shutil.copytree(Path(postshift.__file__).parent, source, ignore=shutil.ignore_patterns("__pycache__"))
    (source / "engines" / "memory" / "__pycache__").write_text(
        "a file, so that no folder can be made here, not even by root"
    )
    nowhere = str(source / "engines" / "memory" / "__pycache__" / "cache")
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    places = {"PYTHONPATH": str(source.parent), "HOME": nowhere, "XDG_CACHE_HOME": nowhere, "LOCALAPPDATA": nowhere}
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", FIT],
        env=kept | places,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).parent == source

"""The memory of a fit on a file stays under the limit that was set; ``benchmarks/memory.py`` measures it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MARGIN = 32  # MB: the validation rows, the fit itself, and what allocators keep


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells anonymous memory apart")
@pytest.mark.parametrize("kind", ["npy", "parquet", "arrow"])
def test_anonymous_memory_of_a_fit(kind, record_property):
    rows = 500_000 if kind == "npy" else 300_000
    command = [sys.executable, "-m", "benchmarks.memory", f"--rows={rows}", "--memory-limit=64 MB", f"--format={kind}"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    figures = json.loads(shown)
    record_property("figure", f"{figures['file_mb']} MB of {kind}, limit 64 MB: {figures['growth_mb']} MB")
    assert figures["growth_mb"] < 64 + MARGIN
    assert figures["growth_mb"] < figures["file_mb"] / 2

"""The peak of anonymous memory of a fit on a file, measured by ``benchmarks.memory`` in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from benchmarks.timing import FailedError, Outcome, SkippedError


def of_a_fit(*, n: int) -> Outcome:
    """Return the gigabytes above what the interpreter and the libraries took before the fit."""
    if find_spec("benchmarks.memory") is None:
        raise SkippedError("benchmarks/memory.py is missing")
    if "RssAnon" not in _status():
        raise SkippedError("this system does not tell anonymous memory apart")
    command = [sys.executable, "-m", "benchmarks.memory", "--rows", str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])  # noqa: S603
    if done.returncode:
        raise FailedError(f"the measurement broke: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    found = json.loads(done.stdout)
    before = found["anonymous_before_mb"]
    note = f"a file of {found['file_mb']} MB, a limit of {found['memory_limit']}; {before:.0f} MB before the fit"
    return Outcome(ours_value=found["growth_mb"] / 1e3, note=note)


def _status() -> str:
    """Return what the system says of this process."""
    try:
        return Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return ""

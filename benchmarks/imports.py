"""What an import costs, each in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.timing import FailedError, Outcome, Times

_SCRIPT = """
import sys, time
cpu, wall = time.process_time(), time.perf_counter()
import {module}
print([time.process_time() - cpu, time.perf_counter() - wall, int("numba" in sys.modules)])
"""


def against_sklearn(*, repeats: int) -> Outcome:
    """Compare ``import postshift`` with ``import sklearn``; the compiler must not be imported."""
    least: dict[str, Times] = {}
    for _ in range(repeats):
        for module in ("sklearn", "postshift"):
            times, compiler = _imported(module)
            if module == "postshift" and compiler:
                raise FailedError("import postshift imports numba")
            least[module] = times.least(least.get(module, times))
    return Outcome(ours=least["postshift"], theirs=least["sklearn"], note="numba is not imported")


def _imported(module: str) -> tuple[Times, bool]:
    """Return what the import took, and whether it brought the compiler with it."""
    script = _SCRIPT.format(module=module)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    cpu, wall, compiler = json.loads(done.stdout)
    return Times(cpu=cpu, wall=wall), bool(compiler)

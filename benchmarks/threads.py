"""The same pass on one thread and on all cores; the sums must be the same."""

from __future__ import annotations

import os

from benchmarks.data import Basis, draw
from benchmarks.engine import Kernels, need_numba, random_rule
from benchmarks.timing import Outcome, check_close, interleaved
from postshift import MemoryEngine


def on_all_cores(*, kernels: Kernels, n: int, basis: Basis, m: int = 10, n_bases: int = 5, repeats: int = 9) -> Outcome:
    """Compare one thread with as many as there are cores."""
    need_numba(kernels)
    rows = draw(n, m, n_bases=n_bases, basis=basis)
    rule, n_threads = random_rule(rows, 0), os.cpu_count() or 1
    engines = {
        "theirs": MemoryEngine(rows, kernels=kernels),
        "ours": MemoryEngine(rows, kernels=kernels, n_threads=n_threads),
    }
    sides = {
        name: lambda engine=engine: engine.classifier_sums(rule, confusions=False) for name, engine in engines.items()
    }
    for side in sides.values():  # compiles, prepares the rows
        side()
    least, results = interleaved(sides, repeats=repeats)
    check_close("the sums", results["ours"].pair, results["theirs"].pair, tolerance=1e-12)
    return Outcome(ours=least["ours"], theirs=least["theirs"], note=f"{n_threads} threads")

"""The same pass on one thread and on all cores; the sums must be the same."""

from __future__ import annotations

import os
from functools import partial

from benchmarks.data import Basis, draw
from benchmarks.engine import Kernels, in_turn, need_numba, random_rule
from benchmarks.timing import Outcome, check_close, interleaved
from postshift import MemoryEngine


def on_all_cores(*, kernels: Kernels, n: int, basis: Basis, m: int = 10, n_bases: int = 5, repeats: int = 9) -> Outcome:
    """Compare one thread with as many as there are cores."""
    need_numba(kernels)
    rows = draw(n, m, n_bases=n_bases, basis=basis)
    rules, n_threads = [random_rule(rows, turn) for turn in range(repeats)], os.cpu_count() or 1
    engines = {
        "theirs": MemoryEngine(rows, kernels=kernels),
        "ours": MemoryEngine(rows, kernels=kernels, n_threads=n_threads),
    }
    sides = {}
    for name, engine in engines.items():
        summed = partial(engine.classifier_sums, confusions=False)
        summed(random_rule(rows, repeats))  # compiles, prepares the rows
        sides[name] = in_turn(summed, rules)
    least, results = interleaved(sides, repeats=repeats)
    check_close("the sums", results["ours"].pair, results["theirs"].pair, tolerance=1e-12)
    return Outcome(ours=least["ours"], theirs=least["theirs"], note=f"{n_threads} threads")

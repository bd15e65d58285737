"""Commands of the terminal on a Parquet file, against reading the file with pandas: whole processes on both sides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np

from benchmarks.data import draw
from benchmarks.timing import FailedError, Outcome, SkippedError, Times

_FEW = 5_000  # rows: the file that shows what a process takes beside the rows
_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
_READ = "import sys, pandas; pandas.read_parquet(sys.argv[1])"
# A small process starts the other one: the system counts the memory of the one that starts it, too.
_LAUNCH = """
import json, os, sys, time
wall = time.perf_counter()
_, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
print(json.dumps([usage.ru_utime + usage.ru_stime, time.perf_counter() - wall, usage.ru_maxrss / 1024]))
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""
_FIT = ("--label", "y", "--metric", "f1_macro", "--method", "smoothed plug-in", "--quiet", "--force")


@dataclass(frozen=True, slots=True)
class Process:
    """What a process took: its times, and its largest memory in MB."""

    times: Times
    memory: float


def against_pandas(*, command: Literal["evaluate", "fit"], n: int, m: int = 10, repeats: int = 5) -> Outcome:
    """Compare a command on ``n`` rows with ``pandas.read_parquet`` in a fresh process; imports count on both sides."""
    for package in ("pandas", "pyarrow", "typer", "skops"):
        if find_spec(package) is None:
            raise SkippedError(f"the package {package} is missing")
    with TemporaryDirectory() as folder:
        path = Path(folder)
        _write(path / "rows.parquet", n, m)
        _write(path / "few.parquet", min(n, _FEW), m)
        ours = [sys.executable, "-m", "postshift.cli"]
        fit = [*ours, "fit", *_FIT, "--out", str(path / "run"), "--val"]
        _ran([*fit, str(path / "few.parquet")])
        called = [*ours, "evaluate", str(path / "run"), "--quiet"] if command == "evaluate" else fit
        sides = {
            "ours": [*called, str(path / "rows.parquet")],
            "few": [*called, str(path / "few.parquet")],
            "pandas": [sys.executable, "-c", _READ, str(path / "rows.parquet")],
        }
        found: dict[str, list[Process]] = {name: [] for name in sides}
        for _ in range(repeats):
            for name, each in sides.items():
                found[name].append(_ran(each))
    least = {name: _least(each) for name, each in found.items()}
    note = (
        f"on {min(n, _FEW):,} rows the command takes {least['few'].times.cpu:.2f} s; peak memory "
        f"{least['ours'].memory:.0f} MB, pandas {least['pandas'].memory:.0f} MB"
    )
    return Outcome(ours=least["ours"].times, theirs=least["pandas"].times, note=note)


def _write(path: Path, n: int, m: int) -> None:
    """Write probabilities and labels of classes with names."""
    import pandas as pd

    drawn = draw(n, m, seed=0)
    names = np.array([f"class {k}" for k in range(m)])
    frame = pd.DataFrame({f"p_{name}": drawn.eta[:, k] for k, name in enumerate(names)})
    frame.assign(y=names[drawn.labels]).to_parquet(path)


def _ran(command: list[str]) -> Process:
    """Run a process to its end; raise if it failed."""
    launched = [sys.executable, "-c", _LAUNCH, *command]
    done = subprocess.run(  # noqa: S603
        launched, capture_output=True, env={**os.environ, **_THREADS}, text=True, check=False
    )
    if done.returncode:
        raise FailedError(f"a command failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    cpu, wall, memory = json.loads(done.stdout.splitlines()[-1])
    return Process(Times(cpu=cpu, wall=wall), memory)


def _least(found: list[Process]) -> Process:
    """Return the least of several runs, each figure by itself."""
    times = found[0].times
    for each in found[1:]:
        times = times.least(each.times)
    return Process(times, min(each.memory for each in found))

"""The two servers of the measurement, each a process: ``postshift oracle serve``, and the bare endpoint."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

ROOT = Path(__file__).parents[1]
ORACLE = ("postshift.cli", "oracle")
PRIVATE, TRUSTED = "private", "trusted"
KINDS = ("table", "confusion", "value")
PER_MINUTE = 1_000_000  # answers of the token: the owner's setting, so that it does not limit what is measured
_BUDGET = {PRIVATE: ("--rho", "1000000"), TRUSTED: ("--queries", "1000000")}
_LONGEST = 60.0  # seconds that a start or an end may take


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server: its address, the token of a learner, and its process."""

    host: str
    token: str
    process: psutil.Process

    @property
    def memory(self) -> float:
        """The memory of the process (RSS) in MB."""
        return float(self.process.memory_info().rss / 1e6)

    @property
    def cpu(self) -> float:
        """The processor time of the process in seconds."""
        return float(sum(self.process.cpu_times()[:2]))


def owned(folder: Path, *, mode: str, n_rows: int) -> str:
    """Create an owner's folder with so many rows and an SQLite ledger, as an owner does; return a learner's token."""
    rng = np.random.default_rng(7)
    rows = folder.with_suffix(".csv")
    pd.DataFrame({"y": rng.integers(2, size=n_rows), "group": rng.integers(2, size=n_rows)}).to_csv(rows, index=False)
    kinds = [word for kind in KINDS for word in ("--kind", kind)]
    metric = ("--label", "y", "--groups", "group", "--metric", "group_g_mean")
    _ran("init", str(folder), str(rows), *metric, "--mode", mode, *kinds, *_BUDGET[mode])
    made = _ran("token", "create", str(folder), "--name", "bench", "--per-minute", str(PER_MINUTE), "--json")
    return str(json.loads(made)["token"])


@contextmanager
def service(folder: Path, *, mode: str, n_rows: int) -> Iterator[Server]:
    """Serve a new folder until the block ends."""
    token = owned(folder, mode=mode, n_rows=n_rows)
    port = _free_port()
    with _process(*ORACLE, "serve", str(folder), "--port", str(port), "--quiet", port=port) as process:
        yield Server(host=f"127.0.0.1:{port}", token=token, process=process)


@contextmanager
def bare() -> Iterator[Server]:
    """Serve the bare endpoint until the block ends."""
    port = _free_port()
    with _process("benchmarks.service_bare", str(port), port=port) as process:
        yield Server(host=f"127.0.0.1:{port}", token="none", process=process)  # noqa: S106


@contextmanager
def _process(module: str, *words: str, port: int) -> Iterator[psutil.Process]:
    """Run a module that serves at a port; stop it when the block ends."""
    command, how = [sys.executable, "-m", module, *words], {"cwd": ROOT, "env": _environment()}
    with tempfile.TemporaryFile() as errors, subprocess.Popen(command, stderr=errors, **how) as running:  # noqa: S603
        try:
            if not _answers(port, running):
                errors.seek(0)
                raise SystemExit(f"{module} did not start: {errors.read().decode()}")
            yield psutil.Process(running.pid)
        finally:
            running.terminate()
            try:
                running.wait(timeout=_LONGEST)
            finally:
                running.kill()


def _ran(*words: str) -> str:
    """Run ``postshift oracle WORDS``; return what it printed."""
    command = [sys.executable, "-m", *ORACLE, *words]
    done = subprocess.run(command, cwd=ROOT, env=_environment(), capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"postshift oracle {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


def _environment() -> dict[str, str]:
    """Return the environment of a process that runs this copy of postshift."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


def _answers(port: int, running: subprocess.Popen[bytes]) -> bool:
    """Wait until a server takes connections; return whether it does."""
    end = time.monotonic() + _LONGEST
    while running.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return True
    return False

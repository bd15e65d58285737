"""How busy other programs keep the machine while something is measured."""

from __future__ import annotations

import time
from typing import Self

import psutil


class Others:
    """How many cores programs that are not ours keep busy: all of the machine's time less that of our processes."""

    def __enter__(self) -> Self:
        self._start, self._busy, self._own = time.perf_counter(), _machine_seconds(), _own_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        busy, own = _machine_seconds() - self._busy, _own_seconds() - self._own
        self.cores = max(0.0, busy - own) / (time.perf_counter() - self._start)


def _machine_seconds() -> float:
    """Return the time that all cores were busy, since the machine started."""
    spent = psutil.cpu_times()
    return float(spent.user + spent.nice + spent.system)


def _own_seconds() -> float:
    """Return the processor time of this process and its children, which the workers are."""
    own = psutil.Process()
    return float(sum(sum(process.cpu_times()[:2]) for process in (own, *own.children(recursive=True))))

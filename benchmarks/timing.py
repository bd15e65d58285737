"""Times of both sides of a comparison: in one process, in turns, the least of several repeats."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Side = Callable[[], Any]


class SkippedError(Exception):
    """A comparison that cannot be made here, and why."""


class FailedError(Exception):
    """A comparison that must not count, and why: both sides were to compute the same, and did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """CPU time of all threads of the process, and wall time, in seconds."""

    cpu: float
    wall: float

    def least(self, other: Times) -> Times:
        """Return the least of both, each clock by itself."""
        return Times(cpu=min(self.cpu, other.cpu), wall=min(self.wall, other.wall))

    def over(self, count: int) -> Times:
        """Return the times of one of ``count`` equal parts."""
        return Times(cpu=self.cpu / count, wall=self.wall / count)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a comparison found; ``case`` and ``x`` tell the lines of one that has several apart.

    ``failed`` says why the times do not count: our metric is lower than that of the other side.
    """

    ours: Times | None = None
    theirs: Times | None = None
    ours_value: float | None = None
    theirs_value: float | None = None
    case: str = ""
    x: float | None = None
    note: str = ""
    failed: str = ""


def clocked(side: Side) -> tuple[Times, Any]:
    """Return the times of one call, and what it returned."""
    gc.collect()
    gc.disable()
    try:
        cpu, wall = time.process_time(), time.perf_counter()
        result = side()
        return Times(cpu=time.process_time() - cpu, wall=time.perf_counter() - wall), result
    finally:
        gc.enable()


def interleaved(sides: Mapping[str, Side], *, repeats: int) -> tuple[dict[str, Times], dict[str, Any]]:
    """Call all sides in turns; return the least times and the last result of each."""
    least: dict[str, Times] = {}
    results: dict[str, Any] = {}
    for _ in range(repeats):
        for name, side in sides.items():
            times, results[name] = clocked(side)
            least[name] = times.least(least.get(name, times))
    return least, results


def check_close(what: str, ours: Any, theirs: Any, *, tolerance: float = 1e-9) -> None:
    """Refuse arrays that differ by more than a share of their largest entry."""
    ours, theirs = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if ours.shape != theirs.shape:
        raise FailedError(f"{what}: shapes {ours.shape} and {theirs.shape}")
    apart = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    if not apart <= tolerance:
        raise FailedError(f"{what}: both sides differ by {apart:.2g} of the largest entry")

"""How long the workers of a Dask cluster work in a pass: they record it, because a pass is not one of Dask's tasks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from postshift.engines.dask import pass_task

_WORK: list[tuple[float, float]] = []  # on a worker: the start of each sum of a partition, and its seconds


def record_work() -> None:
    """Let a worker record when it starts to sum a partition, and the seconds that it takes."""
    plain = pass_task.sum_partition

    def recorded(partition: Any, call: Any) -> Any:
        start = time.time()
        found = plain(partition, call)
        _WORK.append((start, time.time() - start))
        return found

    _WORK.clear()
    pass_task.sum_partition = recorded


def recorded_work() -> list[tuple[float, float]]:
    """Return the starts and the seconds that a worker recorded."""
    return _WORK


def busiest_of(work: Mapping[str, Sequence[tuple[float, float]]], *, n_partitions: int) -> float:
    """Return the work of the busiest worker in a pass, the median over the passes, which come one after the other."""
    spent = sorted((start, seconds, worker) for worker, done in work.items() for start, seconds in done)
    passes = [spent[first : first + n_partitions] for first in range(0, len(spent), n_partitions)]
    busiest = []
    for one in passes:
        of_worker: dict[str, float] = {}
        for _, seconds, worker in one:
            of_worker[worker] = of_worker.get(worker, 0.0) + seconds
        busiest.append(max(of_worker.values()))
    return float(np.median(busiest))

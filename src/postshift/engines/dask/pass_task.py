"""The work of the workers: :func:`hold` reads and keeps a partition, :func:`sum_held` is the call of a pass.

A pass is one call :func:`sum_held` for each worker, which returns the sums of its partitions unadded: the client adds
them with :func:`added`. A partition that no worker returns is summed by a task of its own, :func:`sum_partition`.
Nothing here imports Dask. Errors are returned as values (:class:`Failed`): Dask would log a task that raises as a fault
of the cluster, and report the first error that arrives, not the first in the order of the rows.
"""

from __future__ import annotations

import asyncio
import ctypes
import pickle
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial, reduce
from operator import add
from threading import Lock
from typing import Any

from postshift.core.rows import Rows
from postshift.engines.blocks.row_block import RowBlock
from postshift.engines.memory.memory_engine import Kernels, MemoryEngine, kernels_of_parts
from postshift.exceptions import EngineError, InputError, PostshiftError

KEPT_BYTES = 1 << 26  # of freed memory that a worker keeps for the next pass
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h

Make = Callable[..., RowBlock]  # the name of a partition and its inputs -> its rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """What the client knows about a partition."""

    place: str  # its name in errors
    n_rows: int
    n_classes: int
    n_bases: int
    has_labels: bool
    has_weight: bool  # whether any row has a weight above 0
    types: Mapping[str, str] = field(default_factory=dict)  # of the columns that were read, if any


@dataclass(frozen=True, slots=True)
class Failed:
    """An error in place of a result, and the partition that it is about."""

    error: Exception
    place: str

    @classmethod
    def of(cls, error: Exception, place: str) -> Failed:
        """Return an error that can be sent: an error that cannot be pickled becomes an EngineError with its text."""
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 -- our own bytes
        except Exception:  # noqa: BLE001 -- whatever the error's class does
            return cls(EngineError(f"{place}: {type(error).__name__}: {error}"), place)
        return cls(error, place)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCall:
    """One pass: a method of :class:`MemoryEngine` with its arguments, and the settings of the engines."""

    method: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    n_cells: int  # of all partitions together: they decide whether "auto" takes numba
    kernels: Kernels
    n_categories: int | None
    sort_rows: bool


class Partition:
    """Rows that stay on a worker, and the engine that sums them.

    If a partition is sent or spilt to disk, only its rows are, and the engine is made again. The scheduler considers
    the size before a move, so the size includes the sorted copy of an engine.
    """

    def __init__(self, facts: PartitionFacts, rows: Rows | None) -> None:
        self.facts, self._rows = facts, rows
        self._engine: MemoryEngine | None = None
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Partition, (self.facts, self._rows)

    def __sizeof__(self) -> int:
        if self._rows is None:
            return 1000
        parts = (self._rows.eta, self._rows.phi, self._rows.labels, self._rows.weights)
        return 1000 + 2 * sum(part.nbytes for part in parts if part is not None)

    def summed(self, call: PassCall) -> Any:
        """Return the sums of one pass; None for a partition without rows."""
        if self._rows is None:
            return None
        with self._lock:  # an engine keeps its last table
            if self._engine is None:
                keep_freed_memory()
                self._engine = MemoryEngine(
                    self._rows,
                    kernels=kernels_of_parts(call.kernels, n_cells=call.n_cells),
                    n_categories=call.n_categories,
                    sort_rows=call.sort_rows,
                )
            return getattr(self._engine, call.method)(*call.arguments, **call.options)


def hold(place: str, n_labels: int | None, make: Make, *given: Any) -> Partition | Failed:
    """Return a partition of checked rows; labels are in ``0..n_labels-1``, or are the classes."""
    found: Partition | Failed = attempted(place, _checked, place, n_labels, make, *given)
    return found


def facts_of(partition: Partition | Failed) -> PartitionFacts | Failed:
    """Return what the client knows about a partition."""
    return partition if isinstance(partition, Failed) else partition.facts


def sum_partition(partition: Partition | Failed, call: PassCall) -> Any:
    """Return the sums of one partition, or an error if a lost partition could not be read again."""
    if isinstance(partition, Failed):
        return partition
    try:
        return partition.summed(call)
    except Exception as error:  # noqa: BLE001 -- a user's classifier may raise anything; the client raises it again
        return Failed.of(error, partition.facts.place)


async def sum_held(
    wanted: Sequence[tuple[int, Hashable]], call: PassCall, most_bytes: float, dask_worker: Any
) -> dict[int, Any] | None:
    """Return the sums of the wanted partitions that a worker holds, by number; None if one exceeds so many bytes.

    Dask calls it in the event loop of the worker, whose threads sum.
    """
    loop, waiting = asyncio.get_running_loop(), iter(wanted)
    work = partial(_sum_waiting, waiting, dask_worker.data, call, most_bytes)
    jobs = [loop.run_in_executor(dask_worker.executors["default"], work) for _ in range(dask_worker.state.nthreads)]
    found: dict[int, Any] = {}
    for answer in await asyncio.gather(*jobs):
        if answer is None:
            return None
        found |= answer
    return found


def _sum_waiting(
    waiting: Iterator[tuple[int, Hashable]], data: Mapping[Hashable, Any], call: PassCall, most_bytes: float
) -> dict[int, Any] | None:
    """Sum partitions that no other thread has taken, one by one: of those spilt to disk, one is in memory."""
    found: dict[int, Any] = {}
    for number, key in waiting:
        try:
            partition = data[key]
        except KeyError:
            continue
        found[number] = sum_partition(partition, call)
        if len(pickle.dumps(found[number], protocol=5)) > most_bytes:
            return None
    return found


def added(parts: Sequence[Any]) -> Any:
    """Return the sum of sums, always in the order given; if any of them is an error, the first error.

    Examples
    --------
    >>> added([1, None, 2])
    3
    """
    found = [part for part in parts if part is not None]
    failed = next((part for part in found if isinstance(part, Failed)), None)
    if failed is not None:
        return failed
    return reduce(add, found) if found else None


def attempted(place: str, function: Callable[..., Any], *given: Any) -> Any:
    """Return the result of a function for a partition, or its error."""
    try:
        return function(*given)
    except PostshiftError as error:
        named = str(error).startswith(place)
        return Failed.of(error if named else type(error)(f"{place}: {error}"), place)
    except Exception as error:  # noqa: BLE001 -- a user's model, basis or file may raise anything
        return Failed.of(InputError(f"{place}: the rows cannot be read: {type(error).__name__}: {error}"), place)


def shared_value(value: Any) -> Any:
    """Return a value: as the result of a task, it is sent to each worker once and can be computed again."""
    return value


@cache
def keep_freed_memory() -> None:
    """Let the allocator of a worker keep some of the memory that a pass frees, with glibc.

    Dask's nanny makes workers return every page at once (``MALLOC_TRIM_THRESHOLD_``), which suits rows that come and
    go. A pass makes its tables again for every chunk: getting their pages back took longer than the sums.
    """
    with suppress(OSError, AttributeError):
        allocator = ctypes.CDLL("libc.so.6")
        allocator.mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES // 2)
        allocator.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def _checked(place: str, n_labels: int | None, make: Make, *given: Any) -> Partition:
    """Return the partition of rows that were read."""
    block = make(place, *given)
    eta, phi = block.rows.eta, block.rows.phi
    facts = PartitionFacts(
        place=place,
        n_rows=len(eta),
        n_classes=int(eta.shape[1]),
        n_bases=int(phi.shape[1]),
        has_labels=block.rows.labels is not None,
        has_weight=block.has_weight,
        types=block.types,
    )
    if len(eta) == 0:
        return Partition(facts, None)
    block.check(n_labels=facts.n_classes if n_labels is None else n_labels)
    return Partition(facts, block.converted())

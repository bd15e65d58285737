"""What runs on the workers of a cluster: a partition is checked, kept and summed there, and sums are added there.

Nothing here imports Dask. Errors travel as values: a task that raises would be logged as a fault of the cluster, and
of several that raise the first to arrive would be reported, not the first in the order of the rows.
"""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, reduce
from importlib.util import find_spec
from operator import add
from threading import Lock
from typing import Any

import numpy as np

from postshift.core.rows import Rows
from postshift.engines.memory import Kernels, MemoryEngine
from postshift.engines.sources import Block
from postshift.exceptions import EngineError, InputError, PostshiftError

KEPT_BYTES = 1 << 26  # that a worker keeps of what a pass frees
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Read:
    """The rows of a partition as they were read, and the types of the columns they come from, if any."""

    block: Block
    types: Mapping[str, str] = field(default_factory=dict)


Make = Callable[..., Read]  # the name of a partition and what was computed of it -> its rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the client learns of a partition."""

    place: str  # what to call it in errors
    n_rows: int
    n_classes: int
    n_bases: int
    has_labels: bool
    has_weights: bool
    weighs: bool  # whether any row has a weight above 0
    types: Mapping[str, str] = field(default_factory=dict)  # of the columns that were read, where there are any


@dataclass(frozen=True, slots=True)
class Failed:
    """An error in place of a result, with the partition that it is about."""

    error: Exception
    place: str

    @classmethod
    def of(cls, error: Exception, place: str) -> Failed:
        """Return an error that can be sent: what cannot be pickled is told in words."""
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 -- our own bytes
        except Exception:  # noqa: BLE001 -- whatever the error's class does
            return cls(EngineError(f"{place}: {type(error).__name__}: {error}"), place)
        return cls(error, place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One pass: which sums of a :class:`MemoryEngine`, with which arguments, by which kernels."""

    method: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    many: bool  # whether all partitions together have so many cells that numba pays
    kernels: Kernels
    n_categories: int | None
    sort_rows: bool

    def engine(self, rows: Rows) -> MemoryEngine:
        """Return the engine of a partition."""
        kernels = self.kernels
        if kernels == "auto" and self.many:
            kernels = "numba" if find_spec("numba") else "numpy"
        return MemoryEngine(rows, kernels=kernels, n_categories=self.n_categories, sort_rows=self.sort_rows)


class Partition:
    """Rows that stay on a worker, with the engine that sums them and all that it has prepared.

    Sent elsewhere or spilt to disk, the rows go alone, and the engine is made again. The size is what the scheduler
    weighs a move by: it counts the copy that an engine may sort.
    """

    def __init__(self, facts: Facts, rows: Rows | None) -> None:
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

    def summed(self, call: Call) -> Any:
        """Return the sums of one pass; None where there are no rows."""
        if self._rows is None:
            return None
        with self._lock:  # an engine keeps its last table
            if self._engine is None:
                keep_freed_memory()
                self._engine = call.engine(self._rows)
            return getattr(self._engine, call.method)(*call.arguments, **call.options)


@cache
def keep_freed_memory() -> None:
    """Let the allocator of a worker keep some of what a pass frees, where that can be said (glibc).

    Dask's nanny has workers give every page back at once (``MALLOC_TRIM_THRESHOLD_``), which is meant for rows that
    come and go. The tables of a pass are made anew chunk by chunk: to get their pages back took longer than to sum.
    """
    with suppress(OSError, AttributeError):
        allocator = ctypes.CDLL("libc.so.6")
        allocator.mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES // 2)
        allocator.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def attempted(place: str, function: Callable[..., Any], *given: Any) -> Any:
    """Return what a function makes of a partition, or why it cannot."""
    try:
        return function(*given)
    except PostshiftError as error:
        named = str(error).startswith(place)
        return Failed.of(error if named else type(error)(f"{place}: {error}"), place)
    except Exception as error:  # noqa: BLE001 -- a user's model, basis or file, and whatever it raises
        told = InputError(f"{place}: the rows cannot be had: {type(error).__name__}: {error}")
        return Failed.of(told, place)


def hold(place: str, n_labels: int | None, make: Make, *given: Any) -> Partition | Failed:
    """Return a partition of checked rows; labels run over ``0..n_labels-1``, or over the classes."""

    def checked() -> Partition:
        return _checked(place, make(place, *given), n_labels)

    found: Partition | Failed = attempted(place, checked)
    return found


def facts_of(partition: Partition | Failed) -> Facts | Failed:
    """Return what the client learns of a partition."""
    return partition if isinstance(partition, Failed) else partition.facts


def summed(partition: Partition | Failed, call: Call) -> Any:
    """Return the sums of one partition; of one that was lost, and cannot be had again, why."""
    if isinstance(partition, Failed):
        return partition
    try:
        return partition.summed(call)
    except Exception as error:  # noqa: BLE001 -- a user's classifier may raise anything; the client raises it again
        return Failed.of(error, partition.facts.place)


def added(parts: Sequence[Any]) -> Any:
    """Return the sum of sums, in the order given whatever order they came in; an error in place of it.

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


def given(value: Any) -> Any:
    """Return a value: as a task of its own, it is sent to each worker once and is never lost."""
    return value


def _checked(place: str, read: Read, n_labels: int | None) -> Partition:
    """Return the partition of rows that were read."""
    block = read.block
    n_classes = int(block.eta.shape[1]) if block.eta.ndim == 2 else 0
    n_rows = len(block.eta)
    facts = Facts(
        place=place,
        n_rows=n_rows,
        n_classes=n_classes,
        n_bases=1 if block.phi is None else int(block.phi.shape[1]),
        has_labels=block.labels is not None,
        has_weights=block.weights is not None,
        weighs=n_rows > 0 and (block.weights is None or bool(np.any(block.weights))),
        types=read.types,
    )
    if n_rows == 0:
        return Partition(facts, None)
    block.check(n_labels=n_classes if n_labels is None else n_labels)
    return Partition(facts, block.sample())

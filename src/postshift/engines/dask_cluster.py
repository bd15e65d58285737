"""A cluster as an engine sees it: partitions that are kept, small results that come back, and no wait without end."""

from __future__ import annotations

import asyncio
import pickle
import time
from asyncio import CancelledError as AsyncCancelled
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from postshift._installing import install
from postshift._validation import check_in_range
from postshift.engines.dask_worker import Failed, added, given
from postshift.exceptions import EngineError, InputError, PostshiftError, SettingError

LARGE_CALL = 20_000  # bytes from which the arguments of a pass are sent to each worker once, not with every task
_POLL = 1.0  # seconds between two looks at a cluster that is waited for
_GRACE = 0.5  # seconds beyond a limit of Dask's own, whose error says more
_ANSWER = 5.0  # seconds that a scheduler may take to say which workers it has


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How many seconds to wait for a scheduler to answer, for a worker to be at work, and for a pass (None: ever)."""

    connect: float = 10.0
    workers: float = 60.0
    one_pass: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no time."""
        for name, value in (("connect_timeout", self.connect), ("worker_timeout", self.workers)):
            check_in_range(value, name=name, low=0, high=float("inf"), open_low=True, open_high=True)
        if self.one_pass is not None:
            check_in_range(self.one_pass, name="pass_timeout", low=0, high=float("inf"), open_low=True)


class Cluster:
    """A client of a scheduler: the one given, the current one, or that of a cluster on this machine.

    Parameters
    ----------
    client : distributed.Client or str, optional
        A client, or the address of a scheduler; by default the current client, and where there is none a
        ``LocalCluster`` of one process a core, which ends with :meth:`close`.
    patience : Patience
        How long to wait.
    """

    def __init__(self, client: Any = None, *, patience: Patience) -> None:
        self._patience = patience
        self._client, self._own = _connected(client, patience.connect)
        if self._client.asynchronous:
            raise SettingError("client must not be asynchronous: make one with distributed.Client(address)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def client(self) -> Any:
        """The client."""
        return self._client

    def close(self) -> None:
        """End what was started here."""
        own, self._own = self._own, []
        for each in own:
            with suppress(OSError, TimeoutError, RuntimeError):
                each.close()

    def compute(self, tasks: Sequence[Any]) -> list[Any]:
        """Begin to compute delayed objects, whose results stay on the workers; return their futures."""
        with _told("the cluster takes no work"):
            return list(self._client.compute(list(tasks)))

    def each(self, function: Callable[..., Any], futures: Sequence[Any], *more: Sequence[Any], name: str) -> list[Any]:
        """Begin to apply a function to what futures stand for, and to further arguments of each of them."""
        with _told("the cluster takes no work"):
            return list(self._client.map(function, list(futures), *more, pure=False, key=f"postshift-{name}"))

    def share(self, value: Any) -> Any:
        """Return what stands for a value that every task reads: itself, or a task that gives it where it is large."""
        try:
            large = len(pickle.dumps(value, protocol=5)) > LARGE_CALL
        except Exception:  # noqa: BLE001 -- Dask pickles more than Python does
            large = False
        if not large:
            return value
        with _told("the cluster takes no work"):
            return self._client.submit(given, value, pure=False, key=None)

    def total(self, futures: Sequence[Any], *, split_every: int) -> Any:
        """Return the sum of what futures stand for: by a tree on the workers, its last step here.

        The tree depends on the number of the parts alone, so the sum is the same whoever computes it, and in whatever
        order the parts are done.
        """
        parts = list(futures)
        while len(parts) > split_every:
            groups = [parts[first : first + split_every] for first in range(0, len(parts), split_every)]
            parts = self.each(added, groups, name="added")
        found = added(self.gathered(parts))
        if isinstance(found, Failed):
            found.error.add_note(f"in {found.place}")
            raise found.error
        return found

    def made(self, futures: Sequence[Any], places: Sequence[str]) -> list[Any]:
        """Return what futures stand for, one of each partition; the first that failed is raised."""
        found = self.gathered(futures, places)
        failed = next((each for each in found if isinstance(each, Failed)), None)
        if failed is not None:
            raise failed.error
        return found

    def gathered(self, futures: Sequence[Any], places: Sequence[str] | None = None) -> list[Any]:
        """Return what futures stand for, in their order, or say in bounded time why that cannot be had."""
        import distributed

        wanted = list(futures)
        watch = _Watch(self._client, self._patience, wanted)
        fetch = partial(self._client.gather, wanted, errors="raise", asynchronous=True)
        while True:
            try:
                with _told("the cluster dropped what it was to compute"):
                    with self._client.as_current():  # which need not be the default client
                        distributed.wait(wanted, timeout=watch.poll)
                    _refuse_failed(wanted, places)
                    return list(self._client.sync(fetch, callback_timeout=self._patience.workers))
            except TimeoutError:
                watch.look()


class _Watch:
    """Looks after a cluster that is waited for, because of some futures."""

    def __init__(self, client: Any, patience: Patience, futures: Sequence[Any]) -> None:
        self._client, self._patience, self._futures = client, patience, futures
        self._begun = self._seen = time.monotonic()

    @property
    def poll(self) -> float:
        """Seconds until the next look."""
        limit = self._patience.one_pass
        left = _POLL if limit is None else self._begun + limit - time.monotonic()
        return max(min(_POLL, self._patience.workers, left), 0.01)

    def look(self) -> None:
        """Give up where no worker has been at work for long, or where the pass takes too long."""
        reading = self._is_reading()
        found = self._asked("processing")
        now = time.monotonic()
        if reading or (found and any(found.values())):
            self._seen = now
        if now - self._seen > self._patience.workers:
            what = "its scheduler has not answered" if found is None else "it has had no worker"
            what = "none of its workers has been at work (are they paused, for want of memory?)" if found else what
            raise EngineError(
                f"the Dask cluster cannot go on: {what} for {now - self._seen:.0f} seconds (worker_timeout is "
                f"{self._patience.workers:g}); start workers, and fit again"
            )
        limit = self._patience.one_pass
        if limit is not None and now - self._begun > limit:
            raise EngineError(
                f"a pass over the rows takes longer than {limit:g} seconds (pass_timeout): allow more, or add workers"
            )

    def _is_reading(self) -> bool:
        """Say whether the scheduler still reads what it is to have computed, which may have a large model in it."""
        states = self._asked("get_task_status", keys=[future.key for future in self._futures[-1:]])
        return states is not None and None in states.values()

    def _asked(self, what: str, **more: Any) -> dict[str, Any] | None:
        """Return the answer of the scheduler; None where it does not answer."""
        try:
            ask = partial(getattr(self._client.scheduler, what), **more)
            found: dict[str, Any] = self._client.sync(ask, callback_timeout=_ANSWER)
        except (OSError, TimeoutError, RuntimeError, AttributeError, CancelledError, AsyncCancelled):
            return None
        return found


class _told:  # noqa: N801 -- used as a function
    """Turn what Dask says of a cluster that is gone into errors of ours; a TimeoutError passes."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or isinstance(error, TimeoutError | PostshiftError):
            return
        if _is_of_cluster(error):
            raise EngineError(f"{self._what}: {type(error).__name__}: {error}") from error


def _is_of_cluster(error: BaseException) -> bool:
    """Say whether an error is about the cluster, not about what it computes."""
    import distributed

    lost = (OSError, CancelledError, AsyncCancelled, distributed.scheduler.KilledWorker)
    closed = isinstance(error, RuntimeError) and ("closed" in str(error) or "not running" in str(error))
    return isinstance(error, lost) or closed or type(error).__name__.startswith("FutureCancelled")


def _refuse_failed(futures: Sequence[Any], places: Sequence[str] | None) -> None:
    """Raise the error of the first future that has one; a task of ours has none, but what it was to read may."""
    import distributed

    for number, future in enumerate(futures):
        if future.status in ("cancelled", "lost"):
            raise EngineError(f"the cluster dropped a result ({future.key}): was it restarted, or its client closed?")
        if future.status == "error":
            error = future.exception()
            if isinstance(error, PostshiftError):
                raise error
            place = f"partition {number}" if places is None else places[number]
            if isinstance(error, distributed.scheduler.KilledWorker):
                raise EngineError(
                    f"{place}: the workers that computed it died: {error}. Is there memory enough for a partition?"
                ) from error
            raise InputError(f"{place}: the rows cannot be computed: {type(error).__name__}: {error}") from error


def _connected(client: Any, timeout: float) -> tuple[Any, list[Any]]:
    """Return a client, and what has to be closed with it."""
    try:
        import distributed
    except ImportError as error:
        raise SettingError(f"a Dask engine needs dask and distributed: {install('dask')}") from error
    if isinstance(client, str):
        return _at_address(client, timeout)
    if client is None:
        try:
            client = distributed.get_client(timeout=timeout)
        except ValueError:
            local = distributed.LocalCluster(threads_per_worker=1, processes=True, dashboard_address=":0")
            client = distributed.Client(local, set_as_default=False)
            return client, [client, local]
    if not isinstance(client, distributed.Client):
        raise SettingError(f"client must be a distributed.Client or an address. Got {client!r} instead")
    if client.status != "running":
        raise EngineError(f"the Dask client is {client.status}, not connected to a scheduler: make another one")
    return client, []


def _at_address(address: str, timeout: float) -> tuple[Any, list[Any]]:
    """Return a client of the scheduler at an address."""
    import distributed

    try:
        with ThreadPoolExecutor(1) as thread:  # the caller's own may have a loop that runs
            thread.submit(asyncio.run, _greeted(address, timeout)).result()
        client = distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        why = f": {error}" if str(error) else ""
        raise EngineError(
            f"no Dask scheduler answers at {address!r} within {timeout:g} seconds (connect_timeout){why}: is it "
            "running, and is the address right?"
        ) from error
    return client, [client]


async def _greeted(address: str, timeout: float) -> None:  # noqa: ASYNC109 -- it is the user's
    """Wait for a word of a scheduler: a client of Dask's waits without end for one that accepts and is silent."""
    from distributed.comm import connect
    from distributed.security import Security

    how = Security().get_connection_args("client")
    call = await asyncio.wait_for(connect(address, timeout=timeout, **how), timeout + _GRACE)
    await call.close()

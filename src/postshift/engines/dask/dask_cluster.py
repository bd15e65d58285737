"""A cluster as an engine uses it: partitions stay on the workers, small results are returned, every wait is bounded."""

from __future__ import annotations

import asyncio
import pickle
import time
from asyncio import CancelledError as AsyncCancelled
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any

from postshift._installing import install
from postshift._validation import check_in_range, check_positive
from postshift.engines.dask.pass_task import Failed, added, shared_value
from postshift.exceptions import EngineError, InputError, PostshiftError, SettingError

LARGE_CALL = 20_000  # bytes from which the arguments of a pass are sent to each worker once, not with every task
_POLL = 1.0  # seconds between two checks of a cluster while waiting
_GRACE = 0.5  # seconds beyond Dask's limit, whose error says more
_ANSWER = 5.0  # seconds that a scheduler may take to answer about its workers


class Cluster(AbstractContextManager["Cluster"]):
    """A client of a scheduler: the one given, the current one, or that of a cluster on this machine.

    Parameters
    ----------
    client : distributed.Client or str, optional
        A client, or the address of a scheduler; by default the current client. If there is none, a ``LocalCluster``
        with one process per core is started, which ends with :meth:`close`.
    connect_timeout, worker_timeout : float
        Seconds to wait for the scheduler to answer, and for a worker to work.
    pass_timeout : float, optional
        Seconds to wait for the results of a pass; no limit by default.
    """

    def __init__(
        self,
        client: Any = None,
        *,
        connect_timeout: float = 10.0,
        worker_timeout: float = 60.0,
        pass_timeout: float | None = None,
    ) -> None:
        for name, value in (("connect_timeout", connect_timeout), ("worker_timeout", worker_timeout)):
            check_positive(value, name=name)
        if pass_timeout is not None:
            check_in_range(pass_timeout, name="pass_timeout", low=0, high=float("inf"), open_low=True)
        self._worker_timeout, self._pass_timeout = worker_timeout, pass_timeout
        self._client, self._own = _connected(client, connect_timeout)
        if self._client.asynchronous:
            raise SettingError("client must not be asynchronous: make one with distributed.Client(address)")

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def client(self) -> Any:
        """The client."""
        return self._client

    def close(self) -> None:
        """Close the clients and clusters that were started here."""
        own, self._own = self._own, []
        for each in own:
            with suppress(OSError, TimeoutError, RuntimeError):
                each.close()

    def compute(self, tasks: Sequence[Any]) -> list[Any]:
        """Start to compute delayed objects, whose results stay on the workers; return their futures."""
        with _cluster_errors("the cluster accepts no tasks"):
            return list(self._client.compute(list(tasks)))

    def each(self, function: Callable[..., Any], futures: Sequence[Any], *more: Sequence[Any], name: str) -> list[Any]:
        """Start to apply a function to the results of futures, and to further arguments for each; return futures."""
        with _cluster_errors("the cluster accepts no tasks"):
            return list(self._client.map(function, list(futures), *more, pure=False, key=f"postshift-{name}"))

    def share(self, value: Any) -> Any:
        """Return a value that every task reads or, if it is large, the future of a task that returns it."""
        try:
            large = len(pickle.dumps(value, protocol=5)) > LARGE_CALL
        except Exception:  # noqa: BLE001 -- Dask pickles more than Python does
            large = False
        if not large:
            return value
        with _cluster_errors("the cluster accepts no tasks"):
            return self._client.submit(shared_value, value, pure=False, key=None)

    def holders(self, futures: Sequence[Any]) -> dict[str, list[tuple[int, Hashable]]]:
        """Return the workers that hold results of futures: the number and the key of each result, at one worker."""
        keys = [future.key for future in futures]
        known = asked(self._client, "who_has", keys=keys) or {}
        held: dict[str, list[tuple[int, Hashable]]] = {}
        for number, key in enumerate(keys):
            if known.get(key):
                least = min(known[key], key=lambda worker: len(held.get(worker, ())))
                held.setdefault(least, []).append((number, key))
        return held

    def answers(self, function: Callable[..., Any], given: Mapping[str, Any], *more: Any) -> list[Any]:
        """Call a coroutine function on workers, outside of Dask's tasks; return what the workers that live answer.

        ``given`` has the first argument for each worker. A call is one message to a worker and one back. It is not
        repeated elsewhere if the worker is lost.
        """
        start = partial(self._client.run, function, on_error="ignore", asynchronous=True)
        loop = self._client.loop.asyncio_loop
        calls = {
            worker: asyncio.run_coroutine_threadsafe(start(first, *more, workers=[worker]), loop)
            for worker, first in given.items()
        }
        watch = self._watch([])
        try:
            while wait(calls.values(), timeout=watch.poll).not_done:
                known = watch.check()
                for worker, call in calls.items():
                    if known is not None and worker not in known:  # Dask would try to connect for half a minute
                        call.cancel()
        finally:
            for call in calls.values():
                call.cancel()
        done = [call for call in calls.values() if not call.cancelled() and call.exception() is None]
        return [answer for call in done for answer in call.result().values()]

    def total(self, parts: Sequence[Any], *, split_every: int) -> Any:
        """Return the sum of sums, some of which may be futures: by a tree whose shape depends on their number only.

        So the sum does not depend on which worker computes a part, or when. The client adds what it has; workers add
        the rest, except in the last step.
        """
        parts = list(parts)
        while len(parts) > split_every:
            groups = [parts[first : first + split_every] for first in range(0, len(parts), split_every)]
            parts = self._groups_added(groups)
        found = added(self._values(parts))
        if isinstance(found, Failed):
            found.error.add_note(f"in {found.place}")
            raise found.error
        return found

    def _groups_added(self, groups: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the sums of groups: futures for those that have futures."""
        if not any(map(_futures_in, groups)):
            return [added(group) for group in groups]
        remote = iter(self.each(added, [group for group in groups if _futures_in(group)], name="added"))
        return [next(remote) if _futures_in(group) else added(group) for group in groups]

    def _values(self, parts: Sequence[Any]) -> list[Any]:
        """Return parts, with the results in place of futures."""
        futures = _futures_in(parts)
        if not futures:
            return list(parts)
        results = iter(self.gathered(futures))
        return [next(results) if _futures_in([part]) else part for part in parts]

    def made(self, futures: Sequence[Any], places: Sequence[str]) -> list[Any]:
        """Return the results of futures, one for each partition; raise the first error."""
        found = self.gathered(futures, places)
        failed = next((each for each in found if isinstance(each, Failed)), None)
        if failed is not None:
            raise failed.error
        return found

    def gathered(self, futures: Sequence[Any], places: Sequence[str] | None = None) -> list[Any]:
        """Return the results of futures, in their order, or raise in bounded time."""
        import distributed

        wanted = list(futures)
        watch = self._watch(wanted)
        fetch = partial(self._client.gather, wanted, errors="raise", asynchronous=True)
        while True:
            try:
                with _cluster_errors("the cluster dropped a task"):
                    with self._client.as_current():  # which need not be the default client
                        distributed.wait(wanted, timeout=watch.poll)
                    _raise_failed(wanted, places)
                    return list(self._client.sync(fetch, callback_timeout=self._worker_timeout))
            except TimeoutError:
                watch.check()

    def _watch(self, futures: Sequence[Any]) -> _Watch:
        """Return a watch over the futures that are waited for; none if workers were called."""
        return _Watch(self._client, futures, worker_timeout=self._worker_timeout, pass_timeout=self._pass_timeout)


class _Watch:
    """Checks a cluster while its results are waited for."""

    def __init__(
        self, client: Any, futures: Sequence[Any], *, worker_timeout: float, pass_timeout: float | None
    ) -> None:
        self._client, self._futures = client, futures
        self._worker_timeout, self._pass_timeout = worker_timeout, pass_timeout
        self._started = self._seen = time.monotonic()

    @property
    def poll(self) -> float:
        """Seconds until the next check."""
        limit = self._pass_timeout
        left = _POLL if limit is None else self._started + limit - time.monotonic()
        return max(min(_POLL, self._worker_timeout, left), 0.01)

    def check(self) -> dict[str, Any] | None:
        """Return the tasks of each worker, None if unknown; raise if none worked, or the pass takes, for too long.

        A worker that was called works until its call ends: no task shows it.
        """
        reading = self._is_reading()
        found = asked(self._client, "processing")
        now = time.monotonic()
        if reading or (found and (not self._futures or any(found.values()))):
            self._seen = now
        if now - self._seen > self._worker_timeout:
            what = "its scheduler has not answered" if found is None else "it has had no worker"
            what = (
                "none of its workers has made progress (are they paused because they are short of memory?)"
                if found
                else what
            )
            raise EngineError(
                f"the Dask cluster does not respond: {what} for {now - self._seen:.0f} seconds (worker_timeout is "
                f"{self._worker_timeout:g}); start workers and fit again"
            )
        limit = self._pass_timeout
        if limit is not None and now - self._started > limit:
            raise EngineError(
                f"a pass over the rows takes longer than {limit:g} seconds (pass_timeout): increase pass_timeout, or "
                "add workers"
            )
        return found

    def _is_reading(self) -> bool:
        """Return whether the scheduler is still reading the tasks, which may contain a large model."""
        states = asked(self._client, "get_task_status", keys=[future.key for future in self._futures[-1:]])
        return states is not None and None in states.values()


def asked(client: Any, what: str, **more: Any) -> dict[str, Any] | None:
    """Return the answer of the scheduler; None if it does not answer."""
    try:
        ask = partial(getattr(client.scheduler, what), **more)
        found: dict[str, Any] = client.sync(ask, callback_timeout=_ANSWER)
    except (OSError, TimeoutError, RuntimeError, AttributeError, CancelledError, AsyncCancelled):
        return None
    return found


def _futures_in(parts: Sequence[Any]) -> list[Any]:
    """Return those of some parts that are futures."""
    import distributed

    return [part for part in parts if isinstance(part, distributed.Future)]


@contextmanager
def _cluster_errors(what: str) -> Iterator[None]:
    """Turn Dask's errors about a cluster that is gone into errors of this library, except a TimeoutError."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, TimeoutError | PostshiftError) or not _is_of_cluster(error):
            raise
        raise EngineError(f"{what}: {type(error).__name__}: {error}") from error


def _is_of_cluster(error: BaseException) -> bool:
    """Return whether an error is about the cluster, not about its tasks."""
    import distributed

    lost = (OSError, CancelledError, AsyncCancelled, distributed.scheduler.KilledWorker)
    closed = isinstance(error, RuntimeError) and ("closed" in str(error) or "not running" in str(error))
    return isinstance(error, lost) or closed or type(error).__name__.startswith("FutureCancelled")


def _raise_failed(futures: Sequence[Any], places: Sequence[str] | None) -> None:
    """Raise the error of the first future that has one: our tasks return errors, but their inputs may raise."""
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
                    f"{place}: the workers that computed it died: {error}. Is there enough memory for a partition?"
                ) from error
            raise InputError(f"{place}: the rows cannot be computed: {type(error).__name__}: {error}") from error


def _connected(client: Any, timeout: float) -> tuple[Any, list[Any]]:
    """Return a client, and the objects to close with it."""
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
        raise EngineError(f"the Dask client is {client.status}, not connected to a scheduler: make a new one")
    return client, []


def _at_address(address: str, timeout: float) -> tuple[Any, list[Any]]:
    """Return a client of the scheduler at an address."""
    import distributed

    try:
        with ThreadPoolExecutor(1) as thread:  # an event loop may be running in the thread of the caller
            thread.submit(asyncio.run, _greeted(address, timeout)).result()
        client = distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        why = f": {error}" if str(error) else ""
        raise EngineError(
            f"no Dask scheduler answers at {address!r} within {timeout:g} seconds (connect_timeout){why}: is it "
            "running, and is the address right?"
        ) from error
    return client, [client]


async def _greeted(address: str, timeout: float) -> None:  # noqa: ASYNC109 -- the user sets it
    """Wait until a scheduler answers: Dask's client waits forever if it accepts the connection and never answers."""
    from distributed.comm import connect
    from distributed.security import Security

    how = Security().get_connection_args("client")
    call = await asyncio.wait_for(connect(address, timeout=timeout, **how), timeout + _GRACE)
    await call.close()

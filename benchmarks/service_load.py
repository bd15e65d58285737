"""The load on a server: bodies of queries, and many clients at once, each a thread with a connection of its own."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.service_servers import Server
from benchmarks.timing import FailedError
from postshift.oracle.wire import encoded

N_CELLS = 80  # of a table: basis pattern x likeliest class x how likely it is
N_PATTERNS = 3  # of a confusion query: a constant and two groups
_BITS = 24  # rows in which queries differ: 2**24 queries
_TIMEOUT = 60  # seconds that a client waits for an answer


@dataclass(frozen=True)
class Bodies:
    """Bodies of one kind of query as ``RemoteMetric`` sends them, in as many versions as are needed."""

    head: bytes
    tail: bytes

    @classmethod
    def of(cls, kind: str, *, mode: str, n_rows: int, cost: int) -> Bodies:
        """Return the bodies of a kind."""
        rng = np.random.default_rng(0)
        patterns = rng.integers(N_PATTERNS, size=n_rows)
        labels = encoded(rng.integers(2, size=n_rows), "u4")
        arrays: dict[str, Any] = {"predictions": labels}
        if kind == "table":
            arrays = {"cells": encoded(rng.integers(N_CELLS, size=n_rows), "u4")}
        elif kind == "confusion" and mode == "private":
            arrays["cells"] = encoded(patterns, "u4")
        elif kind == "confusion":
            columns = np.column_stack([np.ones(n_rows), patterns == 1, patterns == 2])
            arrays["columns"] = encoded(columns, "f8")
        body = json.dumps({"kind": kind, "cost": cost, **arrays}, separators=(",", ":")).encode()
        first = body.index(b'"data":"') + len(b'"data":"')
        return cls(body[:first], body[first + len(_first_rows(0)) :])

    def version(self, number: int) -> bytes:
        """Return the body of a query; other numbers, other queries."""
        return b"".join((self.head, _first_rows(number), self.tail))


def rewritten(body: bytes, number: int) -> bytes:
    """Return a body of the same query in another text: the digits of a number are spaces and tabs before it."""
    return f"{number:b}".translate({ord("0"): " ", ord("1"): "\t"}).encode() + body


def _first_rows(number: int) -> bytes:
    """Return the first rows of the first array, which have the digits of a number as labels or cells."""
    bits = [number >> place & 1 for place in range(_BITS)]
    return base64.b64encode(np.array(bits, dtype="<u4").tobytes())


@dataclass(frozen=True, kw_only=True)
class Load:
    """What clients measured."""

    latencies: np.ndarray  # seconds, of each query
    wall: float
    cpu: float  # seconds, of the process of the server
    client_cpu: float  # seconds, of the process of the clients

    @property
    def per_second(self) -> float:
        """Queries a second."""
        return len(self.latencies) / self.wall


class Clients:
    """Clients that send queries at once; each sends the next when it has the answer to the last.

    Parameters
    ----------
    server : Server
        A server on this machine.
    n_clients : int
        How many.
    """

    def __init__(self, server: Server, *, n_clients: int) -> None:
        self._server, self._n_clients = server, n_clients
        self._headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}

    def send(self, bodies: Iterable[bytes], *, wanted: bytes) -> Load:
        """Send all bodies; raise unless every answer has status 200 and has the bytes ``wanted``."""
        queue, lock, latencies, failures = iter(bodies), threading.Lock(), [], []
        ready = threading.Barrier(self._n_clients + 1)

        def work() -> None:
            with contextlib.closing(http.client.HTTPConnection(self._server.host, timeout=_TIMEOUT)) as connection:
                connection.connect()
                ready.wait(_TIMEOUT)
                while not failures and (body := _next(queue, lock)) is not None:
                    latencies.append(self._asked(connection, body, wanted=wanted))

        def guarded() -> None:
            try:
                work()
            except (OSError, RuntimeError, http.client.HTTPException, FailedError) as error:
                failures.append(error)

        threads = [threading.Thread(target=guarded, daemon=True) for _ in range(self._n_clients)]
        for each in threads:
            each.start()
        ready.wait(_TIMEOUT)
        before = self._clocks()
        for each in threads:
            each.join()
        wall, cpu, client_cpu = self._clocks() - before
        if failures:
            raise failures[0]
        return Load(latencies=np.array(latencies), wall=wall, cpu=cpu, client_cpu=client_cpu)

    def _clocks(self) -> np.ndarray:
        """Return the seconds of all clocks: wall, server, clients."""
        return np.array([time.perf_counter(), self._server.cpu, time.process_time()])

    def _asked(self, connection: http.client.HTTPConnection, body: bytes, *, wanted: bytes) -> float:
        """Send a query and read its answer; return the seconds."""
        start = time.perf_counter()
        connection.request("POST", "/v1/answers", body=body, headers=self._headers)
        response = connection.getresponse()
        found = response.read()
        seconds = time.perf_counter() - start
        if response.status != http.HTTPStatus.OK or wanted not in found:
            raise FailedError(f"HTTP {response.status}, without {wanted.decode()}: {found[:200].decode()}")
        return seconds


def _next(queue: Iterator[bytes], lock: threading.Lock) -> bytes | None:
    """Return the next body, or None; threads share the queue."""
    with lock:
        return next(queue, None)

"""The metric as a service: queries a second, latencies and memory, with 64 clients at once and 10^5 rows.

``python -m benchmarks.service`` starts ``postshift oracle serve`` with an SQLite ledger, in private mode and in trusted
mode, and beside it one bare FastAPI endpoint that parses the same bodies. The same clients ask both, in turns. It
prints the figures; ``--store`` writes ``docs/results/service_bench.csv``, ``service_memory.csv`` and the page. It takes
a quarter of an hour and needs an idle machine.

====================  =========================================================================
answers               what is asked
====================  =========================================================================
bare                  the bare endpoint
stored                the service, bodies that it has answered before
stored, other text    the same queries, written with other spaces: they are found in the ledger
new                   the service, new queries: answered, charged and stored
====================  =========================================================================
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path

import numpy as np

from benchmarks.others import Others
from benchmarks.service_load import Bodies, Clients, Load, rewritten
from benchmarks.service_page import BARE, NAME, NEW, OTHER_TEXT, OUT, STORED, Figures, Memory, memory_in_words, store
from benchmarks.service_servers import KINDS, PRIVATE, TRUSTED, Server, bare, service
from experiments.harness.files import versions

COST = {PRIVATE: 1000, TRUSTED: 1}  # micro-rho; queries
REPEATED = {STORED: b'"repeated": true', OTHER_TEXT: b'"repeated": true', NEW: b'"repeated": false'}
MODES = (PRIVATE, TRUSTED)
TICK = 0.01  # seconds: the clock of a process
N_STEPS = 20  # looks at the memory


class Measurement:
    """The measurements of one mode.

    Parameters
    ----------
    ours, theirs : Server
        The service and the bare endpoint.
    mode : {"private", "trusted"}
        The mode of the service.
    n_rows, n_clients : int
        Validation rows, and clients that ask at once.
    """

    def __init__(self, ours: Server, theirs: Server, *, mode: str, n_rows: int, n_clients: int) -> None:
        self._ours, self._mode, self._n_rows, self._n_clients = ours, mode, n_rows, n_clients
        self._service = Clients(ours, n_clients=n_clients)
        self._bare = Clients(theirs, n_clients=n_clients)
        self._bodies = {kind: Bodies.of(kind, mode=mode, n_rows=n_rows, cost=COST[mode]) for kind in KINDS}
        self._numbers, self._texts = count(), count(1)

    def speed(self, kind: str, *, n_queries: int, rounds: int) -> list[Figures]:
        """Return the figures of one kind of query: all kinds of answers in turns, the median of several rounds."""
        asked = list(self._new(n_queries=self._n_clients, kinds=[kind]))
        self._service.send(asked, wanted=REPEATED[NEW])
        few = max(self._n_clients, n_queries // 5)

        def again(n_queries: int) -> Iterator[bytes]:
            return (asked[place % len(asked)] for place in range(n_queries))

        def other_text() -> Iterator[bytes]:
            return (rewritten(body, next(self._texts)) for body in again(few))

        sends: dict[str, Callable[[], Load]] = {
            BARE: lambda: self._bare.send(again(n_queries), wanted=kind.encode()),
            STORED: lambda: self._service.send(again(n_queries), wanted=REPEATED[STORED]),
            OTHER_TEXT: lambda: self._service.send(other_text(), wanted=REPEATED[OTHER_TEXT]),
            NEW: lambda: self._service.send(self._new(n_queries=few, kinds=[kind]), wanted=REPEATED[NEW]),
        }
        loads: dict[str, list[Load]] = {answers: [] for answers in sends}
        disk = fsync_ms()
        with Others() as others:
            for _ in range(rounds + 1):  # the first warms up
                for answers, send in sends.items():
                    loads[answers].append(send())
        return [
            _said(self._figures(kind, answers, found[1:], others=others.cores, disk=disk))
            for answers, found in loads.items()
        ]

    def memory(self, *, n_queries: int) -> list[Memory]:
        """Return the memory of the service along new queries of all kinds, after a fifth as many that warm it up."""
        warm = n_queries // 5
        steps = [0, warm, *np.linspace(0, n_queries, N_STEPS + 1, dtype=int)[1:] + warm]
        found = [Memory(mode=self._mode, queries=0, mb=self._ours.memory)]
        for done, wanted in pairwise(map(int, steps)):
            self._service.send(self._new(n_queries=wanted - done, kinds=KINDS), wanted=REPEATED[NEW])
            found.append(Memory(mode=self._mode, queries=wanted, mb=self._ours.memory))
        return found

    def _new(self, *, n_queries: int, kinds: Sequence[str]) -> Iterator[bytes]:
        """Return bodies of queries that were not sent yet, of several kinds in turns."""
        return (self._bodies[kinds[place % len(kinds)]].version(next(self._numbers)) for place in range(n_queries))

    def _figures(self, kind: str, answers: str, loads: Sequence[Load], *, others: float, disk: float) -> Figures:
        """Return the figures of several loads."""
        n_queries = sum(len(load.latencies) for load in loads)
        p50, p95, p99 = np.median([np.percentile(1e3 * load.latencies, [50, 95, 99]) for load in loads], axis=0)
        return Figures(
            mode=self._mode,
            kind=kind,
            answers=answers,
            rows=self._n_rows,
            clients=self._n_clients,
            body_kb=len(self._bodies[kind].version(0)) / 1e3,
            queries=n_queries,
            per_second=float(np.median([load.per_second for load in loads])),
            p50_ms=float(p50),
            p95_ms=float(p95),
            p99_ms=float(p99),
            cpu_ms=1e3 * max(TICK, sum(load.cpu for load in loads)) / n_queries,
            client_cores=float(np.median([load.client_cpu / load.wall for load in loads])),
            others=others,
            fsync_ms=disk,
            versions=versions("fastapi", "uvicorn", "sqlalchemy"),
        )


def measured(
    mode: str, *, n_rows: int, n_clients: int, n_queries: int, rounds: int
) -> tuple[list[Figures], list[Memory]]:
    """Return the figures of one mode."""
    with (
        tempfile.TemporaryDirectory() as folder,
        bare() as theirs,
        service(Path(folder) / "labels", mode=mode, n_rows=n_rows) as ours,
    ):
        measurement = Measurement(ours, theirs, mode=mode, n_rows=n_rows, n_clients=n_clients)
        memory = measurement.memory(n_queries=n_queries)
        size = {"n_queries": n_queries // 20, "rounds": rounds}
        return [each for kind in KINDS for each in measurement.speed(kind, **size)], memory


def fsync_ms() -> float:
    """Return the milliseconds in which a small write reaches the disk that ledgers are on, the median of ten."""
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(10):
            start = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            times.append(1e3 * (time.perf_counter() - start))
    return float(np.median(times))


def _said(figures: Figures) -> Figures:
    """Print a line."""
    print(
        f"{figures.mode:8} {figures.kind:10} {figures.answers:18} {figures.body_kb:6.0f} kB: "
        f"{figures.per_second:7.1f} queries/s, p50 {figures.p50_ms:7.1f} ms, p95 {figures.p95_ms:7.1f} ms, "
        f"p99 {figures.p99_ms:7.1f} ms, CPU {figures.cpu_ms:5.2f} ms, clients {figures.client_cores:.2f} cores, "
        f"others {figures.others:.2f} cores",
        flush=True,
    )
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and perhaps store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e5)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--queries", type=float, default=1e4, help="along which memory is measured")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--store", action="store_true", help=f"put the figures into docs/results/{NAME}.csv")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    size = {"n_rows": int(given.rows), "n_clients": given.clients, "n_queries": int(given.queries)}
    for mode in given.modes:
        figures, memory = measured(mode, **size, rounds=given.rounds)
        print(memory_in_words(memory), flush=True)
        if given.store:
            store(figures, memory, given.out)


if __name__ == "__main__":
    main()

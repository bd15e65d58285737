"""Dask clusters in processes of their own, so that a scheduler does not share the interpreter of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]

_LOCAL = """
import sys
from distributed import LocalCluster

if __name__ == "__main__":
    how = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with LocalCluster(n_workers=int(sys.argv[1]), **how) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@contextmanager
def started(*arguments):
    """A Python process that prints a line when it is ready, and ends with its input."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths},
        text=True,
    )
    try:
        line = process.stdout.readline().strip()
        assert line, "the process ended before it was ready"
        yield process, line
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@contextmanager
def local_cluster(n_workers=2):
    """The address of the scheduler of a LocalCluster of processes."""
    with started("-c", _LOCAL, str(n_workers)) as (_, address):
        yield address


_SCHEDULER = """
import asyncio, sys
import postshift.engines.dask  # what it is sent needs that; on a busy machine it takes long
from distributed import Scheduler

async def main():
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address=":0") as scheduler:
        print(scheduler.address, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""

_WORKER = """
import asyncio, sys
import postshift.engines.dask  # what it is sent needs that; on a busy machine it takes long
from distributed import Worker

async def main():
    async with Worker(sys.argv[1], nthreads=1, memory_limit=0, dashboard_address=":0") as worker:
        print(worker.address, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""


def bare_scheduler():
    """A scheduler without workers: its process, and its address."""
    return started("-c", _SCHEDULER)


def bare_worker(address):
    """A worker that nobody starts again: its process, and its address."""
    return started("-c", _WORKER, address)

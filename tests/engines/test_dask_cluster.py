"""What the Dask engine does when workers, all workers or the scheduler are lost: the same result, or an error soon."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask.array as da
from distributed import Client, LocalCluster
from distributed.core import Status

from postshift import MemoryEngine, fw_eg
from postshift.engines import ArrayParts, DaskEngine
from postshift.engines.dask import dask_engine
from postshift.engines.dask.dask_cluster import Cluster
from postshift.exceptions import EngineError, SettingError
from postshift.metrics import GMean
from tests.engines.dask_clusters import bare_scheduler, bare_worker, local_cluster
from tests.problems import make_problem

# Sockets of processes that were killed are closed by whoever finds them.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def as_parts(sample, n_blocks):
    rows = -(-sample.n_rows // n_blocks)
    eta, phi = (da.from_array(part, chunks=(rows, -1)) for part in (sample.eta, sample.phi))
    return ArrayParts(eta, phi=phi, labels=da.from_array(sample.labels, chunks=rows))


@pytest.fixture(scope="module")
def client():
    with local_cluster() as address, Client(address, set_as_default=False) as client:
        yield client


def a_worker(client):
    """The process of a worker, to be ended as a machine would that loses its power."""
    return min(client.run(os.getpid).values())


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_fit(client):
    problem = make_problem(seed=8, n_classes=3, n_bases=3, basis="soft", n_train=3000, n_val=500)
    answers = []

    def after(query, answer):  # noqa: ARG001
        answers.append(query)
        if len(answers) == 3:
            os.kill(a_worker(client), signal.SIGKILL)

    with DaskEngine(as_parts(problem.train, 6), client=client) as engine:
        undisturbed = fw_eg(engine, problem.val, GMean(), max_iter=6)
        found = fw_eg(engine, problem.val, GMean(), max_iter=6, on_answer=after)
    assert len(answers) > 3
    assert found.score == undisturbed.score
    np.testing.assert_array_equal(found.mixture.shares, undisturbed.mixture.shares)
    for one, other in zip(found.mixture.members, undisturbed.mixture.members, strict=True):
        np.testing.assert_array_equal(one.alpha, other.alpha)  # to the last digit, soft basis and all


class Slow:
    """A classifier that takes its time."""

    def __init__(self, seconds):
        self.seconds = seconds

    def distribution(self, eta, phi):  # noqa: ARG002
        time.sleep(self.seconds)
        return eta


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_pass(client):
    sample = make_problem(seed=8, n_classes=3, n_bases=3, basis="soft").train
    client.wait_for_workers(2, timeout=60)
    with DaskEngine(as_parts(sample, 6), client=client) as engine:
        undisturbed = engine.influence_sums(Slow(0.0)).pair
        killer = threading.Timer(0.5, os.kill, [a_worker(client), signal.SIGKILL])
        killer.start()
        found = engine.influence_sums(Slow(0.5)).pair
        killer.join()
        np.testing.assert_array_equal(found, undisturbed)
        np.testing.assert_array_equal(engine.influence_sums(Slow(0.0)).pair, undisturbed)
    np.testing.assert_allclose(found, MemoryEngine(sample).influence_sums(Slow(0.0)).pair, rtol=1e-12)


@pytest.mark.slow
def test_partitions_that_move_and_a_worker_that_dies_unnoticed(monkeypatch):
    sample = make_problem(seed=8, n_classes=3, n_bases=3, basis="soft").train
    with ExitStack() as stack:
        _, address = stack.enter_context(bare_scheduler())
        _, first = stack.enter_context(bare_worker(address))
        client = stack.enter_context(Client(address, set_as_default=False))
        engine = stack.enter_context(DaskEngine(as_parts(sample, 6), client=client))
        alone = engine.influence_sums(Slow(0.0)).pair
        process, second = stack.enter_context(bare_worker(address))
        client.replicate(engine._held[:4], n=2)
        places = engine._cluster.holders(engine._held)
        assert set(places) == {first, second}
        np.testing.assert_array_equal(engine.influence_sums(Slow(0.0)).pair, alone)
        client.retire_workers([first])
        assert set(engine._cluster.holders(engine._held)) == {second}
        np.testing.assert_array_equal(engine.influence_sums(Slow(0.0)).pair, alone)
        stack.enter_context(bare_worker(address))
        process.kill()
        monkeypatch.setattr(engine._cluster, "holders", lambda _: places)  # as if nobody had heard of it
        np.testing.assert_array_equal(engine.influence_sums(Slow(0.0)).pair, alone)


def test_a_pass_that_takes_too_long(client):
    sample = make_problem(seed=8, n_classes=3).train
    with (
        DaskEngine(as_parts(sample, 2), client=client, pass_timeout=5.0) as engine,
        pytest.raises(EngineError, match=r"longer than 5 seconds \(pass_timeout\)"),
    ):
        engine.influence_sums(Slow(20.0))


@pytest.mark.slow
def test_all_workers_lost():
    sample = make_problem(seed=8, n_classes=3).train
    with ExitStack() as stack:
        _, address = stack.enter_context(bare_scheduler())
        workers = [stack.enter_context(bare_worker(address))[0] for _ in range(2)]
        with DaskEngine(as_parts(sample, 4), client=address, worker_timeout=2.0) as engine:
            engine.label_sums()
            for worker in workers:
                worker.kill()
            with pytest.raises(EngineError, match=r"it has had no worker for \d+ seconds \(worker_timeout is 2\)"):
                engine.label_sums()
            stack.enter_context(bare_worker(address))  # what was lost is computed again by whoever comes
            np.testing.assert_array_equal(engine.label_sums().pair, MemoryEngine(sample).label_sums().pair)


def set_status(name, dask_worker):
    dask_worker.status = Status[name]


@pytest.mark.slow
def test_workers_that_do_not_work():
    sample = make_problem(seed=8, n_classes=3).train
    with bare_scheduler() as (_, address), bare_worker(address), Client(address, set_as_default=False) as client:
        client.run(set_status, "paused")  # as a worker does that has no memory left
        with pytest.raises(EngineError, match="none of its workers has made progress"):
            DaskEngine(as_parts(sample, 2), client=client, worker_timeout=2.0)


def read_slowly(seconds):
    time.sleep(seconds)
    return Slow(0.0)


class SlowToRead(Slow):
    """A classifier that takes its time whenever it is unpickled."""

    def __reduce__(self):
        return read_slowly, (self.seconds,)


@pytest.mark.slow
def test_a_worker_and_a_scheduler_that_read_for_long(monkeypatch):
    monkeypatch.setattr(dask_engine, "MOST_BYTES", 0)  # the worker is called, and then gets a task
    sample = make_problem(seed=8, n_classes=3).train
    with (
        bare_scheduler() as (_, address),
        bare_worker(address),
        DaskEngine(as_parts(sample, 1), client=address, worker_timeout=1.0) as engine,
    ):
        found = engine.influence_sums(SlowToRead(2.0)).pair
    np.testing.assert_allclose(found, MemoryEngine(sample).influence_sums(Slow(0.0)).pair, rtol=1e-12)


@pytest.mark.slow
def test_no_worker_and_then_no_scheduler():
    sample = make_problem(seed=8, n_classes=3).train
    with bare_scheduler() as (scheduler, address):
        with pytest.raises(EngineError, match="it has had no worker"):
            DaskEngine(as_parts(sample, 2), client=address, worker_timeout=1.0)
        with bare_worker(address), DaskEngine(as_parts(sample, 2), client=address, worker_timeout=2.0) as engine:
            engine.label_sums()
            scheduler.kill()
            with pytest.raises(EngineError):
                engine.label_sums()


def test_an_unreachable_scheduler():
    parts = as_parts(make_problem(seed=8).train, 2)
    with pytest.raises(EngineError, match=r"no Dask scheduler answers at 'tcp://127.0.0.1:9' within 1 seconds"):
        DaskEngine(parts, client="tcp://127.0.0.1:9", connect_timeout=1.0)
    with pytest.raises(EngineError, match="no Dask scheduler answers"):
        DaskEngine(parts, client="nonsense://here", connect_timeout=1.0)


def test_a_scheduler_that_is_silent():
    parts = as_parts(make_problem(seed=8).train, 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts calls, and never says a word
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(EngineError, match=rf"no Dask scheduler answers at '{address}' within 1 seconds"):
            DaskEngine(parts, client=address, connect_timeout=1.0)


def test_a_client_that_is_closed(client):
    with Client(client.scheduler.address, set_as_default=False) as other:
        pass
    with pytest.raises(EngineError, match="the Dask client is closed"):
        Cluster(other)


def test_an_asynchronous_client(client):
    async def make():
        async with Client(client.scheduler.address, asynchronous=True, set_as_default=False) as other:
            with pytest.raises(SettingError, match="asynchronous"):
                Cluster(other)

    client.sync(make)


@pytest.mark.slow
def test_without_a_client_a_cluster_is_started_and_ended_with_the_engine():
    sample = make_problem(seed=8, n_classes=3).train
    with DaskEngine(as_parts(sample, 2)) as engine:
        np.testing.assert_array_equal(engine.label_sums().pair, MemoryEngine(sample).label_sums().pair)
        started = engine._cluster._own[1]
        assert isinstance(started, LocalCluster)
    assert started.status.name == "closed"

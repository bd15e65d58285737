"""The work of a worker: what a partition holds, which partitions are summed, and errors among the sums."""

from __future__ import annotations

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("distributed")

from dask.sizeof import sizeof

from postshift import MemoryEngine
from postshift.engines.dask.pass_task import Failed, Partition, PartitionFacts, PassCall, added, sum_held
from postshift.exceptions import EngineError
from tests.problems import make_problem

# The threads of a Dask client draw random numbers while a property test draws its examples.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")


def test_a_partition_weighs_what_its_rows_do_and_travels_without_its_engine():
    facts = PartitionFacts(place="partition 0", n_rows=90, n_classes=3, n_bases=2, has_labels=True, has_weight=True)
    sample = make_problem(seed=3).train
    partition = Partition(facts, sample)
    assert sizeof(partition) > sample.eta.nbytes
    partition._engine = MemoryEngine(sample)
    again = pickle.loads(pickle.dumps(partition))  # noqa: S301
    assert again._engine is None
    assert again.facts == facts


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_worker_sums_what_it_holds_and_leaves_it_unadded(n_threads):
    facts = PartitionFacts(place="partition", n_rows=90, n_classes=3, n_bases=2, has_labels=True, has_weight=True)
    sample = make_problem(seed=3).train
    data = {"b": Partition(facts, sample), "c": Failed(ValueError("x"), "partition 2"), "d": Partition(facts, None)}
    call = PassCall(method="label_sums", n_cells=270, kernels="numpy", n_categories=None, sort_rows=True)
    with ThreadPoolExecutor(n_threads) as pool:
        worker = SimpleNamespace(data=data, executors={"default": pool}, state=SimpleNamespace(nthreads=n_threads))
        wanted = list(enumerate("abcd"))
        found = asyncio.run(sum_held(wanted, call, 1e6, dask_worker=worker))
        assert sorted(found) == [1, 2, 3]
        np.testing.assert_array_equal(found[1].pair, MemoryEngine(sample).label_sums().pair)
        assert (found[2], found[3]) == (data["c"], None)
        assert asyncio.run(sum_held(wanted, call, 100, dask_worker=worker)) is None


def test_errors_among_sums():
    first, second = Failed(ValueError("a"), "partition 1"), Failed(ValueError("b"), "partition 4")
    assert added([1.0, None, first, 2.0, second]) is first
    assert added([None, None]) is None

    class Odd(Exception):  # noqa: N818
        def __reduce__(self):
            raise TypeError("cannot be pickled")

    assert isinstance(Failed.of(Odd("x"), "partition 2").error, EngineError)

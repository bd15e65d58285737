"""The task of a pass over one partition: what it holds, and errors among the sums."""

from __future__ import annotations

import pickle

import pytest

pytest.importorskip("distributed")

from dask.sizeof import sizeof

from postshift import MemoryEngine
from postshift.engines.dask.pass_task import Failed, Partition, PartitionFacts, added
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


def test_errors_among_sums():
    first, second = Failed(ValueError("a"), "partition 1"), Failed(ValueError("b"), "partition 4")
    assert added([1.0, None, first, 2.0, second]) is first
    assert added([None, None]) is None

    class Odd(Exception):  # noqa: N818
        def __reduce__(self):
            raise TypeError("cannot be pickled")

    assert isinstance(Failed.of(Odd("x"), "partition 2").error, EngineError)

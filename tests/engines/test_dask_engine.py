"""The Dask engine on a cluster of processes: held to the contract, and to the in-memory engine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask.array as da
from distributed import Client

from postshift import MemoryEngine, fw_eg
from postshift.core.rate_program import Limits, RateProgram, expected_rates
from postshift.engines import ArrayParts, DaskEngine
from postshift.engines.dask import dask_cluster, dask_engine
from postshift.engines.dask.pass_task import added
from postshift.exceptions import BasisError, LabelError, ProbabilityError, SettingError, ShapeError, WeightError
from postshift.metrics import GMean, MacroF1
from tests.contracts.engine import EngineContract, random_classifiers
from tests.engines.dask_clusters import local_cluster
from tests.engines.dask_sums import as_arrays, assert_same_sums
from tests.problems import make_problem

# The threads of a Dask client draw random numbers while a property test draws its examples.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")


@pytest.fixture(scope="module")
def client():
    with local_cluster() as address, Client(address) as client:
        yield client


@pytest.mark.slow
@pytest.mark.usefixtures("client")
class TestContract(EngineContract):
    def make(self, sample, n_blocks, **more):
        return DaskEngine(as_arrays(sample, n_blocks), **more)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(("basis", "weighted"), [("hard", False), ("soft", True)])
def test_sums_are_those_of_the_memory_engine(basis, weighted):
    sample = make_problem(seed=4, n_classes=4, n_bases=3, basis=basis, weighted=weighted).train
    with DaskEngine(as_arrays(sample, 11), split_every=3) as engine:  # a tree of two levels
        assert_same_sums(engine, MemoryEngine(sample), sample)


@pytest.mark.slow
@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("exact", [True, False], ids=["integers", "fractions"])
def test_a_rate_program_is_that_of_the_memory_engine(exact):
    """The same columns where sums are integers, otherwise the same objective."""
    sample = make_problem(seed=5, n_classes=3, n_bases=2, n_train=600).train
    sample = replace(sample, eta=np.eye(3)[np.argmax(sample.eta, axis=1)] if exact else sample.eta)
    rng = np.random.default_rng(0)
    goal, coefficients = rng.normal(size=(2, 3, 3)), rng.normal(size=(5, 2, 3, 3))
    size = {"n_bases": 2, "n_classes": 3, "tol": 1e-9}

    def program(engine):
        rates = expected_rates(engine)
        start = RateProgram(rates, **size, limits=Limits(coefficients=coefficients[:0], bounds=np.empty(0)))
        bounds = np.tensordot(coefficients, start.columns[0], axes=3)
        return RateProgram(rates, **size, limits=Limits(coefficients=coefficients, bounds=bounds, names=("",) * 5))

    one = program(MemoryEngine(sample))
    with DaskEngine(as_arrays(sample, 5)) as engine:
        other = program(engine)
        assert other.maximise(goal).value == pytest.approx(one.maximise(goal).value, abs=1e-9)
    if exact:
        np.testing.assert_array_equal(one.columns, other.columns)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("metric", [GMean(), MacroF1()], ids=["gmean", "macro_f1"])
def test_a_whole_fit_is_that_of_the_memory_engine(metric):
    problem = make_problem(seed=8, n_classes=3, n_bases=2, n_train=3000, n_val=500)
    with DaskEngine(as_arrays(problem.train, 5)) as engine:
        found = fw_eg(engine, problem.val, metric, max_iter=6)
    expected = fw_eg(problem.train, problem.val, metric, max_iter=6)
    np.testing.assert_array_equal(found.mixture.shares, expected.mixture.shares)
    for one, other in zip(found.mixture.members, expected.mixture.members, strict=True):
        np.testing.assert_array_equal(one.alpha, other.alpha)
    assert found.score == expected.score


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("kernels", ["numpy", "numba"])
def test_kernels(kernels):
    if kernels == "numba":
        pytest.importorskip("numba")
    sample = make_problem(seed=2, n_classes=5, n_bases=3, n_train=400).train
    with DaskEngine(as_arrays(sample, 2), kernels=kernels, sort_rows=False) as engine:
        assert_same_sums(engine, MemoryEngine(sample), sample)


@pytest.mark.usefixtures("client")
def test_large_arguments_are_shared_and_not_sent_with_every_task(monkeypatch):
    sample = make_problem(seed=2, n_classes=3, n_bases=2).train
    rule = random_classifiers(sample, 0)[0]
    with DaskEngine(as_arrays(sample, 3)) as engine:
        small = engine.classifier_sums(rule, confusions=True).pair
        monkeypatch.setattr(dask_engine, "MOST_BYTES", 0)
        monkeypatch.setattr(dask_cluster, "LARGE_CALL", 0)
        np.testing.assert_array_equal(engine.classifier_sums(rule, confusions=True).pair, small)


# -- the digits of sums ------------------------------------------------------------------------------------


SOFT = make_problem(seed=6, n_classes=3, n_bases=3, basis="soft", weighted=True).train


def by_hand(sample, n_blocks, rule, split_every):
    """The influence sums of a rule: those of every block in memory, added by the tree."""
    rows = -(-sample.n_rows // n_blocks)
    blocks = [sample.take(np.arange(at, min(at + rows, sample.n_rows))) for at in range(0, sample.n_rows, rows)]
    level = [MemoryEngine(block).influence_sums(rule) for block in blocks]
    while len(level) > 1:
        level = [added(level[first : first + split_every]) for first in range(0, len(level), split_every)]
    return level[0].pair


@pytest.mark.usefixtures("client")
def test_digits_depend_on_the_partitions_only():
    rule = random_classifiers(SOFT, 0)[0]
    for split_every in (3, 8):
        with DaskEngine(as_arrays(SOFT, 11), split_every=split_every) as engine:
            found = engine.influence_sums(rule).pair
        np.testing.assert_array_equal(found, by_hand(SOFT, 11, rule, split_every))


def test_workers_in_threads():
    rule = random_classifiers(SOFT, 0)[0]
    with (
        Client(processes=False, n_workers=1, threads_per_worker=3, dashboard_address=":0", set_as_default=False) as own,
        DaskEngine(as_arrays(SOFT, 11), client=own) as engine,
    ):
        np.testing.assert_array_equal(engine.influence_sums(rule).pair, by_hand(SOFT, 11, rule, 8))


def test_partitions_that_are_not_where_they_were(client, monkeypatch):
    rule = random_classifiers(SOFT, 0)[0]
    expected = by_hand(SOFT, 11, rule, 3)
    with DaskEngine(as_arrays(SOFT, 11), split_every=3) as engine:
        client.replicate(engine._held, n=2)
        np.testing.assert_array_equal(engine.influence_sums(rule).pair, expected)
        places = engine._cluster.holders(engine._held)
        assert list(map(len, places.values())) == [5, 5]  # each counts at one worker only
        one, other = places
        for wrong in (
            {one: places[one]},  # the other's are lost
            {one: places[one], other: [(number, "no-such-key") for number, _ in places[other]]},
            {},
        ):
            monkeypatch.setattr(engine._cluster, "holders", lambda _, wrong=wrong: wrong)
            np.testing.assert_array_equal(engine.influence_sums(rule).pair, expected)


@pytest.mark.usefixtures("client")
def test_workers_add_large_sums(monkeypatch):
    rule = random_classifiers(SOFT, 0)[0]
    with DaskEngine(as_arrays(SOFT, 11), split_every=3) as engine:
        monkeypatch.setattr(dask_engine, "MOST_BYTES", 0)
        for _ in range(2):
            np.testing.assert_array_equal(engine.influence_sums(rule).pair, by_hand(SOFT, 11, rule, 3))
            assert engine._large == {("influence_sums",)}


# -- what is wrong with the rows ---------------------------------------------------------------------------


@pytest.mark.usefixtures("client")
def test_a_nan_in_the_last_partition():
    sample = make_problem(seed=3).train
    eta = np.array(sample.eta)
    eta[-1, 0] = np.nan
    with pytest.raises(ProbabilityError, match=r"partition 3, rows 0 to 20: eta has 1 of 21 rows with NaN"):
        DaskEngine(ArrayParts(da.from_array(eta, chunks=(23, -1)), labels=da.from_array(sample.labels, chunks=23)))


@pytest.mark.usefixtures("client")
def test_the_first_partition_that_is_wrong_is_named():
    eta = da.from_array(np.full((80, 2), 0.7), chunks=(10, 2))
    with pytest.raises(ProbabilityError, match="partition 0, rows 0 to 9: eta has 10 of 10 rows with a sum"):
        DaskEngine(ArrayParts(eta))


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        ({"labels": [0, 1, 2, 0]}, LabelError, "partition 1, rows 0 to 1: labels has 1 of 2 rows"),
        ({"phi": [[1.0], [0.5], [0.0], [1.0]]}, BasisError, "partition 1, rows 0 to 1: phi has 1 of 2 rows"),
        ({"weights": [1.0, 1, 1, -1]}, WeightError, "partition 1, rows 0 to 1: weights has 1 of 2 rows"),
        ({"weights": [0.0, 0, 0, 0]}, WeightError, "weights that are 0 in every row"),
        ({"labels": [[0], [1], [1], [0]]}, ShapeError, "partition 0: labels must have 1 dimension"),
    ],
)
def test_values_that_cannot_be(parts, error, message):
    given = {name: da.from_array(np.array(value), chunks=2) for name, value in parts.items()}
    with pytest.raises(error, match=message):
        DaskEngine(ArrayParts(da.full((4, 2), 0.5, chunks=(2, 2)), **given))


@pytest.mark.usefixtures("client")
def test_a_partition_may_weigh_nothing():
    weights = da.from_array(np.array([0.0, 0, 1, 1]), chunks=2)
    parts = ArrayParts(
        da.full((4, 2), 0.5, chunks=(2, 2)), labels=da.from_array([0, 1, 0, 1], chunks=2), weights=weights
    )
    with DaskEngine(parts) as engine:
        np.testing.assert_array_equal(engine.label_sums().classes, [1, 1])


# -- settings, and how it is made --------------------------------------------------------------------------


@pytest.mark.usefixtures("client")
def test_labels_are_needed():
    with DaskEngine(ArrayParts(da.full((3, 2), 0.5))) as engine, pytest.raises(LabelError, match="have no labels"):
        engine.label_sums()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("split_every", 1),
        ("n_categories", 0),
        ("kernels", "fortran"),
        ("connect_timeout", 0),
        ("worker_timeout", -1.0),
        ("pass_timeout", "soon"),
        ("client", 5),
    ],
)
def test_settings_that_cannot_be(setting, value):
    with pytest.raises(SettingError, match=setting):
        DaskEngine(ArrayParts(da.full((3, 2), 0.5)), **{setting: value})


@pytest.mark.usefixtures("client")
def test_a_closed_engine():
    engine = DaskEngine(ArrayParts(da.full((3, 2), 0.5), labels=da.zeros(3, dtype=int)))
    engine.close()
    with pytest.raises(SettingError, match="closed"):
        engine.label_sums()


def test_partitions_are_kept_by_the_workers_with_their_engines(client):
    sample = make_problem(seed=3).train
    with DaskEngine(as_arrays(sample, 4)) as engine:
        engine.label_sums()
        held = {future.key for future in engine._held}
        assert held <= set(client.who_has())
        before = client.run(_worker_engines, sorted(held))
        engine.label_sums()
        after = client.run(_worker_engines, sorted(held))
        assert sum(map(len, before.values())) >= 4
        for (
            worker,
            engines,
        ) in before.items():  # they were not made again; the scheduler may copy what is as small as this
            assert engines.items() <= after[worker].items()


def _worker_engines(keys, dask_worker):
    held = {key: dask_worker.data[key]._engine for key in keys if key in dask_worker.data}
    return {key: id(engine) for key, engine in held.items() if engine is not None}


class _Raising:
    def distribution(self, eta, phi):  # noqa: ARG002
        raise ZeroDivisionError("my own")


@pytest.mark.usefixtures("client")
def test_a_classifier_that_raises_does_so_at_the_client():
    with DaskEngine(as_arrays(make_problem(seed=3).train, 4)) as engine:
        with pytest.raises(ZeroDivisionError, match="my own") as caught:
            engine.influence_sums(_Raising())
        assert caught.value.__notes__ == ["in partition 0"]


_IMPORTS = """
import sys
import postshift, postshift.engines, postshift.estimators
assert "dask" not in sys.modules and "distributed" not in sys.modules
sys.modules["distributed"] = None
from postshift.exceptions import SettingError
from postshift.engines.dask.dask_cluster import Cluster
try:
    Cluster()
except SettingError as error:
    assert ".[dask]" in str(error)
else:
    raise AssertionError
"""


def test_dask_is_optional():
    subprocess.run([sys.executable, "-c", _IMPORTS], check=True)

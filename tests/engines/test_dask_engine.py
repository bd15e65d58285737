"""The Dask engine on a cluster of processes: held to the contract, and to the in-memory engine."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("distributed")

import dask.array as da
import dask.dataframe as dd
import pyarrow.parquet as pq
from dask.sizeof import sizeof
from distributed import Client
from sklearn.linear_model import LogisticRegression

from postshift import MemoryEngine, PlugIn, Rows, fw_eg
from postshift.basis import KMeansBasis
from postshift.engines import ArrayParts, DaskEngine, FrameParts, ModelParts, ParquetParts
from postshift.engines.dask import dask_cluster
from postshift.engines.dask.pass_task import Failed, Partition, PartitionFacts, added
from postshift.exceptions import (
    BasisError,
    DataNotFoundError,
    EngineError,
    InputError,
    LabelError,
    ProbabilityError,
    SettingError,
    ShapeError,
    WeightError,
)
from postshift.metrics import GMean, MacroF1
from tests.contracts.engine import EngineContract, random_classifiers
from tests.engines.dask_clusters import local_cluster
from tests.engines.files import as_table, named_columns
from tests.problems import make_problem

# The threads of a Dask client draw random numbers while a property test draws its examples.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


@pytest.fixture(scope="module")
def client():
    with local_cluster() as address, Client(address) as client:
        yield client


def as_arrays(sample, n_blocks, **chunks):
    """A sample as Dask arrays, each cut as it is told, by default into blocks of equal length."""
    rows = -(-sample.n_rows // n_blocks)
    arrays = {}
    for name in ("eta", "phi", "labels", "weights"):
        part = getattr(sample, name)
        if part is not None:
            arrays[name] = da.from_array(np.asarray(part), chunks=(chunks.get(name, rows), *part.shape[1:]))
    return ArrayParts(arrays.pop("eta"), **arrays)


@pytest.mark.slow
@pytest.mark.usefixtures("client")
class TestContract(EngineContract):
    def make(self, sample, n_blocks, **more):
        return DaskEngine(as_arrays(sample, n_blocks), **more)


def assert_same_sums(found, expected, sample, seed=0):
    """Both engines give the same counts, and the same sums to 1e-12."""
    hard = bool(((sample.phi == 0) | (sample.phi == 1)).all()) and sample.weights is None
    counts = (
        np.testing.assert_array_equal if hard else lambda one, other: np.testing.assert_allclose(one, other, **CLOSE)
    )
    counts(found.label_sums().pair, expected.label_sums().pair)
    np.testing.assert_allclose(found.gram_sums().gram, expected.gram_sums().gram, **CLOSE)
    for classifier in random_classifiers(sample, seed):
        same = counts if isinstance(classifier, PlugIn) else lambda a, b: np.testing.assert_allclose(a, b, **CLOSE)
        for confusions in (False, True):
            one, other = (each.classifier_sums(classifier, confusions=confusions) for each in (found, expected))
            same(one.pair, other.pair)
        same(found.look(classifier, influence=False), expected.look(classifier, influence=False))
        sums = found.influence_sums(classifier).pair
        np.testing.assert_allclose(sums, expected.influence_sums(classifier).pair, **CLOSE)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(("basis", "weighted"), [("hard", False), ("soft", True)])
def test_sums_are_those_of_the_memory_engine(basis, weighted):
    sample = make_problem(seed=4, n_classes=4, n_bases=3, basis=basis, weighted=weighted).train
    with DaskEngine(as_arrays(sample, 11), split_every=3) as engine:  # a tree of two levels
        assert_same_sums(engine, MemoryEngine(sample), sample)


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
        monkeypatch.setattr(dask_cluster, "LARGE_CALL", 0)
        np.testing.assert_array_equal(engine.classifier_sums(rule, confusions=True).pair, small)


# -- where the rows come from ------------------------------------------------------------------------------


@pytest.mark.usefixtures("client")
def test_arrays_that_are_cut_in_different_ways():
    sample = make_problem(seed=3, n_classes=4, n_bases=2, weighted=True).train
    eta = da.from_array(sample.eta, chunks=(40, 3))  # cut across the classes, too
    parts = as_arrays(sample, 2, phi=17, labels=90, weights=7)
    with DaskEngine(ArrayParts(eta, **{name: parts._given[name] for name in ("phi", "labels", "weights")})) as engine:
        assert engine.n_partitions == 3
        assert_same_sums(engine, MemoryEngine(sample), sample)


def as_frame(sample, npartitions=3):
    return dd.from_pandas(as_table(sample).to_pandas(), npartitions=npartitions, sort=False)


@pytest.mark.usefixtures("client")
def test_frames():
    sample = make_problem(seed=3, n_classes=12, n_bases=2, weighted=True).train
    with DaskEngine(FrameParts(as_frame(sample), **named_columns(sample))) as engine:
        assert (engine.n_rows, engine.n_partitions) == (sample.n_rows, 3)
        assert_same_sums(engine, MemoryEngine(sample), sample)


@pytest.mark.usefixtures("client")
def test_partitions_without_rows_and_of_unknown_length():
    sample = make_problem(seed=3, n_classes=3, n_bases=2).train
    frame = as_frame(sample).assign(place=dd.from_pandas(pd.Series(np.arange(90)), npartitions=3, sort=False))
    kept = frame[(frame.place < 20) | (frame.place >= 60)].drop(columns="place")  # the second partition is empty
    few = sample.take(np.r_[0:20, 60:90])
    with DaskEngine(FrameParts(kept, **named_columns(sample))) as engine:
        assert engine.n_rows == 50
        assert_same_sums(engine, MemoryEngine(few), few)
    table = kept.to_dask_array()
    with DaskEngine(ArrayParts(table[:, :3], phi=table[:, 3:5], labels=table[:, 5].astype(int))) as engine:
        assert_same_sums(engine, MemoryEngine(few), few)


@pytest.mark.usefixtures("client")
def test_groups_and_names_of_classes_in_a_frame():
    frame = pd.DataFrame({"no": [0.9, 0.2, 0.4], "yes": [0.1, 0.8, 0.6], "y": ["no", "yes", "yes"], "g": list("aba")})
    frame["other"] = pd.Series([1, "one", None], dtype=object)  # Arrow would not take it, and need not
    parts = FrameParts(
        dd.from_pandas(frame, npartitions=2),
        eta=["no", "yes"],
        labels="y",
        classes=["no", "yes"],
        group="g",
        groups=["a", "b"],
    )
    with DaskEngine(parts) as engine:
        np.testing.assert_array_equal(engine.label_sums().single, [[1, 1], [0, 1]])


@pytest.mark.usefixtures("client")
def test_parquet_files(tmp_path):
    sample = make_problem(seed=3, n_classes=3, n_bases=2, weighted=True).train
    table = as_table(sample)
    pq.write_table(table.slice(0, 50), tmp_path / "part-0.parquet", row_group_size=20)
    pq.write_table(table.slice(50), tmp_path / "part-1.parquet", row_group_size=20)
    for paths in (tmp_path, str(tmp_path / "part-*.parquet")):
        with DaskEngine(ParquetParts(paths, **named_columns(sample), partition_rows=40)) as engine:
            assert engine.n_partitions == 3
            assert_same_sums(engine, MemoryEngine(sample), sample)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("kind", ["array", "frame"])
def test_features_with_a_fitted_model_and_a_fitted_basis(kind):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    y = np.array(["no", "perhaps", "yes"])[rng.integers(3, size=200)]
    data = X if kind == "frame" else X.to_numpy()
    model, basis = LogisticRegression().fit(data, y), KMeansBasis(3).fit(data)
    codes = np.searchsorted(model.classes_, y)
    sample = Rows.of(model.predict_proba(data), phi=basis.transform(data), labels=codes)
    rows = dd.from_pandas(X, npartitions=4) if kind == "frame" else da.from_array(data, chunks=(50, 3))
    labels = dd.from_pandas(pd.Series(y), npartitions=4) if kind == "frame" else da.from_array(y, chunks=60)
    with DaskEngine(ModelParts(rows, labels=labels, model=model, basis=basis)) as engine:
        assert_same_sums(engine, MemoryEngine(sample), sample)


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


def frames_of(*parts):
    return dd.from_map(lambda part: part, parts, meta=parts[0].iloc[:0], enforce_metadata=False)


@pytest.mark.usefixtures("client")
def test_a_partition_of_another_schema():
    first = pd.DataFrame({"p_0": [0.9, 0.2], "p_1": [0.1, 0.8], "y": [0, 1]})
    for other, message in (
        (first.rename(columns={"p_1": "q"}), "partition 1: must have the columns"),
        (first.assign(y=["a", "b"]), "partition 1: column 'y' must hold whole numbers"),
        (first.astype({"p_0": "float32"}), "partition 1: column 'p_0' must be of type double, as in partition 0"),
    ):
        with pytest.raises(InputError, match=message):
            DaskEngine(FrameParts(frames_of(first, other), eta="p_*", labels="y"))


@pytest.mark.usefixtures("client")
def test_blocks_of_another_width():
    blocks = [da.full((2, width), 1 / width, chunks=2) for width in (2, 2, 3)]
    eta = da.concatenate([da.map_blocks(np.asarray, block, chunks=((2,), (2,))) for block in blocks[:2]])
    odd = da.map_blocks(lambda: np.full((2, 3), 1 / 3), chunks=((2,), (2,)), dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(ShapeError, match="partition 2: must have 2 classes, as partition 0 has"):
        DaskEngine(ArrayParts(da.concatenate([eta, odd])))


def test_parquet_files_of_another_schema_or_none(tmp_path):
    with pytest.raises(DataNotFoundError, match="no such file"):
        ParquetParts(tmp_path, eta="p_*")
    sample = make_problem(seed=3, n_classes=3).train
    table = as_table(sample)
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.drop_columns(["p_1"]), tmp_path / "b.parquet")
    with pytest.raises(ShapeError, match=r"b\.parquet: must have one column 'p_1'"):
        ParquetParts(tmp_path, **named_columns(sample))


@pytest.mark.usefixtures("client")
def test_a_parquet_file_that_was_changed_meanwhile(tmp_path):
    sample = make_problem(seed=3, n_classes=3).train
    table = as_table(sample)
    pq.write_table(table, tmp_path / "a.parquet")
    parts = ParquetParts(tmp_path, **named_columns(sample))
    pq.write_table(table.drop_columns(["p_1"]), tmp_path / "a.parquet")
    with pytest.raises(ShapeError, match=r"partition 0 \(.*a\.parquet, row groups 0 to 0\): must have one column"):
        DaskEngine(parts)


class _Bad:
    """A model that cannot."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        raise RuntimeError(f"no idea about {len(X)} rows")


@pytest.mark.usefixtures("client")
def test_a_model_that_raises():
    with pytest.raises(InputError, match="partition 0: the rows cannot be read: RuntimeError: no idea about 2 rows"):
        DaskEngine(ModelParts(da.zeros((4, 1), chunks=2), model=_Bad()))


@pytest.mark.usefixtures("client")
def test_labels_that_the_model_does_not_know():
    model = LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"])
    labels = da.from_array(np.array(["no", "yes", "what", "no"]), chunks=2)
    with pytest.raises(LabelError, match="partition 1: labels has 1 values that are not classes"):
        DaskEngine(ModelParts(da.zeros((4, 1), chunks=2), labels=labels, model=model))


def _broken(block):
    if block[0, 0] > 0:
        raise OSError("the disk is gone")
    return block


@pytest.mark.usefixtures("client")
def test_rows_whose_computation_raises():
    zeros = da.from_array(np.array([[0.0, 1], [0.0, 1], [1, 0], [0, 1]]), chunks=(2, 2))
    with pytest.raises(InputError, match=r"partition 1: the rows cannot be (computed|read).*disk is gone"):
        DaskEngine(ArrayParts(zeros.map_blocks(_broken, meta=np.empty((0, 0)))))


def test_collections_that_do_not_fit():
    eta = da.full((6, 2), 0.5, chunks=(3, 2))
    with pytest.raises(ShapeError, match="labels must have 6 rows"):
        ArrayParts(eta, labels=da.zeros(5, dtype=int)).partitions()
    with pytest.raises(SettingError, match="eta must be a Dask array"):
        ArrayParts(np.full((6, 2), 0.5)).partitions()
    with pytest.raises(ShapeError, match="labels has 1 partitions, and eta has 2"):
        ArrayParts(eta, labels=dd.from_pandas(pd.Series(range(6)), npartitions=1)).partitions()
    with pytest.raises(SettingError, match="must be a Dask data frame"):
        FrameParts(pd.DataFrame(), eta="p_*")
    with pytest.raises(SettingError, match="unknown part 'label'"):
        FrameParts(as_frame(make_problem(seed=0).train), eta="p_*", label="y")
    with pytest.raises(ShapeError, match="must have a column 'label'"):
        FrameParts(as_frame(make_problem(seed=0).train), eta="p_*", labels="label")
    with pytest.raises(SettingError, match="model must be fitted"):
        ModelParts(eta, model=LogisticRegression())


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

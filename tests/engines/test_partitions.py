"""Partitions of arrays, frames, Parquet files and features: what they read, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("distributed")

import dask.array as da
import dask.dataframe as dd
import pyarrow.parquet as pq
from distributed import Client
from sklearn.linear_model import LogisticRegression

from postshift import MemoryEngine, Rows
from postshift.basis import KMeansBasis
from postshift.engines import ArrayParts, DaskEngine, FrameParts, ModelParts, ParquetParts
from postshift.exceptions import DataNotFoundError, InputError, LabelError, SettingError, ShapeError
from tests.engines.dask_clusters import local_cluster
from tests.engines.dask_sums import as_arrays, assert_same_sums
from tests.engines.files import as_table, named_columns
from tests.problems import make_problem

# The threads of a Dask client draw random numbers while a property test draws its examples.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")


@pytest.fixture(scope="module")
def client():
    with local_cluster() as address, Client(address) as client:
        yield client


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
    with pytest.raises(ShapeError, match="labels has 1 partitions, but eta has 2"):
        ArrayParts(eta, labels=dd.from_pandas(pd.Series(range(6)), npartitions=1)).partitions()
    with pytest.raises(SettingError, match="must be a Dask data frame"):
        FrameParts(pd.DataFrame(), eta="p_*")
    with pytest.raises(SettingError, match="unknown part 'label'"):
        FrameParts(as_frame(make_problem(seed=0).train), eta="p_*", label="y")
    with pytest.raises(ShapeError, match="must have a column 'label'"):
        FrameParts(as_frame(make_problem(seed=0).train), eta="p_*", labels="label")
    with pytest.raises(SettingError, match="model must be fitted"):
        ModelParts(eta, model=LogisticRegression())

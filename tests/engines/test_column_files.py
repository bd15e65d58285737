"""Sources: what they read, and what they say of files that cannot be read or do not fit each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from postshift.engines import ArraySource, ArrowSource, BlockEngine, ParquetSource
from postshift.exceptions import (
    BasisError,
    DataNotFoundError,
    InputError,
    LabelError,
    ProbabilityError,
    SettingError,
    ShapeError,
    WeightError,
)

N = 100


@pytest.fixture
def eta():
    return np.random.default_rng(0).dirichlet(np.ones(3), size=N).astype(np.float32)


@pytest.fixture
def columns(eta):
    return {
        **{f"p_{place}": eta[:, place] for place in range(3)},
        "y": np.arange(N) % 3,
        "name": np.array(["cat", "dog", "eel"])[np.arange(N) % 3],
        "group": np.array(["b", "a"])[np.arange(N) % 2],
        "w": np.ones(N),
        "unused": [None] * N,
    }


def write(path, columns, piece_rows=40):
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path, row_group_size=piece_rows)
    else:
        feather.write_feather(pa.table(columns), path, chunksize=piece_rows)
    return path


def all_rows(source, part, block_rows=7):
    blocks = list(source.blocks(block_rows))
    assert max(len(block.rows.eta) for block in blocks) <= block_rows
    return np.concatenate([getattr(block.rows, part) for block in blocks])


def summed(source, **settings):
    return BlockEngine(source, block_rows=10, **settings).label_sums()


FORMATS = pytest.mark.parametrize("kind", [ParquetSource, ArrowSource])


# --- arrays -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_of_any_precision_and_order(tmp_path, dtype, order):
    table = np.asarray(np.eye(3)[np.arange(N) % 3], dtype=dtype, order=order)
    np.save(tmp_path / "eta.npy", table)
    source = ArraySource(str(tmp_path / "eta.npy"), labels=(np.arange(N) % 3).astype(np.uint8))
    np.testing.assert_array_equal(summed(source).classes, [34, 33, 33])
    sample = next(source.blocks(10)).converted()
    assert sample.eta.dtype == (np.float32 if np.dtype(dtype).itemsize <= 4 else np.float64)
    assert sample.eta.flags.c_contiguous


def test_blocks_of_a_memory_map_are_views_of_it(eta, tmp_path):
    eta.tofile(tmp_path / "eta.bin")
    mapped = np.memmap(tmp_path / "eta.bin", dtype=np.float32, mode="r", shape=eta.shape)
    source = ArraySource(mapped)
    assert all(np.shares_memory(block.converted().eta, mapped) for block in source.blocks(30))
    assert source.row_bytes == 0


class _Sliced:
    """What data sets of other libraries have in common: a shape, a dtype and slices, and a cost of reading all."""

    def __init__(self, array):
        self._array, self.shape, self.dtype = array, array.shape, array.dtype

    def __getitem__(self, rows):
        return self._array[rows]

    def __array__(self, *_, **__):
        raise AssertionError("the whole data set was read")


def test_anything_that_can_be_sliced(eta):
    assert summed(ArraySource(_Sliced(eta), labels=np.arange(N) % 3)).count == N


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataNotFoundError, match=r"eta\.npy: no such file"):
        ArraySource(tmp_path / "eta.npy")


def test_an_npy_file_cut_short(eta, tmp_path):
    path = tmp_path / "eta.npy"
    np.save(path, eta)
    whole = path.read_bytes()
    for size in (len(whole) - 50, 40, 3, 0):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"eta\.npy: cannot be read; the file is damaged, cut short"):
            ArraySource(path)


@pytest.mark.parametrize("name", ["eta.npz", "eta.txt"])
def test_a_file_of_another_kind(eta, tmp_path, name):
    path = tmp_path / name
    np.savez(path, eta=eta) if name.endswith("npz") else path.write_text("0.5 0.5\n")
    with pytest.raises(InputError, match="of another kind"):
        ArraySource(path)


@pytest.mark.parametrize(
    ("parts", "error", "problem"),
    [
        ({"labels": np.zeros(90)}, ShapeError, "labels must have one row per row of eta. Got 90 rows, and 100"),
        ({"phi": np.ones((90, 2))}, ShapeError, "phi must have one row per row of eta"),
        ({"phi": np.ones((N, 0))}, BasisError, "no basis function"),
        ({"phi": np.ones(N)}, ShapeError, r"phi must have 2 dimension\(s\)"),
        ({"weights": np.ones((N, 1))}, ShapeError, r"weights must have 1 dimension\(s\)"),
        ({"weights": np.full(N, "a")}, ShapeError, "weights must hold real numbers"),
        ({"eta": np.ma.masked_less(np.full((N, 2), 0.5), 0)}, ShapeError, "must not be masked"),
        ({"eta": np.ones((0, 2))}, ShapeError, "at least one row"),
        ({"eta": 0.5}, ShapeError, r"eta must have 2 dimension\(s\)"),
    ],
)
def test_parts_that_do_not_fit(eta, parts, error, problem):
    with pytest.raises(error, match=problem):
        ArraySource(**{"eta": eta, **parts})


@pytest.mark.parametrize(
    "case",
    [
        ("eta", 23, np.nan, ProbabilityError, r"eta\.npy, rows 20 to 29: eta has 1 of 10 rows with NaN .*\(rows 3\)"),
        ("eta", 5, 0.7, ProbabilityError, r"eta\.npy, rows 0 to 9: .*a sum other than 1"),
        ("phi", 99, 2.0, BasisError, r"phi\.npy, rows 90 to 99: .*outside \[0, 1\]"),
        ("labels", 31, 3, LabelError, r"labels\.npy, rows 30 to 39: .*outside 0\.\.2.*counted from row 30"),
        ("weights", 31, -1, WeightError, r"weights\.npy, rows 30 to 39: .*negative"),
    ],
)
def test_bad_values_are_named_with_their_file_and_rows(eta, tmp_path, case):
    name, row, value, error, problem = case
    parts = {"eta": eta, "phi": np.ones((N, 2)), "labels": np.arange(N) % 3, "weights": np.ones(N)}
    parts[name][row] = value
    for part, values in parts.items():
        np.save(tmp_path / f"{part}.npy", values)
    paths = {part: tmp_path / f"{part}.npy" for part in parts}
    with pytest.raises(error, match=problem):
        summed(ArraySource(**paths))


# --- columns ------------------------------------------------------------------------------------


@FORMATS
def test_columns_by_pattern_and_by_name(kind, columns, eta, tmp_path):
    path = write(tmp_path / f"rows{kind._suffixes[0]}", columns)
    for names in ("p_*", ["p_0", "p_1", "p_2"]):
        source = kind(path, eta=names, labels="y", weights="w")
        assert (source.n_rows, source.n_classes, source.n_bases) == (N, 3, 1)
        np.testing.assert_array_equal(all_rows(source, "eta"), eta)
        assert all_rows(source, "eta").dtype == np.float32
        np.testing.assert_array_equal(all_rows(source, "labels"), columns["y"])
    turned = kind(path, eta=["p_2", "p_1", "p_0"])
    np.testing.assert_array_equal(all_rows(turned, "eta"), eta[:, ::-1])


@FORMATS
@pytest.mark.parametrize("encoded", [False, True])
def test_labels_and_groups_as_text(kind, encoded, columns, tmp_path):
    table = pa.table(columns)
    if encoded:
        for name in ("name", "group"):
            table = table.set_column(table.schema.names.index(name), name, table[name].dictionary_encode())
    path = write(tmp_path / f"rows{kind._suffixes[0]}", {name: table[name] for name in table.schema.names})
    source = kind(path, eta="p_*", labels="name", classes=["cat", "dog", "eel"], group="group", groups=["a", "b", "c"])
    assert source.n_bases == 3
    np.testing.assert_array_equal(all_rows(source, "labels"), columns["y"])
    np.testing.assert_array_equal(all_rows(source, "phi"), np.eye(3)[1 - np.arange(N) % 2])
    np.testing.assert_array_equal(summed(source).single.sum(axis=1), [50, 50, 0])


def test_stars_that_are_numbers_or_classes_order_the_columns(tmp_path):
    names = ["p_0", "p_1", "p_10", *(f"p_{place}" for place in range(2, 10))]
    table = {name: np.full(3, 1 / 11) for name in names}
    source = ParquetSource(write(tmp_path / "a.parquet", table), eta="p_*")
    assert source.columns.eta == tuple(f"p_{place}" for place in range(11))
    named = {"p_cat": [0.5], "p_dog": [0.5], "y": ["dog"]}
    path = write(tmp_path / "b.parquet", named)
    assert ParquetSource(path, eta="p_*", labels="y", classes=["dog", "cat"]).columns.eta == ("p_dog", "p_cat")
    assert ParquetSource(path, eta="p_*").columns.eta == ("p_cat", "p_dog")


@FORMATS
def test_several_files_a_folder_and_a_pattern(kind, columns, eta, tmp_path):
    paths = [write(tmp_path / f"part-{number}{kind._suffixes[0]}", columns) for number in range(2)]
    write(tmp_path / f"_hidden{kind._suffixes[0]}", columns)
    empty = {name: values[:0] for name, values in columns.items()}
    write(tmp_path / f"part-9{kind._suffixes[0]}", {**empty, "unused": pa.nulls(0)})
    for given in (paths, tmp_path, str(tmp_path / f"part-?{kind._suffixes[0]}")):
        np.testing.assert_array_equal(all_rows(kind(given, eta="p_*"), "eta"), np.concatenate([eta, eta]))
    assert kind([paths[0], paths[0]], eta="p_*").n_rows == 2 * N


@FORMATS
def test_numbers_of_other_types(kind, tmp_path):
    table = {"a": pa.array([1, 0], pa.int8()), "b": pa.array([False, True]), "y": pa.array([0.0, 1.0])}
    source = kind(write(tmp_path / f"rows{kind._suffixes[0]}", table), eta=["a", "b"], labels="y")
    np.testing.assert_array_equal(summed(source).classes, [1, 1])


@FORMATS
def test_files_that_are_not_there(kind, tmp_path):
    for given in (tmp_path / f"rows{kind._suffixes[0]}", tmp_path, str(tmp_path / f"*{kind._suffixes[0]}")):
        with pytest.raises(DataNotFoundError, match="no such file"):
            kind(given, eta="p_*")


@FORMATS
def test_a_file_of_columns_cut_short(kind, columns, tmp_path):
    path = write(tmp_path / f"rows{kind._suffixes[0]}", columns)
    whole = path.read_bytes()
    for size in (len(whole) - 20, len(whole) // 2, 3, 0):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=rf"rows{kind._suffixes[0]}: cannot be read"):
            kind(path, eta="p_*")


def test_a_damaged_row_group(columns, tmp_path):
    path = write(tmp_path / "rows.parquet", columns)
    places = pq.read_metadata(path).row_group(1).column(0)
    whole = bytearray(path.read_bytes())
    start = places.dictionary_page_offset or places.data_page_offset
    whole[start : start + places.total_compressed_size] = b"\xff" * places.total_compressed_size
    path.write_bytes(whole)
    source = ParquetSource(path, eta="p_*", labels="y")
    with pytest.raises(InputError, match=r"rows\.parquet, from row \d+ on: cannot be read"):
        summed(source)


def changed(columns, **changes):
    return {name: values for name, values in {**columns, **changes}.items() if values is not None}


@FORMATS
@pytest.mark.parametrize(
    "case",
    [
        ({"p_1": None}, "must have one column 'p_1', as the first file has"),
        ({"p_3": np.zeros(N, dtype=np.float32)}, r"has columns 'p_3' for 'p_\*' that the first file does not have"),
        ({"p_1": np.zeros(N)}, "column 'p_1' must be of type float, as in the first file. Got double"),
        ({"y": None}, "must have one column 'y'"),
    ],
)
def test_a_later_file_of_another_schema(kind, case, columns, tmp_path):
    changes, problem = case
    write(tmp_path / f"part-0{kind._suffixes[0]}", columns)
    write(tmp_path / f"part-1{kind._suffixes[0]}", changed(columns, **changes))
    with pytest.raises(ShapeError, match=rf"part-1{kind._suffixes[0]}: {problem}"):
        kind(tmp_path, eta="p_*", labels="y")


@FORMATS
@pytest.mark.parametrize(
    "case",
    [
        ("p_1", np.nan, ProbabilityError, "rows 50 to 59: eta has 1 of 10 rows with NaN"),
        ("p_1", None, ProbabilityError, "rows 50 to 59: eta has 1 of 10 rows with NaN"),
        ("y", 7, LabelError, "rows 50 to 59: labels has 1 of 10 rows with values outside"),
        ("y", None, LabelError, "rows 50 to 59: labels has 1 of 10 rows with values outside"),
        ("w", -1.0, WeightError, "rows 50 to 59: weights has 1 of 10 rows with negative"),
        ("name", "fox", LabelError, "rows 50 to 59: labels has values that are not among classes: 'fox'"),
        ("group", None, BasisError, "rows 50 to 59: column 'group' has values that are not among groups: None"),
    ],
)
def test_bad_values_of_columns(kind, case, columns, tmp_path):
    name, value, error, problem = case
    kinds = {"p_1": pa.float32()}
    values = np.asarray(columns[name]).tolist()
    values[53] = value
    columns = {**columns, name: pa.array(values, kinds.get(name))}
    path = write(tmp_path / f"rows{kind._suffixes[0]}", columns, piece_rows=50)
    more = {"labels": "name", "classes": ["cat", "dog", "eel"]} if name == "name" else {"labels": "y"}
    source = kind(path, eta="p_*", weights="w", group="group", groups=["a", "b"], **more)
    with pytest.raises(error, match=problem):
        summed(source)


@pytest.mark.parametrize(
    ("settings", "error", "problem"),
    [
        ({"eta": "q_*"}, ShapeError, r"must have columns like 'q_\*'"),
        ({"eta": ["p_0", "p_7"]}, ShapeError, "must have one column 'p_7'"),
        ({"eta": "p*_*"}, SettingError, "one star"),
        ({"eta": ["p_0", "name"]}, ShapeError, "column 'name' must hold numbers"),
        ({"labels": "name"}, LabelError, "give classes="),
        ({"labels": "name", "classes": ["cat", "dog"]}, SettingError, "classes must name the 3 columns"),
        ({"labels": "name", "classes": ["cat", "dog", "dog"]}, SettingError, "classes must be distinct"),
        ({"labels": "y", "classes": ["cat", "dog", "eel"]}, SettingError, "values of column 'y'"),
        ({"group": "group"}, SettingError, "given together"),
        ({"group": "group", "groups": ["a"], "phi": ["w"]}, SettingError, "must not both be given"),
    ],
)
def test_settings_that_do_not_fit_the_columns(settings, error, problem, columns, tmp_path):
    path = write(tmp_path / "rows.parquet", columns)
    with pytest.raises(error, match=problem):
        ParquetSource(path, **{"eta": "p_*", **settings})


@FORMATS
def test_no_rows_at_all(kind, tmp_path):
    path = write(tmp_path / f"rows{kind._suffixes[0]}", {"p_0": np.empty(0), "p_1": np.empty(0)})
    with pytest.raises(ShapeError, match="at least one row"):
        kind(path, eta="p_*")

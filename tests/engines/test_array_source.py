"""Arrays and .npy files as a source: what they read, and files and parts that cannot be used."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.engines import ArraySource
from postshift.exceptions import (
    BasisError,
    DataNotFoundError,
    InputError,
    LabelError,
    ProbabilityError,
    ShapeError,
    WeightError,
)
from tests.engines.files import N, summed


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
        ({"labels": np.zeros(90)}, ShapeError, "labels must have one row per row of eta. Got 90 rows, but 100"),
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

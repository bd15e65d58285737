"""Parquet and Arrow files: several of them, damaged ones, and files of another schema."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postshift.engines import ParquetSource
from postshift.exceptions import DataNotFoundError, InputError, ShapeError
from tests.engines.files import FORMATS, N, all_rows, summed, write

# --- columns ------------------------------------------------------------------------------------


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
def test_no_rows_at_all(kind, tmp_path):
    path = write(tmp_path / f"rows{kind._suffixes[0]}", {"p_0": np.empty(0), "p_1": np.empty(0)})
    with pytest.raises(ShapeError, match="at least one row"):
        kind(path, eta="p_*")

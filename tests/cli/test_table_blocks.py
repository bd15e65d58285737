"""Files that are read block by block."""

from __future__ import annotations

import os

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postshift.cli.errors import FileError, UsageError
from postshift.cli.files.file_table import read_rows
from postshift.cli.files.table_blocks import TableBlocks

N_ROWS = 1_000


@pytest.fixture
def frame():
    return pd.DataFrame({"p": [each / N_ROWS for each in range(N_ROWS)], "y": ["a", "b"] * (N_ROWS // 2)})


def _written(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=300)
    elif path.name == "stream.arrow":
        table = pa.Table.from_pandas(frame)
        with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table, max_chunksize=300)
    elif path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_feather(path, chunksize=300)
    return path


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.feather", "stream.arrow", "rows.csv"])
def test_blocks_have_the_rows_of_the_file(frame, tmp_path, name):
    path = _written(frame, tmp_path / name)
    table = TableBlocks(path)

    found = list(table.blocks(128))

    assert table.n_rows == N_ROWS
    assert table.is_whole == (path.suffix == ".csv")
    assert table.is_whole or all(len(each.frame) <= 128 for each in found)
    pd.testing.assert_frame_equal(pd.concat([each.frame for each in found], ignore_index=True), read_rows(path).frame)
    assert table.digest() == read_rows(path).digest


def test_blocks_of_several_files_know_their_file_and_rows(frame, tmp_path):
    for number in range(2):
        _written(frame, tmp_path / f"part-{number}.parquet")
    frame[:0].to_parquet(tmp_path / "part-9.parquet")  # a file without rows
    table = TableBlocks(tmp_path)

    found = list(table.blocks(600))

    assert [each.segments[0][1:] for each in found] == [(0, 600), (600, 400)] * 2
    assert {each.path.name for each in found} == {"part-0.parquet", "part-1.parquet"}
    assert found[1].place == f"{tmp_path / 'part-0.parquet'} (rows 600 to 999)"
    assert table.digest() == read_rows(tmp_path).digest


def test_a_small_file_is_one_block_without_row_numbers_in_its_name(frame, tmp_path):
    (found,) = TableBlocks(_written(frame, tmp_path / "rows.parquet")).blocks()
    assert found.place == str(tmp_path / "rows.parquet")


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow"])
def test_a_file_that_changes_while_it_is_read(frame, tmp_path, name):
    path = _written(frame, tmp_path / name)
    blocks = TableBlocks(path).blocks(100)
    next(blocks)
    _written(frame.assign(p=0.0), path)
    with pytest.raises(FileError, match=rf"{name}, rows 0 to 999: the file was changed while it was read"):
        list(blocks)


def test_a_file_that_is_damaged_in_the_middle(frame, tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pandas(frame), path, row_group_size=500, compression="zstd", use_dictionary=False)
    place = pq.read_metadata(path).row_group(1).column(0).data_page_offset
    with path.open("r+b") as stream:
        stream.seek(place)
        stream.write(os.urandom(300))
    with pytest.raises(FileError, match=r"rows\.parquet, rows 500 to 999 cannot be read as \.parquet"):
        list(TableBlocks(path).blocks(100))


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow"])
def test_a_file_that_is_cut_short(frame, tmp_path, name):
    path = _written(frame, tmp_path / name)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(FileError, match=rf"{name} cannot be read as"):
        TableBlocks(path)


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow"])
def test_a_file_without_rows(frame, tmp_path, name):
    path = _written(frame[:0], tmp_path / name)
    with pytest.raises(UsageError, match="has no rows"):
        TableBlocks(path)

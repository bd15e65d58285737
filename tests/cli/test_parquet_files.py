"""Several Parquet files as one table, and their partitions."""

import numpy as np
import pandas as pd
import pytest

from postshift.cli.errors import UsageError
from postshift.cli.files.file_table import read_rows, read_table
from postshift.cli.files.parquet_files import parquet_files
from postshift.cli.files.table_columns import eta_of, numbers


def write_parts(folder, *frames):
    folder.mkdir()
    for number, frame in enumerate(frames):
        frame.to_parquet(folder / f"part-{number}.parquet", row_group_size=2)
    return folder


def test_several_files_are_one_table(tmp_path):
    frame = pd.DataFrame({"a": [1, 2, 3, 4, 5, 6], "b": list("uvwxyz")}, index=pd.Index(range(6), name="id"))
    folder = write_parts(tmp_path / "rows", frame.iloc[:4], frame.iloc[:0], frame.iloc[4:][["b", "a"]])
    for path in (folder, tmp_path / "r*" / "*.parquet"):
        found = read_rows(path)
        assert found.frame.to_dict("list") == {"a": [1, 2, 3, 4, 5, 6], "b": list("uvwxyz")}
        assert found.digest == read_rows(folder).digest
    one = folder / "part-0.parquet"
    assert read_rows(one).digest == read_table(one).digest
    frame.iloc[4:].assign(a=7).to_parquet(folder / "part-2.parquet")
    assert read_rows(folder).digest != found.digest


def test_partitions_of_several_files(tmp_path):
    frame = pd.DataFrame({"a": range(9)})
    files = parquet_files(write_parts(tmp_path / "rows", frame.iloc[:5], frame.iloc[5:]))
    parts = files.partitions(4)
    assert [(part.groups, part.first, part.before, part.n_rows) for part in parts] == [
        ((0, 1), 0, 0, 4),
        ((2,), 4, 4, 1),
        ((0, 1), 0, 5, 4),
    ]
    assert [part.table().frame["a"].tolist() for part in parts] == [part.places().tolist() for part in parts]
    assert parts[1].place == f"partition 1 ({tmp_path / 'rows' / 'part-0.parquet'}, rows 4 to 4)"


def test_rows_are_named_with_their_file(tmp_path):
    frame = pd.DataFrame({"p_a": [0.5, 0.5, 0.5, 0.7, np.nan], "p_b": [0.5, 0.5, 0.5, 0.5, 0.5]})
    folder = write_parts(tmp_path / "rows", frame.iloc[:2], frame.iloc[2:])
    last = folder / "part-1.parquet"
    with pytest.raises(UsageError, match=rf"first: row 2 of {last}"):
        numbers(read_rows(folder), ["p_a"], what="weights")
    with pytest.raises(UsageError, match=r"first: row 2\)"):
        numbers(read_rows(last), ["p_a"], what="weights")
    part = parquet_files(folder).partitions(2)[-1].table()
    with pytest.raises(UsageError, match=r"first: row 2\)"):
        numbers(part, ["p_a"], what="weights")
    frame.iloc[2:4].to_parquet(last)
    with pytest.raises(UsageError, match=rf"row 1 of {last} sum to 1.2"):
        eta_of(read_rows(folder), ["p_a", "p_b"], normalise=False)


def test_several_files_without_rows(tmp_path):
    folder = write_parts(tmp_path / "rows", pd.DataFrame({"a": [1]}).iloc[:0])
    with pytest.raises(UsageError, match="has no rows in 1 files"):
        read_rows(folder)

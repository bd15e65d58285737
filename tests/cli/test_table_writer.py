"""Tables that are written block by block."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from postshift.cli.files.file_table import read_table
from postshift.cli.files.table_blocks import TableBlocks
from postshift.cli.files.table_writer import NewRows, write_blocks

OUTPUTS = ["rows.csv", "rows.tsv", "rows.parquet", "rows.feather", "rows.arrow", "rows.npz"]


@pytest.fixture
def given(tmp_path):
    frame = pd.DataFrame(
        {
            "count": pd.array([1, 2, 3, None, 5, 6, 7], dtype="Int64"),
            "text": list("abcdefg"),
            "kind": pd.Categorical(["x", "x", "x", "y", "y", "z", "z"]),
        }
    )
    frame.to_parquet(tmp_path / "given.parquet")
    return tmp_path / "given.parquet"


def _new_rows(path, *, keep=True):
    for block in TableBlocks(path).blocks(3):
        yield NewRows(given=block if keep else None, new={"label": np.array(["no", "yes", "no"])[: len(block.frame)]})


@pytest.mark.parametrize("name", OUTPUTS)
def test_blocks_make_one_table(given, tmp_path, name):
    write_blocks(_new_rows(given), tmp_path / name)

    found = read_table(tmp_path / name).frame

    assert found["label"].tolist() == ["no", "yes", "no", "no", "yes", "no", "no"]
    assert found["text"].tolist() == list("abcdefg")
    assert found["kind"].tolist() == ["x", "x", "x", "y", "y", "z", "z"]
    assert [str(each) for each in found["count"][:3]] in (["1", "2", "3"], ["1.0", "2.0", "3.0"])


def test_a_whole_number_is_written_alike_in_every_block(given, tmp_path):
    write_blocks(_new_rows(given), tmp_path / "rows.csv")
    assert [line.split(",")[0] for line in (tmp_path / "rows.csv").read_text().split()] == [
        "count", "1", "2", "3", "", "5", "6", "7",
    ]  # fmt: skip


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_error_leaves_the_old_file_and_no_other(given, tmp_path, name):
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / name
    path.write_text("old")

    def broken():
        yield from list(_new_rows(given))[:2]
        raise ValueError("the third block")

    with pytest.raises(ValueError, match="the third block"):
        write_blocks(broken(), path)
    assert [each.name for each in path.parent.iterdir()] == [name]
    assert path.read_text() == "old"

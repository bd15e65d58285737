"""The same rows in every format give the same labels; options that a format gives are not needed."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from postshift.cli.app import run
from postshift.cli.errors import FileError, UsageError
from postshift.cli.files.file_table import read_table
from postshift.cli.files.table_writer import write_table
from tests.cli.helpers import CLASSES

PROBA = [f"p_{name}" for name in CLASSES]


def arrays(frame):
    """The rows as an npz archive has them."""
    return {
        "eta": frame[PROBA].to_numpy(),
        "classes": np.array(CLASSES),
        "labels": frame["y"].to_numpy(dtype=str),
        "X": frame[["x1", "x2"]].to_numpy(),
    }


def write(frame, path):
    if path.suffix == ".npz":
        np.savez(path, **arrays(frame))
    elif path.suffix == ".arrow":  # a stream; .feather is a file
        table = pa.Table.from_pandas(frame, preserve_index=False)
        with pa.ipc.new_stream(str(path), table.schema) as stream:
            stream.write_table(table)
    else:
        write_table(frame, path)


def test_every_format_gives_the_same_labels(files, tmp_path):
    labels = {}
    for suffix in ("csv", "parquet", "feather", "arrow", "npz"):
        for name in ("train", "val", "test"):
            frame = pd.read_csv(files / f"{name}.csv")[["y", *PROBA, "x1", "x2"]]
            write(frame, tmp_path / f"{name}.{suffix}")
        train, val, test, out = (tmp_path / f"{name}.{suffix}" for name in ("train", "val", "test", "out"))
        columns = [] if suffix == "npz" else ["--label", "y", "--proba", "p_*"]
        how = [*columns, "--metric", "g_mean", "--basis", "tree:3", "--method", "influence", "--quiet"]
        # In this process: what is tested is the files, and five processes import a lot.
        fitted = ["fit", "--train", train, "--val", val, *how, "--out", tmp_path / suffix]
        assert run([str(each) for each in fitted]) == 0
        assert run(["predict", str(tmp_path / suffix), str(test), "-o", str(out), "--quiet"]) == 0
        found = read_table(out).frame
        assert found["row"].tolist() == list(range(200))
        labels[suffix] = found["label"].tolist()
    assert set(labels["csv"]) == set(CLASSES)
    assert all(found == labels["csv"] for found in labels.values())


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".feather", ".arrow", ".npz"])
def test_tables_come_back_as_they_were_written(suffix, tmp_path):
    frame = pd.DataFrame({"row": [0, 1], "label": ["a,b", 'c"d'], "p": [0.1, 1 / 3]})
    path = tmp_path / f"rows{suffix}"
    write_table(frame, path)
    found = read_table(path)
    assert found.frame.to_dict("list") == frame.to_dict("list")
    assert str(found) == f"rows{suffix}, 2 rows"
    assert list(tmp_path.iterdir()) == [path]  # no draft is left


def test_compressed_csv(tmp_path):
    pd.DataFrame({"a": [1, 2]}).to_csv(tmp_path / "rows.csv.gz", index=False)
    assert read_table(tmp_path / "rows.csv.gz").frame["a"].tolist() == [1, 2]


def test_archives_say_which_arrays_are_what(tmp_path):
    np.savez(tmp_path / "a.npz", eta=np.eye(2), labels=[0, 1], weights=[1.0, 2.0])
    found = read_table(tmp_path / "a.npz")
    assert found.usual == {"proba": "eta_*", "label": "labels", "sample_weight": "weights"}
    assert list(found.frame.columns) == ["eta_0", "eta_1", "labels", "weights"]


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"eta": np.eye(2), "classes": ["a"]}, "'classes' has 1 names"),
        ({"a": np.zeros((2, 2))}, "'a' has 2 dimensions"),
        ({"a": np.zeros(2), "b": np.zeros(3)}, "same number of rows"),
        ({"a": np.array([{}, {}])}, "allow_pickle"),
    ],
)
def test_archives_that_are_no_tables(arrays, text, tmp_path):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(FileError, match=text):
        read_table(tmp_path / "a.npz")


def test_files_without_rows_and_folders(tmp_path):
    (tmp_path / "empty.csv").write_text("a,b\n")
    with pytest.raises(UsageError, match="no rows"):
        read_table(tmp_path / "empty.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        read_table(tmp_path / "folder.csv")
    with pytest.raises(FileError, match="is a folder"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "folder.csv")


def test_a_sparse_matrix_is_refused_with_the_way_out(tmp_path):
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(np.eye(2)))
    with pytest.raises(FileError, match=r"holds a sparse matrix.*fit PostShifter in Python"):
        read_table(tmp_path / "a.npz")

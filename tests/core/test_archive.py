"""Archives: what is written is read again; damaged files and files of another kind are refused."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from postshift.core.archive import contradicting, locked, read_archive, write_archive, write_arrays, write_atomically
from postshift.exceptions import ArchiveError

ARRAYS = {"weights": np.array([[1.0, 2.0], [0.5, 3.0]]), "codes": np.arange(3)}


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "rule.npz"
    write_archive(path, kind="mixture", header={"names": ["a", "b"]}, arrays=ARRAYS)
    return path


def test_what_is_written_is_read(archive):
    header, arrays = read_archive(archive, kind="mixture")
    assert header == {"kind": "mixture", "format": 1, "names": ["a", "b"]}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)


def test_the_same_content_gives_the_same_bytes(archive, tmp_path):
    again = tmp_path / "again.npz"
    write_archive(again, kind="mixture", header={"names": ["a", "b"]}, arrays=ARRAYS)
    assert again.read_bytes() == archive.read_bytes()


def test_a_file_of_another_kind(archive):
    with pytest.raises(ArchiveError, match=r"must hold a postshift basis\. Got 'mixture' instead"):
        read_archive(archive, kind="basis")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "has format 2; this version of postshift reads format 1"),
        ({"names": ["a", "c"]}, "its digest does not match its content"),
    ],
)
def test_a_header_that_was_changed(archive, change, message):
    with np.load(archive) as found:
        arrays = dict(found)
    arrays["header"] = np.array(json.dumps(json.loads(str(arrays["header"])) | change))
    write_atomically(archive, lambda stream: write_arrays(stream, arrays))
    with pytest.raises(ArchiveError, match=message):
        read_archive(archive, kind="mixture")


def test_a_write_that_fails_leaves_the_old_file(archive):
    before = archive.read_bytes()

    def half(stream):
        stream.write(b"half of it")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(archive, half)
    assert archive.read_bytes() == before
    assert list(archive.parent.iterdir()) == [archive]


def test_errors_about_the_content_name_the_file():
    with pytest.raises(ArchiveError, match=r"rule\.npz was changed .*\(KeyError: 'alpha'\)"), contradicting("rule.npz"):
        raise KeyError("alpha")


@pytest.mark.skipif(os.name != "posix", reason="folders are locked on POSIX systems only")
def test_a_folder_is_locked_once(tmp_path):
    with locked(tmp_path), pytest.raises(BlockingIOError, match="in use by another process"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass

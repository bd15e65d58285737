"""Folders that replace others."""

from pathlib import Path

import pytest

from postshift.cli.files.folders import put_in_place


def test_a_folder_takes_the_place_of_another(tmp_path):
    new, out = tmp_path / "new", tmp_path / "out"
    for folder in (new, out):
        folder.mkdir()
        (folder / "name").write_text(folder.name)
    put_in_place(new, out, Path.is_file)
    assert (out / "name").read_text() == "new"
    assert list(tmp_path.iterdir()) == [out]


def test_a_folder_that_cannot_take_the_place_leaves_the_old_one(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "name").write_text("old")
    with pytest.raises(FileNotFoundError):
        put_in_place(tmp_path / "gone", out, Path.is_file)
    assert (out / "name").read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]

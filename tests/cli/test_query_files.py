"""The names of the files of predictions."""

from __future__ import annotations

import pytest

from postshift.cli.query_files import QueryFiles, is_query_file, number_and_version


@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_a_name_is_used_once(file_format, tmp_path):
    files, seen = QueryFiles(tmp_path, file_format), set()
    for version in (1, 2, 3):
        assert number_and_version(files.name(7)) == (7, version)
        files.file(7).touch()
        assert files.file(7).name not in seen
        seen.add(files.file(7).name)
        assert files.version(7) == version
        files.withdraw(7, fingerprint="x")
    assert all(is_query_file(each.name) for each in tmp_path.iterdir())
    assert files.version(6) == files.version(70) == 1


def test_a_file_that_is_put_back_has_its_name_again(tmp_path):
    files = QueryFiles(tmp_path, "csv")
    files.file(7).write_text("predictions")
    files.withdraw(7, fingerprint="x").put_back()
    assert files.name(7) == "7"
    assert files.file(7).read_text() == "predictions"


def test_the_name_stays_used_after_its_file_is_removed(tmp_path):
    files = QueryFiles(tmp_path, "csv")
    files.file(7).touch()
    kept = files.withdraw(7, fingerprint="x").kept
    files.file(7).touch()
    kept.unlink()
    assert files.name(7) == "7-v2"


@pytest.mark.parametrize("name", ["query-7.csv", "query-007.xlsx", "query-007-v.csv", "x-query-007.csv", "query.csv"])
def test_other_files(name):
    assert not is_query_file(name)

"""The folders that are looked in, the cache's place, and the table of sources."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from postshift.datasets._location import cache_folder, find_file
from postshift.datasets._sources import ADIENCE, SOURCES

DOCS = Path(__file__).parents[2] / "docs" / "datasets.md"


def put(root: Path, name: str = "file") -> Path:
    path = root / "set" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_order_of_the_places(nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """data_dir, then POSTSHIFT_DATA, then beside the checkout, then beside the working directory, then the cache."""
    cached = put(tmp_path / "cache" / "data")
    assert find_file("set", "file") == cached
    beside_here = put(nowhere.parent / "shared" / "data")
    assert find_file("set", "file") == beside_here
    (nowhere.parent / ".git").mkdir()  # now ``inside`` is a checkout, and ``here`` a folder in it
    beside_checkout = put(nowhere.parent.parent / "shared" / "data")
    assert find_file("set", "file") == beside_checkout
    named = put(nowhere / "named")
    monkeypatch.setenv("POSTSHIFT_DATA", str(nowhere / "named"))
    assert find_file("set", "file") == named
    given = put(nowhere / "given")
    assert find_file("set", "file", data_dir=nowhere / "given") == given
    assert find_file("set", "file", data_dir=nowhere / "absent") == named


@pytest.mark.usefixtures("nowhere")
def test_a_nearer_folder_beats_a_better_edition(tmp_path: Path) -> None:
    put(tmp_path / "cache" / "data", "best")
    given = put(tmp_path / "given", "good")
    assert find_file("set", "best", "good", data_dir=tmp_path / "given") == given
    best = put(tmp_path / "given", "best")
    assert find_file("set", "best", "good", data_dir=tmp_path / "given") == best


@pytest.mark.usefixtures("nowhere")
def test_a_folder_that_may_not_be_read_is_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = put(tmp_path / "cache" / "data")
    closed = put(tmp_path / "closed")
    is_file = Path.is_file

    def refuse(path: Path) -> bool:
        if path == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refuse)
    assert find_file("set", "file", data_dir=tmp_path / "closed") == cached


@pytest.mark.parametrize(
    ("platform", "variables", "place"),
    [
        ("linux", {"XDG_CACHE_HOME": "/caches"}, "/caches/postshift"),
        ("linux", {}, "~/.cache/postshift"),
        ("darwin", {}, "~/Library/Caches/postshift"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/postshift"),
        ("win32", {}, "~/AppData/Local/postshift"),
        ("linux", {"XDG_CACHE_HOME": "/caches", "POSTSHIFT_CACHE": "~/mine"}, "~/mine"),
    ],
)
def test_place_of_the_cache(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], place: str
) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "POSTSHIFT_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder() == Path(place).expanduser()


class TestSources:
    def test_what_is_downloaded_has_a_checksum(self) -> None:
        for source in SOURCES:
            if source is not ADIENCE:
                assert source.url.startswith("https://")
                assert re.fullmatch(r"[0-9a-f]{64}", source.sha256)

    def test_the_page_on_data_sets_has_every_source(self) -> None:
        page = DOCS.read_text()
        for source in SOURCES:
            for fact in (source.page, source.url, source.sha256, source.licence, f"{source.folder}/"):
                assert fact in page, fact

"""The folders that are searched, files that are downloaded, and the place of the cache."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from postshift.datasets._location import cache_folder, find_file, obtain
from postshift.datasets._public_files import ADIENCE, ADULT_TRAIN
from postshift.exceptions import DataNotFoundError

if TYPE_CHECKING:
    from tests.datasets.conftest import Source

CONTENT = bytes(range(256)) * 1_000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


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


@pytest.mark.usefixtures("nowhere")
class TestObtain:
    def test_downloaded_once(self, source: Source, tmp_path: Path) -> None:
        known = replace(ADULT_TRAIN, url=source.give("adult.data", CONTENT), sha256=DIGEST)
        first, second = (obtain(known, data_dir=None, download=True) for _ in range(2))
        assert first == second == tmp_path / "cache" / "data" / "adult" / "adult.data"
        assert first.read_bytes() == CONTENT
        assert source.asked == ["/adult.data"]
        assert find_file("adult", "adult.data") == first

    def test_a_folder_comes_before_the_source(self, source: Source, tmp_path: Path) -> None:
        known = replace(ADULT_TRAIN, url=source.give("adult.data", CONTENT), sha256=DIGEST)
        given = tmp_path / "given" / "adult" / "adult.data"
        given.parent.mkdir(parents=True)
        given.touch()
        assert obtain(known, data_dir=tmp_path / "given", download=True) == given
        assert source.asked == []

    def test_no_download_unless_allowed(self, source: Source) -> None:
        known = replace(ADULT_TRAIN, url=source.give("adult.data", CONTENT), sha256=DIGEST)
        with pytest.raises(DataNotFoundError) as caught:
            obtain(known, data_dir=None, download=False)
        assert source.asked == []
        assert f"(3) allow the download of {known.url} with download=True" in str(caught.value)

    def test_a_failure_has_three_remedies(self, source: Source, tmp_path: Path) -> None:
        known = replace(ADULT_TRAIN, url=source.give("adult.data", b"other"), sha256=DIGEST)
        with pytest.raises(DataNotFoundError) as caught:
            obtain(known, data_dir=tmp_path / "given", download=True)
        message = str(caught.value)
        place = tmp_path / "cache" / "data" / "adult" / "adult.data"
        assert "(1) pass data_dir, the folder that has adult/adult.data" in message
        assert "(2) set the environment variable POSTSHIFT_DATA" in message
        assert (
            f"(3) save {known.url} as {place} yourself, as the download failed: the 5 bytes received have sha256"
            in message
        )
        assert message.index(str(tmp_path / "given")) < message.index(str(place))

    def test_given_out_on_request_only(self) -> None:
        with pytest.raises(DataNotFoundError, match=f"ask the authors for it at {ADIENCE.page}"):
            obtain(ADIENCE, "faces.npz", data_dir=None, download=True)

"""Downloads from a server on this machine: complete and checked, or no file at all."""

from __future__ import annotations

import hashlib
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from postshift.datasets import _download
from postshift.datasets._download import DownloadError, fetch, progress

if TYPE_CHECKING:
    from tests.datasets.conftest import Source

CONTENT = bytes(range(256)) * 1_000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "set" / "file.bin"


def left_behind(target: Path) -> list[str]:
    return [path.name for path in target.parent.iterdir()] if target.parent.exists() else []


def cut(handler: BaseHTTPRequestHandler) -> None:
    """Promise everything and hang up half way."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(CONTENT)))
    handler.end_headers()
    handler.wfile.write(CONTENT[: len(CONTENT) // 2])
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)


def cut_chunk(handler: BaseHTTPRequestHandler) -> None:
    """Hang up within a chunk of an answer of unknown length."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"1000\r\n" + CONTENT[:100])
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)


class TestFetch:
    def test_a_whole_file(self, source: Source, target: Path) -> None:
        fetch(source.give("file.bin", CONTENT), target, sha256=DIGEST)
        assert target.read_bytes() == CONTENT
        assert left_behind(target) == ["file.bin"]

    def test_a_length_that_nobody_knows(self, source: Source, target: Path) -> None:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            handler.wfile.write(CONTENT)

        fetch(source.answer("file.bin", answer), target, sha256=DIGEST)
        assert target.read_bytes() == CONTENT

    def test_another_checksum_leaves_nothing(self, source: Source, target: Path) -> None:
        url = source.give("file.bin", CONTENT[:-1] + b"\0")
        with pytest.raises(DownloadError, match=f"the 256,000 bytes received have sha256 .* instead of {DIGEST}"):
            fetch(url, target, sha256=DIGEST)
        assert left_behind(target) == []

    def test_an_older_copy_outlives_a_failure(self, source: Source, target: Path) -> None:
        target.parent.mkdir(parents=True)
        target.write_bytes(b"older")
        with pytest.raises(DownloadError):
            fetch(source.give("file.bin", b"other"), target, sha256=DIGEST)
        assert target.read_bytes() == b"older"
        assert left_behind(target) == ["file.bin"]

    @pytest.mark.parametrize(
        ("answer", "message"), [(cut, "was cut after 128,000 of 256,000 bytes"), (cut_chunk, "was cut after")]
    )
    def test_a_cut_connection_leaves_nothing(self, source: Source, target: Path, answer, message: str) -> None:
        with pytest.raises(DownloadError, match=message):
            fetch(source.answer("file.bin", answer), target, sha256=DIGEST)
        assert left_behind(target) == []

    def test_a_page_that_is_gone(self, source: Source, target: Path) -> None:
        with pytest.raises(DownloadError, match="HTTP Error 404"):
            fetch(source.give("file.bin", b"gone", status=404), target, sha256=DIGEST)
        assert left_behind(target) == []

    @pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/file.bin", "https://nowhere.invalid/file.bin"])
    def test_no_network(self, target: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
        monkeypatch.setenv("no_proxy", "*")
        with socket.socket() as closed:  # bound and not listening: the port refuses
            closed.bind(("127.0.0.1", 0))
            with pytest.raises(DownloadError, match="no connection"):
                fetch(url.format(port=closed.getsockname()[1]), target, sha256=DIGEST)
        assert not target.parent.exists()

    def test_a_server_that_is_silent(self, source: Source, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_download, "TIMEOUT", 0.05)
        done = threading.Event()

        def wait(_: BaseHTTPRequestHandler) -> None:
            done.wait(10)

        url = source.answer("file.bin", wait)
        with pytest.raises(DownloadError, match=r"no answer for 0\.05 s|timed out"):
            fetch(url, target, sha256=DIGEST)
        done.set()
        assert left_behind(target) == []

    def test_a_folder_that_cannot_be_made(self, source: Source, tmp_path: Path) -> None:
        (tmp_path / "cache").write_bytes(b"a file")
        with pytest.raises(DownloadError, match="cache"):
            fetch(source.give("file.bin", CONTENT), tmp_path / "cache" / "set" / "file.bin", sha256=DIGEST)

    def test_what_is_stored_may_be_less(self, source: Source, target: Path) -> None:
        fetch(source.give("file.bin", CONTENT), target, sha256=DIGEST, prepare=lambda content: content[:3])
        assert target.read_bytes() == bytes(range(3))
        assert left_behind(target) == ["file.bin"]

    def test_interrupted_leaves_nothing(self, source: Source, target: Path) -> None:
        def interrupt(_: bytes) -> bytes:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fetch(source.give("file.bin", CONTENT), target, sha256=DIGEST, prepare=interrupt)
        assert left_behind(target) == []


def test_tqdm(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    with progress("file.bin", total=2_000) as advance:
        advance(500)
        advance(1_500)
    shown = capsys.readouterr()
    assert "file.bin: 100%" in shown.err
    assert "2.00k/2.00k" in shown.err
    assert shown.out == ""


def test_rich(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with progress("file.bin", total=2_000) as advance:
        advance(2_000)
    shown = capsys.readouterr()
    assert "file.bin" in shown.err
    assert "100%" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("total", [1_000, None])
def test_plain(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, total: int | None) -> None:
    for name in ("tqdm", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    with progress("file.bin", total=total) as advance:
        for _ in range(100):
            advance(10)
    shown = capsys.readouterr()
    first, *steps = shown.err.splitlines()
    assert first.startswith("file.bin: downloading (")
    assert steps == ([f"file.bin: {10 * k} %" for k in range(1, 11)] if total else [])
    assert shown.out == ""

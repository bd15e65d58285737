"""Progress of a download: with tqdm, with rich, and as plain lines."""

from __future__ import annotations

import sys

import pytest

from postshift.datasets._progress import progress


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

"""Download a file: either all of it, with the right checksum, or nothing."""

from __future__ import annotations

import hashlib
import http.client
import importlib
import os
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

TIMEOUT = 15  # seconds without an answer
BLOCK = 1 << 16
STEPS = 10  # lines of plain progress

Prepare = Callable[[bytes], bytes]
Advance = Callable[[int], object]


class DownloadError(Exception):
    """The reason why a download failed; `postshift.datasets._location` turns it into the error that users see."""


def fetch(url: str, target: Path, *, sha256: str, prepare: Prepare | None = None) -> None:
    """Save the content of ``url`` as ``target``, changed by ``prepare``; a failure leaves no file and raises.

    The file is written next to the target under a temporary name and then renamed: other processes see a complete file
    or none.
    """
    # The addresses are those of the table of sources, never the user's.
    request = urllib.request.Request(url, headers={"User-Agent": "postshift"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310
            _keep(response, target, sha256=sha256, prepare=prepare)
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(_reason(error)) from error


def _keep(response: Any, target: Path, *, sha256: str, prepare: Prepare | None) -> None:
    """Save a response under a temporary name, and rename it if it is complete and has the right checksum."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with partial.open("xb") as file:
            found, size = _receive(response, file, label=target.name)
            _flush(file)
        if found != sha256:
            raise DownloadError(
                f"the {size:,} bytes received have sha256 {found} instead of {sha256}: the file was changed at the "
                "source or during the download"
            )
        if prepare is not None:
            content = prepare(partial.read_bytes())
            with partial.open("wb") as file:
                file.write(content)
                _flush(file)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _receive(response: Any, file: BinaryIO, *, label: str) -> tuple[str, int]:
    """Copy a response into a file, with a progress bar; return its sha256 and size."""
    digest, size = hashlib.sha256(), 0
    length = response.headers.get("Content-Length")
    total = int(length) if length and length.isdigit() else None
    with progress(label, total=total) as advance:
        while block := response.read(BLOCK):
            file.write(block)
            digest.update(block)
            size += len(block)
            advance(len(block))
    if total is not None and size < total:
        raise DownloadError(f"the connection was cut after {size:,} of {total:,} bytes")
    return digest.hexdigest(), size


def _flush(file: BinaryIO) -> None:
    """Write buffered bytes to the disk."""
    file.flush()
    os.fsync(file.fileno())


def _reason(error: Exception) -> str:
    """Return a short text for an error."""
    if isinstance(error, urllib.error.URLError) and not isinstance(error, urllib.error.HTTPError):
        return f"no connection ({error.reason})"
    if isinstance(error, TimeoutError):
        return f"no answer for {TIMEOUT} s"
    if isinstance(error, http.client.IncompleteRead):
        return f"the connection was cut after {len(error.partial):,} bytes of a block"
    return f"{type(error).__name__}: {error}"


@contextmanager
def progress(label: str, *, total: int | None) -> Iterator[Advance]:
    """Show progress on stderr with tqdm, rich or plain lines; yield a function to call with the size of every block."""
    if tqdm := _optional("tqdm"):
        with tqdm.tqdm(desc=label, total=total, unit="B", unit_scale=True) as shown:
            yield shown.update
    elif rich := _optional("rich.progress"):
        console = importlib.import_module("rich.console").Console(stderr=True)
        with rich.Progress(*rich.Progress.get_default_columns(), rich.DownloadColumn(), console=console) as shown:
            task = shown.add_task(label, total=total)
            yield lambda size: shown.advance(task, size)
    else:
        yield _plain(label, total)


def _optional(name: str) -> Any:
    """Return a module, or None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _plain(label: str, total: int | None) -> Advance:
    """Write a line, and return a function that writes another after every tenth of the bytes."""
    size = "size unknown" if total is None else f"{total / 1e6:,.1f} MB"
    received = shown = 0
    sys.stderr.write(f"{label}: downloading ({size})\n")

    def advance(block: int) -> None:
        nonlocal received, shown
        received += block
        step = STEPS * received // total if total else 0
        if step > shown:
            shown = step
            sys.stderr.write(f"{label}: {100 * step // STEPS} %\n")

    return advance

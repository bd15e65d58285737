"""A file from the public source into the cache: all of it with the right checksum, or nothing."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from postshift.datasets._progress import progress

TIMEOUT = 15  # seconds without an answer; the error must come before the user gives up
BLOCK = 1 << 16

Prepare = Callable[[bytes], bytes]


class DownloadError(Exception):
    """Why a download failed; `postshift.datasets._location` makes an error for the user of it."""


def fetch(url: str, target: Path, *, sha256: str, prepare: Prepare | None = None) -> None:
    """Save what ``url`` gives as ``target``, or leave no trace and say why.

    Others see no file or a whole one: it is written beside the target under a name of its own and then renamed.

    Parameters
    ----------
    url : str
        An address of the table of sources.
    target : pathlib.Path
        The file to be; its folder is made.
    sha256 : str
        Checksum that the bytes must have.
    prepare : callable, optional
        Makes what is stored of what was received.

    Raises
    ------
    DownloadError
        When there is no network, the connection breaks, the checksum is another, or the folder cannot be written.
    """
    # The addresses are those of the table of sources, never the user's.
    request = urllib.request.Request(url, headers={"User-Agent": "postshift"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310
            _keep(response, target, sha256=sha256, prepare=prepare)
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(_reason(error)) from error


def _keep(response: Any, target: Path, *, sha256: str, prepare: Prepare | None) -> None:
    """Save an answer under a name of its own, and rename it when it is whole and right."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with partial.open("xb") as file:
            found, size = _receive(response, file, label=target.name)
            _settle(file)
        if found != sha256:
            raise DownloadError(
                f"{size:,} bytes came with sha256 {found} instead of {sha256}, so the file was changed, at the source "
                "or on the way"
            )
        if prepare is not None:
            content = prepare(partial.read_bytes())
            with partial.open("wb") as file:
                file.write(content)
                _settle(file)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _receive(response: Any, file: BinaryIO, *, label: str) -> tuple[str, int]:
    """Copy an answer into a file, with a progress bar; return its sha256 and size."""
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


def _settle(file: BinaryIO) -> None:
    """Wait until what was written is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def _reason(error: Exception) -> str:
    """Return what went wrong in a few words."""
    if isinstance(error, urllib.error.URLError) and not isinstance(error, urllib.error.HTTPError):
        return f"no connection ({error.reason})"
    if isinstance(error, TimeoutError):
        return f"no answer for {TIMEOUT} s"
    if isinstance(error, http.client.IncompleteRead):
        return f"the connection was cut after {len(error.partial):,} bytes of a block"
    return f"{type(error).__name__}: {error}"

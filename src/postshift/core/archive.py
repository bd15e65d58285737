"""One file for small arrays and a header: read without pickle, written atomically."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from postshift.exceptions import ArchiveError

FORMAT = 1


def write_archive(
    path: str | os.PathLike[str], *, kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write header and arrays to ``path`` (npz); an interrupted write leaves the old file as it was."""
    target = Path(path)
    text = json.dumps({"kind": kind, "format": FORMAT, **header}, sort_keys=True, allow_nan=False)
    handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            np.savez(stream, **{"header": np.array(text), **arrays})
            stream.flush()
            os.fsync(stream.fileno())
        Path(draft).replace(target)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def read_archive(path: str | os.PathLike[str], *, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and arrays of a file written by :func:`write_archive`."""
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays.pop("header")))
    except (KeyError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise ArchiveError(f"{path} is not a postshift {kind} file, or it was cut short: {error}") from error
    if not isinstance(header, dict) or header.get("kind") != kind:
        raise ArchiveError(f"{path} must hold a postshift {kind}. Got {_kind(header)!r} instead")
    if header.get("format") != FORMAT:
        raise ArchiveError(
            f"{path} has format {header.get('format')!r}; this version of postshift reads format {FORMAT}: "
            "load it with the version that wrote it"
        )
    return header, arrays


def _kind(header: Any) -> Any:
    """Return what a header calls itself."""
    return header.get("kind") if isinstance(header, dict) else header

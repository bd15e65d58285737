"""One file for small arrays and a header: read without pickle, written atomically."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from postshift.exceptions import ArchiveError

FORMAT = 1
# What reading a file may raise if this library did not write its content.
CONTENT_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def write_archive(
    path: str | os.PathLike[str], *, kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write header and arrays to ``path`` (npz); an interrupted write leaves the old file as it was."""
    contents = {name: np.asarray(array) for name, array in arrays.items()}
    whole = {"kind": kind, "format": FORMAT, **header}
    text = json.dumps({**whole, "digest": _digest(whole, contents)}, sort_keys=True, allow_nan=False)
    everything = {"header": np.array(text), **contents}
    write_atomically(path, lambda stream: write_arrays(stream, everything))


def write_arrays(stream: BinaryIO, arrays: Mapping[str, Any]) -> None:
    """Write arrays as ``np.savez`` does, without pickle: before NumPy 2.1 it takes ``allow_pickle`` for an array."""
    with zipfile.ZipFile(stream, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, np.asanyarray(array), allow_pickle=False)


def write_atomically(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Write to a draft in the same folder, then rename it to ``path``."""
    target = Path(path)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    try:
        with draft.open("xb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def contradiction(path: str | os.PathLike[str], error: Exception) -> ArchiveError:
    """Return the error for a file whose digest is right but whose parts do not fit together."""
    return ArchiveError(
        f"{path} was changed after it was written, and its parts do not fit together ({type(error).__name__}: "
        f"{error}): start again, or use an older copy"
    )


@contextlib.contextmanager
def contradicting(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise errors about the content of a file as contradictions of the file."""
    try:
        yield
    except CONTENT_ERRORS as error:
        raise contradiction(path, error) from error


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Lock a folder against other processes; raise BlockingIOError if another one holds it."""
    if os.name != "posix":  # other systems cannot open folders
        yield
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        if not try_lock(place):
            raise BlockingIOError(f"{folder} is in use by another process")
        yield
    finally:
        os.close(place)


def try_lock(file: int) -> bool:
    """Lock an open file or folder until it is closed; return False if it is already locked.

    If the system or the file system has no locks, nothing is locked.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


def read_archive(path: str | os.PathLike[str], *, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and arrays of a file written by :func:`write_archive`."""
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays.pop("header")))
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:  # whatever a damaged file makes zipfile, numpy or json raise
        raise ArchiveError(f"{path} is not a postshift {kind} file, or it was cut short: {error}") from error
    if not isinstance(header, dict) or header.get("kind") != kind:
        raise ArchiveError(f"{path} must hold a postshift {kind}. Got {_kind(header)!r} instead")
    if header.get("format") != FORMAT:
        raise ArchiveError(
            f"{path} has format {header.get('format')!r}; this version of postshift reads format {FORMAT}: "
            "load it with the version that wrote it"
        )
    if header.pop("digest", None) != _digest(header, arrays):
        raise ArchiveError(f"{path} was damaged or changed after it was written: its digest does not match its content")
    return header, arrays


def _digest(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """Return a digest that reveals damage."""
    digest = hashlib.blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}/{array.dtype.str}/{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _kind(header: Any) -> Any:
    """Return the kind that a header names."""
    return header.get("kind") if isinstance(header, dict) else header

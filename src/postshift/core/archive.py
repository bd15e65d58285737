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
# What the content of a file may make our code raise, where nobody of ours wrote it.
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
    """Write to a draft in the same folder, then put it in place."""
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


def write_answers(
    path: str | os.PathLike[str], *, kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any], known: str
) -> None:
    """Write an archive of answers, refused where the file has answers that this one would lose.

    The answers to the queries ``header["digests"]`` are the rows of the array ``known``. Of two processes that go on
    with the same file, each would write over what the other one was told.
    """
    with locked(Path(path).parent, wait=True):
        try:
            before, stored = read_archive(path, kind=kind)
            older = dict(zip(before["digests"], stored[known], strict=False))
        except (FileNotFoundError, ArchiveError, KeyError, TypeError):  # nothing that could be read again
            older = {}
        newer = dict(zip(header["digests"], np.asarray(arrays[known]), strict=True))
        lost = [key for key, answer in older.items() if key not in newer or not np.array_equal(newer[key], answer)]
        if lost:
            raise ArchiveError(
                f"{path} has {len(lost)} answers that this run does not know: another process saved them, or it is the "
                "file of another run. Load it and go on from there, or save to another file"
            )
        write_archive(path, kind=kind, header=header, arrays=arrays)


def contradiction(path: str | os.PathLike[str], error: Exception) -> ArchiveError:
    """Return the error of a file whose parts do not fit each other: its digest is right, and no run wrote it."""
    return ArchiveError(
        f"{path} was changed after it was written, and contradicts itself ({type(error).__name__}: {error}): begin "
        "anew, or take an older copy of it"
    )


@contextlib.contextmanager
def contradicting(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say of whatever goes wrong with the content of a file that it contradicts itself."""
    try:
        yield
    except CONTENT_ERRORS as error:
        raise contradiction(path, error) from error


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str], *, wait: bool) -> Iterator[None]:
    """Hold a folder against other processes that ask for the same; where the system has no such locks, do without.

    Where another one holds it, wait, or raise BlockingIOError.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(place)


def read_archive(path: str | os.PathLike[str], *, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and arrays of a file written by :func:`write_archive`."""
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays.pop("header")))
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:  # whatever a damaged file makes zipfile, numpy or json say
        raise ArchiveError(f"{path} is not a postshift {kind} file, or it was cut short: {error}") from error
    if not isinstance(header, dict) or header.get("kind") != kind:
        raise ArchiveError(f"{path} must hold a postshift {kind}. Got {_kind(header)!r} instead")
    if header.get("format") != FORMAT:
        raise ArchiveError(
            f"{path} has format {header.get('format')!r}; this version of postshift reads format {FORMAT}: "
            "load it with the version that wrote it"
        )
    if header.pop("digest", None) != _digest(header, arrays):
        raise ArchiveError(f"{path} was damaged or changed after it was written: its digest does not fit its contents")
    return header, arrays


def _digest(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """Return a digest by which damage is found."""
    digest = hashlib.blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}/{array.dtype.str}/{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _kind(header: Any) -> Any:
    """Return what a header calls itself."""
    return header.get("kind") if isinstance(header, dict) else header

"""Find the files of a data set, download missing ones, and check them."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from postshift.datasets._download import DownloadError, Prepare, fetch
from postshift.datasets._public_files import PublicFile
from postshift.exceptions import DataNotFoundError, InputError

VARIABLE = "POSTSHIFT_DATA"
CACHE_VARIABLE = "POSTSHIFT_CACHE"

PathLike = str | os.PathLike[str]


def find_file(folder: str, *names: str, data_dir: PathLike | None = None) -> Path:
    """Return ``folder/name`` in the first data folder that has it, without a download.

    Several names, in order of preference, stand for several editions of the data set.
    """
    path = _search(folder, names, data_dir=data_dir)
    if path is None:
        raise _not_found(folder, names, data_dir=data_dir, third="load it with download=True and a network connection")
    return path


def obtain(
    source: PublicFile,
    *editions: str,
    data_dir: PathLike | None,
    download: bool = False,
    prepare: Prepare | None = None,
) -> Path:
    """Return the path of a public file, or of another edition of it, downloaded into the cache if it is missing.

    ``prepare`` changes the content of a download before it is stored.
    """
    names = (*editions, source.name)
    found = _search(source.folder, names, data_dir=data_dir)
    if found is not None:
        return found
    if not source.url:
        third = f"ask the authors for it at {source.page}: it is only sent on request"
    elif not download:
        third = f"allow the download of {source.url} with download=True"
    else:
        target = cache_folder() / "data" / source.folder / source.name
        try:
            fetch(source.url, target, sha256=source.sha256, prepare=prepare)
        except DownloadError as error:
            third = f"save {source.url} as {target} yourself, as the download failed: {error}"
        else:
            return target
    raise _not_found(source.folder, names, data_dir=data_dir, third=third)


def read_verified(path: Path, *, sha256: str) -> bytes:
    """Return the bytes of ``path``; raise if they have another sha256."""
    content = path.read_bytes()
    check_sha256(content, sha256, what=f"{path} must be the published file, with", size=f"{len(content):,} bytes")
    return content


def check_sha256(content: Any, sha256: str, *, what: str, size: str) -> None:
    """Raise unless bytes have this sha256; ``what`` begins the message, and ``size`` says how much was found."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(
            f"{what} sha256 {sha256}. Got {size} with sha256 {found} instead; the copy is damaged or another edition: "
            "replace it with the original"
        )


def cache_folder() -> Path:
    """Return the cache folder: ``POSTSHIFT_CACHE``, or the usual place of the operating system."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "postshift"


def _search(folder: str, names: tuple[str, ...], *, data_dir: PathLike | None) -> Path | None:
    """Return the first path that is a file."""
    return next((path for path in _places(folder, names, data_dir=data_dir) if _is_file(path)), None)


def _is_file(path: Path) -> bool:
    """Return whether a path is a file; False if its folder cannot be read."""
    try:
        return path.is_file()
    except OSError:
        return False


def _places(folder: str, names: tuple[str, ...], *, data_dir: PathLike | None) -> list[Path]:
    """Return the paths to search, in order."""
    here = Path.cwd()
    folders = [Path(root).expanduser() for root in (data_dir, os.environ.get(VARIABLE)) if root]
    folders += [root.parent / "shared" / "data" for root in (_checkout(here), here)]
    folders = list(dict.fromkeys([*folders, cache_folder() / "data"]))
    return [root / folder / name for root in folders for name in names]


def _not_found(folder: str, names: tuple[str, ...], *, data_dir: PathLike | None, third: str) -> DataNotFoundError:
    """Return the error with the paths searched and the three remedies."""
    tried = "".join(f"\n  {path}" for path in _places(folder, names, data_dir=data_dir))
    alone = len(names) == 1
    file = f"the file {names[0]!r}" if alone else "every known edition"
    wanted = f"{folder}/{names[0]}" if alone else f"{folder}/ with one of these files"
    return DataNotFoundError(
        f"{file} of the data set {folder!r} was not found. Searched for:{tried}\n"
        f"There are three remedies: (1) pass data_dir, the folder that has {wanted}; "
        f"(2) set the environment variable {VARIABLE} to that folder; (3) {third}"
    )


def _checkout(start: Path) -> Path:
    """Return the root of the git checkout around ``start``, or ``start`` outside of one."""
    return next((root for root in (start, *start.parents) if (root / ".git").exists()), start)

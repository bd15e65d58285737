"""Where the files of a data set are, and whether they are the right ones.

The first of these folders that has the file: ``data_dir``, the one that the environment variable ``POSTSHIFT_DATA``
names, ``shared/data`` beside a developer's checkout, the cache. Where none has it, it is downloaded into the cache.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from postshift.datasets._download import DownloadError, Prepare, fetch
from postshift.datasets._sources import Source
from postshift.exceptions import DataNotFoundError, InputError

VARIABLE = "POSTSHIFT_DATA"
CACHE_VARIABLE = "POSTSHIFT_CACHE"

PathLike = str | os.PathLike[str]


def find_file(folder: str, *names: str, data_dir: PathLike | None = None) -> Path:
    """Return the path of ``folder/name`` in the first data folder that has it; nothing is downloaded.

    Parameters
    ----------
    folder : str
        The data set's own folder, e.g. ``"adult"``.
    *names : str
        The file in it; of several, each the mark of one edition, the first that a data folder has.
    data_dir : path-like, optional
        The folder that holds the data sets' folders. It is looked in first, then the one that the environment
        variable ``POSTSHIFT_DATA`` names, then ``shared/data`` beside a developer's checkout, then the cache.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    DataNotFoundError
        When none of these folders has the file.
    """
    path = _search(folder, names, data_dir=data_dir)
    if path is None:
        raise _not_found(folder, names, data_dir=data_dir, third="load it with download=True where there is a network")
    return path


def obtain(
    source: Source,
    *editions: str,
    data_dir: PathLike | None,
    download: bool = False,
    prepare: Prepare | None = None,
) -> Path:
    """Return the path of a public file: found as by `find_file`, or else downloaded into the cache.

    Parameters
    ----------
    source : Source
        The file.
    *editions : str
        Other files of the same data set that serve as well, looked for before it.
    data_dir : path-like or None
        As for `find_file`.
    download : bool, default=False
        Whether the file may be downloaded where no folder has it.
    prepare : callable, optional
        Makes what the cache keeps of what was downloaded.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    DataNotFoundError
        When no folder has it and it is not to be had from the source; the message has the three remedies.
    """
    names = (*editions, source.name)
    found = _search(source.folder, names, data_dir=data_dir)
    if found is not None:
        return found
    if not source.url:
        third = f"ask the authors for it at {source.page}: it is given out on request only"
    elif not download:
        third = f"allow the download of {source.url} by download=True"
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
    """Return the bytes of ``path``, refused unless their sha256 is the one given."""
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(
            f"{path} must be the published file, with sha256 {sha256}. Got {len(content):,} bytes with "
            f"sha256 {found} instead; the copy is damaged or another edition: replace it by the original"
        )
    return content


def cache_folder() -> Path:
    """Return the folder for what can be made or fetched again: ``POSTSHIFT_CACHE``, or where the system wants it."""
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
    """Return the first of the files that there is."""
    return next((path for path in _places(folder, names, data_dir=data_dir) if _is_there(path)), None)


def _is_there(path: Path) -> bool:
    """Return whether a path is a file; one in a folder that may not be read is not."""
    try:
        return path.is_file()
    except OSError:
        return False


def _places(folder: str, names: tuple[str, ...], *, data_dir: PathLike | None) -> list[Path]:
    """Return the paths that are looked at, in that order."""
    return [root / folder / name for root in _data_folders(data_dir) for name in names]


def _not_found(folder: str, names: tuple[str, ...], *, data_dir: PathLike | None, third: str) -> DataNotFoundError:
    """Return the error with the places that were looked at and the three remedies."""
    tried = "".join(f"\n  {path}" for path in _places(folder, names, data_dir=data_dir))
    alone = len(names) == 1
    file = f"the file {names[0]!r}" if alone else "every known edition"
    wanted = f"{folder}/{names[0]}" if alone else f"{folder}/ with one of these files"
    return DataNotFoundError(
        f"{file} of the data set {folder!r} is missing from the known places. Looked for:{tried}\n"
        f"There are three remedies: (1) pass data_dir, the folder that has {wanted}; "
        f"(2) set the environment variable {VARIABLE} to that folder; (3) {third}"
    )


def _data_folders(data_dir: PathLike | None) -> list[Path]:
    """Return the data folders in the order in which they are looked in, each once."""
    here = Path.cwd()
    named = [data_dir, os.environ.get(VARIABLE)]
    folders = [Path(root).expanduser() for root in named if root]
    folders += [root.parent / "shared" / "data" for root in (_checkout(here), here)]
    return list(dict.fromkeys([*folders, cache_folder() / "data"]))


def _checkout(start: Path) -> Path:
    """Return the root of the git checkout around ``start``, or ``start`` outside of one."""
    return next((root for root in (start, *start.parents) if (root / ".git").exists()), start)

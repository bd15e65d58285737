"""Where the files of a data set are, and whether they are the right ones."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from postshift.exceptions import DataNotFoundError, InputError

VARIABLE = "POSTSHIFT_DATA"

PathLike = str | os.PathLike[str]


def find_file(folder: str, name: str, *, data_dir: PathLike | None = None) -> Path:
    """Return the path of ``folder/name`` in the first data folder that has it.

    Parameters
    ----------
    folder : str
        The data set's own folder, e.g. ``"adult"``.
    name : str
        The file in it.
    data_dir : path-like, optional
        The folder that holds the data sets' folders. It is looked in first, then the one that the environment
        variable ``POSTSHIFT_DATA`` names, then ``shared/data`` beside a developer's checkout.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    DataNotFoundError
        When none of these folders has the file.
    """
    folders = _data_folders(data_dir)
    for root in folders:
        path = root / folder / name
        if path.is_file():
            return path
    tried = "".join(f"\n  {root / folder / name}" for root in folders)
    raise DataNotFoundError(
        f"the file {name!r} of the data set {folder!r} is in none of the known places. Looked for:{tried}\n"
        f"pass data_dir, or set the environment variable {VARIABLE}, to the folder that has {folder}/{name}"
    )


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


def _data_folders(data_dir: PathLike | None) -> list[Path]:
    """Return the data folders in the order in which they are looked in, each once."""
    here = Path.cwd()
    named = [data_dir, os.environ.get(VARIABLE)]
    folders = [Path(root).expanduser() for root in named if root]
    folders += [root.parent / "shared" / "data" for root in (_checkout(here), here)]
    return list(dict.fromkeys(folders))


def _checkout(start: Path) -> Path:
    """Return the root of the git checkout around ``start``, or ``start`` outside of one."""
    return next((root for root in (start, *start.parents) if (root / ".git").exists()), start)

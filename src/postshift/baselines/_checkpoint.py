"""A training that can be taken up again: one file, written after every epoch, that knows which fit it belongs to."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from postshift.core.archive import contradicting, read_archive, write_archive
from postshift.exceptions import ArchiveError, SettingError

KIND = "network checkpoint"


class Checkpoint:
    """The file of one training in a folder.

    Parameters
    ----------
    folder : path
        Made where it is not there.
    name : str
        The name of the training, of which a folder may hold several.
    identity : mapping
        What the fit is, in words and numbers: a file with another identity is refused.
    """

    def __init__(self, folder: str | os.PathLike[str], *, name: str, identity: Mapping[str, Any]) -> None:
        self._path = Path(folder) / f"{name}.npz"
        self._identity = dict(identity)
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise SettingError(f"checkpoint must be a folder. Got the file {os.fspath(folder)!r} instead") from error

    def save(self, losses: Sequence[float], arrays: Mapping[str, Any]) -> None:
        """Put the state after so many epochs as there are losses in the place of the last one."""
        header = {"identity": self._identity, "losses": list(losses)}
        write_archive(self._path, kind=KIND, header=header, arrays=arrays)

    def load(self) -> tuple[list[float], dict[str, Any]] | None:
        """Return the losses of the epochs and the arrays of the state; None where nothing was saved."""
        if not self._path.exists():
            return None
        header, arrays = read_archive(self._path, kind=KIND)
        with contradicting(self._path):
            different, losses = self._differences(header["identity"]), [float(loss) for loss in header["losses"]]
        if different:
            raise ArchiveError(
                f"{self._path} belongs to another fit, of other {', '.join(different)}: give another folder, or delete "
                "the file to begin anew"
            )
        return losses, arrays

    def _differences(self, found: Mapping[str, Any]) -> list[str]:
        """Name what differs, with both values where they are short."""
        missing = object()
        return [
            name
            if isinstance(value, str) and len(value) > 20
            else f"{name} ({found.get(name)!r} there, {value!r} here)"
            for name, value in self._identity.items()
            if found.get(name, missing) != value
        ]


def digest(*arrays: Any) -> str:
    """Return a digest of arrays, by which data are known again; None counts as an array of its own."""
    total = hashlib.blake2b(digest_size=16)
    for given in arrays:
        if given is None:
            total.update(b"none")
            continue
        array = np.ascontiguousarray(given)
        total.update(f"{array.dtype.str}/{array.shape}/".encode())
        total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()

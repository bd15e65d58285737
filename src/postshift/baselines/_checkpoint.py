"""Checkpoints of a training: one file, written after every epoch, with the identity of its fit."""

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
    """The file of one training in a folder, which is created if needed.

    ``identity`` describes the fit by strings and numbers; loading a file with another identity is an error.
    """

    def __init__(self, folder: str | os.PathLike[str], *, name: str, identity: Mapping[str, Any]) -> None:
        self._path = Path(folder) / f"{name}.npz"
        self._identity = dict(identity)
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise SettingError(f"checkpoint must be a folder. Got the file {os.fspath(folder)!r} instead") from error

    def save(self, losses: Sequence[float], arrays: Mapping[str, Any]) -> None:
        """Replace the file by the state after ``len(losses)`` epochs."""
        header = {"identity": self._identity, "losses": list(losses)}
        write_archive(self._path, kind=KIND, header=header, arrays=arrays)

    def load(self) -> tuple[list[float], dict[str, Any]] | None:
        """Return the losses of the epochs and the arrays of the state, or None if there is no file."""
        if not self._path.exists():
            return None
        header, arrays = read_archive(self._path, kind=KIND)
        with contradicting(self._path):
            different, losses = self._differences(header["identity"]), [float(loss) for loss in header["losses"]]
        if different:
            raise ArchiveError(
                f"{self._path} belongs to another fit; these differ: {', '.join(different)}. Give another folder, or "
                "delete the file to start again"
            )
        return losses, arrays

    def _differences(self, found: Mapping[str, Any]) -> list[str]:
        """Return the names of the entries that differ, with both values if they are short."""
        missing = object()
        return [
            name
            if isinstance(value, str) and len(value) > 20
            else f"{name} ({found.get(name)!r} in the file, {value!r} here)"
            for name, value in self._identity.items()
            if found.get(name, missing) != value
        ]


def digest(*arrays: Any) -> str:
    """Return a digest of arrays, some of which may be None."""
    total = hashlib.blake2b(digest_size=16)
    for given in arrays:
        if given is None:
            total.update(b"none")
            continue
        array = np.ascontiguousarray(given)
        total.update(f"{array.dtype.str}/{array.shape}/".encode())
        total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()

"""Files of arrays that take long to make: named by what they were made with, written in one piece."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.store import locked
from postshift.core.archive import write_atomically
from postshift.datasets import cache_folder

Arrays = dict[str, np.ndarray]


class Later(Mapping[str, np.ndarray]):
    """Arrays that are made when the first of them is read; ``seconds`` is the processor time that this took."""

    def __init__(self, make: Callable[[], Mapping[str, np.ndarray]]) -> None:
        self._make = make
        self._made: Mapping[str, np.ndarray] | None = None
        self.seconds = 0.0

    @property
    def _arrays(self) -> Mapping[str, np.ndarray]:
        if self._made is None:
            begin = time.process_time()
            self._made = self._make()
            self.seconds = time.process_time() - begin
        return self._made

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def place_of(kind: str, name: str, identity: Mapping[str, Any]) -> Path:
    """Return the folder of one thing of a kind in the cache: its name, and a digest of what it is made with."""
    text = json.dumps(identity, sort_keys=True)
    return (
        cache_folder() / kind / f"{name.replace('/', '-')}-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"
    )


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a place in the cache so that two processes do not make the same thing: the second waits for the first.

    The lock ends with the process that has it, also where that is killed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("wb") as stream, locked(stream):
        yield


def write_arrays(path: Path, arrays: Mapping[str, Any], *, compressed: bool = False) -> None:
    """Write arrays to an npz file; an interrupted write leaves what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save = np.savez_compressed if compressed else np.savez
    write_atomically(path, lambda stream: save(stream, **arrays))


def read_arrays(path: Path) -> Arrays | None:
    """Return the arrays of a file; None where there is none."""
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def under(prefix: str, arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Return the arrays whose names begin with ``prefix/``, without it."""
    return {name.removeprefix(f"{prefix}/"): array for name, array in arrays.items() if name.startswith(f"{prefix}/")}

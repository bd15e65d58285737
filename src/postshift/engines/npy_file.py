"""Arrays on disk that a source can slice, even where somebody cuts their files short.

A page of a mapped file that is no longer there ends the process: files that are named by their path are read, not
mapped, and the size of files that a user has mapped is looked at before every slice.
"""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np
import numpy.typing as npt


class NpyFile:
    """The array in a ``.npy`` file, of one or two dimensions, read slice by slice.

    Parameters
    ----------
    path : path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/eta.npy", np.eye(3))
    ...     NpyFile(f"{folder}/eta.npy")[1:]
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        header = np.lib.format.open_memmap(os.fspath(path), mode="r")  # reads the header, and no rows
        self.shape, self.dtype = header.shape, header.dtype
        self._path, self._start = os.fspath(path), header.offset
        self._by_column = not header.flags.c_contiguous

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        """Return some rows."""
        first, last, _ = rows.indices(self.shape[0])
        with open(self._path, "rb") as stream:  # noqa: PTH123 -- a path may be text
            if self._by_column:
                columns = [
                    self._read(stream, place * self.shape[0] + first, last - first) for place in range(self.shape[1])
                ]
                return np.stack(columns, axis=1)
            width = int(np.prod(self.shape[1:]))
            return self._read(stream, first * width, (last - first) * width).reshape(last - first, *self.shape[1:])

    def _read(self, stream: Any, place: int, count: int) -> npt.NDArray[Any]:
        """Return some numbers of the file, from a place on."""
        stream.seek(self._start + place * self.dtype.itemsize)
        found = np.fromfile(stream, dtype=self.dtype, count=count)
        if len(found) < count:
            raise EOFError(f"it ends {count - len(found)} numbers too early")
        return found


def check_mapped(part: Any) -> None:
    """Refuse a mapped array whose file no longer has all that was mapped."""
    mapped = getattr(part, "_mmap", None)
    if not isinstance(part, np.memmap) or mapped is None:
        return
    needed = part.offset - part.offset % mmap.ALLOCATIONGRANULARITY + len(mapped)
    if mapped.size() < needed:
        raise EOFError(f"it has {mapped.size()} bytes, and {needed} were mapped")

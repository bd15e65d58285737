"""Arrays in memory or in files, read slice by slice.

Reading a missing page of a mapped file ends the process, and a file may be cut short while it is used. So a file that
is given by its path is read, not mapped, and the size of a file that a user has mapped is checked before every slice.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from postshift._validation import as_numbers
from postshift.engines.blocks.row_block import PARTS, RowBlock, Table, reading
from postshift.engines.memory.kernel_rows import row_slices
from postshift.exceptions import BasisError, ShapeError


class ArraySource:
    """Arrays, memory maps or ``.npy`` files, read slice by slice.

    Each part is an array, a memory map, anything else with ``shape``, ``dtype`` and slices (an HDF5 or Zarr data set,
    for example), or the path of a ``.npy`` file, which is never read as a whole.

    Parameters
    ----------
    eta : array of shape (n, m) or path
        Class probabilities.
    phi : array of shape (n, L) or path, optional
        Basis functions; the constant one by default.
    labels : array of shape (n,) or path, optional
        Classes as positions ``0..m-1``.
    weights : array of shape (n,) or path, optional
        Sample weights.

    Examples
    --------
    >>> source = ArraySource(np.full((5, 2), 0.5, dtype=np.float32), labels=[0, 1, 1, 0, 1])
    >>> [len(block.rows.eta) for block in source.blocks(2)]
    [2, 2, 1]
    """

    def __init__(self, eta: Any, *, phi: Any = None, labels: Any = None, weights: Any = None) -> None:
        given = dict(zip(PARTS, (eta, phi, labels, weights), strict=True))
        self._parts = {name: _opened(value, name=name) for name, value in given.items() if value is not None}
        self._files = {name: _file_name(given[name], name=name) for name in self._parts}
        self._check_shapes()
        self.n_rows, self.n_classes = (int(size) for size in self._parts["eta"].shape)
        self.n_bases = int(self._parts["phi"].shape[1]) if "phi" in self._parts else 1
        copied = [part for part in self._parts.values() if not _is_view_for_kernels(part)]
        self.row_bytes = sum((8 + part.dtype.itemsize) * int(np.prod(part.shape[1:])) for part in copied)
        self.fixed_bytes = 0  # every slice can be read alone

    def blocks(self, block_rows: int) -> Iterator[RowBlock]:
        """Yield all rows in blocks of at most ``block_rows`` rows, not yet checked."""
        for rows in row_slices(0, self.n_rows, block_rows):
            parts = {name: self._read(name, rows) for name in self._parts}
            yield RowBlock.of(parts, self._files, first=rows.start)

    def _read(self, name: str, rows: slice) -> Table:
        """Return some rows of an array."""
        part = self._parts[name]
        with reading(f"{self._files[name]}, rows {rows.start} to {rows.stop - 1}"):
            check_mapped(part)
            return np.asarray(part[rows])

    def _check_shapes(self) -> None:
        """Raise if parts have wrong dimensions, different lengths, or no rows or columns."""
        for name, part in self._parts.items():
            file, wanted = self._files[name], 2 if name in ("eta", "phi") else 1
            if len(part.shape) != wanted:
                raise ShapeError(
                    f"{file}: {name} must have {wanted} dimension(s). Got shape {tuple(part.shape)} instead"
                )
            n_rows = self._parts["eta"].shape[0]
            if part.shape[0] != n_rows:
                raise ShapeError(
                    f"{file}: {name} must have one row per row of eta. Got {part.shape[0]} rows, but {n_rows} in "
                    f"{self._files['eta']}"
                )
            if n_rows == 0:
                raise ShapeError(f"{file}: {name} must have at least one row. Got none")
            if name == "phi" and part.shape[1] == 0:
                raise BasisError(f"{file}: phi has no basis function (no column)")


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

    def __getitem__(self, rows: slice) -> Table:
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

    def _read(self, stream: Any, place: int, count: int) -> Table:
        """Return ``count`` numbers of the file, starting at number ``place``."""
        stream.seek(self._start + place * self.dtype.itemsize)
        found = np.fromfile(stream, dtype=self.dtype, count=count)
        if len(found) < count:
            raise EOFError(f"{count - len(found)} numbers are missing at its end")
        return found


def check_mapped(part: Any) -> None:
    """Raise if the file of a mapped array has become shorter than what was mapped."""
    mapped = getattr(part, "_mmap", None)
    if not isinstance(part, np.memmap) or mapped is None:
        return
    needed = part.offset - part.offset % mmap.ALLOCATIONGRANULARITY + len(mapped)
    if mapped.size() < needed:
        raise EOFError(f"it has {mapped.size()} bytes, but {needed} were mapped")


def _opened(value: Any, *, name: str) -> Any:
    """Return a part as an array that can be sliced; raise if it does not hold numbers."""
    if isinstance(value, str | os.PathLike):
        with reading(os.fspath(value)):
            part: Any = NpyFile(value)
    else:
        sliced = isinstance(getattr(value, "dtype", None), np.dtype) and not hasattr(value, "iloc")
        part = value if sliced else np.asarray(value)
    if name != "labels" and len(part.shape):
        as_numbers(part[:1], name=_file_name(value, name=name))
    return part


def _file_name(value: Any, *, name: str) -> str:
    """Return the name of a part in errors: its file if it has one, else its own name."""
    path = value if isinstance(value, str | os.PathLike) else getattr(value, "filename", None)
    return os.fspath(path) if isinstance(path, str | os.PathLike) else name


def _is_view_for_kernels(part: Any) -> bool:
    """Return whether blocks of a part are views of it, in memory or mapped, in the types of the kernels."""
    if not isinstance(part, np.ndarray):
        return False
    return part.dtype in (np.float32, np.float64, np.intp) and part.flags.c_contiguous and part.flags.aligned

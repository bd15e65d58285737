"""Where a block engine reads its rows: the protocol of sources, and arrays on disk or in memory.

A source hands its rows out in blocks and never holds more than one of them. Blocks are checked by whoever asks for
them, in the first pass, and compared with it in later ones; what is wrong is said with the file and its rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from postshift._validation import as_numbers, check_eta, check_labels, check_phi, check_weights, read_only
from postshift.core.rows import PHI, Rows
from postshift.engines.npy_file import NpyFile, check_mapped
from postshift.engines.rows import row_slices
from postshift.exceptions import BasisError, DataNotFoundError, InputError, PostshiftError, SettingError, ShapeError

Table = npt.NDArray[Any]
PARTS = ("eta", "phi", "labels", "weights")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Consecutive rows of a source as they were read, and the files they come from."""

    eta: Table
    phi: Table | None = None
    labels: Table | None = None
    weights: Table | None = None
    files: Mapping[str, str]  # the name of the file of each part
    first: int = 0  # the number of the first row in its file

    def check(self, *, n_labels: int) -> None:
        """Refuse rows that ``Rows.of`` would refuse; labels run over ``0..n_labels-1``."""
        n_rows = len(self.eta)
        with self.named("eta"):
            check_eta(self.eta)
        if self.phi is not None:
            with self.named("phi"):
                check_phi(self.phi, n_rows=n_rows)
        if self.labels is not None:
            with self.named("labels"):
                check_labels(self.labels, n_rows=n_rows, n_classes=n_labels)
        if self.weights is not None and np.any(self.weights):  # a block may weigh nothing; the whole must not
            with self.named("weights"):
                check_weights(self.weights, n_rows=n_rows)

    def sample(self) -> Rows:
        """Return the rows as the kernels take them, float32 kept and nothing copied that need not be."""
        phi = np.ones((len(self.eta), 1), dtype=np.float32) if self.phi is None else self.phi
        return Rows(
            eta=read_only(_as_kernels_take(self.eta)),
            bases={PHI: read_only(_as_kernels_take(phi))},
            labels=None if self.labels is None else read_only(self.labels.astype(np.intp, copy=False)),
            weights=None if self.weights is None else read_only(np.require(self.weights, np.float64, ["C", "A"])),
        )

    def named(self, part: str) -> AbstractContextManager[None]:
        """Say in errors which rows of which file a part comes from."""
        last = self.first + len(self.eta) - 1
        counted = f" [rows counted from row {self.first}]" if self.first else ""
        return naming(f"{self.files[part]}, rows {self.first} to {last}", remark=counted)


class Source(Protocol):
    """Rows that are read in blocks.

    Every call of :meth:`blocks` reads all rows again, in the same order. The two numbers of bytes are upper bounds by
    which an engine keeps to its memory limit; pages of mapped files do not count.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_classes(self) -> int:
        """Number of classes m."""

    @property
    def n_bases(self) -> int:
        """Number of basis functions L."""

    @property
    def row_bytes(self) -> int:
        """Bytes that reading takes for each row of a block."""

    @property
    def fixed_bytes(self) -> int:
        """Bytes that reading takes however small the blocks are: what a file can only give as a whole."""

    def blocks(self, block_rows: int) -> Iterator[Block]:
        """Yield all rows in blocks of 1 to ``block_rows`` rows, not yet checked."""


class ArraySource:
    """Arrays, memory maps or ``.npy`` files, read slice by slice.

    Each part is an array, a memory map, anything else with ``shape``, ``dtype`` and slices (an HDF5 or Zarr data set,
    say), or the path of a ``.npy`` file, which is never read as a whole.

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
    >>> [len(block.eta) for block in source.blocks(2)]
    [2, 2, 1]
    """

    def __init__(self, eta: Any, *, phi: Any = None, labels: Any = None, weights: Any = None) -> None:
        given = dict(zip(PARTS, (eta, phi, labels, weights), strict=True))
        self._parts = {name: _opened(value, name=name) for name, value in given.items() if value is not None}
        self._files = {name: _file_name(given[name], name=name) for name in self._parts}
        self._check_shapes()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._parts["eta"].shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes m."""
        return int(self._parts["eta"].shape[1])

    @property
    def n_bases(self) -> int:
        """Number of basis functions L."""
        return int(self._parts["phi"].shape[1]) if "phi" in self._parts else 1

    @property
    def row_bytes(self) -> int:
        """Bytes that reading takes for each row of a block: those of the parts that must be copied."""
        copied = [part for part in self._parts.values() if not _is_view_as_taken(part)]
        return sum((8 + part.dtype.itemsize) * int(np.prod(part.shape[1:])) for part in copied)

    @property
    def fixed_bytes(self) -> int:
        """Nothing: every slice can be read alone."""
        return 0

    def blocks(self, block_rows: int) -> Iterator[Block]:
        """Yield all rows in blocks of at most ``block_rows`` rows, not yet checked."""
        for rows in row_slices(0, self.n_rows, block_rows):
            yield Block(**{name: self._read(name, rows) for name in self._parts}, files=self._files, first=rows.start)

    def _read(self, name: str, rows: slice) -> Table:
        """Return some rows of a part."""
        part = self._parts[name]
        with reading(f"{self._files[name]}, rows {rows.start} to {rows.stop - 1}"):
            check_mapped(part)
            return np.asarray(part[rows])

    def _check_shapes(self) -> None:
        """Refuse parts of the wrong number of dimensions, of different lengths, or without rows or columns."""
        for name, part in self._parts.items():
            file, wanted = self._files[name], 2 if name in ("eta", "phi") else 1
            if len(part.shape) != wanted:
                raise ShapeError(
                    f"{file}: {name} must have {wanted} dimension(s). Got shape {tuple(part.shape)} instead"
                )
            if part.shape[0] != self.n_rows:
                raise ShapeError(
                    f"{file}: {name} must have one row per row of eta. Got {part.shape[0]} rows, "
                    f"and {self.n_rows} in {self._files['eta']}"
                )
        if self.n_rows == 0:
            raise ShapeError(f"{self._files['eta']}: eta must have at least one row. Got none")
        if self.n_bases == 0:
            raise BasisError(f"{self._files['phi']}: phi has no basis function (no column)")


@contextmanager
def reading(place: str) -> Iterator[None]:
    """Turn what NumPy, Arrow or the system say about a file that cannot be read into errors of ours."""
    try:
        yield
    except PostshiftError:
        raise
    except FileNotFoundError as error:
        raise DataNotFoundError(f"{place}: there is no such file") from error
    except (OSError, ValueError, NotImplementedError, EOFError) as error:
        raise InputError(
            f"{place}: cannot be read; the file is damaged, cut short or of another kind: {error}"
        ) from error


@contextmanager
def naming(place: str, *, remark: str = "") -> Iterator[None]:
    """Say in errors about what a file holds which file, and perhaps which rows, it is about."""
    try:
        yield
    except SettingError:
        raise
    except InputError as error:
        raise type(error)(f"{place}: {error}{remark}") from error


def _opened(value: Any, *, name: str) -> Any:
    """Return a part as something to slice, refused where it holds no numbers."""
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
    """Return what to call a part in errors: its file where it has one, else its name."""
    path = value if isinstance(value, str | os.PathLike) else getattr(value, "filename", None)
    return os.fspath(path) if isinstance(path, str | os.PathLike) else name


def _is_view_as_taken(part: Any) -> bool:
    """Say whether blocks of a part are views of it, in memory or mapped, that the kernels take as they are."""
    if not isinstance(part, np.ndarray):
        return False
    return part.dtype in (np.float32, np.float64, np.intp) and part.flags.c_contiguous and part.flags.aligned


def _as_kernels_take(table: Table) -> Table:
    """Return a table row by row in memory, in float32 where that holds it and else in float64."""
    narrow = table.dtype.kind == "f" and table.dtype.itemsize <= 4
    return np.require(table, np.float32 if narrow else np.float64, ["C", "A"])

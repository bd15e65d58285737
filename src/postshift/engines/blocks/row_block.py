"""Blocks of rows as they were read: where they come from, how they are checked, and whether a file was changed.

The engine checks blocks in its first pass, and compares later passes with the first; errors name the file and the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from postshift._validation import check_eta, check_labels, check_phi, check_weights, read_only
from postshift.core.rows import PHI, Rows
from postshift.engines.memory.kernel_rows import kernel_table
from postshift.exceptions import DataNotFoundError, InputError, PostshiftError, SettingError

Table = npt.NDArray[Any]
PARTS = ("eta", "phi", "labels", "weights")
_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowBlock:
    """Consecutive rows of a source as they were read, not yet checked, and the files they come from."""

    rows: Rows
    files: Mapping[str, str]  # the file of each part that was read: eta, phi, labels, weights
    first: int = 0  # the number of the first row in its file
    types: Mapping[str, str] = field(default_factory=dict)  # the type of each column that was read, if any

    @classmethod
    def of(cls, parts: Mapping[str, Any], files: Mapping[str, str], *, first: int = 0) -> RowBlock:
        """Return a block of these parts; the basis is constant if there is no ``phi``."""
        phi: Any = parts["phi"] if "phi" in parts else np.ones((len(parts["eta"]), 1), dtype=np.float32)
        rows = Rows(eta=parts["eta"], bases={PHI: phi}, labels=parts.get("labels"), weights=parts.get("weights"))
        return cls(rows=rows, files={name: files[name] for name in parts}, first=first)

    def check(self, *, n_labels: int) -> None:
        """Raise as ``Rows.of`` does; labels are in ``0..n_labels-1``."""
        n_rows = len(self.rows.eta)
        with self.named("eta"):
            check_eta(self.rows.eta)
        if "phi" in self.files:
            with self.named("phi"):
                check_phi(self.rows.phi, n_rows=n_rows)
        if self.rows.labels is not None:
            with self.named("labels"):
                check_labels(self.rows.labels, n_rows=n_rows, n_classes=n_labels)
        if self.has_weight and self.rows.weights is not None:  # all weights of a block may be 0, but not of all blocks
            with self.named("weights"):
                check_weights(self.rows.weights, n_rows=n_rows)

    @property
    def has_weight(self) -> bool:
        """Whether any row has a weight other than 0."""
        return len(self.rows.eta) > 0 and (self.rows.weights is None or bool(np.any(self.rows.weights)))

    def converted(self) -> Rows:
        """Return the rows in the types of the kernels; float32 stays, and most arrays are not copied."""
        rows = self.rows
        return replace(
            rows,
            eta=kernel_table(rows.eta),
            bases={PHI: kernel_table(rows.phi)},
            labels=None if rows.labels is None else read_only(rows.labels.astype(np.intp, copy=False)),
            weights=None if rows.weights is None else read_only(np.require(rows.weights, np.float64, ["C", "A"])),
        )

    def named(self, part: str) -> AbstractContextManager[None]:
        """Add the file and the rows of a part to its errors."""
        return in_file(self.files[part], first=self.first, n_rows=len(self.rows.eta))


class BlockSource(Protocol):
    """Rows that are read in blocks; your own source makes them with :meth:`RowBlock.of`.

    Every call of :meth:`blocks` reads all rows again, in the same order. The two numbers of bytes are upper bounds,
    which keep an engine within its memory limit; pages of mapped files do not count.
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
        """Bytes that reading takes for blocks of any size: parts of a file that can only be read as a whole."""

    def blocks(self, block_rows: int) -> Iterator[RowBlock]:
        """Yield all rows in blocks of 1 to ``block_rows`` rows, not yet checked."""


@dataclass(frozen=True, slots=True)
class FileFingerprint:
    """The number of rows of every part of every file that a pass read, and the sum of their numbers as bits.

    By this the engine finds a file that is changed between two passes.
    """

    found: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def add(self, block: RowBlock) -> None:
        """Add a block; blocks of any size give the same fingerprint."""
        for part, file in block.files.items():
            table = getattr(block.rows, part)
            n_rows, bits = self.found.get((part, file), (0, 0))
            self.found[part, file] = n_rows + len(table), (bits + _bits(table)) % _MODULUS

    def check_rows(self, n_rows: int) -> None:
        """Raise if the first pass did not read as many rows as its source announced."""
        read = {key: rows for key, (rows, _) in self.found.items() if key[0] == "eta"}
        if sum(read.values()) != n_rows:
            _, file = max(read, key=lambda key: read[key], default=("eta", "eta"))
            raise InputError(
                f"{file}, rows 0 to {max(read.values(), default=0) - 1}: the files have {sum(read.values())} rows, but "
                f"had {n_rows} rows when they were opened: do not change them while they are read"
            )

    def check_same(self, before: FileFingerprint) -> None:
        """Raise if a pass did not read the same rows as an earlier pass."""
        for (part, file), (n_rows, _) in before.found.items():
            if self.found.get((part, file)) != before.found[part, file]:
                raise InputError(
                    f"{file}, rows 0 to {n_rows - 1}: {part} was changed between two passes over the rows: start "
                    "again, and do not change the file while it is read"
                )


@contextmanager
def reading(place: str) -> Iterator[None]:
    """Turn errors of NumPy, Arrow or the system about a file that cannot be read into errors of this library."""
    try:
        yield
    except PostshiftError:
        raise
    except FileNotFoundError as error:
        raise DataNotFoundError(f"{place}: no such file") from error
    except (OSError, ValueError, NotImplementedError, EOFError) as error:
        raise InputError(
            f"{place}: cannot be read; the file is damaged, cut short or of another kind: {error}"
        ) from error


@contextmanager
def in_file(file: str, *, first: int = 0, n_rows: int | None = None) -> Iterator[None]:
    """Add the file and the rows to errors about rows."""
    try:
        yield
    except SettingError:
        raise
    except InputError as error:
        rows = "" if n_rows is None else f", rows {first} to {first + n_rows - 1}"
        counted = f" [rows counted from row {first}]" if first else ""
        raise type(error)(f"{file}{rows}: {error}{counted}") from error


def _bits(table: Table) -> int:
    """Return the sum of the numbers of a table, each read as an integer of as many bits."""
    size = table.dtype.itemsize
    whole = table if size in {1, 2, 4, 8} else table.astype(np.float64)
    return int(np.add.reduce(whole.view(f"u{whole.dtype.itemsize}"), axis=None, dtype=np.uint64))

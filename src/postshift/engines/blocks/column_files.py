"""Files of columns: Parquet and Arrow (IPC) files, one or many, read batch by batch."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from postshift._installing import install
from postshift.engines.blocks.arrow_columns import ArrowColumns, Names
from postshift.engines.blocks.row_block import RowBlock, in_file, reading
from postshift.engines.memory.kernel_rows import row_slices
from postshift.exceptions import DataNotFoundError, SettingError, ShapeError

Path_ = str | os.PathLike[str]


class ColumnFile(NamedTuple):
    """What is known about a file before its rows are read."""

    path: str
    group_rows: tuple[int, ...]  # of each row group or record batch
    fixed_bytes: int  # of the largest group that can only be read as a whole
    size: int  # bytes on the disk


class _ColumnSource(ABC):
    """The common part of both kinds of files; see :class:`ParquetSource`."""

    _suffixes: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        paths: Path_ | Sequence[Path_],
        *,
        eta: Names,
        phi: Names | None = None,
        group: str | None = None,
        groups: Sequence[Any] | None = None,
        labels: str | None = None,
        classes: Sequence[Any] | None = None,
        weights: str | None = None,
    ) -> None:
        if find_spec("pyarrow") is None:
            raise SettingError(f"files of columns need pyarrow: {install('data')}")
        found = found_files(paths, self._suffixes)
        with in_file(found[0]), reading(found[0]):
            self.columns = ArrowColumns(
                self._schema(found[0]),
                eta=eta,
                phi=phi,
                group=group,
                groups=groups,
                labels=labels,
                classes=classes,
                weights=weights,
            )
        self.files = [self._checked(path) for path in found]
        self.n_rows = sum(sum(file.group_rows) for file in self.files)
        self.n_classes, self.n_bases = len(self.columns.eta), self.columns.n_bases
        self.row_bytes = 4 * self.columns.row_bytes + 8 * self.n_bases  # Arrow's last and next batch, columns, table
        self.fixed_bytes = max(file.fixed_bytes for file in self.files)
        if self.n_rows == 0:
            raise ShapeError(f"{found[0]}: the files must have at least one row in total. Got none")

    def blocks(self, block_rows: int) -> Iterator[RowBlock]:
        """Yield all rows in blocks of at most ``block_rows`` rows, not yet checked."""
        for file in self.files:
            first = 0
            batches = self._batches(file, block_rows)
            while True:
                with reading(f"{file.path}, from row {first} on"):
                    _check_size(file)
                    batch = next(batches, None)
                if batch is None:
                    break
                for rows in row_slices(0, batch.num_rows, block_rows):
                    with reading(f"{file.path}, from row {first + rows.start} on"):
                        _check_size(file)
                    some = batch.slice(rows.start, rows.stop - rows.start)
                    yield self.columns.block(some, file=file.path, first=first + rows.start)
                first += batch.num_rows
                batch = some = None  # freed before the next one is read

    def _checked(self, path: str) -> ColumnFile:
        """Return the facts of a file; raise if its columns are not those of the first."""
        with in_file(path), reading(path):
            self.columns.check(self._schema(path))
            return self._facts(path)

    @abstractmethod
    def _schema(self, path: str) -> Any:
        """Return the schema of a file."""

    @abstractmethod
    def _facts(self, path: str) -> ColumnFile:
        """Return the facts of a file."""

    @abstractmethod
    def _batches(self, file: ColumnFile, block_rows: int) -> Iterator[Any]:
        """Yield the record batches of a file."""


class ParquetSource(_ColumnSource):
    """Parquet files: only the columns that are named are read, a batch of a row group at a time.

    Parameters
    ----------
    paths : path or sequence of paths
        A file, a folder (its ``*.parquet`` files), a pattern such as ``"data/part-*.parquet"``, or several of them.
    eta : str or sequence of str
        The columns of the class probabilities, or a pattern with one star, such as ``"p_*"``. If the star stands for
        ``classes``, the columns are in the order of ``classes``; if it stands for numbers, in numerical order; else as
        in the first file.
    phi : str or sequence of str, optional
        The columns of the basis functions, or a pattern; the constant one by default.
    group : str, optional
        Instead of ``phi``: one column of groups, each of which is a basis function.
    groups : sequence, optional
        The values of ``group``, in the order of the basis functions.
    labels : str, optional
        The column of the labels, positions ``0..m-1`` unless ``classes`` is given.
    classes : sequence, optional
        The label, text or number, that stands for each column of eta, in their order.
    weights : str, optional
        The column of the sample weights.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> table = pa.table({"p_no": [0.9, 0.2, 0.4], "p_yes": [0.1, 0.8, 0.6], "y": ["no", "yes", "yes"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(table, f"{folder}/rows.parquet")
    ...     source = ParquetSource(folder, eta="p_*", labels="y", classes=["no", "yes"])
    ...     [block.rows.labels.tolist() for block in source.blocks(2)]
    [[0, 1], [1]]
    """

    _suffixes = (".parquet", ".pq")

    def _schema(self, path: str) -> Any:
        """Return the schema of a file."""
        import pyarrow.parquet as pq

        return pq.read_schema(path, memory_map=True)

    def _facts(self, path: str) -> ColumnFile:
        """Return the facts of a file; a page may be as large as its whole row group."""
        import pyarrow.parquet as pq

        known = pq.read_metadata(path, memory_map=True)
        groups = [known.row_group(place) for place in range(known.num_row_groups)]
        needed = [place for place, name in enumerate(known.schema.names) if name in self.columns.types]
        sizes = [sum(group.column(place).total_uncompressed_size for place in needed) for group in groups]
        n_rows = tuple(group.num_rows for group in groups)
        return ColumnFile(path, n_rows, fixed_bytes=max(sizes, default=0), size=Path(path).stat().st_size)

    def _batches(self, file: ColumnFile, block_rows: int) -> Iterator[Any]:
        """Yield the record batches of a file."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(file.path, memory_map=True) as opened:  # mapped: else a row group is in memory twice
            yield from opened.iter_batches(batch_size=block_rows, columns=list(self.columns.types), use_threads=False)


class ArrowSource(_ColumnSource):
    """Arrow files in the IPC (Feather 2) format, mapped: without compression, their pages are read in place.

    Parameters
    ----------
    paths : path or sequence of paths
        A file, a folder (its ``*.arrow`` and ``*.feather`` files), a pattern, or several of them.
    eta, phi, group, groups, labels, classes, weights
        As in :class:`ParquetSource`.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.feather as feather
    >>> table = pa.table({"p_0": [0.9, 0.2, 0.4], "p_1": [0.1, 0.8, 0.6], "y": [0, 1, 1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     feather.write_feather(table, f"{folder}/rows.arrow")
    ...     source = ArrowSource(f"{folder}/rows.arrow", eta="p_*", labels="y")
    ...     source.n_rows, source.n_classes, source.n_bases
    (3, 2, 1)
    """

    _suffixes = (".arrow", ".feather")

    def _schema(self, path: str) -> Any:
        """Return the schema of a file."""
        import pyarrow as pa

        with pa.memory_map(path) as mapped:
            return pa.ipc.open_file(mapped).schema

    def _facts(self, path: str) -> ColumnFile:
        """Return the facts of a file: a compressed batch is decompressed as a whole."""
        n_rows, fixed_bytes = [], 0
        for batch in self._read(path, self.columns.eta[:1]):
            n_rows.append(batch.num_rows)
            if _is_decompressed(batch):  # it is in memory twice, as in the file and decompressed
                fixed_bytes = max(fixed_bytes, 2 * batch.num_rows * self.columns.row_bytes)
        return ColumnFile(path, tuple(n_rows), fixed_bytes=fixed_bytes, size=Path(path).stat().st_size)

    def _batches(self, file: ColumnFile, block_rows: int) -> Iterator[Any]:  # noqa: ARG002 -- batches are as they were written
        """Yield the record batches of a file."""
        # Arrow copies what it reads of some columns, even where the file could be read in place.
        return self._read(file.path, tuple(self.columns.types) if file.fixed_bytes else None)

    @staticmethod
    def _read(path: str, columns: Sequence[str] | None) -> Iterator[Any]:
        """Yield the record batches of a file, with some of its columns or all."""
        import pyarrow as pa

        with pa.memory_map(path) as mapped:
            schema = pa.ipc.open_file(mapped).schema
            places = None if columns is None else [schema.get_field_index(name) for name in columns]
            options = pa.ipc.IpcReadOptions(included_fields=places, use_threads=False)
            reader = pa.ipc.open_file(mapped, options=options)
            for place in range(reader.num_record_batches):
                yield reader.get_batch(place)


def _check_size(file: ColumnFile) -> None:
    """Raise if a file has become shorter: reading a missing page of a mapped file ends the process."""
    size = Path(file.path).stat().st_size
    if size < file.size:
        raise EOFError(f"it has {size} bytes, but had {file.size} when it was opened")


def _is_decompressed(batch: Any) -> bool:
    """Return whether the first column of a batch has its own memory, not a part of the mapped file."""
    buffer = batch.column(0).buffers()[1]
    return batch.num_rows > 0 and buffer is not None and buffer.parent is None


def found_files(paths: Path_ | Sequence[Path_], suffixes: tuple[str, ...]) -> list[str]:
    """Return the files of paths, folders and patterns, those of a folder or a pattern in alphabetical order."""
    if not isinstance(paths, str | os.PathLike):
        return [file for path in paths for file in found_files(path, suffixes)]
    path = Path(paths)
    if path.is_dir():
        found = sorted(str(file) for file in path.iterdir() if file.suffix in suffixes and file.name[0] not in "._")
    elif path.exists():
        found = [str(path)]
    else:
        found = sorted(glob(str(path)))  # noqa: PTH207 -- a Path knows no absolute patterns
    if not found:
        raise DataNotFoundError(f"{path}: no such file, nor a folder with {' or '.join(suffixes)} files")
    return found

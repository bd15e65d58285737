"""Sources of columns: Parquet files and Arrow (IPC) files, one or many, read batch by batch."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from postshift._installing import install
from postshift.engines.columns import Columns, Names
from postshift.engines.rows import row_slices
from postshift.engines.sources import Block, naming, reading
from postshift.exceptions import DataNotFoundError, SettingError, ShapeError

Path_ = str | os.PathLike[str]


class _File(NamedTuple):
    """What is known of a file before its rows are read."""

    path: str
    n_rows: int
    fixed_bytes: int  # of the largest piece that it gives only as a whole
    size: int  # bytes on the disk


class _TableSource(ABC):
    """What both kinds of files share; see :class:`ParquetSource`."""

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
        with naming(found[0]), reading(found[0]):
            self._columns = Columns.of(
                self._schema(found[0]),
                eta=eta,
                phi=phi,
                group=group,
                groups=groups,
                labels=labels,
                classes=classes,
                weights=weights,
            )
        self._files = [self._looked_at(path) for path in found]
        if self.n_rows == 0:
            raise ShapeError(f"{found[0]}: there must be at least one row in all files together. Got none")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(file.n_rows for file in self._files)

    @property
    def n_classes(self) -> int:
        """Number of classes m."""
        return len(self._columns.eta)

    @property
    def n_bases(self) -> int:
        """Number of basis functions L."""
        return self._columns.n_bases

    @property
    def row_bytes(self) -> int:
        """Bytes that reading takes for each row of a block: Arrow's last and next batch, its columns, the table."""
        return 4 * self._columns.row_bytes + 8 * self.n_bases

    @property
    def fixed_bytes(self) -> int:
        """Bytes of the largest piece that a file gives only as a whole."""
        return max(file.fixed_bytes for file in self._files)

    def blocks(self, block_rows: int) -> Iterator[Block]:
        """Yield all rows in blocks of at most ``block_rows`` rows, not yet checked."""
        for file in self._files:
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
                    piece = batch.slice(rows.start, rows.stop - rows.start)
                    yield self._columns.block(piece, file=file.path, first=first + rows.start)
                first += batch.num_rows
                batch = piece = None  # before the next one is read

    def _looked_at(self, path: str) -> _File:
        """Return what is to be known of a file, its columns checked against those of the first."""
        with naming(path), reading(path):
            self._columns.check(self._schema(path))
            return self._facts(path)

    @abstractmethod
    def _schema(self, path: str) -> Any:
        """Return the schema of a file."""

    @abstractmethod
    def _facts(self, path: str) -> _File:
        """Return what is to be known of a file."""

    @abstractmethod
    def _batches(self, file: _File, block_rows: int) -> Iterator[Any]:
        """Yield the record batches of a file."""


class ParquetSource(_TableSource):
    """Parquet files: only the columns that are named are read, a batch of a row group at a time.

    Parameters
    ----------
    paths : path or sequence of paths
        A file, a folder (its ``*.parquet`` files), a pattern such as ``"data/part-*.parquet"``, or several of them.
    eta : str or sequence of str
        The columns of the class probabilities, or a pattern with one star, such as ``"p_*"``. Where the star stands
        for numbers, the columns are taken in their order; where it stands for ``classes``, in the order of these; and
        else as in the first file.
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
    ...     [block.labels.tolist() for block in source.blocks(2)]
    [[0, 1], [1]]
    """

    _suffixes = (".parquet", ".pq")

    def _schema(self, path: str) -> Any:
        """Return the schema of a file."""
        import pyarrow.parquet as pq

        return pq.read_schema(path, memory_map=True)

    def _facts(self, path: str) -> _File:
        """Return what is to be known of a file; pages of a row group may be as large as all of it."""
        import pyarrow.parquet as pq

        known = pq.read_metadata(path, memory_map=True)
        pieces = [known.row_group(place) for place in range(known.num_row_groups)]
        needed = [place for place, name in enumerate(known.schema.names) if name in self._columns.types]
        sizes = [sum(piece.column(place).total_uncompressed_size for place in needed) for piece in pieces]
        return _File(path, n_rows=known.num_rows, fixed_bytes=max(sizes, default=0), size=Path(path).stat().st_size)

    def _batches(self, file: _File, block_rows: int) -> Iterator[Any]:
        """Yield the record batches of a file."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(file.path, memory_map=True) as opened:  # mapped: else a row group is in memory twice
            yield from opened.iter_batches(batch_size=block_rows, columns=list(self._columns.types), use_threads=False)


class ArrowSource(_TableSource):
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

    def _facts(self, path: str) -> _File:
        """Return what is to be known of a file: batches that are compressed are decompressed as a whole."""
        sizes = [0]
        n_rows = 0
        for batch in self._read(path, self._columns.eta[:1]):
            n_rows += batch.num_rows
            if _is_decompressed(batch):
                sizes.append(2 * batch.num_rows * self._columns.row_bytes)  # as it was in the file, and as it is then
        return _File(path, n_rows=n_rows, fixed_bytes=max(sizes), size=Path(path).stat().st_size)

    def _batches(self, file: _File, block_rows: int) -> Iterator[Any]:  # noqa: ARG002 -- batches are as they were written
        """Yield the record batches of a file."""
        # Arrow copies what it reads of some columns, even where the file could be read in place.
        return self._read(file.path, tuple(self._columns.types) if file.fixed_bytes else None)

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


def _check_size(file: _File) -> None:
    """Refuse a file that has become shorter: a page of a mapped file that is no longer there ends the process."""
    size = Path(file.path).stat().st_size
    if size < file.size:
        raise EOFError(f"it has {size} bytes, and had {file.size} when it was opened")


def _is_decompressed(batch: Any) -> bool:
    """Say whether the first column of a batch has memory of its own, not a piece of what was read."""
    buffer = batch.column(0).buffers()[1]
    return batch.num_rows > 0 and buffer is not None and buffer.parent is None


def found_files(paths: Path_ | Sequence[Path_], suffixes: tuple[str, ...]) -> list[str]:
    """Return the files that are meant, those of a folder or a pattern in alphabetical order."""
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
        raise DataNotFoundError(f"{path}: there is no such file, nor a {' or '.join(suffixes)} file in such a folder")
    return found

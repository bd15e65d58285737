"""Tables that are read block by block: Parquet and Arrow files of any size; other formats are one block.

A file that is cut, damaged or changed while it is read gives an error that names the file and the rows.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postshift.cli.errors import FileError, UsageError, one_line
from postshift.cli.files.file_table import PARQUET, FileTable, check_file, is_several, read_table, suffix_of
from postshift.cli.files.parquet_files import ParquetFiles, parquet_files
from postshift.cli.files.separated import TableError, check_names

BLOCK_ROWS = 1 << 16  # more rows at a time are not faster
_ARROW = (".arrow", ".feather")
_BUFFER = 1 << 20  # bytes that are read at a time


class TableBlocks:
    """The rows of a file, or of several Parquet files, as tables of at most ``block_rows`` rows.

    Every iteration reads all rows again. CSV and npz files are read as a whole, into one table.

    Parameters
    ----------
    path : Path
        A file of any format, a folder of Parquet files or a pattern.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    is_whole : bool
        Whether all rows are in memory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: list[_ParquetFile | _ArrowFile] = []
        self._parquet: ParquetFiles | None = None
        self._table: FileTable | None = None
        if is_several(path) or suffix_of(path) == PARQUET:
            self._parquet = parquet_files(path)
            self._files += [_ParquetFile(file, n_rows, self._parquet) for file, n_rows in _with_rows(self._parquet)]
        elif suffix_of(path) in _ARROW:
            self._files.append(_ArrowFile.opened(path))
        else:
            self._table = read_table(path)
        self.is_whole = self._table is not None
        self.n_rows = sum(each.n_rows for each in self._files) if self._table is None else len(self._table.frame)
        self._stamps = {} if self.is_whole else {file: _stamp(file) for file in self._names()}

    def __str__(self) -> str:
        """Return the file's name and number of rows."""
        return f"{self.path.name}, {self.n_rows:,} rows"

    def blocks(self, block_rows: int = BLOCK_ROWS) -> Iterator[FileTable]:
        """Yield all rows in blocks."""
        if self._table is not None:
            yield self._table
            return
        for file in self._files:
            first = 0
            with _reading(file.path, file.n_rows) as at:
                for arrow in file.batches(block_rows):
                    self._check_unchanged(file.path, file.n_rows)
                    yield _block(file.path, arrow, first=first, is_all=arrow.num_rows == self.n_rows)
                    first += arrow.num_rows
                    at[0] = first
            self._check_unchanged(file.path, file.n_rows)

    def digest(self) -> str:
        """Return the digest of the content, as of the file read as a whole."""
        if self._table is not None:
            return self._table.digest
        digests = []
        for file in self._names():
            with file.open("rb") as stream:
                digests.append(hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest())
            self._check_unchanged(file, self.n_rows)
        return digests[0] if self._parquet is None else self._parquet.digest(digests)

    def _names(self) -> list[Path]:
        """Return the paths of all files, including those without rows."""
        return [self.path] if self._parquet is None else list(self._parquet.files)

    def _check_unchanged(self, file: Path, n_rows: int) -> None:
        """Raise if a file was changed since it was opened."""
        if _stamp(file) != self._stamps[file]:
            raise FileError(
                f"{file}, rows 0 to {n_rows - 1}: the file was changed while it was read: start again, and do not "
                "change it meanwhile"
            )


@dataclass(frozen=True)
class _ParquetFile:
    """A Parquet file with rows."""

    path: Path
    n_rows: int
    files: ParquetFiles

    def batches(self, block_rows: int) -> Iterator[Any]:
        """Yield the rows as Arrow tables."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path, buffer_size=_BUFFER, pre_buffer=False) as opened:
            how: dict[str, Any] = {"columns": list(self.files.columns), "use_threads": False}
            for batch in opened.iter_batches(batch_size=block_rows, **how):
                yield pa.Table.from_batches([batch])


@dataclass(frozen=True)
class _ArrowFile:
    """An Arrow file (also Feather) or stream."""

    path: Path
    n_rows: int

    @classmethod
    def opened(cls, path: Path) -> _ArrowFile:
        """Count the rows of a file, and check its columns."""
        check_file(path)
        with _reading(path, None):
            n_rows = sum(table.num_rows for table in cls(path, 0).batches(BLOCK_ROWS))
        if n_rows == 0:
            raise UsageError(f"{path} has no rows: give a file with a header and rows")
        return cls(path, n_rows)

    def batches(self, block_rows: int) -> Iterator[Any]:
        """Yield the rows as Arrow tables."""
        import pyarrow as pa

        with pa.OSFile(str(self.path)) as stream:
            for batch in _record_batches(stream):
                for first in range(0, batch.num_rows, block_rows):
                    yield pa.Table.from_batches([batch.slice(first, block_rows)])


def _record_batches(stream: Any) -> Iterator[Any]:
    """Yield the record batches of an Arrow file or stream."""
    import pyarrow as pa

    try:
        reader = pa.ipc.open_file(stream)
    except pa.ArrowInvalid:
        stream.seek(0)
        opened = pa.ipc.open_stream(stream)
        check_names(opened.schema.names)
        yield from opened
        return
    check_names(reader.schema.names)
    for place in range(reader.num_record_batches):
        yield reader.get_batch(place)


def _block(path: Path, arrow: Any, *, first: int, is_all: bool) -> FileTable:
    """Return rows of a file as a table."""
    frame = arrow.to_pandas().reset_index(drop=True)
    frame.columns = [str(name) for name in frame.columns]
    segments = () if is_all else ((str(path), first, len(frame)),)
    return FileTable(path=path, frame=frame, digest="", segments=segments, arrow=arrow)


def _with_rows(found: ParquetFiles) -> list[tuple[Path, int]]:
    """Return the files that have rows, and how many: the columns of a file without rows may have other types."""
    return [(file, sum(sizes)) for file, sizes in zip(found.files, found.sizes, strict=True) if sum(sizes)]


def _stamp(file: Path) -> tuple[int, int, int]:
    """Return what changes when a file is written to or replaced."""
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_size, found.st_mtime_ns, found.st_ino


@contextlib.contextmanager
def _reading(file: Path, n_rows: int | None) -> Iterator[list[int]]:
    """Name the file and the rows in errors of Arrow; the list that is yielded holds the number of rows read so far."""
    import pyarrow as pa

    at = [0]
    try:
        yield at
    except TableError as error:
        raise UsageError(f"{file}: {error}") from error
    except (pa.ArrowException, OSError, EOFError) as error:
        rows = "" if n_rows is None else f", rows {at[0]} to {n_rows - 1}"
        raise FileError(
            f"{file}{rows} cannot be read as {suffix_of(file)}: {one_line(error)}: is the suffix right, and is the "
            "file complete?"
        ) from error

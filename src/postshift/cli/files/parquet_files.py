"""Parquet files as one table, in memory or on the workers of a cluster: a folder, or a pattern ``'rows/*.parquet'``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from postshift.cli.errors import FileError, UsageError, listed, one_line
from postshift.cli.files.file_table import PARQUET, FileTable, check_file, digest_of, is_several, read_bytes, read_table
from postshift.cli.files.separated import TableError, check_names
from postshift.engines.blocks.column_files import found_files
from postshift.engines.dask.partitions import together
from postshift.exceptions import DataNotFoundError

_SAME = "all files must have the same columns, of the same types"


@dataclass(frozen=True, kw_only=True)
class RowGroups:
    """A partition: some row groups of one of the files, which a worker reads in one go.

    ``first`` is the place of its first row in the file, ``before`` the place among the rows of all files.
    """

    number: int
    path: str
    groups: tuple[int, ...]
    columns: tuple[str, ...]
    n_rows: int
    first: int
    before: int

    @property
    def place(self) -> str:
        """The name of the partition in errors."""
        return f"partition {self.number} ({self.path}, rows {self.first} to {self.first + self.n_rows - 1})"

    def places(self) -> Any:
        """Return the places of the rows among the rows of all files."""
        return np.arange(self.before, self.before + self.n_rows)

    def arrow(self) -> Any:
        """Read the rows as an Arrow table."""
        import pyarrow.parquet as pq

        if not Path(self.path).is_file():
            raise FileError("a worker cannot find the file: put it where all workers can read it under this path")
        try:
            with pq.ParquetFile(self.path) as opened:
                return opened.read_row_groups(list(self.groups), columns=list(self.columns), use_threads=False)
        except (OSError, ValueError) as error:  # pyarrow raises them on a damaged file
            raise FileError(f"the rows cannot be read: {one_line(error)}: is the file complete?") from error

    def table(self, arrow: Any = None) -> FileTable:
        """Return the rows as the table of a file; ``arrow`` are the rows if they were read before."""
        frame = (self.arrow() if arrow is None else arrow).to_pandas().reset_index(drop=True)
        frame.columns = [str(name) for name in frame.columns]
        segments = ((self.path, self.first, self.n_rows),)
        return FileTable(path=Path(self.path), frame=frame, digest="", segments=segments)


@dataclass(frozen=True, kw_only=True, eq=False)
class ParquetFiles:
    """Files with the same columns, in alphabetical order; only their metadata was read.

    ``path`` is the user's, ``sizes`` are the numbers of rows of the row groups of each file.
    """

    path: Path
    files: tuple[Path, ...]
    columns: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(map(sum, self.sizes))

    def partitions(self, most: int) -> list[RowGroups]:
        """Return partitions of at most ``most`` rows, or of one row group if it has more."""
        found: list[RowGroups] = []
        before = 0
        for file, sizes in zip(self.files, self.sizes, strict=True):
            first = 0
            for some in together(sizes, most):
                partition = RowGroups(
                    number=len(found),
                    path=str(file.absolute()),
                    groups=tuple(some),
                    columns=self.columns,
                    n_rows=sum(sizes[some.start : some.stop]),
                    first=first,
                    before=before,
                )
                found += [partition] if partition.n_rows else []
                first, before = first + partition.n_rows, before + partition.n_rows
        return found

    def digest(self, digests: Sequence[str]) -> str:
        """Return the digest of all files from the digest of each."""
        if self.files == (self.path,):
            return digests[0]
        lines = (f"{file.name} {digest}\n" for file, digest in zip(self.files, digests, strict=True))
        return digest_of("".join(lines).encode())


def parquet_files(path: Path) -> ParquetFiles:
    """Return the Parquet files of a path; raise if their columns differ."""
    import pyarrow.parquet as pq

    files = _found(path)
    schemas, sizes = [], []
    for file in files:
        try:
            schema, known = pq.read_schema(file), pq.read_metadata(file)
            check_names(schema.names)
        except TableError as error:
            raise UsageError(f"{file}: {error}") from error
        except (OSError, ValueError) as error:
            raise FileError(f"{file} cannot be read as {PARQUET}: {one_line(error)}: is the file whole?") from error
        schemas.append(schema)
        _check_alike(files[0], schemas[0], file, schema)
        sizes.append(tuple(known.row_group(place).num_rows for place in range(known.num_row_groups)))
    index = (schemas[0].pandas_metadata or {}).get("index_columns", [])
    columns = tuple(name for name in schemas[0].names if name not in [each for each in index if isinstance(each, str)])
    found = ParquetFiles(path=path, files=tuple(files), columns=columns, sizes=tuple(sizes))
    if found.n_rows == 0:
        raise UsageError(f"{path} has no rows in {len(files)} files: give files with rows")
    return found


def read_several(path: Path) -> FileTable:
    """Return the rows of several Parquet files, in memory as one table."""
    import pandas as pd

    found = parquet_files(path)
    frames, digests, segments = [], [], []
    for file, sizes in zip(found.files, found.sizes, strict=True):
        if not sum(sizes):  # the columns of a file without rows may have other types
            digests.append(digest_of(read_bytes(file)))
            continue
        table = read_table(file)
        digests.append(table.digest)
        frames.append(table.frame[list(found.columns)])
        segments.append((str(file), 0, sum(sizes)))
    frame = pd.concat(frames, ignore_index=True)
    return FileTable(path=path, frame=frame, digest=found.digest(digests), segments=tuple(segments))


def _found(path: Path) -> list[Path]:
    """Return the files of a path."""
    files = [path]
    if is_several(path):
        try:
            files = [Path(file) for file in found_files(path, (PARQUET,))]
        except DataNotFoundError as error:
            what = f"{path} is a folder without {PARQUET} files" if path.is_dir() else f"no file matches {str(path)!r}"
            raise FileError(f"{what}: check the path") from error
    for file in files:
        if file.suffix != PARQUET:
            what = "must be" if file == path else f"matches {file.name!r}, which is not"
            raise UsageError(
                f"{path} {what} a {PARQUET} file: only Parquet can be read as several files or with --scheduler: "
                "convert it, or name one file without --scheduler"
            )
        check_file(file)
    return files


def _check_alike(first_file: Path, first: Any, file: Path, schema: Any) -> None:
    """Raise if a file has other columns or types than the first."""
    if missing := [name for name in first.names if name not in schema.names]:
        raise UsageError(f"{file} has no column {missing[0]!r}, but {first_file} has one: {_SAME}")
    if more := [name for name in schema.names if name not in first.names]:
        raise UsageError(f"{file} has the columns {listed(more)}, but {first_file} does not: {_SAME}")
    for name in first.names:
        wanted, found = first.field(name).type, schema.field(name).type
        if wanted != found:
            raise UsageError(
                f"column {name!r} of {file} is of type {found}, but of type {wanted} in {first_file}: {_SAME}"
            )

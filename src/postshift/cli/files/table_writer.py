"""Tables written block by block, in the format of the file's suffix; an interrupted write leaves the old file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from postshift.cli.files.file_table import PARQUET, FileTable, by_suffix, check_place, suffix_of
from postshift.core.archive import write_arrays, write_atomically


@dataclass(frozen=True, kw_only=True, eq=False)
class NewRows:
    """Rows to write: the columns of a block of a file, if they are kept, and new columns after them."""

    given: FileTable | None
    new: Mapping[str, Any]

    def frame(self) -> Any:
        """Return the rows as a pandas frame; numbers and text are the same in every block of a file."""
        import pandas as pd

        if self.given is None:
            return pd.DataFrame(dict(self.new))
        if self.given.arrow is None:
            return self.given.frame.assign(**self.new)
        return self.given.arrow.to_pandas(integer_object_nulls=True).reset_index(drop=True).assign(**self.new)

    def arrow(self) -> Any:
        """Return the rows as an Arrow table; columns of a file keep their types, and categories become plain values."""
        import pyarrow as pa

        if self.given is None or self.given.arrow is None:
            return pa.Table.from_pandas(self.frame(), preserve_index=False)
        table = self.given.arrow.replace_schema_metadata(None)
        for place, field in enumerate(table.schema):
            if pa.types.is_dictionary(field.type):
                table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
        for name, values in self.new.items():
            table = table.append_column(name, pa.array(values))
        return table


def write_blocks(blocks: Iterable[NewRows], file: Path) -> None:
    """Write rows, which are made while they are written."""
    check_output(file, force=True)
    write_atomically(file, lambda stream: _WRITERS[suffix_of(file)](iter(blocks), stream))


def write_table(frame: Any, file: Path) -> None:
    """Write a frame."""
    write_blocks([NewRows(given=FileTable(path=file, frame=frame, digest=""), new={})], file)


def check_output(file: Path, *, force: bool) -> None:
    """Raise if a table cannot be written to this file."""
    by_suffix(_WRITERS, file)
    check_place(file, force=force)


Write = Callable[[Iterator[NewRows], BinaryIO], None]


def _write_csv(separator: str) -> Write:
    """Return a writer of separated values."""

    def write(blocks: Iterator[NewRows], stream: BinaryIO) -> None:
        for number, block in enumerate(blocks):
            text = block.frame().to_csv(None, index=False, sep=separator, lineterminator="\n", header=number == 0)
            stream.write(text.encode())

    return write


def _write_parquet(blocks: Iterator[NewRows], stream: BinaryIO) -> None:
    """Write Parquet, a row group for each block."""
    import pyarrow.parquet as pq

    first = next(blocks).arrow()
    with pq.ParquetWriter(stream, first.schema) as writer:
        writer.write_table(first)
        for block in blocks:
            writer.write_table(block.arrow())


def _write_arrow(blocks: Iterator[NewRows], stream: BinaryIO) -> None:
    """Write an Arrow file, uncompressed so that every Arrow reader can read it."""
    import pyarrow as pa

    first = next(blocks).arrow()
    with pa.ipc.new_file(stream, first.schema) as writer:
        writer.write_table(first)
        for block in blocks:
            writer.write_table(block.arrow())


def _write_npz(blocks: Iterator[NewRows], stream: BinaryIO) -> None:
    """Write each column as an array; all rows are in memory."""
    import pandas as pd

    frame = pd.concat([block.frame() for block in blocks], ignore_index=True)
    arrays = {name: frame[name].to_numpy() for name in frame.columns}
    plain = {name: array.astype(str) if array.dtype.kind == "O" else array for name, array in arrays.items()}
    write_arrays(stream, plain)


_WRITERS: dict[str, Write] = {
    ".csv": _write_csv(","),
    ".tsv": _write_csv("\t"),
    PARQUET: _write_parquet,
    ".feather": _write_arrow,
    ".arrow": _write_arrow,
    ".npz": _write_npz,
}

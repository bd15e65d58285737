"""Files of separated values: each value belongs to the column at its position, or the line is an error.

If rows have more values than the header has names, pandas takes the first column as an index, and every value moves by
a column, or it drops values. Here an empty field at the end of a row is dropped, and other rows with too many values
are an error.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any

_NAMES = {",": "commas", "\t": "tabs"}
_SUFFIXES = {",": ".csv", "\t": ".tsv"}
_OTHERS = (",", ";", "\t", "|")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class TableError(ValueError):
    """A table that cannot be used as it is; the message follows the name of the file."""


def read_separated(content: bytes, *, separator: str, compressed: bool, as_text: Collection[str] = ()) -> Any:
    """Return the frame in a file of separated values, encoded in UTF-8, or in UTF-16 with a byte order mark.

    The columns ``as_text`` are read as they are written: 007 is not 7.
    """
    text = _utf8(gzip.decompress(content) if compressed else content)
    header = _header(text, separator)
    frame = _frame(text, separator, len(header), as_text)
    blank = [name for name, given in zip(frame.columns, header, strict=True) if not given.strip()]
    empty = [name for name in blank if frame[name].dropna().astype(str).str.strip().eq("").all()]
    return frame.drop(columns=empty)


def check_names(names: Iterable[str]) -> None:
    """Raise if two columns have the same name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TableError(f"two columns are called {twice[0]!r}: rename one of them")


def _utf8(content: bytes) -> bytes:
    """Return the content in UTF-8."""
    if content.startswith(_UTF_16):
        return content.decode("utf-16").encode()
    try:
        content.decode()
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise TableError(f"line {number} is not UTF-8 text: write the file in UTF-8") from error
    return content


def _records(text: bytes, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line of each record, and its values; blank lines are skipped."""
    stream = io.TextIOWrapper(io.BytesIO(text), encoding="utf-8-sig", newline="")
    reader = csv.reader(stream, delimiter=separator)
    first = 1
    for values in reader:
        if len(values) > 1 or any(value.strip() for value in values):
            yield first, values
        first = reader.line_num + 1


def _header(text: bytes, separator: str) -> list[str]:
    """Return the names of the columns; raise if the file is empty or has another separator."""
    header = next((values for _, values in _records(text, separator)), None)
    if header is None:
        raise TableError("it is empty: give a file with a header and rows")
    other = next((each for each in _OTHERS if each in header[0]), None) if len(header) == 1 else None
    if other is not None:
        raise TableError(
            f"its values are separated by {_NAMES.get(other, repr(other))}: write them with "
            f"{_NAMES[separator]}{f', or name it {_SUFFIXES[other]}' if other in _SUFFIXES else ''}"
        )
    check_names(name for name in header if name.strip())
    return header


def _frame(text: bytes, separator: str, width: int, as_text: Collection[str]) -> Any:
    """Return the frame; if a row has more values than there are names, drop the empty fields at its end."""
    import pandas as pd

    types = dict.fromkeys(as_text, str)
    read = partial(pd.read_csv, sep=separator, low_memory=False, dtype=types, index_col=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # pandas drops values without a name
            return read(io.BytesIO(text))
    except pd.errors.ParserError as error:
        if "EOF inside string" in str(error):
            *_, (number, _) = _records(text, separator)  # the open quotation mark is in the last record
            raise TableError(f"a quotation mark in line {number} is never closed: close it, or remove it") from error
    except pd.errors.ParserWarning:
        pass
    return read(io.BytesIO(_without_ends(text, separator, width)))


def _without_ends(text: bytes, separator: str, width: int) -> bytes:
    """Return the file without empty fields beyond its columns; raise if another field is there."""
    cut = io.StringIO(newline="")
    writer = csv.writer(cut, delimiter=separator, lineterminator="\n")
    for number, values in _records(text, separator):
        if any(value.strip() for value in values[width:]):
            raise TableError(
                f"line {number} has {len(values)} values, but the header has {width} names: give every column a name, "
                "and put values that contain the separator in quotes"
            )
        writer.writerow(values[:width])
    return cut.getvalue().encode()

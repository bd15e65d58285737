"""Tables of rows in files: CSV, Parquet, Arrow/Feather and npz by their suffix."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import io
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from postshift._validation import unknown
from postshift.cli.errors import FileError, UsageError, one_line
from postshift.cli.files.separated import TableError, check_names, read_separated

# Arrays of an npz archive, and the option that names such a column in other formats.
_ARRAYS = {"labels": "label", "groups": "groups", "weights": "sample_weight"}
_SPARSE = {"format", "shape", "data"}  # arrays that scipy.sparse.save_npz writes
_STEM, _FEATURE = "eta_", "x"
PARQUET = ".parquet"


@dataclass(frozen=True, kw_only=True, eq=False)
class FileTable:
    """The rows of a file as a pandas frame.

    Attributes
    ----------
    path : Path
        The file.
    frame : pandas.DataFrame
        Its rows.
    digest : str
        A digest of its bytes.
    usual : mapping of str to str
        Defaults of options that the format gives for this file: ``proba``, ``label``, ...
    segments : tuple of (str, int, int)
        Where the rows come from, if they are not all the rows of one file: file, first row in it, number of rows.
    arrow : pyarrow.Table, optional
        The same rows as they are in a file that is read block by block.
    """

    path: Path
    frame: Any
    digest: str
    usual: Mapping[str, str] = field(default_factory=dict)
    segments: tuple[tuple[str, int, int], ...] = ()
    arrow: Any = None

    def __str__(self) -> str:
        """Return the file's name and number of rows."""
        return f"{self.path.name}, {len(self.frame):,} rows"

    @property
    def place(self) -> str:
        """The name of the file in errors that count rows, with the rows if they are a block of the file."""
        if len(self.segments) != 1:
            return str(self.path)
        file, first, n_rows = self.segments[0]
        return f"{file} (rows {first} to {first + n_rows - 1})"

    def row(self, chosen: Any) -> str:
        """Return the number of the first row in a mask, with its file if there are several."""
        file, number = self._origin(chosen)
        return f"row {number}" if len(self.segments) < 2 else f"row {number} of {file}"

    def row_of_file(self, chosen: Any) -> str:
        """Return the number of the first row in a mask, with its file."""
        file, number = self._origin(chosen)
        return f"row {number} of {file}"

    def _origin(self, chosen: Any) -> tuple[Any, int]:
        """Return file and number of the first row in a mask."""
        place = int(np.argmax(chosen))
        for file, first, n_rows in self.segments:
            if place < n_rows:
                return file, first + place
            place -= n_rows
        return self.path, place


def read_rows(path: Path, *, as_text: Collection[str] = ()) -> FileTable:
    """Return the rows of a file of any format, or of several Parquet files, in memory as one table."""
    if not is_several(path):
        return read_table(path, as_text=as_text)
    from postshift.cli.files.parquet_files import read_several

    return read_several(path)


def is_several(path: Path) -> bool:
    """Return whether a path is a folder or a pattern."""
    return path.is_dir() or (not path.exists() and any(each in str(path) for each in "*?["))


def read_table(file: Path, *, as_text: Collection[str] = ()) -> FileTable:
    """Return the table in a file of any format: .csv, .tsv (also .gz), .parquet, .feather, .arrow or .npz.

    Files of separated values do not say whether 007 is a number: the columns ``as_text`` are not.
    """
    read = by_suffix(_READERS, file)
    content = read_bytes(file)
    try:
        frame, usual = read(content, as_text)
        frame.columns = [str(name) for name in frame.columns]
        check_names(frame.columns)
    except ModuleNotFoundError:
        raise
    except TableError as error:
        raise UsageError(f"{file}: {error}") from error
    except Exception as error:  # pandas, pyarrow and zipfile raise errors of many types on a damaged file
        raise FileError(
            f"{file} cannot be read as {suffix_of(file)}: {one_line(error)}: is the suffix right, and is the file "
            "complete?"
        ) from error
    if len(frame) == 0:
        raise UsageError(f"{file} has no rows: give a file with a header and rows")
    return FileTable(path=file, frame=frame, digest=digest_of(content), usual=usual)


def check_place(file: Path, *, force: bool) -> None:
    """Raise if the folder of a file does not exist, or if the file exists and may not be replaced."""
    if not file.parent.is_dir():
        raise FileError(f"there is no folder {file.parent}: create it, or choose another one")
    if file.is_dir():
        raise FileError(f"{file} is a folder: name a file")
    if file.exists() and not force:
        raise UsageError(f"{file} exists: add --force to replace it, or name another file with -o")


def is_table_name(path: Path) -> bool:
    """Return whether a path has the suffix of a table."""
    return suffix_of(path) in _READERS


def check_file(file: Path) -> None:
    """Raise if there is no such file."""
    with _explained(file), file.open("rb"):
        pass


def read_bytes(file: Path) -> bytes:
    """Return the bytes of a file."""
    with _explained(file):
        return file.read_bytes()


@contextlib.contextmanager
def _explained(file: Path) -> Iterator[None]:
    """Suggest the nearest name if there is no such file."""
    try:
        yield
    except FileNotFoundError as error:
        folder = file.parent
        names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
        close = difflib.get_close_matches(file.name, names, n=1)
        hint = f"; did you mean {str(folder / close[0])!r}?" if close else ": check the path"
        raise FileError(f"there is no file {str(file)!r}{hint}") from error
    except IsADirectoryError as error:
        raise FileError(f"{str(file)!r} is a folder: name a file") from error


def digest_of(content: bytes) -> str:
    """Return the digest that identifies the content of a file.

    Examples
    --------
    >>> digest_of(b"row,label") == digest_of(b"row,label"), len(digest_of(b""))
    (True, 32)
    """
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def by_suffix(table: Mapping[str, Any], file: Path) -> Any:
    """Return the entry for the suffix of a file."""
    kind = suffix_of(file)
    if kind not in table:
        raise UsageError(unknown(kind, table, what="file format") + f" (the suffix of {file.name!r})")
    return table[kind]


def suffix_of(file: Path) -> str:
    """Return the suffix; both suffixes of a compressed file."""
    return "".join(file.suffixes[-2:]) if file.suffix == ".gz" else file.suffix


# -- reading: each reader returns the frame, and the options that the format gives ------------------------------

Read = tuple[Any, Mapping[str, str]]
Reader = Callable[[bytes, Collection[str]], Read]


def _read_csv(separator: str, *, compressed: bool = False) -> Reader:
    """Return a reader of separated values."""
    read = partial(read_separated, separator=separator, compressed=compressed)
    return lambda content, as_text: (read(content, as_text=as_text), {})


def _read_parquet(content: bytes, _: Collection[str]) -> Read:
    """Read Parquet."""
    import pandas as pd
    import pyarrow.parquet as pq

    check_names(pq.read_schema(io.BytesIO(content)).names)
    return pd.read_parquet(io.BytesIO(content)).reset_index(drop=True), {}


def _read_arrow(content: bytes, _: Collection[str]) -> Read:
    """Read an Arrow file (also Feather) or stream."""
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
    except pa.ArrowInvalid:
        table = pa.ipc.open_stream(pa.BufferReader(content)).read_all()
    return table.to_pandas().reset_index(drop=True), {}


def _read_npz(content: bytes, _: Collection[str]) -> Read:
    """Read arrays: ``eta`` (n, m) with ``labels``, ``X``, ``classes``, ``groups``, ``weights``, or named columns."""
    import pandas as pd

    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError("it is not an npz archive")
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    if arrays.keys() >= _SPARSE:
        raise ValueError(
            "it holds a sparse matrix, and the command line reads dense rows: fit PostShifter in Python "
            "(scipy.sparse.load_npz), or save eta.toarray() as the array 'eta'"
        )
    usual: dict[str, str] = {}
    columns: dict[str, Any] = {}
    if "eta" in arrays and arrays["eta"].ndim == 2:
        eta = arrays.pop("eta")
        classes = arrays.pop("classes", np.arange(eta.shape[1])).tolist()
        if len(classes) != eta.shape[1]:
            raise ValueError(f"'classes' has {len(classes)} names, but 'eta' has {eta.shape[1]} columns")
        columns |= {f"{_STEM}{name}": eta[:, place] for place, name in enumerate(classes)}
        usual["proba"] = f"{_STEM}*"
        usual |= {option: name for name, option in _ARRAYS.items() if name in arrays}
    if "X" in arrays and arrays["X"].ndim == 2:
        features = arrays.pop("X")
        columns |= {f"{_FEATURE}{place}": features[:, place] for place in range(features.shape[1])}
    for name, array in arrays.items():
        if array.ndim != 1:
            raise ValueError(f"array {name!r} has {array.ndim} dimensions, but a column has one")
        columns[name] = array
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"its arrays must have the same number of rows; they have {lengths}")
    return pd.DataFrame(columns), usual


_READERS: dict[str, Reader] = {
    ".csv": _read_csv(","),
    ".csv.gz": _read_csv(",", compressed=True),
    ".tsv": _read_csv("\t"),
    ".tsv.gz": _read_csv("\t", compressed=True),
    PARQUET: _read_parquet,
    ".feather": _read_arrow,
    ".arrow": _read_arrow,
    ".npz": _read_npz,
}

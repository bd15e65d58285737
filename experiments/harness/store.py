"""Results and where they are kept: a row is what one run of a method gave; a store is a CSV file of rows.

A file has one line for each value (columns ``name`` and ``value``), or one line for each row (a column for each value).
The lines of one run are appended in one piece, so a run that was killed goes on where it was. Versions of packages are
in a column, or in a line ``# ...`` above the lines that were made with them.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

LONG = ("method", "seed", "name", "value", "seconds", "queries", "n_values", "config", "versions")
KNOWN = {*LONG, "task", "size"}  # every other column has values
COMMENT = "# "


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one run of a method gave: values by name, and what they cost.

    ``task`` and ``size`` (a number of rows) are for experiments that have several. A method returns rows without seed
    and versions, and without the time where it is that of the whole run: the runner adds them.
    """

    values: Mapping[str, float]
    task: str = ""
    method: str = ""
    size: int = 0
    seed: int = 0
    seconds: float | None = None  # of the processor
    queries: int = 0  # to the metric
    config: Mapping[str, Any] = field(default_factory=dict)
    versions: str = ""

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What it is the result of."""
        return self.task, self.method, self.size, self.seed


class StoredLineError(ValueError):
    """A line of a file of results cannot be read, and it is not the last one."""


@dataclass(frozen=True)
class Store:
    """A file of results, to which rows are appended; a new file gets ``columns``."""

    path: Path
    columns: tuple[str, ...] = LONG

    def prepare(self) -> None:
        """Make the file, so that a folder without write access fails before the work."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.open("ab").close()

    def read(self) -> list[Row]:
        """Return the stored rows; a last line without its end is left out, and so are rows that lack lines."""
        if not self.path.exists():
            return []
        whole, _, _ = self.path.read_bytes().rpartition(b"\n")
        found: dict[Any, Row] = {}
        n_values: dict[Any, int] = {}
        try:
            for line, number, versions in _parsed(whole.decode()):
                row = self._row(line, number, versions)
                key = (row.key, json.dumps(row.config))
                if "name" in line and key in found:
                    row = replace(row, values={**found[key].values, **row.values})
                found[key] = row
                n_values[key] = int(line["n_values"]) if "n_values" in line else len(row.values)
        except (UnicodeDecodeError, csv.Error) as error:
            raise StoredLineError(f"{self.path} is damaged ({error}): fix it, or delete it and run again") from error
        return [row for key, row in found.items() if len(row.values) == n_values[key]]

    def append(self, rows: Sequence[Row]) -> None:
        """Append rows in one piece, no other process in between; they are on the disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as stream, locked(stream):
            before = _without_torn_line(stream)
            try:
                stream.write(self._text(rows, before.decode()).encode())
                stream.flush()
                os.fsync(stream.fileno())
            except OSError:
                stream.truncate(len(before))
                raise

    def _text(self, rows: Sequence[Row], before: str) -> str:
        """Return rows as lines that follow those before; a new file begins with the names of its columns."""
        lines = before.splitlines()
        header = next((line for line in lines if not line.startswith(COMMENT)), None)
        columns = self.columns if header is None else next(csv.reader([header]))
        made_with = next((line for line in reversed(lines) if line.startswith(COMMENT)), "")
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in rows:
            if "versions" not in columns and made_with != COMMENT + row.versions:
                made_with = COMMENT + row.versions
                text.write(f"{made_with}\n")
            if header is None:
                header = writer.writerow(columns)
            writer.writerows(_cells(row, columns))
        return text.getvalue()

    def _row(self, line: Mapping[str, Any], number: int, versions: str) -> Row:
        """Return a line as a row, which may be a part of one."""
        try:
            return Row(
                values=_values(line),
                task=line.get("task", ""),
                method=line["method"],
                size=int(line.get("size", 0)),
                seed=int(line["seed"]),
                seconds=float(line["seconds"]) if "seconds" in line else None,
                queries=int(line.get("queries", 0)),
                config=_object(line.get("config", "{}")),
                versions=str(line.get("versions", versions)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StoredLineError(
                f"line {number} of {self.path} is no result ({error!r}): take it out, or delete the file and run again"
            ) from error


@contextlib.contextmanager
def locked(stream: BinaryIO) -> Iterator[None]:
    """Lock an open file until it is closed: other processes that ask for the same wait.

    Systems and folders without such locks do without.
    """
    with contextlib.suppress(ImportError, OSError):  # Windows; some network folders
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX)
    yield


def _parsed(text: str) -> Iterator[tuple[dict[str, Any], int, str]]:
    """Yield each line of a file by column, with its number and the versions it was made with."""
    number, versions = 0, ""

    def lines() -> Iterator[str]:
        nonlocal number, versions
        for number, line in enumerate(text.splitlines(), start=1):  # noqa: B007
            if line.startswith(COMMENT):
                versions = line.removeprefix(COMMENT)
            else:
                yield line

    for found in csv.DictReader(lines(), strict=True):
        yield found, number, versions


def _values(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the values of a line; a row of a wide file may lack some, which are NaN there."""
    if "name" in line:
        value = float(line["value"])
        if not math.isfinite(value):
            raise ValueError(f"the value is {line['value']}")
        return {line["name"]: value}
    found = {name: _number(text) for name, text in line.items() if name not in KNOWN}
    return {name: value for name, value in found.items() if not math.isnan(value)}


def _number(text: str) -> float:
    """Return a number, or a truth value as one."""
    return float({"True": 1, "False": 0}.get(text, text))


def _cells(row: Row, columns: Sequence[str]) -> Iterator[list[Any]]:
    """Yield a row as the cells of its lines."""
    shared: dict[str, Any] = {
        **vars(row),
        "n_values": len(row.values),
        "config": json.dumps(row.config, sort_keys=True),
    }
    if "name" not in columns:
        yield [{**row.values, **shared}.get(column, math.nan) for column in columns]
        return
    for name, value in row.values.items():
        yield [{**shared, "name": name, "value": value}[column] for column in columns]


def _without_torn_line(stream: BinaryIO) -> bytes:
    """Cut off a torn last line, and return what is left."""
    stream.seek(0)
    content = stream.read()
    kept = content[: content.rfind(b"\n") + 1]
    if len(kept) < len(content):
        stream.truncate(len(kept))
    return kept


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object of a text."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise TypeError(f"the configuration is {text}")
    return found

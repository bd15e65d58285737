"""A file of results: one line for each value, the lines of one (method, seed) appended in one piece."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from experiments.output import alone

FIELDS = ("method", "seed", "name", "value", "seconds", "queries", "n_values", "config", "versions")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One value of one (method, seed), which has ``n_values`` of them."""

    method: str
    seed: int
    name: str
    value: float
    seconds: float
    queries: int
    n_values: int
    config: str
    versions: str


class StoredLineError(ValueError):
    """A line of a file of results that is none, and is not the last one."""


@dataclass(frozen=True)
class Store:
    """A file of results, to which lines are appended."""

    path: Path

    def prepare(self) -> None:
        """Make the file, so that one that cannot be written is told of before the work."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.open("ab").close()

    def read(self) -> list[Row]:
        """Return the stored rows; a last line without its end was torn and is left out."""
        if not self.path.exists():
            return []
        whole, _, _ = self.path.read_bytes().rpartition(b"\n")
        try:
            lines = csv.DictReader(whole.decode().splitlines(), strict=True)
            return [self._row(line, lines.line_num) for line in lines]
        except (UnicodeDecodeError, csv.Error) as error:
            raise StoredLineError(f"{self.path} is damaged ({error}): mend it, or delete it and run again") from error

    def append(self, rows: Sequence[Row]) -> None:
        """Append rows in one piece, no other process in between; they are on the disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        with self.path.open("ab+") as stream, alone(stream):
            if not _mend(stream):
                writer.writerow(FIELDS)
            writer.writerows([getattr(row, name) for name in FIELDS] for row in rows)
            stream.write(text.getvalue().encode())
            stream.flush()
            os.fsync(stream.fileno())

    def _row(self, line: Mapping[str, Any], number: int) -> Row:
        """Return a line as a row."""
        try:
            return Row(
                method=line["method"],
                seed=int(line["seed"]),
                name=line["name"],
                value=_finite(line["value"]),
                seconds=float(line["seconds"]),
                queries=int(line["queries"]),
                n_values=int(line["n_values"]),
                config=_object(line["config"]),
                versions=str(line["versions"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StoredLineError(
                f"line {number} of {self.path} is no result ({error!r}): take it out, or delete the file and run again"
            ) from error


def _mend(stream: BinaryIO) -> int:
    """Cut off a torn last line, and return how many bytes are left."""
    stream.seek(0)
    content = stream.read()
    kept = content.rfind(b"\n") + 1
    if kept < len(content):
        stream.truncate(kept)
    return kept


def _finite(text: str) -> float:
    """Return a number that is one."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the value is {text}")
    return value


def _object(text: str) -> str:
    """Return a text that is a JSON object."""
    if not isinstance(json.loads(text), dict):
        raise TypeError(f"the configuration is {text}")
    return text

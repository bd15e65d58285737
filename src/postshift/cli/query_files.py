"""The files of predictions in a session folder, and what the queries are called.

Query 7 has its predictions in ``query-007.csv``. If they change, because the answer before it was corrected, the file
is withdrawn: it stays as ``query-007-withdrawn.csv``, and the new predictions are query ``7-v2``, in
``query-007-v2.csv``. A score that arrives for the old file cannot be stored for the new one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from postshift.cli.errors import UsageError

FORMATS = ("csv", "parquet")
_FILE = re.compile(
    r"query-(?P<number>\d{3,})(-v(?P<version>\d+))?(?P<withdrawn>-withdrawn)?\.(" + "|".join(FORMATS) + ")"
)
_NAME = re.compile(r"0*(?P<number>[1-9]\d{0,8})(-v(?P<version>[1-9]\d{0,8}))?")
_SHOWN = 60  # characters of a wrong name


def is_query_file(name: str) -> bool:
    """Return whether a file has the name of predictions.

    Examples
    --------
    >>> is_query_file("query-007-v2.csv"), is_query_file("query-7.csv")
    (True, False)
    """
    return _FILE.fullmatch(name) is not None


def number_and_version(text: str) -> tuple[int, int]:
    """Return the number and the version in the name of a query.

    Examples
    --------
    >>> number_and_version("7"), number_and_version("7-v2")
    ((7, 1), (7, 2))
    """
    found = _NAME.fullmatch(text)
    if found is None:
        raise UsageError(f"--query must be the number of a query, such as 7, or 7-v2. Got {text[:_SHOWN]!r}")
    return int(found["number"]), int(found["version"] or 1)


@dataclass(frozen=True)
class Withdrawn:
    """A withdrawn file: where it was, where it is, and the fingerprint of its query."""

    file: Path
    kept: Path
    fingerprint: str

    def put_back(self) -> None:
        """Let the file count again: its query is asked after all."""
        self.kept.rename(self.file)


@dataclass(frozen=True)
class QueryFiles:
    """The files of predictions in a folder, in one format."""

    folder: Path
    file_format: str

    def version(self, number: int) -> int:
        """Return the version of a query's predictions: 1, and 1 more for each withdrawn file."""
        matches = (_FILE.fullmatch(each.name) for each in self.folder.glob(f"query-{number:03d}[.-]*"))
        versions = [(int(found["version"] or 1), found["withdrawn"] is not None) for found in matches if found]
        last, withdrawn = max(versions, default=(1, False))
        return last + withdrawn

    def name(self, number: int) -> str:
        """Return what a query is called."""
        version = self.version(number)
        return f"{number}" if version == 1 else f"{number}-v{version}"

    def file(self, number: int) -> Path:
        """Return the file of the predictions of a query."""
        version = self.version(number)
        return self.folder / f"query-{number:03d}{f'-v{version}' * (version > 1)}.{self.file_format}"

    def withdraw(self, number: int, *, fingerprint: str) -> Withdrawn:
        """Withdraw the file of a query; the next one has another name."""
        file = self.file(number)
        found = Withdrawn(file, file.with_stem(f"{file.stem}-withdrawn"), fingerprint)
        file.rename(found.kept)
        return found

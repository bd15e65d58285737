"""The stored figures: one line a measurement, and on top of them what they were made with."""

from __future__ import annotations

import csv
import io
import os
import platform
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from benchmarks.timing import Outcome
from experiments.harness.files import versions, write_text

_OPTIONAL = ("numba", "xcolumns", "threadpoolctl")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement: times in seconds, values of the metric (or of what is measured), and a note.

    ``failed`` says why the times are missing or do not count: the comparison was skipped, or both sides did not compute
    the same.
    """

    name: str
    case: str = ""
    x: float | None = None
    ours_cpu: float | None = None
    theirs_cpu: float | None = None
    ours_wall: float | None = None
    theirs_wall: float | None = None
    ours_value: float | None = None
    theirs_value: float | None = None
    note: str = ""
    failed: str = ""

    @classmethod
    def of(cls, name: str, found: Outcome) -> Row:
        """Return the line of an outcome."""
        return cls(
            name=name,
            case=found.case,
            x=found.x,
            ours_cpu=found.ours and found.ours.cpu,
            theirs_cpu=found.theirs and found.theirs.cpu,
            ours_wall=found.ours and found.ours.wall,
            theirs_wall=found.theirs and found.theirs.wall,
            ours_value=found.ours_value,
            theirs_value=found.theirs_value,
            note=found.note,
            failed=found.failed and f"FAILED: {found.failed}",
        )


_TEXTS = ("name", "case", "note", "failed")


def write_rows(path: Path, rows: Iterable[Row], made_with: str) -> None:
    """Store all lines."""
    text = io.StringIO()
    text.write(f"# {made_with}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(Row)])
    writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in _cells(row)] for row in rows)
    write_text(path, text.getvalue())


def read_rows(path: Path) -> tuple[list[Row], str]:
    """Return the stored lines and what they were made with; nothing where there is no file."""
    if not path.exists():
        return [], ""
    with path.open(encoding="utf-8", newline="") as stream:
        made_with = stream.readline().removeprefix("# ").strip()
        lines = list(csv.DictReader(stream))
    return [Row(**{key: _read(key, text) for key, text in line.items()}) for line in lines], made_with


def made_with(*, quick: bool) -> str:
    """Return versions, processor and sizes; no date, so that equal runs leave equal lines."""
    found = versions(*_OPTIONAL)
    sizes = "; SMALL SIZES (--quick), the figures mean nothing" if quick else ""
    return f"{found}; {_processor()}, {os.cpu_count()} cores{sizes}"


def _cells(row: Row) -> list[str | float]:
    """Return the cells of a line, nothing for None."""
    return ["" if cell is None else cell for cell in astuple(row)]


def _read(key: str, text: str) -> str | float | None:
    """Return a cell as it was."""
    if key in _TEXTS:
        return text
    return float(text) if text else None


def _processor() -> str:
    """Return the model of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())

"""What results are written as: tables in text and in files that say what they are made with, all in one piece."""

from __future__ import annotations

import contextlib
import csv
import io
import platform
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

from postshift.core.archive import write_atomically

OUT = Path(__file__).parents[1] / "docs" / "results"


def versions(*more: str) -> str:
    """Return what results are made with now."""
    names = ("postshift", "numpy", "scipy", "scikit-learn", *more)
    return ", ".join([*(f"{name} {version(name)}" for name in names), f"Python {platform.python_version()}"])


def write_text(path: Path, text: str) -> None:
    """Write a text; an interrupted write leaves what was there."""
    write_atomically(path, lambda stream: stream.write(text.encode()))


@contextlib.contextmanager
def alone(stream: BinaryIO) -> Iterator[None]:
    """Have an open file to oneself: other processes that ask for the same wait until it is closed.

    Systems and folders without such locks do without.
    """
    with contextlib.suppress(ImportError, OSError):  # Windows; some folders of a network
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX)
    yield


def write_table(path: Path, head: Sequence[str], lines: Iterable[Sequence[object]], *, made_with: str) -> None:
    """Write a CSV file whose first line says what it is made with."""
    text = io.StringIO()
    text.write(f"# {made_with}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    write_text(path, text.getvalue())


def read_table(path: Path) -> tuple[list[dict[str, str]], str]:
    """Return the lines of such a file and what it is made with; nothing where there is no file."""
    if not path.exists():
        return [], ""
    with path.open(encoding="utf-8", newline="") as stream:
        made_with = stream.readline().removeprefix("# ").strip()
        return list(csv.DictReader(stream)), made_with


def together(made_with: str, now: str) -> str:
    """Return what a file is made with when lines of now are added: both, where versions have changed in between."""
    return "; ".join(dict.fromkeys([*filter(None, made_with.split("; ")), now]))


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table of which the first column is text."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))

"""A folder of Parquet files that the workers of a cluster write: seen whole or not at all."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from postshift.cli.errors import FileError, UsageError, WorkError
from postshift.cli.folders import beside, check_ours, put_in_place
from postshift.cli.parquet_files import SUFFIX

_STEM = "part-"
_NAME = re.compile(rf"{_STEM}\d{{6}}{re.escape(SUFFIX)}")
MARK = {b"postshift": b"labels"}  # in the metadata of every file, by which it is known again


def part_name(number: int) -> str:
    """Return what the file of a partition is called; in alphabetical order they are in that of the rows.

    Examples
    --------
    >>> part_name(7)
    'part-000007.parquet'
    """
    return f"{_STEM}{number:06d}{SUFFIX}"


def check_folder(out: Path, *, force: bool) -> None:
    """Refuse a folder that could not be written later on, or that holds something else than such files."""
    if out.suffix:
        raise UsageError(
            f"with --scheduler the labels are written as a folder of Parquet files: name a folder for them, not "
            f"{out.name!r}"
        )
    if not out.absolute().parent.is_dir():
        raise FileError(f"there is no folder {out.parent}: make it, or write elsewhere")
    if not out.exists():
        return
    if not out.is_dir():
        raise FileError(f"{out} is a file: name a folder for the labels")
    check_ours(out, is_part)
    if any(out.iterdir()) and not force:
        raise UsageError(f"{out} has labels already: add --force to replace them, or name another folder")


def is_part(path: Path) -> bool:
    """Return whether a path is a file of labels that a worker wrote."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.is_symlink() or not path.is_file() or not _NAME.fullmatch(path.name):
        return False
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError):
        return False
    return MARK.items() <= metadata.items()


@contextmanager
def written_folder(out: Path, *, n_parts: int) -> Iterator[Path]:
    """Give a folder beside ``out`` to write to, which takes its place once all parts are there."""
    place = out.resolve()  # a link stays a link
    draft = beside(place, "part")
    draft.mkdir()
    try:
        yield draft
        n_found = sum(1 for _ in draft.glob(f"{_STEM}*{SUFFIX}"))
        if n_found != n_parts:
            raise WorkError(
                f"{n_found} of {n_parts} parts are in {out.parent}: the workers must see that folder under the same "
                "path as this machine does"
            )
        put_in_place(draft, place, is_part)
    finally:
        shutil.rmtree(draft, ignore_errors=True)

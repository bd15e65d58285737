"""Replace folders: a reader sees a complete folder or none, and only files that postshift wrote are removed.

A run is one such folder. The other one is a folder of labels: Parquet files that the workers of a cluster write.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from postshift.cli.errors import FileError, UsageError, WorkError, listed
from postshift.cli.files.file_table import PARQUET

Ours = Callable[[Path], bool]  # whether postshift wrote a file; a folder or a link is never ours
MARK = {b"postshift": b"labels"}  # in the metadata of every file of labels
_STEM = "part-"
_NAME = re.compile(rf"{_STEM}\d{{6}}{re.escape(PARQUET)}")


def check_ours(folder: Path, ours: Ours) -> None:
    """Raise if a folder holds files that postshift did not write."""
    if others := sorted(each.name for each in folder.iterdir() if not ours(each)):
        raise UsageError(
            f"{folder} holds files that postshift did not write: {listed(others)}; nothing in it was changed: move "
            "them elsewhere and run the same command again, or name another folder"
        )


def remove_ours(folder: Path, ours: Ours) -> None:
    """Remove our files from a folder, and then the folder itself if it is empty."""
    if not folder.is_dir():
        return
    with contextlib.suppress(OSError):
        for each in folder.iterdir():
            if ours(each):
                each.unlink()
        folder.rmdir()


def put_in_place(new: Path, out: Path, ours: Ours) -> None:
    """Rename a folder to ``out`` and remove the old files; after an error ``out`` is unchanged."""
    if not out.exists():
        new.rename(out)
        return
    check_ours(out, ours)
    old = _beside(out, "old")
    out.rename(old)
    try:
        new.rename(out)
    except OSError:
        old.rename(out)
        raise
    remove_ours(old, ours)


def _beside(out: Path, kind: str) -> Path:
    """Return a new hidden name in the folder of ``out``."""
    return out.with_name(f".{out.name}.{secrets.token_hex(4)}.{kind}")


# -- folders of labels -----------------------------------------------------------------------------------------


def partition_name(number: int) -> str:
    """Return the name of the file of a partition; alphabetical order is the order of the rows.

    Examples
    --------
    >>> partition_name(7)
    'part-000007.parquet'
    """
    return f"{_STEM}{number:06d}{PARQUET}"


def check_label_folder(out: Path, *, force: bool) -> None:
    """Raise if labels cannot be written to this folder, or if it holds other files."""
    if out.suffix:
        raise UsageError(
            f"with --scheduler the labels are written as a folder of Parquet files: name a folder for them, not "
            f"{out.name!r}"
        )
    if not out.absolute().parent.is_dir():
        raise FileError(f"there is no folder {out.parent}: create it, or choose another one")
    if not out.exists():
        return
    if not out.is_dir():
        raise FileError(f"{out} is a file: name a folder for the labels")
    check_ours(out, _is_label_file)
    if any(out.iterdir()) and not force:
        raise UsageError(f"{out} already has labels: add --force to replace them, or name another folder")


def _is_label_file(path: Path) -> bool:
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
def label_folder(out: Path, *, n_partitions: int) -> Iterator[Path]:
    """Yield a folder beside ``out`` for the files of all partitions; at the end, it replaces ``out``."""
    place = out.resolve()  # a link stays a link
    draft = _beside(place, "part")
    draft.mkdir()
    try:
        yield draft
        n_found = sum(1 for _ in draft.glob(f"{_STEM}*{PARQUET}"))
        if n_found != n_partitions:
            raise WorkError(
                f"{n_found} of {n_partitions} partitions are in {out.parent}: the workers must see that folder under "
                "the same path as this machine does"
            )
        put_in_place(draft, place, _is_label_file)
    finally:
        shutil.rmtree(draft, ignore_errors=True)

"""A folder that takes the place of another: seen whole or not at all, and only files that are ours are removed."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from pathlib import Path

from postshift.cli.columns import listed
from postshift.cli.errors import UsageError

Ours = Callable[[Path], bool]  # whether a file, which may be a folder or a link, is one that postshift wrote


def beside(out: Path, kind: str) -> Path:
    """Return a hidden name that nobody has, in the folder that ``out`` is in."""
    return out.with_name(f".{out.name}.{secrets.token_hex(4)}.{kind}")


def check_ours(folder: Path, ours: Ours) -> None:
    """Refuse a folder with files of others, which are named: nothing of it may be removed."""
    if others := sorted(each.name for each in folder.iterdir() if not ours(each)):
        raise UsageError(
            f"{folder} holds what postshift did not write: {listed(others)}; nothing in it was touched: move that "
            "elsewhere and run the same command again, or name another folder"
        )


def remove_ours(folder: Path, ours: Ours) -> None:
    """Remove the files of a folder that are ours, and the folder itself unless something else is in it."""
    if not folder.is_dir():
        return
    with contextlib.suppress(OSError):
        for each in folder.iterdir():
            if ours(each):
                each.unlink()
        folder.rmdir()


def put_in_place(new: Path, out: Path, ours: Ours) -> None:
    """Let a folder take the place of ``out``, whose files are removed.

    Where that fails, or files of others are in it, ``out`` is as it was.
    """
    if not out.exists():
        new.rename(out)
        return
    check_ours(out, ours)
    old = beside(out, "old")
    out.rename(old)
    try:
        new.rename(out)
    except OSError:
        old.rename(out)
        raise
    remove_ours(old, ours)

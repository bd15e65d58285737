"""A folder that takes the place of another: seen whole or not at all."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path


def beside(out: Path, kind: str) -> Path:
    """Return a hidden name that nobody has, in the folder that ``out`` is in."""
    return out.with_name(f".{out.name}.{secrets.token_hex(4)}.{kind}")


def put_in_place(new: Path, out: Path) -> None:
    """Let a folder take the place of ``out``, which is removed; where that fails, ``out`` is as it was."""
    if not out.exists():
        new.rename(out)
        return
    old = beside(out, "old")
    out.rename(old)
    try:
        new.rename(out)
    except OSError:
        old.rename(out)
        raise
    shutil.rmtree(old, ignore_errors=True)

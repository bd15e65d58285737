"""Progress of a download on stderr: with tqdm or rich if one is installed, else as plain lines."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Advance = Callable[[int], object]

STEPS = 10  # lines of a plain report


@contextmanager
def progress(label: str, *, total: int | None) -> Iterator[Advance]:
    """Yield a function to call with the size of every block; ``total`` is None if it is unknown."""
    if tqdm := _optional("tqdm"):
        with tqdm.tqdm(desc=label, total=total, unit="B", unit_scale=True) as shown:
            yield shown.update
    elif rich := _optional("rich.progress"):
        console = importlib.import_module("rich.console").Console(stderr=True)
        with rich.Progress(*rich.Progress.get_default_columns(), rich.DownloadColumn(), console=console) as shown:
            task = shown.add_task(label, total=total)
            yield lambda size: shown.advance(task, size)
    else:
        yield _plain(label, total)


def _optional(name: str) -> Any:
    """Return a module, or None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _plain(label: str, total: int | None) -> Advance:
    """Write a line, and return a function that writes another after every tenth of the bytes."""
    size = "size unknown" if total is None else f"{total / 1e6:,.1f} MB"
    received = shown = 0
    sys.stderr.write(f"{label}: downloading ({size})\n")

    def advance(block: int) -> None:
        nonlocal received, shown
        received += block
        step = STEPS * received // total if total else 0
        if step > shown:
            shown = step
            sys.stderr.write(f"{label}: {100 * step // STEPS} %\n")

    return advance

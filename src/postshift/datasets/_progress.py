"""How far a download is, on stderr: by tqdm or rich where one is installed, else as a plain line."""

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
    """Yield the function that is told of every block of bytes; ``total`` is None where nobody knows it."""
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
    """Return a module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _plain(label: str, total: int | None) -> Advance:
    """Return a function that writes a line now and at every tenth of the way."""
    size = "size unknown" if total is None else f"{total / 1e6:,.1f} MB"
    received = told = 0
    sys.stderr.write(f"{label}: downloading ({size})\n")

    def advance(block: int) -> None:
        nonlocal received, told
        received += block
        step = STEPS * received // total if total else 0
        if step > told:
            told = step
            sys.stderr.write(f"{label}: {100 * step // STEPS} %\n")

    return advance

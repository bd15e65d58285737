"""What is said while an experiment runs: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager


def say(text: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@contextmanager
def progress(name: str, total: int) -> Iterator[Callable[[str], None]]:
    """Give a function to call after each run: a bar on a terminal if rich or tqdm is installed, else lines."""
    bar = _bar(name, total) if sys.stderr.isatty() else None
    if bar is not None:
        with bar as step:
            yield step
        return
    count = 0

    def line(text: str) -> None:
        nonlocal count
        count += 1
        say(f"{name} {count} of {total}: {text}")

    yield line


def _bar(name: str, total: int) -> AbstractContextManager[Callable[[str], None]] | None:
    """Return a progress bar as a context manager, or None where no package draws one."""
    try:
        import rich  # noqa: F401
    except ModuleNotFoundError:
        try:
            import tqdm  # noqa: F401
        except ModuleNotFoundError:
            return None
        return _tqdm_bar(name, total)
    return _rich_bar(name, total)


@contextmanager
def _rich_bar(name: str, total: int) -> Iterator[Callable[[str], None]]:
    """Draw with rich."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.fields[name]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task("", total=total, name=name)
        yield lambda text: shown.update(task, advance=1, description=text)


@contextmanager
def _tqdm_bar(name: str, total: int) -> Iterator[Callable[[str], None]]:
    """Draw with tqdm."""
    from tqdm import tqdm

    with tqdm(total=total, desc=name) as shown:

        def step(text: str) -> None:
            shown.set_postfix_str(text, refresh=False)
            shown.update()

        yield step

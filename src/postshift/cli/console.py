"""What is shown: results on stdout, progress, warnings and errors on stderr, and one JSON object where asked for.

Names of classes, columns, groups and files, and the messages of programs, are somebody else's: whatever is shown passes
:func:`~postshift.cli.errors.printable`, so that no control character of theirs reaches the terminal.
"""

from __future__ import annotations

import codecs
import json
import math
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from postshift.cli.errors import one_line, printable

_LINES = 10  # progress lines of a stage where there is no terminal
_WIDE = 400


@dataclass(frozen=True, kw_only=True)
class Console:
    """Where a command speaks.

    Parameters
    ----------
    quiet : bool
        Whether only errors, and the JSON object, are shown.
    as_json : bool
        Whether the result is one JSON object on stdout.
    """

    quiet: bool = False
    as_json: bool = False

    def say(self, text: str = "") -> None:
        """Write a line for people to stdout."""
        if not self.quiet and not self.as_json:
            _out().print(printable(text))

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int = 0) -> None:
        """Write a table for people to stdout; the last ``numbers`` columns are aligned to the right."""
        if self.quiet or self.as_json:
            return
        found = Table(box=None, pad_edge=False, header_style="bold")
        for place, name in enumerate(header):
            right = place >= len(header) - numbers
            found.add_column(printable(name), justify="right" if right else "left", overflow="fold")
        for row in rows:
            found.add_row(*map(printable, row))
        _out().print(found)

    def result(self, content: Mapping[str, Any]) -> None:
        """Write the one JSON object, where that was asked for."""
        if self.as_json:
            sys.stdout.write(as_json(content, only_ascii=not _takes_unicode(sys.stdout)) + "\n")

    def note(self, text: str) -> None:
        """Write a line to stderr, unless quiet."""
        if not self.quiet:
            _err().print(printable(text))

    @contextmanager
    def warnings_shown(self) -> Iterator[None]:
        """Show every warning as one line on stderr, each text once; none where quiet."""
        seen: set[str] = set()

        def show(message: Any, category: Any, *_: Any) -> None:
            text = one_line(message)
            if not issubclass(category, DeprecationWarning | FutureWarning | ResourceWarning) and text not in seen:
                seen.add(text)
                self.note(f"warning: {text}")

        with warnings.catch_warnings():
            warnings.showwarning = show  # type: ignore[assignment]
            yield

    @contextmanager
    def progress(self, what: str) -> Iterator[FitProgress | None]:
        """Give what scikit-learn tells of a fit; a bar on a terminal, a few lines elsewhere, nothing where quiet."""
        if self.quiet:
            yield None
            return
        console = _err()
        if not console.is_terminal:
            yield FitProgress(_Lines(self, what))
            return
        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            transient=True,
        )
        with bar:
            yield FitProgress(_Bar(bar, what))


class FitProgress:
    """A callback of scikit-learn that shows the steps of the stages of a fit."""

    def __init__(self, display: _Lines | _Bar) -> None:
        self._display = display

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """End."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:  # noqa: ARG002
        """Show a new stage, or a new step of it."""
        if context.parent is None:
            return
        if context.parent.parent is None:
            self._display.stage(context.max_subtasks)
        else:
            self._display.step(str(context.task_name))

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:  # noqa: ARG002
        """Show that a stage is over."""
        if context.parent is not None and context.parent.parent is None:
            self._display.done()


class _Lines:
    """Progress as lines, about ten a stage."""

    def __init__(self, console: Console, what: str) -> None:
        self._console, self._what, self._total, self._n_done = console, what, None, 0
        self._shown = -1

    def stage(self, total: int | None) -> None:
        """Begin a stage of so many steps at the most."""
        self._total, self._n_done, self._shown = total, 0, -1  # type: ignore[assignment]

    def step(self, name: str) -> None:
        """Say every tenth of the stage which step begins."""
        part = self._n_done * _LINES // self._total if self._total else self._n_done // _LINES
        if part > self._shown:
            of = f" of at most {self._total}" if self._total else ""
            self._console.note(f"{self._what}: step {self._n_done + 1}{of} ({name})")
            self._shown = part
        self._n_done += 1

    def done(self) -> None:
        """End the stage."""


class _Bar:
    """Progress as a bar with the time left."""

    def __init__(self, bar: Progress, what: str) -> None:
        self._bar, self._what, self._n_done = bar, what, 0
        self._task = bar.add_task(what, total=None)

    def stage(self, total: int | None) -> None:
        """Begin a stage of so many steps at the most."""
        self._n_done = 0
        self._bar.reset(self._task, total=total, description=self._what)

    def step(self, name: str) -> None:
        """Name the step that begins; those before it are done."""
        self._bar.update(self._task, completed=self._n_done, description=f"{self._what}: {printable(name[:40])}")
        self._n_done += 1

    def done(self) -> None:
        """Fill the bar."""
        self._bar.update(self._task, total=max(self._n_done, 1), completed=max(self._n_done, 1))


def as_json(content: Any, *, indent: int | None = 2, only_ascii: bool = False) -> str:
    """Return JSON text; numbers that JSON has no word for become null, and what is not printable is escaped.

    Examples
    --------
    >>> as_json({"a": float("nan"), "b": (1, 2)}, indent=None)
    '{"a": null, "b": [1, 2]}'
    """
    text = json.dumps(_plain(content), indent=indent, ensure_ascii=only_ascii, allow_nan=False)
    return "\n".join(_escaped(line) for line in text.split("\n"))  # ends of lines are ours: in names they are escaped


def show_error(text: str) -> None:
    """Write ``error: ...`` to stderr, on one line whatever the width of the terminal."""
    sys.stderr.write(f"error: {printable(text)}\n")


def show_traceback() -> None:
    """Write the traceback of the error that is being handled to stderr."""
    for line in traceback.format_exc().splitlines():
        sys.stderr.write(f"{printable(line)}\n")


def _escaped(line: str) -> str:
    """Return a line of JSON with the characters escaped that are not printable."""
    return (
        line if line.isprintable() else "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in line)
    )


def _takes_unicode(stream: Any) -> bool:
    """Return whether every letter can be written to a stream."""
    return codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name.startswith("utf")


def _plain(value: Any) -> Any:
    """Return what JSON can hold."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _out() -> RichConsole:
    """Return the console of stdout."""
    return _console(stderr=False)


def _err() -> RichConsole:
    """Return the console of stderr."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> RichConsole:
    """Return a console that never reads text as markup, and does not break lines where there is no terminal."""
    found = RichConsole(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)
    if not found.is_terminal:
        found.width = _WIDE
    return found

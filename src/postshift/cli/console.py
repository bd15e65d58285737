"""Output: results on stdout; progress, warnings and errors on stderr; one JSON object with ``--json``.

Names of classes, columns, groups and files, and messages of programs, come from outside. Everything that is shown
passes :func:`~postshift.cli.errors.printable`, so that none of their control characters reaches the terminal.
"""

from __future__ import annotations

import codecs
import json
import math
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from postshift.cli.errors import one_line, printable, with_options

_LINES = 10  # progress lines of a stage where stderr is not a terminal
_LONG = 2_000_000  # rows; shorter files are read in a few seconds
_WIDE = 400


@dataclass(frozen=True, kw_only=True)
class Console:
    """Where a command writes; ``quiet`` shows errors and the JSON object only, ``as_json`` writes that object."""

    quiet: bool = False
    as_json: bool = False

    def say(self, text: str = "") -> None:
        """Write a line to stdout, unless quiet or JSON."""
        if not self.quiet and not self.as_json:
            _console(stderr=False).print(printable(text))

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int = 0) -> None:
        """Write a table to stdout, unless quiet or JSON; the last ``numbers`` columns are aligned to the right."""
        if self.quiet or self.as_json:
            return
        found = Table(box=None, pad_edge=False, header_style="bold")
        for place, name in enumerate(header):
            right = place >= len(header) - numbers
            found.add_column(printable(name), justify="right" if right else "left", overflow="fold")
        for row in rows:
            found.add_row(*map(printable, row))
        _console(stderr=False).print(found)

    def result(self, content: Mapping[str, Any]) -> None:
        """Write the JSON object, if JSON."""
        if self.as_json:
            encoding = codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name
            sys.stdout.write(as_json(content, only_ascii=not encoding.startswith("utf")) + "\n")

    def note(self, text: str) -> None:
        """Write a line to stderr, unless quiet."""
        if not self.quiet:
            _console(stderr=True).print(printable(text))

    @contextmanager
    def warnings_shown(self) -> Iterator[None]:
        """Show each warning once, as one line on stderr, unless quiet."""
        seen: set[str] = set()

        def show(message: Any, category: Any, *_: Any) -> None:
            text = with_options(one_line(message))
            if not issubclass(category, DeprecationWarning | FutureWarning | ResourceWarning) and text not in seen:
                seen.add(text)
                self.note(f"warning: {text}")

        with warnings.catch_warnings():
            warnings.showwarning = show  # type: ignore[assignment]
            yield

    @contextmanager
    def progress(self, what: str) -> Iterator[FitProgress | None]:
        """Yield a callback of scikit-learn that shows progress: a bar on a terminal, else lines; None if quiet."""
        if self.quiet:
            yield None
            return
        console = _console(stderr=True)
        if not console.is_terminal:
            yield ProgressLines(self, what)
            return
        with _bar(console) as bar:
            yield ProgressBar(bar, what)

    @contextmanager
    def reading(self, what: str) -> Iterator[Callable[[int, int], None] | None]:
        """Yield a function of the rows read so far and of all rows: a bar on a terminal, else lines for long files."""
        console = _console(stderr=True)
        if self.quiet:
            yield None
        elif not console.is_terminal:
            yield ReadingLines(self, what)
        else:
            with _bar(console) as bar:
                task = bar.add_task(printable(what), total=None)
                yield lambda n_read, n_rows: bar.update(task, completed=n_read, total=n_rows)


class ReadingLines:
    """Progress of reading a long file as lines, one for each tenth of its rows."""

    def __init__(self, console: Console, what: str) -> None:
        self._console, self._what, self._shown = console, what, 0

    def __call__(self, n_read: int, n_rows: int) -> None:
        """Write a line if another tenth is read."""
        tenth = n_read * _LINES // n_rows
        if n_rows > _LONG and tenth > self._shown:
            self._console.note(f"{self._what}: {n_read:,} of {n_rows:,} rows")
            self._shown = tenth


class FitProgress:
    """A callback of scikit-learn: it calls ``stage``, ``step`` and ``done`` as a fit proceeds."""

    def setup(self, estimator: Any, context: Any) -> None:
        """Do nothing when the fit starts."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing when the fit ends."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:  # noqa: ARG002
        """Show a new stage, or a new step of it."""
        if context.parent is None:
            return
        if context.parent.parent is None:
            self.stage(context.max_subtasks)
        else:
            self.step(str(context.task_name))

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:  # noqa: ARG002
        """Show the end of a stage."""
        if context.parent is not None and context.parent.parent is None:
            self.done()

    def stage(self, total: int | None) -> None:
        """Start a stage of at most ``total`` steps."""
        raise NotImplementedError

    def step(self, name: str) -> None:
        """Start a step; the steps before it are done."""
        raise NotImplementedError

    def done(self) -> None:
        """End the stage."""


class ProgressLines(FitProgress):
    """Progress as lines, about ten for each stage."""

    def __init__(self, console: Console, what: str) -> None:
        self._console, self._what = console, what
        self.stage(None)

    def stage(self, total: int | None) -> None:
        """Start a stage of at most ``total`` steps."""
        self._total, self._n_done, self._shown = total, 0, -1

    def step(self, name: str) -> None:
        """Write a line for every tenth of the stage."""
        tenth = self._n_done * _LINES // self._total if self._total else self._n_done // _LINES
        if tenth > self._shown:
            of = f" of at most {self._total}" if self._total else ""
            self._console.note(f"{self._what}: step {self._n_done + 1}{of} ({name})")
            self._shown = tenth
        self._n_done += 1


class ProgressBar(FitProgress):
    """Progress as a bar with the remaining time."""

    def __init__(self, bar: Progress, what: str) -> None:
        self._bar, self._what, self._n_done = bar, what, 0
        self._task = bar.add_task(what, total=None)

    def stage(self, total: int | None) -> None:
        """Start a stage of at most ``total`` steps."""
        self._n_done = 0
        self._bar.reset(self._task, total=total, description=self._what)

    def step(self, name: str) -> None:
        """Show the name of the step."""
        self._bar.update(self._task, completed=self._n_done, description=f"{self._what}: {printable(name[:40])}")
        self._n_done += 1

    def done(self) -> None:
        """Fill the bar."""
        self._bar.update(self._task, total=max(self._n_done, 1), completed=max(self._n_done, 1))


def as_json(content: Any, *, indent: int | None = 2, only_ascii: bool = False) -> str:
    """Return JSON text; NaN and infinite numbers become null, and characters that are not printable are escaped.

    Examples
    --------
    >>> as_json({"a": float("nan"), "b": (1, 2)}, indent=None)
    '{"a": null, "b": [1, 2]}'
    """
    text = json.dumps(_plain(content), indent=indent, ensure_ascii=only_ascii, allow_nan=False)
    if text.replace("\n", "").isprintable():  # json.dumps has escaped the ends of lines in names
        return text
    return "".join(each if each == "\n" or each.isprintable() else json.dumps(each)[1:-1] for each in text)


def _plain(value: Any) -> Any:
    """Return a value, converted to types that JSON has."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def user_scores(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores and intervals as the user knows them; internally, a cost has a minus so that greater is better.

    Examples
    --------
    >>> scores = {"before": -2.0, "after": -0.5, "gain": 1.5, "intervals": {"gain": (1.0, 2.0), "base": None}}
    >>> shown = user_scores({**scores, "less_is_better": True})
    >>> shown["before"], shown["after"], shown["gain"], shown["intervals"]
    (2.0, 0.5, -1.5, {'gain': (-2.0, -1.0), 'base': None})
    """
    if not found["less_is_better"]:
        return dict(found)
    scores = {name: 0.0 - found[name] for name in ("before", "after", "gain")}
    intervals = {
        name: None if limits is None else (0.0 - limits[1], 0.0 - limits[0])
        for name, limits in (found["intervals"] or {}).items()
    }
    return {**found, **scores, "intervals": intervals}


def show_error(text: str) -> None:
    """Write ``error: ...`` to stderr on one line, for any width of the terminal."""
    sys.stderr.write(f"error: {printable(text)}\n")


def show_traceback() -> None:
    """Write the traceback of the current error to stderr."""
    for line in traceback.format_exc().splitlines():
        sys.stderr.write(f"{printable(line)}\n")


def _bar(console: RichConsole) -> Progress:
    """Return a bar that is removed at the end."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        transient=True,
    )


def _console(*, stderr: bool) -> RichConsole:
    """Return a console that never reads text as markup, and that breaks lines only on a terminal."""
    found = RichConsole(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)
    if not found.is_terminal:
        found.width = _WIDE
    return found

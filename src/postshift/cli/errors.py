"""Exit codes, the errors of the command line, and how every other error is shown.

====  =========================================================================================================
code  meaning
====  =========================================================================================================
0     success
1     a failure while running: the fit (also: nothing can be certified), the metric program, a missing package
2     wrong usage, or input that cannot be used (also: constraints that exclude each other)
3     a file that cannot be read or written
130   stopped by Ctrl-C (143: by a request to terminate)
====  =========================================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

from postshift._installing import install
from postshift.exceptions import (
    ArchiveError,
    BudgetError,
    DataNotFoundError,
    InfeasibleError,
    InputError,
    PostshiftError,
)

SUCCESS, FAILED, USAGE, FILE, STOPPED, TERMINATED = 0, 1, 2, 3, 130, 143
EXIT_CODES = (
    "Exit codes: 0 success; 1 a failure while running (the fit, the metric program, a missing package); 2 wrong "
    "usage or input; 3 a file that cannot be read or written; 130 stopped by Ctrl-C."
)
# The extra that installs each package a command may need.
EXTRAS = {
    "pandas": "cli",
    "pyarrow": "cli",
    "skops": "cli",
    "jinja2": "report",
    "matplotlib": "report",
    "typer": "cli",
    "rich": "cli",
    "dask": "dask",
    "distributed": "dask",
}
_LIBRARY = (((DataNotFoundError, ArchiveError), FILE), ((InputError, BudgetError, InfeasibleError), USAGE))
_SHOWN = 12  # names in a list
_SETTING = re.compile(r"\b(subject_to|margin|confidence|if_uncertified)=(?:\.\.\.|'?(\w+(?:\.\d+)?)'?)")


class CommandError(PostshiftError):
    """An error whose message is shown as it is: what is wrong, with the numbers, and what to do."""

    code: ClassVar[int] = FAILED


class WorkError(CommandError):
    """A failure while running."""


class UsageError(CommandError):
    """Wrong usage, or input that cannot be used."""

    code = USAGE


class FileError(CommandError):
    """A file that cannot be read or written."""

    code = FILE


class StoppedError(BaseException):
    """The user stopped the command; the message says how to resume. Like KeyboardInterrupt, it is not an Exception."""

    code = STOPPED


class TerminatedError(StoppedError):
    """The process received a request to terminate."""

    code = TERMINATED


def explained(error: BaseException) -> tuple[int, str]:
    """Return the exit code of an error, and its message on one line.

    Examples
    --------
    >>> explained(UsageError("no such column"))
    (2, 'no such column')
    >>> explained(ModuleNotFoundError("No module named 'skops'", name="skops"))
    (1, "this needs the package 'skops': pip install '.[cli]' in a clone of postshift")
    """
    error = _innermost(error)
    if isinstance(error, CommandError):
        return error.code, one_line(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        remedy = install(EXTRAS[package]) if package in EXTRAS else f"pip install {package}"
        return FAILED, f"this needs the package {package!r}: {remedy}"
    if isinstance(error, PostshiftError):
        code = next((code for kinds, code in _LIBRARY if isinstance(error, kinds)), FAILED)
        return code, with_options(one_line(error))
    if isinstance(error, OSError):
        why = error.strerror or one_line(error)
        return FILE, f"{error.filename}: {why}: choose another path" if error.filename else why
    if isinstance(error, MemoryError):
        return FAILED, "these rows do not fit into memory: give fewer rows"
    return FAILED, f"unexpected {type(error).__name__}: {one_line(error)} (--debug shows where)"


def _innermost(error: BaseException) -> BaseException:
    """Return our own error if the library has wrapped it, because its message is better."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, CommandError):
            return cause
        cause = cause.__cause__
    return error


def with_options(text: str) -> str:
    """Return a message of the library with options in place of the parameters of constraints.

    Examples
    --------
    >>> with_options("Give margin=1, confidence=... or if_uncertified='closest'")
    'Give --margin 1, --confidence or --if-uncertified closest'
    """
    return _SETTING.sub(lambda found: " ".join(filter(None, (f"--{found[1].replace('_', '-')}", found[2]))), text)


def one_line(text: object) -> str:
    """Return a message on one line.

    Examples
    --------
    >>> one_line("two" + chr(10) + "  lines")
    'two lines'
    """
    return re.sub(r"\s+", " ", str(text)).strip()


def printable(text: str) -> str:
    r"""Return a text in which characters that are not printable are escaped, including line breaks.

    Examples
    --------
    >>> print(printable("ant" + chr(27) + "[31m" + chr(10) + "ä"))
    ant\x1b[31m\nä
    """
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def first_line(error: object) -> str:
    """Return the first line of another package's message; the other lines are often advice to programmers.

    Examples
    --------
    >>> first_line(ValueError("Input X contains NaN." + chr(10) + "KMeans does not accept missing values"))
    'Input X contains NaN'
    """
    return one_line(str(error).strip().partition("\n")[0]).removesuffix(".")


def listed(names: Iterable[Any]) -> str:
    """Return a text with the names, at most twelve of them.

    Examples
    --------
    >>> listed(["a", "b"]), listed(range(20))[-7:]
    ("'a', 'b'", '11, ...')
    """
    every = list(names)
    return ", ".join(map(repr, every[:_SHOWN])) + (", ..." if len(every) > _SHOWN else "")

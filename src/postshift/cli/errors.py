"""Exit codes, the errors of the command line, and what becomes of everybody else's.

====  ==============================================================================
code  meaning
====  ==============================================================================
0     fine
1     a failure while working: the fit, the metric program, a package that is missing
2     wrong usage, or input that cannot be used
3     a file that cannot be read or written
130   stopped by Ctrl-C (143: by a request to terminate)
====  ==============================================================================
"""

from __future__ import annotations

import re
from typing import ClassVar

from postshift._installing import install
from postshift.exceptions import (
    ArchiveError,
    BudgetError,
    DataNotFoundError,
    InputError,
    PostshiftError,
)

FINE, FAILED, USAGE, FILE, STOPPED, TERMINATED = 0, 1, 2, 3, 130, 143
EXIT_CODES = (
    "Exit codes: 0 fine; 1 a failure while working (the fit, the metric program, a missing package); 2 wrong usage or "
    "input; 3 a file that cannot be read or written; 130 stopped by Ctrl-C."
)
# Extras by the packages that they bring and that a command may miss.
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
_LIBRARY = (((DataNotFoundError, ArchiveError), FILE), ((InputError, BudgetError), USAGE))


class CommandError(PostshiftError):
    """An error whose message is for the terminal: what is wrong, with the numbers, and the remedy."""

    code: ClassVar[int] = FAILED


class WorkError(CommandError):
    """A failure while working."""


class UsageError(CommandError):
    """Wrong usage, or input that cannot be used."""

    code = USAGE


class FileError(CommandError):
    """A file that cannot be read or written."""

    code = FILE


class StoppedError(BaseException):
    """The user stopped the command, and this says how to go on; like KeyboardInterrupt it is no Exception."""

    code = STOPPED


class TerminatedError(StoppedError):
    """The process was asked to terminate."""

    code = TERMINATED


def explained(error: BaseException) -> tuple[int, str]:
    """Return the exit code of an error, and its one line.

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
        return FAILED, _missing(error.name)
    if isinstance(error, PostshiftError):
        return next((code for kinds, code in _LIBRARY if isinstance(error, kinds)), FAILED), one_line(error)
    if isinstance(error, OSError):
        return FILE, _of_system(error)
    if isinstance(error, MemoryError):
        return FAILED, "there is not enough memory for these rows: give fewer of them"
    return FAILED, f"unexpected {type(error).__name__}: {one_line(error)} (--debug shows where)"


def one_line(text: object) -> str:
    """Return a message on one line.

    Examples
    --------
    >>> one_line("two" + chr(10) + "  lines")
    'two lines'
    """
    return re.sub(r"\s+", " ", str(text)).strip()


def printable(text: str) -> str:
    r"""Return a text with every character that is not printable as Python writes it: ends of lines and escapes too.

    Examples
    --------
    >>> print(printable("ant" + chr(27) + "[31m" + chr(10) + "ä"))
    ant\x1b[31m\nä
    """
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def first_line(error: object) -> str:
    """Return the first line of somebody else's message, without its full stop: the rest is often advice to programmers.

    Examples
    --------
    >>> first_line(ValueError("Input X contains NaN." + chr(10) + "KMeans does not accept missing values"))
    'Input X contains NaN'
    """
    return one_line(str(error).strip().partition("\n")[0]).removesuffix(".")


def _innermost(error: BaseException) -> BaseException:
    """Return our own error where the library has wrapped it: it has the better message."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, CommandError):
            return cause
        cause = cause.__cause__
    return error


def _missing(module: str) -> str:
    """Say how to install what a module belongs to."""
    package = module.partition(".")[0]
    extra = EXTRAS.get(package)
    remedy = install(extra) if extra else f"pip install {package}"
    return f"this needs the package {package!r}: {remedy}"


def _of_system(error: OSError) -> str:
    """Say which file the system refuses, and why."""
    why = error.strerror or one_line(error)
    return f"{error.filename}: {why}: choose another path" if error.filename else why

"""The command line: ``postshift``, one file a command in ``commands``."""

from __future__ import annotations

import io
import sys

from postshift._installing import install

__all__ = ["main"]

_STOPPED = 130


def main() -> None:
    """Run the command line with the arguments of the process, and end it with the exit code."""
    _write_every_letter()
    try:
        from postshift.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.stderr.write(f"error: the command line needs the package {error.name!r}: {install('cli')}\n")
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(_STOPPED) from None
    raise SystemExit(run(sys.argv[1:]))


def _write_every_letter() -> None:
    """Let letters that the terminal does not have be written as Python writes them, and not end the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

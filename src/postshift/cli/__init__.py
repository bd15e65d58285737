"""The command line: ``postshift``, one file a command in ``commands``."""

from __future__ import annotations

import sys

__all__ = ["main"]

_MISSING = "error: the command line needs the package {name!r}: pip install 'postshift[cli]'\n"
_STOPPED = 130


def main() -> None:
    """Run the command line with the arguments of the process, and end it with the exit code."""
    try:
        from postshift.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.stderr.write(_MISSING.format(name=error.name))
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(_STOPPED) from None
    raise SystemExit(run(sys.argv[1:]))

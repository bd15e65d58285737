"""The command line, ``postshift``.

============  ======================================================================================
``commands``  one file for each command
``files``     tables of rows in files: CSV, Parquet, Arrow, npz; their columns, labels and classes
``run``       the run folder: what is in it, the fitted rule, what a fit writes
============  ======================================================================================

``fitting`` is the work of ``postshift fit``; ``metric_option``, ``program`` and ``basis_option`` say what ``--metric``,
``--metric-command`` and ``--basis`` mean; ``cluster`` is ``--scheduler``. ``session_work`` is the work of ``postshift
run``, ``session_folder`` its folder.
"""

from __future__ import annotations

import gc
import io
import sys

from postshift._installing import install

__all__ = ["main"]

_STOPPED = 130
_OBJECTS = 20_000  # between two garbage collections: imports make many objects that stay


def main() -> None:
    """Run the command line with the arguments of the process, and exit with its exit code."""
    gc.set_threshold(_OBJECTS, 20, 100)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # escape letters that the terminal's encoding does not have
            stream.reconfigure(errors="backslashreplace")
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

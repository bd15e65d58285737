"""Options that several commands have, and what they share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from postshift.cli.console import Console
from postshift.cli.state import State


def _debug(context: typer.Context, value: bool) -> bool:  # noqa: FBT001 -- the form of typer's callbacks
    """Remember that tracebacks are wanted, before anything can fail."""
    if isinstance(context.obj, State):
        context.obj.debug = value
    return value


def _run(path: Path) -> Path:
    """Refuse a file in the place of the run, before advice is given that would make a folder of its name."""
    from postshift.cli.errors import UsageError
    from postshift.cli.tables import is_table_name

    if path.is_file() or (is_table_name(path) and not path.is_dir()):
        raise UsageError(
            f"RUN must be the folder that postshift fit made. Got the name of a file, {str(path)!r}: RUN comes first, "
            "and rows after it"
        )
    return path


Run = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="The folder that postshift fit made.", show_default=False, callback=_run),
]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Rows in a .csv, .tsv, .parquet, .feather, .arrow or .npz file, or in several Parquet files: a folder, or "
        "'rows/*.parquet' in quotes.",
        show_default=False,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Let the workers of a Dask cluster read the Parquet files: tcp://host:port, or local for a cluster of "
        "processes on this machine.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", is_eager=True, callback=_debug)]
PosLabel = Annotated[
    str | None,
    typer.Option(
        "--pos-label",
        help="The positive class, for a metric by name that has one (f1, precision, recall, jaccard, and gaps between "
        "groups). By default, of two classes, the one called 1, true, yes, y, positive or pos.",
    ),
]
TrustModel = Annotated[
    bool,
    typer.Option(
        "--trust-model",
        help="The model's file comes from a source you trust: a .joblib file runs code when it is read, a .skops file "
        "may hold types of other packages.",
    ),
]
TrustMetric = Annotated[
    bool,
    typer.Option(
        "--trust-metric", help="The run comes from a source you trust: its metric is a Python file, which is run."
    ),
]


def console_of(*, quiet: bool, as_json: bool) -> Console:
    """Return the console of a command."""
    return Console(quiet=quiet, as_json=as_json)

"""Options that several commands share."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

LOCAL = "local"  # --scheduler: a cluster of processes on this machine


def _debug(context: typer.Context, value: bool) -> bool:  # noqa: FBT001 -- the form of typer's callbacks
    """Store the option before anything can fail."""
    if isinstance(context.obj, dict):
        context.obj["debug"] = value
    return value


def _run(path: Path) -> Path:
    """Raise if RUN is a file: a message about a missing run folder would suggest creating a folder of that name."""
    from postshift.cli.errors import UsageError
    from postshift.cli.files.file_table import is_table_name

    if path.is_file() or (is_table_name(path) and not path.is_dir()):
        raise UsageError(
            f"RUN must be a folder that postshift fit made. Got the name of a file, {str(path)!r}: RUN comes first, "
            "then the rows"
        )
    return path


def _scheduler(scheduler: str | None) -> str | None:
    """Raise if --scheduler is not an address, or if Dask is not installed."""
    from postshift.cli.errors import UsageError

    if scheduler is None:
        return None
    if scheduler != LOCAL and ":" not in scheduler:
        raise UsageError(
            f"--scheduler must be an address such as tcp://host:8786, or {LOCAL} for a cluster of processes on this "
            f"machine. Got {scheduler!r} instead"
        )
    for name in ("dask", "distributed"):
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return scheduler


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
        metavar="ADDRESS",
        help="Read the Parquet files on the workers of a Dask cluster: tcp://host:port, or local for a cluster of "
        "processes on this machine.",
        callback=_scheduler,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show errors only.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", is_eager=True, callback=_debug)]
PosLabel = Annotated[
    str | None,
    typer.Option(
        help="The positive class, for a named metric that has one (f1, precision, recall, jaccard, and gaps between "
        "groups). Default for two classes: the one called 1, true, yes, y, positive or pos.",
    ),
]
TrustModel = Annotated[
    bool,
    typer.Option(
        "--trust-model",
        help="Trust the source of the model's file: reading a .joblib file runs code, and a .skops file may hold "
        "types of other packages.",
    ),
]
TrustMetric = Annotated[
    bool,
    typer.Option(
        "--trust-metric", help="Trust the source of the run: its metric is a Python file, and reading it runs code."
    ),
]

"""``postshift report``: the page of a run, made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from postshift.cli.options import Debug, Json, Quiet, Run, console_of


def command(
    run: Run,
    *,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where the page goes; by default RUN/report.html.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the report of a run: one HTML file that needs no network.

    Example: postshift report run -o report.html
    """
    from postshift.cli.errors import FileError
    from postshift.cli.run_files import FACTS, REPORT, as_written
    from postshift.cli.run_folder import open_run
    from postshift.report import Facts, write_report

    console = console_of(quiet=quiet, as_json=json)
    file = open_run(run).file(FACTS)
    with as_written(file):
        facts = Facts.from_json(file.read_text(encoding="utf-8"))
    path = output or run / REPORT
    if not path.parent.is_dir():
        raise FileError(f"there is no folder {path.parent}: make it, or write elsewhere")
    with as_written(file):
        write_report(facts, path)
    console.say(f"report: {path}")
    console.result({"report": str(path)})

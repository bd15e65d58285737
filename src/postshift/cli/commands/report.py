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
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file that --output names; the run's own page always is.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the report of a run: one HTML file that needs no network.

    Example: postshift report run -o report.html
    """
    from postshift.cli.run_files import FACTS, REPORT, as_written
    from postshift.cli.run_folder import open_run
    from postshift.cli.tables import check_place
    from postshift.report import Facts, write_report

    console = console_of(quiet=quiet, as_json=json)
    file = open_run(run).file(FACTS)
    with as_written(file):
        facts = Facts.from_json(file.read_text(encoding="utf-8"))
    path = output or run / REPORT
    check_place(path, force=force or output is None)
    with as_written(file):
        write_report(facts, path)
    console.say(f"report: {path}")
    console.result({"report": str(path)})

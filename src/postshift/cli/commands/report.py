"""``postshift report``: the page of a run, made anew, or a page about test rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from postshift.cli.options import Debug, Json, PosLabel, Quiet, Run, TrustMetric, TrustModel, console_of


def command(
    run: Run,
    *,
    test: Annotated[
        Path | None,
        typer.Option("--test", help="Rows with labels that were not used for the fit: the page is about them."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Where the page goes; by default RUN/report.html, with --test RUN/test_report.html.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file that --output names; the run's own pages always are.")
    ] = False,
    label: Annotated[
        str | None, typer.Option("--label", help="With --test: the column of the labels; by default as in the fit.")
    ] = None,
    groups: Annotated[
        str | None, typer.Option("--groups", help="With --test: the column of the groups; by default as in the fit.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="With --test: another metric; by default that of the fit.")
    ] = None,
    pos_label: PosLabel = None,
    trust_model: TrustModel = False,
    trust_metric: TrustMetric = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the report of a run, or with --test a report about test rows: one HTML file that needs no network.

    Example: postshift report run --test test.csv
    """
    from postshift.cli.errors import UsageError
    from postshift.cli.predicting import LoadedRun
    from postshift.cli.reporting import facts_of_test_rows, stored_facts
    from postshift.cli.run_files import FACTS, REPORT, TEST_REPORT, as_written
    from postshift.cli.run_folder import open_run
    from postshift.cli.tables import check_place
    from postshift.report import write_report

    console = console_of(quiet=quiet, as_json=json)
    file = open_run(run).file(FACTS)
    columns = {"label": label, "groups": groups}
    if test is None:
        if any((label, groups, metric, pos_label)):
            raise UsageError("--label, --groups, --metric and --pos-label are for test rows: add --test FILE")
        facts = stored_facts(file)
    else:
        with console.warnings_shown():
            loaded = LoadedRun.open(run, trust_model=trust_model)
            how: dict[str, Any] = {"metric": metric, "pos_label": pos_label, "trust_metric": trust_metric}
            facts = facts_of_test_rows(loaded, test, columns=columns, **how)
    path = output or run / (REPORT if test is None else TEST_REPORT)
    check_place(path, force=force or output is None)
    with as_written(file):
        write_report(facts, path)
    console.say(f"report: {path}")
    console.result({"report": str(path)})

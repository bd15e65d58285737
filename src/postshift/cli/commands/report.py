"""``postshift report``: write the report of a run again, or a report about test rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from postshift.cli.console import Console
from postshift.cli.options import Debug, Json, PosLabel, Quiet, Run, TrustMetric, TrustModel


def command(
    run: Run,
    *,
    test: Annotated[
        Path | None,
        typer.Option(help="Rows with labels that were not used for the fit. The report is then about them."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="The file of the report. Default: RUN/report.html, with --test RUN/test_report.html."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file of --output. Reports in the run are always replaced.")
    ] = False,
    label: Annotated[
        str | None, typer.Option(help="With --test: the column of the labels. Default: as in the fit.")
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="With --test: the column of the groups. Default: as in the fit.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="With --test: another metric. Default: the metric of the fit.")
    ] = None,
    pos_label: PosLabel = None,
    trust_model: TrustModel = False,
    trust_metric: TrustMetric = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the report of a run, or with --test a report about test rows: one self-contained HTML file.

    Example: postshift report run --test test.csv
    """
    from postshift.cli.errors import UsageError
    from postshift.cli.files.file_table import check_place
    from postshift.cli.run.folder import FACTS, REPORT, TEST_REPORT, as_written, open_run
    from postshift.cli.run.rule_file import LoadedRun
    from postshift.report import Facts, write_report

    console = Console(quiet=quiet, as_json=json)
    file = open_run(run).file(FACTS)
    how: dict[str, Any] = {"label": label, "groups": groups, "metric": metric, "pos_label": pos_label}
    if test is None and any(how.values()):
        raise UsageError("--label, --groups, --metric and --pos-label are for test rows: add --test FILE")
    with as_written(file):
        facts = Facts.from_json(file.read_text(encoding="utf-8"))
    if test is not None:
        with console.warnings_shown():
            loaded = LoadedRun.open(run, trust_model=trust_model)
            facts = _facts_of_test_rows(loaded, test, facts, trust_metric=trust_metric, **how)
    path = output or run / (REPORT if test is None else TEST_REPORT)
    check_place(path, force=force or output is None)
    with as_written(file):
        write_report(facts, path)
    console.say(f"report: {path}")
    console.result({"report": str(path)})


def _facts_of_test_rows(loaded: Any, data: Path, stored: Any, **how: Any) -> Any:
    """Return the facts about rows that were not used for the fit.

    ``stored`` are the facts of the fit, ``how`` the arguments of :func:`~postshift.cli.commands.evaluate.scoring`.
    """
    from postshift.cli.basis_option import named_functions
    from postshift.cli.commands.evaluate import scoring
    from postshift.cli.errors import UsageError
    from postshift.cli.files.file_table import read_rows
    from postshift.metrics.resolve import GROUPS
    from postshift.report import Facts

    chosen, reader = scoring(loaded, **how)
    rows = reader.rows(read_rows(data))
    chosen.check(reader.layout, rows.groups, asked=False)
    shifter = loaded.shifter
    shifter.metric, shifter.pos_label = chosen.metric, None
    with loaded.rule_as_written():
        found = Facts.of(
            shifter,
            rows.eta,
            rows.labels,
            phi=named_functions(loaded.bases, loaded.phi(rows)) or None,
            metric_name=chosen.name,
            sample_weight=rows.weights,
            groups=rows.groups,
            used=[*stored.used, ("test rows", str(rows.table))],
            how_to_use=stored.how_to_use,
            **{name: values for name, values in chosen.metadata(rows).items() if name != GROUPS},
        )
    if found.test is None:
        raise UsageError(f"{data} has the validation rows of the fit: give rows that were not used for it")
    shares = replace(
        found.shares, training=stored.shares.training, by_model_in_training=stored.shares.by_model_in_training
    )
    return replace(found, shares=shares, fit_metric=None if how["metric"] is None else stored.metric)

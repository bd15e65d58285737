"""``postshift fit``: from a file of probabilities to a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from postshift.cli.console import Console
from postshift.cli.options import Debug, Json, PosLabel, Quiet, Scheduler, TrustModel, console_of

_ROWS, _METRIC, _RULE, _RUN = "Rows", "Metric", "Rule", "Run"


def command(
    *,
    val: Annotated[
        Path,
        typer.Option(
            "--val",
            help="Validation rows: .csv, .tsv, .parquet, .feather, .arrow or .npz (arrays eta and labels, if there are "
            "X, classes, groups, weights). Rows are counted from 0.",
            rich_help_panel=_ROWS,
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="The folder of the run.", rich_help_panel=_RUN, show_default=False)
    ],
    train: Annotated[
        Path | None,
        typer.Option(
            "--train",
            help="Training rows, if there are; their labels may be wrong. A file, a folder of Parquet files, or a "
            "pattern in quotes: 'rows/*.parquet'.",
            rich_help_panel=_ROWS,
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", help="The column of the labels.", rich_help_panel=_ROWS),
    ] = None,
    proba: Annotated[
        str | None,
        typer.Option(
            "--proba",
            help="The columns of probabilities; the star stands for the class. By default 'p_*'. Of two classes one "
            "column is enough: --proba score --positive yes.",
            rich_help_panel=_ROWS,
        ),
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(
            "--positive", help="The class whose probability a single column of --proba has.", rich_help_panel=_ROWS
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            help="A fitted model (.skops or .joblib) to take probabilities from; give training "
            "rows that it was not fitted to.",
            rich_help_panel=_ROWS,
        ),
    ] = None,
    trust_model: TrustModel = False,
    normalise: Annotated[
        bool,
        typer.Option("--normalise", help="Divide each row of probabilities by its sum.", rich_help_panel=_ROWS),
    ] = False,
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            help="Columns for bases and model, as in 'age,income,x*'. By default all that are nothing else.",
            rich_help_panel=_ROWS,
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option("--groups", help="The column of the groups, for a metric over groups.", rich_help_panel=_ROWS),
    ] = None,
    weight: Annotated[
        str | None, typer.Option("--weight", help="The column of the sample weights.", rich_help_panel=_ROWS)
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            help="What to maximise: a name (see postshift metrics), 'f1[yes]' for one class against the rest, "
            "my_metrics.py:profit or cost:costs.csv.",
            rich_help_panel=_METRIC,
        ),
    ] = None,
    pos_label: PosLabel = None,
    metric_command: Annotated[
        str | None,
        typer.Option(
            "--metric-command",
            help="A program that reads predictions (CSV with the columns row,label) and prints a number on its last "
            "line: './score.sh {predictions}'. It is run without a shell.",
            rich_help_panel=_METRIC,
        ),
    ] = None,
    metric_timeout: Annotated[
        float,
        typer.Option(
            "--metric-timeout", min=0.001, help="Seconds until the program is killed.", rich_help_panel=_METRIC
        ),
    ] = 60.0,
    metric_scale: Annotated[
        float,
        typer.Option(
            "--metric-scale",
            min=1e-12,
            help="The width of the range of the program's numbers, by which noise is judged.",
            rich_help_panel=_METRIC,
        ),
    ] = 1.0,
    less_is_better: Annotated[
        bool, typer.Option("--less-is-better", help="Minimise the program's number.", rich_help_panel=_METRIC)
    ] = False,
    budget: Annotated[
        int | None,
        typer.Option("--budget", min=1, help="The most queries to a metric that is asked.", rich_help_panel=_METRIC),
    ] = None,
    basis: Annotated[
        str,
        typer.Option(
            "--basis",
            help="Where weights may differ, as in 'col:region,kmeans:5,tree:4' (see postshift bases).",
            rich_help_panel=_RULE,
        ),
    ] = "auto",
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="auto (an average of the rules by their scores), best, or one rule: paper, influence, plug-in search, "
            "smoothed plug-in, stack, ...",
            rich_help_panel=_RULE,
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of folds and draws.", rich_help_panel=_RULE)] = 0,
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="Processes; -1 for one a core.", rich_help_panel=_RULE)
    ] = None,
    scheduler: Scheduler = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace the run that is there, once the new one is made.", rich_help_panel=_RUN),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped.", rich_help_panel=_RUN)
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Fit a rule to validation rows and write a run: the rule, scores, labels and a report.

    Example: postshift fit --val val.csv --label y --proba 'p_*' --metric f1_macro --out run
    """
    from postshift.cli.fitting import fit_run
    from postshift.cli.request import FitRequest
    from postshift.cli.run_files import METRICS, as_written

    console = console_of(quiet=quiet, as_json=json)
    request = FitRequest(
        val=val,
        out=out,
        train=train,
        label=label,
        proba=proba,
        positive=positive,
        model=model,
        trust_model=trust_model,
        metric=metric,
        pos_label=pos_label,
        metric_command=metric_command,
        metric_timeout=metric_timeout,
        metric_scale=metric_scale,
        less_is_better=less_is_better,
        basis=basis,
        features=features,
        method=method,
        budget=budget,
        groups=groups,
        weight=weight,
        normalise=normalise,
        seed=seed,
        jobs=jobs,
        scheduler=scheduler,
        force=force,
        resume=resume,
    )
    with console.warnings_shown():
        found = fit_run(request, console)
    with as_written(out / METRICS):  # of a finished run that is resumed, they are what the file says
        show(found, console)
    console.result(found)


def show(found: Mapping[str, Any], console: Console) -> None:
    """Say in a few lines what came of a fit."""
    from postshift.cli.own_numbers import in_own_numbers, name_of_gain, reason_in_own_numbers

    found = in_own_numbers(found)
    on = found["scored_on"]
    where = "rows, which the fit has used" if on["used_for_the_fit"] else "rows not used for the fit"
    if on["rows"] < found["validation_rows"]:
        where += f" (a draw of the {found['validation_rows']:,} validation rows)"
    limits = (found["intervals"] or {}).get("gain")
    within = "" if limits is None else f" ({limits[0]:+.4f} to {limits[1]:+.4f})"
    console.say(
        f"{found['metric']}: {found['before']:.4f} -> {found['after']:.4f}, {name_of_gain(found)} "
        f"{found['gain']:+.4f}{within} on {on['rows']:,} {where}"
    )
    if found.get("positive_class") is not None:
        console.say(f"positive class: {found['positive_class']}")
    console.say(reason_in_own_numbers(found))
    if found["queries"]:
        console.say(f"{found['queries']} queries were asked")
    console.say(f"report: {found['report']}")

"""``postshift evaluate``: the metric before and after on rows with labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer

from postshift.cli.console import Console
from postshift.cli.options import (
    Data,
    Debug,
    Json,
    PosLabel,
    Quiet,
    Run,
    Scheduler,
    TrustMetric,
    TrustModel,
    console_of,
)

_FEW = 12  # classes; larger matrices are in the report and in --json


def command(
    run: Run,
    data: Data,
    *,
    label: Annotated[
        str | None, typer.Option("--label", help="The column of the labels; by default as in the fit.")
    ] = None,
    groups: Annotated[
        str | None, typer.Option("--groups", help="The column of the groups; by default as in the fit.")
    ] = None,
    metric: Annotated[str | None, typer.Option("--metric", help="Another metric; by default that of the fit.")] = None,
    pos_label: PosLabel = None,
    trust_model: TrustModel = False,
    trust_metric: TrustMetric = False,
    scheduler: Scheduler = None,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Score the rows of DATA before and after, with 95 % intervals.

    A metric of a Python file is read from the copy in the run, where that is trusted, or named again by --metric.

    Example: postshift evaluate run test.csv
    """
    from postshift.cli.predicting import LoadedRun
    from postshift.cli.run_files import METRICS

    console = console_of(quiet=quiet, as_json=json)
    with console.warnings_shown():
        loaded = LoadedRun.open(run, trust_model=trust_model)
        layout = replace(loaded.layout, label=label or loaded.layout.label, groups=groups or loaded.layout.groups)
        how: dict[str, Any] = {"pos_label": pos_label, "trust_metric": trust_metric, "scheduler": scheduler}
        found = evaluated(loaded, data, layout, metric, **how)
    if found["used_for_the_fit"]:
        console.note(
            f"warning: these are the {found['used_for_the_fit']} rows of the fit, and their scores are too high for "
            f"new ones: evaluate other rows; {METRICS} in the run has scores of rows that were held out"
        )
    show(found, console)
    console.result(found)


def evaluated(
    loaded: Any,
    data: Any,
    layout: Any,
    metric: str | None,
    *,
    pos_label: str | None = None,
    trust_metric: bool = False,
    scheduler: str | None = None,
) -> dict[str, Any]:
    """Return the scores of the rows of a file."""
    from postshift.cli.parquet_files import read_rows
    from postshift.cli.scoring import evaluation
    from postshift.metrics.metadata import metadata_names
    from postshift.report.gather import metric_facts

    chosen = scoring_metric(loaded, layout, metric, pos_label=pos_label, trust_metric=trust_metric)
    reading = labelled_reading(loaded, layout, chosen)
    if scheduler is None:
        part = reading.part(read_rows(data))
        labels = loaded.rule.labels(part.eta, part.table)
    else:
        from postshift.cli.cluster import labelled_rows

        read = metadata_names(chosen.metric)
        part, labels = labelled_rows(loaded.rule, reading, data, columns=read, scheduler=scheduler)
    found = evaluation(loaded.rule, part, labels, layout, metric=chosen)
    told = metric_facts(loaded.rule.shifter, chosen.name, metric=chosen.metric, groups=part.groups)
    return {
        **found,
        "positive_class": chosen.positive_class(layout, part.groups),
        "used_for_the_fit": _side_of_fit(loaded, part.table.digest),
        "less_is_better": told.is_cost,
    }


def scoring_metric(loaded: Any, layout: Any, metric: str | None, *, pos_label: str | None, trust_metric: bool) -> Any:
    """Return what rows with labels are scored by: the metric that is named, or that of the fit."""
    from postshift.cli.errors import UsageError
    from postshift.cli.metric_option import read_metric, with_pos_label

    if metric is None:
        chosen = loaded.run.metric(layout, pos_label=pos_label, trust=trust_metric)
    else:
        chosen = read_metric(with_pos_label(metric, pos_label, layout), layout)
    if layout.label is None:
        raise UsageError("name the column with the labels with --label")
    return chosen


def labelled_reading(loaded: Any, layout: Any, chosen: Any) -> Any:
    """Return how rows with labels are read: with weights, and with groups where the metric needs them."""
    needed = ("label", "weight", *(("groups",) if "groups" in chosen.needed_metadata() else ()))
    return loaded.reading(layout, needed=needed, optional=("groups",))


def _side_of_fit(loaded: Any, digest: str) -> str | None:
    """Return which rows of the fit a file has, by its digest, if it has some."""
    digests = loaded.run.header.digests
    sides = {"val": "validation", "train": "training"}
    return next((name for side, name in sides.items() if digests.get(side) == digest), None)


def show(found: Mapping[str, Any], console: Console) -> None:
    """Say in a table what was found."""
    from postshift.cli.own_numbers import in_own_numbers, name_of_gain

    found, rows = in_own_numbers(found), []
    names = (("before", "the model as it is"), ("after", "after the shift"), ("gain", name_of_gain(found)))
    for name, text in names:
        low, high = found["intervals"][name]
        rows.append((text, f"{found[name]:.4f}", f"{low:.4f} to {high:.4f}"))
    console.table((f"{found['metric']}, {found['rows']:,} rows", "score", "95 % interval"), rows, numbers=2)
    if found["positive_class"] is not None:
        console.say(f"positive class: {found['positive_class']}")
    console.say(f"{found['changed']:,} labels changed")
    if len(found["classes"]) > _FEW:
        return
    for name in ("before", "after"):
        table = zip(found["classes"], found["confusion"][name], strict=True)
        console.say()
        console.table(
            (f"{name}: true \\ predicted", *map(str, found["classes"])),
            [(str(true), *(f"{count:,.10g}" for count in counts)) for true, counts in table],
            numbers=len(found["classes"]),
        )

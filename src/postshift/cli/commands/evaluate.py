"""``postshift evaluate``: the metric before and after on rows with labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from postshift.cli.commands.fit import show_constraints
from postshift.cli.console import Console, user_scores
from postshift.cli.options import Data, Debug, Json, PosLabel, Quiet, Run, Scheduler, TrustMetric, TrustModel

_FEW = 12  # classes; larger matrices are in the report and in --json


def command(
    run: Run,
    data: Data,
    *,
    label: Annotated[str | None, typer.Option(help="The column of the labels. Default: as in the fit.")] = None,
    groups: Annotated[str | None, typer.Option(help="The column of the groups. Default: as in the fit.")] = None,
    metric: Annotated[str | None, typer.Option(help="Another metric. Default: the metric of the fit.")] = None,
    pos_label: PosLabel = None,
    trust_model: TrustModel = False,
    trust_metric: TrustMetric = False,
    scheduler: Scheduler = None,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Score the labels of DATA before and after postshift, with 95 % intervals.

    A metric in a Python file is read from its copy in the run with --trust-metric, or from the file that --metric
    names.

    Example: postshift evaluate run test.csv
    """
    from postshift.cli.run.folder import METRICS
    from postshift.cli.run.rule_file import LoadedRun

    console = Console(quiet=quiet, as_json=json)
    with console.warnings_shown():
        loaded = LoadedRun.open(run, trust_model=trust_model)
        how: dict[str, Any] = {"metric": metric, "pos_label": pos_label, "trust_metric": trust_metric}
        with console.reading(data.name) as step:
            found = evaluated(loaded, data, label=label, groups=groups, scheduler=scheduler, step=step, **how)
    if found["used_for_the_fit"]:
        console.note(
            f"warning: these are the {found['used_for_the_fit']} rows of the fit, and their scores are too high for "
            f"new rows: evaluate other rows; {METRICS} in the run has scores of held-out rows"
        )
    show(found, console)
    console.result(found)


def evaluated(
    loaded: Any,
    data: Path,
    *,
    label: str | None = None,
    groups: str | None = None,
    scheduler: str | None = None,
    step: Any = None,
    **how: Any,
) -> dict[str, Any]:
    """Return scores and confusion matrices of the rows of a file.

    ``step`` gets the number of rows that were read and of all rows; ``how`` are arguments of :func:`scoring`.
    """
    from postshift.core.rows import Rows
    from postshift.estimators.subject_to import new_records
    from postshift.estimators.task import compare_labels
    from postshift.metrics.resolve import metadata_names
    from postshift.report.counts import confusion
    from postshift.report.gather import metric_facts

    chosen, reader = scoring(loaded, label=label, groups=groups, **how)
    columns = metadata_names(chosen.metric)
    if scheduler is None:
        rows = _labelled_rows(loaded, reader, data, columns=columns, step=step)
    else:
        from postshift.cli.cluster import labelled_rows

        rows = labelled_rows(loaded, reader, data, columns=columns, scheduler=scheduler)
    shifter, n_classes = loaded.shifter, len(reader.layout.class_values)
    chosen.check(reader.layout, rows.groups, asked=False)
    truth, before, after = rows.truth, rows.before, rows.after
    val = Rows.of_labels(truth, n_classes=n_classes, weights=rows.weights)
    records = new_records(shifter, after, val=val, groups=rows.groups)
    found = compare_labels(
        chosen.metric,
        labels=after,
        base=before,
        val=val,
        classes=shifter.classes_,
        groups=shifter.groups_,
        metadata=chosen.metadata(rows),
        fallback=shifter.fallback_,
    )
    limits, about = found.intervals, metric_facts(shifter, None, metric=chosen.metric, groups=rows.groups)
    return {
        "metric": chosen.name,
        "rows": len(rows),
        "before": found.base_score,
        "after": found.score,
        "gain": found.gain,
        "intervals": {"before": limits.base, "after": limits.score, "gain": limits.gain},
        "constraints": [asdict(each) for each in records],
        "changed": int((before != after).sum()),
        "classes": list(reader.layout.class_values),
        "confusion": {
            name: confusion(truth, each, n_classes=n_classes, weights=rows.weights).tolist()
            for name, each in (("before", before), ("after", after))
        },
        "positive_class": about.positive,
        "used_for_the_fit": _side_of_fit(loaded, rows.table.digest),
        "less_is_better": about.is_cost,
    }


def _labelled_rows(loaded: Any, reader: Any, data: Path, *, columns: Any, step: Any) -> Any:
    """Read and label the rows of a file, block by block; only labels, weights, groups and ``columns`` are kept."""
    from postshift.cli.files.table_blocks import TableBlocks
    from postshift.cli.run.labelled_rows import LabelledRows

    table, found, n_read = TableBlocks(data), [], 0
    for block in table.blocks():
        found.append(LabelledRows.of(loaded, reader, columns, block))
        n_read += len(found[-1])
        if step is not None:
            step(n_read, table.n_rows)
    return LabelledRows.together(found, data, digest=table.digest())


def scoring(
    loaded: Any,
    *,
    label: str | None = None,
    groups: str | None = None,
    metric: str | None = None,
    pos_label: str | None = None,
    trust_metric: bool = False,
) -> tuple[Any, Any]:
    """Return the metric that scores rows with labels, and the reader of these rows.

    Options that are None are as in the fit. The reader reads weights, and groups if the metric or the constraints need
    them.
    """
    from postshift.cli.errors import UsageError
    from postshift.cli.metric_option import read_metric
    from postshift.estimators.subject_to import are_over_groups, constraints_of

    layout = loaded.run.layout
    layout = replace(layout, label=label or layout.label, groups=groups or layout.groups)
    if metric is None:
        chosen = loaded.run.metric(layout, pos_label=pos_label, trust=trust_metric)
    else:
        chosen = read_metric(metric, layout, pos_label=pos_label)
    if layout.label is None:
        raise UsageError("use --label to name the column with the labels")
    if chosen.keeps_labels:
        raise UsageError(
            f"metric {chosen.name!r} can score the validation rows only: score other rows with --metric NAME"
        )
    reads_groups = "groups" in chosen.needed_metadata() or are_over_groups(constraints_of(loaded.shifter))
    needed = ("label", "sample_weight", *(("groups",) if reads_groups else ()))
    return chosen, loaded.reader(layout, needed=needed, optional=("groups",))


def _side_of_fit(loaded: Any, digest: str) -> str | None:
    """Return which rows of the fit a file holds, if any; files are compared by their digests."""
    sides = {"val": "validation", "train": "training"}
    return next((name for side, name in sides.items() if loaded.run.digests.get(side) == digest), None)


def show(found: Mapping[str, Any], console: Console) -> None:
    """Write the scores as a table."""
    found, rows = user_scores(found), []
    names = {"before": "the model as it is", "after": "after the shift", "gain": "gain"}
    if found["less_is_better"]:
        names["gain"] = "change"
    if found["constraints"]:
        names = {"before": "the model without constraints", "after": "with the constraints", "gain": "difference"}
    for name, text in names.items():
        low, high = found["intervals"][name]
        rows.append((text, f"{found[name]:.4f}", f"{low:.4f} to {high:.4f}"))
    console.table((f"{found['metric']}, {found['rows']:,} rows", "score", "95 % interval"), rows, numbers=2)
    if found["positive_class"] is not None:
        console.say(f"positive class: {found['positive_class']}")
    if found["constraints"]:
        console.say()
        show_constraints(found["constraints"], console)
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

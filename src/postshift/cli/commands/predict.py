"""``postshift predict``: labels of new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from postshift.cli.options import Data, Debug, Json, Quiet, Run, Scheduler, TrustModel, console_of


def command(
    run: Run,
    data: Data,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="Where the labels go; the suffix is the format. With --scheduler, a folder of Parquet files.",
            show_default=False,
        ),
    ],
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Write all columns of DATA in place of the row; where one is called label, ours is predicted_label.",
        ),
    ] = False,
    proba_out: Annotated[
        bool, typer.Option("--proba-out", help="Write the shifted distribution too, in columns shifted_CLASS.")
    ] = False,
    trust_model: TrustModel = False,
    scheduler: Scheduler = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the labels that are there, once the new ones are made.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Label the rows of DATA by a run, and write row (from 0) and label.

    Example: postshift predict run new.parquet -o labels.parquet
    """
    from postshift.cli.predicting import labelling_of

    console = console_of(quiet=quiet, as_json=json)
    _check(output, data, scheduler=scheduler, force=force)
    with console.warnings_shown():
        labelling = labelling_of(run, trust_model=trust_model, keep=keep, distribution=proba_out)
        n_rows, changed = _written(labelling, data, output, scheduler=scheduler)
    console.say(f"{n_rows:,} rows were labelled, {changed:,} otherwise than by the model: {output}")
    console.result({"rows": n_rows, "changed": changed, "output": str(output)})


def _check(output: Path, data: Path, *, scheduler: str | None, force: bool) -> None:
    """Refuse an output that could not be written later on, or that is there and must not be replaced."""
    from postshift.cli.errors import UsageError
    from postshift.cli.parts_folder import check_folder
    from postshift.cli.tables import check_output

    if output.exists() and data.exists() and output.samefile(data):
        raise UsageError(f"{output} has the rows themselves, which the labels would replace: name another with -o")
    if scheduler is not None:
        check_folder(output, force=force)
        return
    check_output(output, force=force)


def _written(labelling: Any, data: Path, output: Path, *, scheduler: str | None) -> tuple[int, int]:
    """Write the labels, and return the number of rows, and of labels that changed."""
    if scheduler is not None:
        from postshift.cli.cluster import write_labels

        return write_labels(labelling, data, output, scheduler=scheduler)
    from postshift.cli.predicting import predicted
    from postshift.cli.tables import write_table

    frame, changed = predicted(labelling, data)
    write_table(frame, output)
    return len(frame), changed

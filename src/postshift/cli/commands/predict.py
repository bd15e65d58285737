"""``postshift predict``: labels of new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from postshift.cli.options import Data, Debug, Json, Quiet, Run, TrustModel, console_of


def command(
    run: Run,
    data: Data,
    *,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="Where the labels go; the suffix is the format.", show_default=False),
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
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Label the rows of DATA by a run, and write row (from 0) and label.

    Example: postshift predict run new.parquet -o labels.parquet
    """
    from postshift.cli.predicting import predicted
    from postshift.cli.tables import check_output, write_table

    console = console_of(quiet=quiet, as_json=json)
    check_output(output)
    with console.warnings_shown():
        frame, changed = predicted(run, data, trust_model=trust_model, keep=keep, distribution=proba_out)
    write_table(frame, output)
    console.say(f"{len(frame):,} rows were labelled, {changed:,} otherwise than by the model: {output}")
    console.result({"rows": len(frame), "changed": changed, "output": str(output)})

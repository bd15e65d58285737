"""``postshift predict``: labels of new rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from postshift.cli.console import Console
from postshift.cli.options import Data, Debug, Json, Quiet, Run, Scheduler, TrustModel


def command(
    run: Run,
    data: Data,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="The file for the labels; its suffix gives the format. With --scheduler, a folder of Parquet files.",
            show_default=False,
        ),
    ],
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Write all columns of DATA instead of the row number; if DATA has a column label, the new column is "
            "predicted_label.",
        ),
    ] = False,
    proba_out: Annotated[
        bool, typer.Option("--proba-out", help="Write the shifted distribution too, in columns shifted_CLASS.")
    ] = False,
    trust_model: TrustModel = False,
    scheduler: Scheduler = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace existing labels when the new ones are ready.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Label the rows of DATA with the rule of a run, and write row numbers (from 0) and labels.

    Example: postshift predict run new.parquet -o labels.parquet
    """
    from postshift.cli.errors import UsageError
    from postshift.cli.files.folders import check_label_folder
    from postshift.cli.files.table_writer import check_output
    from postshift.cli.run.rule_file import LoadedRun

    console = Console(quiet=quiet, as_json=json)
    if output.exists() and data.exists() and output.samefile(data):
        raise UsageError(
            f"{output} is the file with the rows, and the labels would replace them: name another file with -o"
        )
    (check_output if scheduler is None else check_label_folder)(output, force=force)
    with console.warnings_shown():
        loaded = LoadedRun.open(run, trust_model=trust_model)
        columns = partial(new_columns, loaded, keep=keep, distribution=proba_out)
        if scheduler is None:
            with console.reading(data.name) as step:
                n_rows, changed = _write_labels(loaded.reader(), columns, data, output, keep=keep, step=step)
        else:
            from postshift.cli.cluster import write_labels

            n_rows, changed = write_labels(loaded.reader(), columns, data, output, keep=keep, scheduler=scheduler)
    console.say(f"{n_rows:,} rows were labelled, {changed:,} labels differ from the model's: {output}")
    console.result({"rows": n_rows, "changed": changed, "output": str(output)})


def _write_labels(reader: Any, columns: Any, data: Path, output: Path, *, keep: bool, step: Any) -> tuple[int, int]:
    """Write the labels to a file, block by block; return the number of rows and of changed labels."""
    import numpy as np

    from postshift.cli.files.table_blocks import TableBlocks
    from postshift.cli.files.table_writer import NewRows, write_blocks

    table, n_read, n_changed = TableBlocks(data), 0, 0

    def labelled() -> Iterator[NewRows]:
        nonlocal n_read, n_changed
        for block in table.blocks():
            rows = reader.rows(block)
            new, changed = columns(rows)
            if not keep:
                new = {"row": np.arange(n_read, n_read + len(rows)), **new}
            yield NewRows(given=block if keep else None, new=new)
            n_read, n_changed = n_read + len(rows), n_changed + changed
            if step is not None:
                step(n_read, table.n_rows)

    write_blocks(labelled(), output)
    return n_read, n_changed


def new_columns(loaded: Any, rows: Any, *, keep: bool, distribution: bool) -> tuple[dict[str, Any], int]:
    """Return the new columns of rows, in this process or on a worker, and how many labels differ from the model's."""
    import numpy as np

    from postshift.cli.errors import UsageError

    labels = loaded.labels(rows)
    taken: Iterable[str] = rows.table.frame.columns if keep else ("row",)
    columns: dict[str, Any] = {"predicted_label" if "label" in taken else "label": labels}
    if distribution:
        found = loaded.distribution(rows)
        columns |= {f"shifted_{name}": found[:, place] for place, name in enumerate(loaded.run.layout.class_names)}
    if twice := [name for name in columns if name in taken]:
        raise UsageError(
            f"{rows.table.path} has a column {twice[0]!r}, and the result has a column of the same name: rename it, or "
            "leave --keep out"
        )
    return columns, int((labels != loaded.shifter.classes_[np.argmax(rows.eta, axis=1)]).sum())

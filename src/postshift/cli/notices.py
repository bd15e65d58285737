"""What a fit says before its work: columns that are no features, and draws of rows where there are many."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from postshift.cli.console import Console
from postshift.cli.inputs import Part
from postshift.cli.run_files import VALIDATION

if TYPE_CHECKING:  # dear to import
    from postshift.cli.basis_option import Bases


def left_out(bases: Bases, val: Part, model: Any) -> tuple[str, ...]:
    """Return the columns that number the rows, where a basis or the model would have read them as features."""
    if bases.features is not None:
        return bases.features.left_out
    return val.left_out if model is not None and not hasattr(model, "feature_names_in_") else ()


def say_features(console: Console, bases: Bases, val: Part, model: Any) -> None:
    """Say which columns are no features since they number the rows, and which may be none."""
    if names := left_out(bases, val, model):
        console.note(f"warning: {_left_out_text(names)}")
    for name in () if bases.features is None else bases.features.doubtful:
        console.note(f"warning: {_doubtful_text(name, [each for each in val.features if each != name])}")


def say_draws(console: Console, val: Part, train: Part | None, *, labelled: bool, out: Path) -> None:
    """Say of how many rows there is a draw only: to compare rules where they are ``labelled``, and in their copy."""
    from postshift.cli.outputs import most_rows
    from postshift.rules.scoring import MAX_TRAIN, MAX_VAL

    n_val, n_copied = len(val), most_rows(val.eta.shape[1])
    sizes = [(MAX_VAL, n_val, "validation"), (MAX_TRAIN, 0 if train is None else len(train), "training")]
    for most, n_rows, what in sizes if labelled else ():
        if n_rows > most:
            console.note(f"note: the rules are compared on a draw of {most:,} of the {n_rows:,} {what} rows")
    if n_val > n_copied:
        command = f"postshift predict {shlex.quote(str(out))} {shlex.quote(str(val.table.path))} -o FILE"
        console.note(
            f"note: {VALIDATION} will have a draw of {n_copied:,} of the {n_val:,} validation rows; {command} labels "
            "all of them"
        )


def _left_out_text(names: Sequence[str]) -> str:
    """Say which columns are left out, and how they are taken all the same."""
    listed = ", ".join(map(repr, names))
    columns = f"column {listed}" if len(names) == 1 else f"each of the columns {listed}"
    return (
        f"{columns} numbers the rows, as an index that was written with them, and is left out of the features: write "
        "the file without it, or choose the features with --features"
    )


def _doubtful_text(name: str, others: Iterable[str]) -> str:
    """Say that a column may number the rows, and how it is left out."""
    rest = ",".join(others)
    how = f"leave it out with --features '{rest}'" if rest else "drop it"
    return (
        f"column {name!r} has a different whole number in each row and is read as a feature: if it only names them, "
        f"{how}"
    )

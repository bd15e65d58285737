"""Runs put to use: their rule, and the rows of new files read as those of the fit were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from postshift.cli.errors import UsageError
from postshift.cli.inputs import Layout, Part, Reading
from postshift.cli.model_file import read_model
from postshift.cli.parquet_files import read_rows
from postshift.cli.remedies import OF_RUN
from postshift.cli.rule_file import RuleFile
from postshift.cli.run_files import RULE
from postshift.cli.run_folder import Run, open_run


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedRun:
    """A run with its rule, ready to label rows."""

    run: Run
    rule: RuleFile
    layout: Layout
    model: Any

    @classmethod
    def open(cls, path: Path, *, trust_model: bool) -> LoadedRun:
        """Read a finished run; a joblib model is read only where it is trusted."""
        run = open_run(path)
        copy, rule = run.model(), RuleFile.load(run.file(RULE))
        rule.check_classes(run.header.layout.classes.array)
        return cls(
            run=run,
            rule=rule,
            layout=run.header.layout,
            model=None if copy is None else read_model(copy, trust=trust_model),
        )

    def reading(self, layout: Layout | None = None, **which: tuple[str, ...]) -> Reading:
        """Return how rows are read; ``which`` of their columns, as in :func:`read_part`."""
        return Reading(layout=layout or self.layout, model=self.model, remedies=OF_RUN, **which)


@dataclass(frozen=True, kw_only=True, eq=False)
class Labelling:
    """What labels rows: here, or on the workers of a cluster.

    ``keep`` says whether all columns of the rows are kept, ``distribution`` whether the shifted one is wanted.
    """

    rule: RuleFile
    reading: Reading
    keep: bool
    distribution: bool

    def columns(self, part: Part) -> tuple[dict[str, Any], int]:
        """Return the new columns, and how many labels differ from the model's own."""
        shifter = self.rule.shifter
        labels = self.rule.labels(part.eta, part.table)
        taken: Iterable[str] = part.table.frame.columns if self.keep else ("row",)
        columns: dict[str, Any] = {"predicted_label" if "label" in taken else "label": labels}
        if self.distribution:
            found = self.rule.distribution(part.eta, part.table)
            names = self.reading.layout.class_names
            columns |= {f"shifted_{name}": found[:, place] for place, name in enumerate(names)}
        if twice := [name for name in columns if name in taken]:
            raise UsageError(
                f"{part.table.path} has a column {twice[0]!r}, and so has the result: rename it, or leave --keep out"
            )
        return columns, int((labels != shifter.classes_[np.argmax(part.eta, axis=1)]).sum())


def labelling_of(path: Path, *, trust_model: bool, keep: bool, distribution: bool) -> Labelling:
    """Return what labels rows by a run."""
    loaded = LoadedRun.open(path, trust_model=trust_model)
    return Labelling(rule=loaded.rule, reading=loaded.reading(), keep=keep, distribution=distribution)


def predicted(labelling: Labelling, data: Path) -> tuple[Any, int]:
    """Return a frame with the labels of the rows of a file, and how many differ from the model's own."""
    import pandas as pd

    part = labelling.reading.part(read_rows(data))
    columns, changed = labelling.columns(part)
    frame = part.table.frame if labelling.keep else pd.DataFrame({"row": np.arange(len(part))})
    return frame.assign(**columns), changed

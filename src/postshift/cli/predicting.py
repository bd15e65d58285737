"""Runs put to use: their rule, and the rows of new files read as those of the fit were."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from postshift.cli.errors import UsageError
from postshift.cli.inputs import Layout, Part, read_part
from postshift.cli.model_file import read_model
from postshift.cli.rule_file import RuleFile
from postshift.cli.run_folder import RULE, Run, open_run
from postshift.cli.tables import read_table


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
        copy = run.copy_of("model")
        return cls(
            run=run,
            rule=RuleFile.load(run.file(RULE)),
            layout=Layout.from_json(run.header["layout"]),
            model=None if copy is None else read_model(copy, trust=trust_model),
        )

    def part(self, data: Path, layout: Layout | None = None, **which: Any) -> Part:
        """Return the rows of a file; ``which`` of their columns, as in :func:`read_part`."""
        return read_part(read_table(data), layout or self.layout, model=self.model, **which)


def predicted(path: Path, data: Path, *, trust_model: bool, keep: bool, distribution: bool) -> tuple[Any, int]:
    """Return a frame with the labels of the rows of a file, and how many differ from the model's own."""
    import pandas as pd

    loaded = LoadedRun.open(path, trust_model=trust_model)
    part = loaded.part(data)
    phi, shifter = loaded.rule.phi(part.table), loaded.rule.shifter
    labels = shifter.predict(part.eta, phi)
    frame = part.table.frame if keep else pd.DataFrame({"row": np.arange(len(part))})
    columns: dict[str, Any] = {"predicted_label" if "label" in frame.columns else "label": labels}
    if distribution:
        found = shifter.predict_distribution(part.eta, phi)
        columns |= {f"shifted_{name}": found[:, place] for place, name in enumerate(loaded.layout.class_names)}
    if taken := [name for name in columns if name in frame.columns]:
        raise UsageError(f"{data} has a column {taken[0]!r}, and so has the result: rename it, or leave --keep out")
    changed = int((labels != shifter.classes_[np.argmax(part.eta, axis=1)]).sum())
    return frame.assign(**columns), changed

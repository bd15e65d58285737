"""Rows with known labels and with labels by the model and the rule: what a score needs, without the probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.cli.files.file_rows import RowReader
from postshift.cli.files.file_table import FileTable
from postshift.cli.run.rule_file import LoadedRun
from postshift.estimators.model import positions


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledRows:
    """Rows of a file, or of a block of it; labels are positions of classes.

    Attributes
    ----------
    truth, before, after : int array of shape (n,)
        The labels in the file, by the model, and by the rule.
    weights, groups : array of shape (n,), optional
        Sample weights and groups.
    table : FileTable
        The columns that the metric reads.
    """

    truth: IntArray
    before: IntArray
    after: IntArray
    weights: FloatArray | None
    groups: Any
    table: FileTable

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.truth)

    @classmethod
    def of(cls, loaded: LoadedRun, reader: RowReader, columns: Sequence[str], table: FileTable) -> Self:
        """Label the rows of a table, and keep these of its columns."""
        rows = reader.rows(table)
        kept = [name for name in table.frame.columns if name in columns]
        return cls(
            truth=positions(rows.labels, loaded.shifter.classes_, name="the labels"),
            before=np.argmax(rows.eta, axis=1),
            after=loaded.codes(rows),
            weights=rows.weights,
            groups=rows.groups,
            table=replace(table, frame=table.frame[kept], arrow=None),
        )

    @classmethod
    def together(cls, some: Iterable[LabelledRows], path: Path, *, digest: str = "") -> Self:
        """Return the rows of all blocks of a file in one."""
        import pandas as pd

        parts = list(some)
        names = ("truth", "before", "after", "weights", "groups")
        given = {name: [getattr(part, name) for part in parts] for name in names}
        whole = {name: None if each[0] is None else np.concatenate(each) for name, each in given.items()}
        frame = pd.concat([part.table.frame for part in parts], ignore_index=True)
        return cls(**whole, table=FileTable(path=path, frame=frame, digest=digest))  # type: ignore[arg-type]

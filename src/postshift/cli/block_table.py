"""``--memory-limit``: the training rows stay in their files and are read block by block, in every pass.

This process keeps a random sample of them, as with a cluster (:mod:`postshift.cli.cluster`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from postshift.cli.basis_option import Bases
from postshift.cli.errors import UsageError
from postshift.cli.files.file_rows import FileRows, RowReader
from postshift.cli.files.file_table import FileTable
from postshift.cli.files.table_blocks import BLOCK_ROWS, TableBlocks
from postshift.core.rows import Rows
from postshift.engines.blocks import BlockEngine, RowBlock
from postshift.estimators import dask_rows
from postshift.estimators.model import positions


class BlockTable:
    """The training rows of a fit, in Parquet or Arrow files."""

    def __init__(self, path: Path, *, memory_limit: str) -> None:
        self._table, self._limit = TableBlocks(path), memory_limit
        if self._table.is_whole:
            raise UsageError(
                f"{path} can only be read as a whole: convert it to Parquet or Arrow, or leave --memory-limit out"
            )

    def __str__(self) -> str:
        """Return the name and number of rows, and the size of the sample."""
        n_drawn = dask_rows.DRAWN_ROWS
        return f"{self._table}{f', of which {n_drawn:,} were drawn' if self._table.n_rows > n_drawn else ''}"

    def draw(self, *, seed: int) -> FileTable:
        """Return the rows that a PostShifter draws; all of them if there are few."""
        import pandas as pd

        places = dask_rows.drawn_places(self._table.n_rows, dask_rows.DRAWN_ROWS, (seed,))
        frames, before = [], 0
        for block in self._table.blocks():
            n_rows = len(block.frame)
            first, last = np.searchsorted(places, [before, before + n_rows])
            frames.append(block.frame.iloc[places[first:last] - before])
            before += n_rows
        frame = pd.concat(frames, ignore_index=True)
        return FileTable(path=self._table.path, frame=frame, digest=self._table.digest())

    def check(self, reader: RowReader) -> None:
        """Read all rows, and raise the first error."""
        for block in self._table.blocks():
            reader.rows(block)

    def training_side(self, reader: RowReader, bases: Bases, like: FileRows) -> dict[str, Any]:
        """Return the training rows for a fit; the bases are fitted to the sample ``like``."""
        source = _TableSource(self._table, reader, bases, like)
        return {"eta_train": BlockEngine(source, memory_limit=self._limit)}


class _TableSource:
    """The blocks of a table as an engine takes them."""

    fixed_bytes = 0

    def __init__(self, table: TableBlocks, reader: RowReader, bases: Bases, like: FileRows) -> None:
        self._table, self._reader, self._bases = table, reader, bases
        self.n_rows, self.n_classes = table.n_rows, int(like.eta.shape[1])
        self.n_bases = max((int(phi.shape[1]) for phi in bases.train.values()), default=1)
        n_columns = len(like.table.frame.columns)
        n_functions = sum(int(phi.shape[1]) for phi in bases.train.values())
        self.row_bytes = 8 * (3 * n_columns + 4 * self.n_classes + 2 * n_functions + 8)

    @cached_property
    def _classes(self) -> Any:
        """The classes of the labels."""
        return self._reader.layout.classes

    def blocks(self, block_rows: int) -> Iterator[RowBlock]:
        """Yield all rows in blocks."""
        for table in self._table.blocks(min(block_rows, BLOCK_ROWS)):
            rows = self._reader.rows(table)
            phi = {name: basis.phi(table) for name, basis in self._bases.fitted.items()}
            labels = None if rows.labels is None else positions(rows.labels, self._classes, name="the labels")
            parts = {"eta": rows.eta, "labels": labels, "weights": rows.weights}
            first = table.segments[0][1] if table.segments else 0
            yield RowBlock(
                rows=Rows(bases=phi or {"phi": np.ones((len(rows), 1))}, **parts),  # type: ignore[arg-type]
                files={name: str(table.path) for name, part in parts.items() if part is not None},
                first=first,
            )

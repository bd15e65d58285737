"""How workers make rows of what they computed or read: arrays, frames, Parquet files, features with a fitted model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from postshift._validation import as_table
from postshift.engines.columns import Columns
from postshift.engines.dask_worker import Read
from postshift.engines.sources import PARTS, Block, reading
from postshift.exceptions import LabelError, ShapeError

COLUMNS = ("phi", "group", "groups", "labels", "classes", "weights")  # what may be named beside eta


@dataclass(frozen=True, slots=True)
class ArrayRows:
    """Rows of arrays, in the order of these names."""

    names: tuple[str, ...]

    def __call__(self, place: str, *given: Any) -> Read:
        """Return the rows of a partition."""
        parts = {name: np.asarray(part) for name, part in zip(self.names, given, strict=True)}
        return Read(block=block_of(place, **parts))


@dataclass(frozen=True, slots=True)
class FrameRows:
    """Rows of data frames, by the names of their columns."""

    columns: tuple[str, ...]  # of the frame, which decide what patterns mean
    given: Mapping[str, Any]

    def __call__(self, place: str, frame: Any) -> Read:
        """Return the rows of a partition."""
        import pyarrow as pa

        names = tuple(map(str, frame.columns))
        if names != self.columns:
            raise ShapeError(
                f"must have the columns {list(self.columns)}, as the frame says. Got {list(names)} instead"
            )
        texts = column_texts(self.given)
        needed = [
            any(is_meant(name, text) for text in texts) for name in names
        ]  # others may hold what Arrow does not take
        table = pa.Table.from_pandas(frame.loc[:, needed], preserve_index=False)
        parts = dict.fromkeys(COLUMNS)
        columns = Columns.of(table.schema, **{**parts, **self.given})
        return _read_columns(place, table, columns)


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """Rows of row groups of a Parquet file."""

    columns: Columns

    def __call__(self, place: str, path: str, groups: range) -> Read:
        """Return the rows of a partition."""
        import pyarrow.parquet as pq

        with reading(place), pq.ParquetFile(path) as opened:
            self.columns.check(opened.schema_arrow)
            table = opened.read_row_groups(list(groups), columns=list(self.columns.types), use_threads=False)
        return _read_columns(place, table, self.columns)


@dataclass(frozen=True, slots=True)
class ModelRows:
    """Rows of features, by a fitted model and a fitted basis."""

    names: tuple[str, ...]

    def __call__(self, place: str, shared: tuple[Any, Any], *given: Any) -> Read:
        """Return the rows of a partition."""
        model, basis = shared
        parts = dict(zip(self.names, given, strict=True))
        X, n_classes = parts["X"], len(model.classes_)
        if X.shape[0] == 0:
            return Read(block=block_of(place, eta=np.empty((0, n_classes))))
        more = {name: np.asarray(parts[name]) for name in ("weights",) if name in parts}
        if "labels" in parts:
            more["labels"] = codes_of(np.asarray(parts["labels"]), model.classes_)
        if basis is not None:
            more["phi"] = np.asarray(basis.transform(X))
        return Read(block=block_of(place, eta=np.asarray(model.predict_proba(X)), **more))


def block_of(place: str, *, eta: Any, **parts: Any) -> Block:
    """Return arrays as the rows of a partition, refused where their dimensions are wrong."""
    table = eta if eta.ndim == 2 and eta.dtype.kind == "f" else as_table(eta, name="eta")
    for name, part in parts.items():
        wanted = 2 if name == "phi" else 1
        if part.ndim != wanted:
            raise ShapeError(f"{name} must have {wanted} dimension(s). Got shape {part.shape} instead")
    return Block(eta=table, **parts, files=dict.fromkeys(PARTS, place))


def codes_of(labels: Any, classes: Any) -> Any:
    """Return the position of each label among the classes."""
    order = np.argsort(classes, kind="stable")
    try:
        found = np.minimum(np.searchsorted(classes, labels, sorter=order), len(order) - 1)
    except TypeError as error:
        raise LabelError(f"labels must be of the same kind as the classes of the model: {error}") from error
    codes = order[found]
    strange = np.asarray(classes)[codes] != labels
    if strange.any():
        raise LabelError(
            f"labels has {int(strange.sum())} values that are none of the classes of the model, e.g. "
            f"{labels[strange][0]!r}: drop these rows"
        )
    return codes


def _read_columns(place: str, table: Any, columns: Columns) -> Read:
    """Return the rows of an Arrow table."""
    import pyarrow as pa

    names = list(columns.types)
    batch = pa.RecordBatch.from_arrays([table.column(name).combine_chunks() for name in names], names=names)
    types = {} if batch.num_rows == 0 else {name: str(batch.column(name).type) for name in names}
    return Read(block=columns.block(batch, file=place, first=0), types=types)


def column_texts(given: Mapping[str, Any]) -> list[str]:
    """Return the names and patterns of columns that are given."""
    found = [given.get(name) for name in ("eta", "phi", "group", "labels", "weights")]
    return [text for one in found if one is not None for text in ([one] if isinstance(one, str) else one)]


def is_meant(name: str, text: str) -> bool:
    """Say whether a column is meant by a name or a pattern."""
    head, star, tail = text.partition("*")
    return name.startswith(head) and name.endswith(tail) if star else name == text

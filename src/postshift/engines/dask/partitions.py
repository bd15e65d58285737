"""The partitions of a Dask engine: arrays, frames, Parquet files, or features with a fitted model and a basis.

A source names its partitions and says how the rows of each are made. Nothing is computed before an engine needs it; the
workers then compute it: see the readers at the end. Dask is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from postshift._validation import as_table, check_count
from postshift.engines.blocks.arrow_columns import ArrowColumns, Names
from postshift.engines.blocks.column_files import ParquetSource, Path_
from postshift.engines.blocks.row_block import PARTS, RowBlock, reading
from postshift.engines.dask.pass_task import Make
from postshift.exceptions import InputError, LabelError, SettingError, ShapeError

PARTITION_ROWS = 1_000_000
_COLUMNS = ("phi", "group", "groups", "labels", "classes", "weights")  # what may be named beside eta


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LazyPartition:
    """A partition that is not yet computed: its name, its inputs, and the function that makes rows of them."""

    place: str  # its name in errors
    make: Make | None  # called on a worker with the name and the inputs; None where no engine reads the partition
    given: tuple[Any, ...]  # Dask's delayed objects, futures, or plain values


class PartitionSource(Protocol):
    """Rows in partitions, on the workers of a cluster or in a place where the workers can read them."""

    def partitions(self) -> list[LazyPartition]:
        """Return the partitions, in the order of the rows."""


class ArrayParts:
    """Dask arrays of probabilities, basis functions, labels and weights.

    Parameters
    ----------
    eta : dask array of shape (n, m)
        Class probabilities. Its blocks of rows are the partitions; lengths need not be known.
    phi : dask array of shape (n, L), optional
        Basis functions; the constant one by default.
    labels : dask array of shape (n,), optional
        Classes as positions ``0..m-1``.
    weights : dask array of shape (n,), optional
        Sample weights.

    Examples
    --------
    >>> import dask.array as da
    >>> parts = ArrayParts(da.full((6, 2), 0.5, chunks=(4, 2)), labels=da.zeros(6, dtype=int, chunks=3))
    >>> [partition.place for partition in parts.partitions()]
    ['partition 0', 'partition 1']
    """

    def __init__(self, eta: Any, *, phi: Any = None, labels: Any = None, weights: Any = None) -> None:
        given = dict(zip(PARTS, (eta, phi, labels, weights), strict=True))
        self._given = {name: value for name, value in given.items() if value is not None}

    def partitions(self) -> list[LazyPartition]:
        """Return the partitions, in the order of the rows."""
        return aligned_partitions(self._given, partial(read_arrays, tuple(self._given)))


class FrameParts:
    """A Dask data frame, its columns named as in :class:`ParquetSource`.

    Parameters
    ----------
    frame : dask data frame
        The rows; its partitions are the engine's.
    eta, phi, group, groups, labels, classes, weights
        As in :class:`ParquetSource`: columns, patterns such as ``"p_*"``, and the values of labels and groups.

    Examples
    --------
    >>> import pandas as pd, dask.dataframe as dd
    >>> frame = pd.DataFrame({"p_0": [0.9, 0.2], "p_1": [0.1, 0.8], "y": ["no", "yes"]})
    >>> parts = FrameParts(dd.from_pandas(frame, npartitions=2), eta="p_*", labels="y", classes=["no", "yes"])
    >>> len(parts.partitions())
    2
    """

    def __init__(self, frame: Any, *, eta: Names, **columns: Any) -> None:
        if not hasattr(frame, "columns") or not hasattr(frame, "to_delayed"):
            raise SettingError(f"frame must be a Dask data frame. Got {type(frame).__name__} instead")
        for name in columns:
            if name not in _COLUMNS:
                raise SettingError(f"unknown part {name!r} of the rows: name eta, phi or group, labels, weights")
        given, names = {"eta": eta, **columns}, tuple(map(str, frame.columns))
        _named_columns(given, names)  # raises here, not on a worker
        self._frame, self._read = frame, partial(read_frame, names, given)

    def partitions(self) -> list[LazyPartition]:
        """Return the partitions, in the order of the rows."""
        return aligned_partitions({"frame": self._frame}, self._read)


class ParquetParts:
    """Parquet files that every worker can read under the same path; a partition is one or several row groups.

    The client reads only the footer of each file, and checks that all files have the columns of the first.

    Parameters
    ----------
    paths : path or sequence of paths
        A file, a folder (its ``*.parquet`` files), a pattern such as ``"data/part-*.parquet"``, or several of them.
    eta, phi, group, groups, labels, classes, weights
        As in :class:`ParquetSource`.
    partition_rows : int
        Row groups of one file are put together up to this many rows; a row group is never cut.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> table = pa.table({"p_0": [0.9, 0.2, 0.4], "p_1": [0.1, 0.8, 0.6], "y": [0, 1, 1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(table, f"{folder}/rows.parquet", row_group_size=1)
    ...     len(ParquetParts(folder, eta="p_*", labels="y", partition_rows=2).partitions())
    2
    """

    def __init__(
        self, paths: Path_ | Sequence[Path_], *, eta: Names, partition_rows: int = PARTITION_ROWS, **columns: Any
    ) -> None:
        most = check_count(partition_rows, name="partition_rows", low=1)
        source = ParquetSource(paths, eta=eta, **columns)
        read = partial(read_row_groups, source.columns)
        self._partitions: list[LazyPartition] = []
        for file in source.files:
            for some in together(file.group_rows, most):
                number, groups = len(self._partitions), f"{file.path}, row groups {some.start} to {some.stop - 1}"
                place = f"partition {number} ({groups})"
                self._partitions.append(LazyPartition(place=place, make=read, given=(file.path, some)))

    def partitions(self) -> list[LazyPartition]:
        """Return the partitions, in the order of the files and their rows."""
        return list(self._partitions)


class ModelParts:
    """Features; a fitted model and a fitted basis compute probabilities and basis functions on the workers.

    Parameters
    ----------
    X : dask array or data frame
        Features; its partitions are the engine's.
    labels : dask array or series, optional
        Labels, among the classes of the model.
    weights : dask array or series, optional
        Sample weights.
    model : fitted classifier
        Its ``predict_proba`` gives eta. It should not be fitted to these rows: a model is overconfident on its own
        training rows.
    basis : fitted transformer, optional
        Its ``transform`` gives phi; the constant basis by default.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier().fit([[0.0], [1.0]], ["no", "yes"])
    >>> parts = ModelParts(da.zeros((5, 1), chunks=2), model=model)
    >>> len(parts.partitions())
    3
    """

    def __init__(self, X: Any, *, labels: Any = None, weights: Any = None, model: Any, basis: Any = None) -> None:
        if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
            raise SettingError(f"model must be fitted and have predict_proba. Got {model!r} instead")
        given = {"X": X, "labels": labels, "weights": weights}
        self._given = {name: value for name, value in given.items() if value is not None}
        self._model, self._basis = model, basis

    def partitions(self) -> list[LazyPartition]:
        """Return the partitions, in the order of the rows."""
        from dask import delayed

        shared = delayed((self._model, self._basis), traverse=False)  # one node of the graph: each worker has it once
        found = aligned_partitions(self._given, partial(read_features, tuple(self._given)))
        return [replace(partition, given=(shared, *partition.given)) for partition in found]


def aligned_partitions(collections: Mapping[str, Any], make: Make | None = None) -> list[LazyPartition]:
    """Return the partitions of collections that belong together, cut like the first collection."""
    return [
        LazyPartition(place=f"partition {number}", make=make, given=given)
        for number, given in enumerate(zip(*_delayed_blocks(collections), strict=True))
    ]


def _delayed_blocks(collections: Mapping[str, Any]) -> list[list[Any]]:
    """Return the delayed blocks of every collection, cut like the first."""
    first: tuple[int, ...] | None = None
    found: list[list[Any]] = []
    for name, given in collections.items():
        if not hasattr(given, "to_delayed"):
            raise SettingError(f"{name} must be a Dask array, data frame or series. Got {type(given).__name__}")
        collection = given
        if hasattr(given, "chunks"):
            collection, first = _whole_rows(name, given, first)
        blocks = collection.to_delayed()
        found.append(list(np.ravel(blocks)) if hasattr(blocks, "ravel") else list(blocks))
        if len(found[-1]) != len(found[0]):
            raise ShapeError(
                f"{name} has {len(found[-1])} partitions, but {next(iter(collections))} has {len(found[0])}: "
                "rechunk or repartition one of them to match the other"
            )
    return found


def _whole_rows(name: str, array: Any, rows: tuple[int, ...] | None) -> tuple[Any, tuple[int, ...]]:
    """Return an array in blocks of whole rows, cut like the first array if all lengths are known."""
    if array.ndim not in (1, 2):
        raise ShapeError(f"{name} must have one dimension or two. Got shape {array.shape} instead")
    cut: dict[int, Any] = {1: -1} if array.ndim == 2 and len(array.chunks[1]) > 1 else {}
    known = rows is not None and not np.isnan([*rows, *array.chunks[0]]).any()
    if known and rows is not None:
        if sum(rows) != array.shape[0]:
            raise ShapeError(f"{name} must have {sum(rows)} rows, as the first part has. Got {array.shape[0]} instead")
        cut |= {0: rows} if array.chunks[0] != rows else {}
    try:
        array = array.rechunk(cut) if cut else array
    except ValueError as error:
        raise InputError(f"{name} cannot be cut into blocks of whole rows: {error}") from error
    return array, rows or array.chunks[0]


def together(sizes: Sequence[int], most: int) -> list[range]:
    """Return runs of row groups with at most ``most`` rows in total, or of one row group.

    Examples
    --------
    >>> together([3, 3, 9, 1, 1], 6)
    [range(0, 2), range(2, 3), range(3, 5)]
    """
    runs: list[range] = []
    rows = 0
    for place, size in enumerate(sizes):
        if runs and rows + size <= most:
            runs[-1], rows = range(runs[-1].start, place + 1), rows + size
        else:
            runs.append(range(place, place + 1))
            rows = size
    return runs


# -- on the workers ---------------------------------------------------------------------------------------


def read_arrays(names: Sequence[str], place: str, *given: Any) -> RowBlock:
    """Return the rows of arrays, in the order of these names."""
    return block_of(place, **{name: np.asarray(part) for name, part in zip(names, given, strict=True)})


def read_frame(columns: Sequence[str], given: Mapping[str, Any], place: str, frame: Any) -> RowBlock:
    """Return the rows of a data frame; ``columns`` are those of all partitions, ``given`` says which hold what."""
    import pyarrow as pa

    names = tuple(map(str, frame.columns))
    if names != columns:
        raise ShapeError(f"must have the columns {list(columns)}, as the frame says. Got {list(names)} instead")
    needed = _named_columns(given, names)  # Arrow may not know the types of others
    table = pa.Table.from_pandas(frame.loc[:, [name in needed for name in names]], preserve_index=False)
    return _table_block(place, table, ArrowColumns(table.schema, **given))


def read_row_groups(columns: ArrowColumns, place: str, path: str, groups: range) -> RowBlock:
    """Return the rows of row groups of a Parquet file."""
    import pyarrow.parquet as pq

    with reading(place), pq.ParquetFile(path) as opened:
        columns.check(opened.schema_arrow)
        table = opened.read_row_groups(list(groups), columns=list(columns.types), use_threads=False)
    return _table_block(place, table, columns)


def read_features(names: Sequence[str], place: str, shared: tuple[Any, Any], *given: Any) -> RowBlock:
    """Return the rows of features, by a fitted model and a fitted basis."""
    model, basis = shared
    parts = dict(zip(names, given, strict=True))
    X = parts["X"]
    if X.shape[0] == 0:
        return block_of(place, eta=np.empty((0, len(model.classes_))))
    more = {"weights": np.asarray(parts["weights"])} if "weights" in parts else {}
    if "labels" in parts:
        more["labels"] = codes_of(np.asarray(parts["labels"]), model.classes_)
    if basis is not None:
        more["phi"] = np.asarray(basis.transform(X))
    return block_of(place, eta=np.asarray(model.predict_proba(X)), **more)


def block_of(place: str, *, eta: Any, **parts: Any) -> RowBlock:
    """Return arrays as the rows of a partition; raise if their dimensions are wrong."""
    table = eta if eta.ndim == 2 and eta.dtype.kind == "f" else as_table(eta, name="eta")
    for name, part in parts.items():
        wanted = 2 if name == "phi" else 1
        if part.ndim != wanted:
            raise ShapeError(f"{name} must have {wanted} dimension(s). Got shape {part.shape} instead")
    return RowBlock.of({"eta": table, **parts}, dict.fromkeys(PARTS, place))


def codes_of(labels: Any, classes: Any) -> Any:
    """Return the position of each label among the classes."""
    order = np.argsort(classes, kind="stable")
    try:
        found = np.minimum(np.searchsorted(classes, labels, sorter=order), len(order) - 1)
    except TypeError as error:
        raise LabelError(f"labels must be of the same type as the classes of the model: {error}") from error
    codes = order[found]
    unknown = np.asarray(classes)[codes] != labels
    if unknown.any():
        raise LabelError(
            f"labels has {int(unknown.sum())} values that are not classes of the model, e.g. "
            f"{labels[unknown][0]!r}: drop these rows"
        )
    return codes


def _table_block(place: str, table: Any, columns: ArrowColumns) -> RowBlock:
    """Return the rows of an Arrow table, and the types of its columns unless it is empty."""
    import pyarrow as pa

    names = list(columns.types)
    batch = pa.RecordBatch.from_arrays([table.column(name).combine_chunks() for name in names], names=names)
    types = {} if batch.num_rows == 0 else {name: str(batch.column(name).type) for name in names}
    return replace(columns.block(batch, file=place, first=0), types=types)


def _named_columns(given: Mapping[str, Any], names: Sequence[str]) -> set[str]:
    """Return the columns that are given by a name or a pattern; raise if a name or a pattern has none."""
    parts = [given[part] for part in ("eta", "phi", "group", "labels", "weights") if given.get(part) is not None]
    found: set[str] = set()
    for text in [text for part in parts for text in ([part] if isinstance(part, str) else part)]:
        head, star, tail = text.partition("*")
        fits = {name for name in names if (name.startswith(head) and name.endswith(tail) if star else name == text)}
        if not fits:
            raise ShapeError(f"frame must have a column {text!r}. Got {', '.join(map(repr, names[:5]))}, ...")
        found |= fits
    return found

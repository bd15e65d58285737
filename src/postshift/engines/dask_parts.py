"""Where a Dask engine has its rows: arrays, frames, Parquet files, or features with a fitted model and a basis.

A source only names its partitions and says how the rows of each are made; nothing is computed before an engine asks,
and then on the workers. Dask is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from postshift._installing import install
from postshift._validation import check_count
from postshift.engines.columns import Columns, Names
from postshift.engines.dask_reading import (
    COLUMNS,
    ArrayRows,
    FrameRows,
    ModelRows,
    ParquetRows,
    column_texts,
    is_meant,
)
from postshift.engines.dask_worker import Make
from postshift.engines.sources import PARTS, naming, reading
from postshift.engines.tables import Path_, found_files
from postshift.exceptions import InputError, SettingError, ShapeError

PARTITION_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """One partition: what to call it, what is to be computed of it, and what makes rows of that."""

    place: str
    make: Make
    given: tuple[Any, ...]  # Dask's delayed objects, futures, or plain values


class PartedSource(Protocol):
    """Rows in partitions, on the workers of a cluster or wherever these can read them."""

    def pieces(self) -> list[Piece]:
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
    >>> [piece.place for piece in parts.pieces()]
    ['partition 0', 'partition 1']
    """

    def __init__(self, eta: Any, *, phi: Any = None, labels: Any = None, weights: Any = None) -> None:
        given = dict(zip(PARTS, (eta, phi, labels, weights), strict=True))
        self._given = {name: value for name, value in given.items() if value is not None}

    def pieces(self) -> list[Piece]:
        """Return the partitions, in the order of the rows."""
        return mapped(self._given, ArrayRows(tuple(self._given)))


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
    >>> len(parts.pieces())
    2
    """

    def __init__(self, frame: Any, *, eta: Names, **columns: Any) -> None:
        if not hasattr(frame, "columns") or not hasattr(frame, "to_delayed"):
            raise SettingError(f"frame must be a Dask data frame. Got {type(frame).__name__} instead")
        for name in columns:
            if name not in COLUMNS:
                raise SettingError(f"there is no part {name!r} of the rows: name eta, phi or group, labels, weights")
        given, names = {"eta": eta, **columns}, tuple(map(str, frame.columns))
        for text in column_texts(given):
            if not any(is_meant(name, text) for name in names):
                raise ShapeError(f"frame must have a column {text!r}. Got {', '.join(map(repr, names[:5]))}, ...")
        self._frame, self._rows = frame, FrameRows(names, given)

    def pieces(self) -> list[Piece]:
        """Return the partitions, in the order of the rows."""
        return mapped({"frame": self._frame}, self._rows)


class ParquetParts:
    """Parquet files that every worker can read under the same path: row groups, several of them to a partition.

    Only the foot of each file is read by the client. A file's columns are compared with those of the first at once.

    Parameters
    ----------
    paths : path or sequence of paths
        A file, a folder (its ``*.parquet`` files), a pattern such as ``"data/part-*.parquet"``, or several of them.
    eta, phi, group, groups, labels, classes, weights
        As in :class:`ParquetSource`.
    partition_rows : int
        Row groups of one file are put together up to so many rows; a row group is never cut.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> table = pa.table({"p_0": [0.9, 0.2, 0.4], "p_1": [0.1, 0.8, 0.6], "y": [0, 1, 1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(table, f"{folder}/rows.parquet", row_group_size=1)
    ...     len(ParquetParts(folder, eta="p_*", labels="y", partition_rows=2).pieces())
    2
    """

    def __init__(
        self,
        paths: Path_ | Sequence[Path_],
        *,
        eta: Names,
        phi: Names | None = None,
        group: str | None = None,
        groups: Sequence[Any] | None = None,
        labels: str | None = None,
        classes: Sequence[Any] | None = None,
        weights: str | None = None,
        partition_rows: int = PARTITION_ROWS,
    ) -> None:
        if find_spec("pyarrow") is None:
            raise SettingError(f"files of columns need pyarrow: {install('data')}")
        import pyarrow.parquet as pq

        most = check_count(partition_rows, name="partition_rows", low=1)
        found = found_files(paths, (".parquet", ".pq"))
        self._pieces: list[Piece] = []
        columns = None
        for path in found:
            with naming(path), reading(path):
                schema, known = pq.read_schema(path), pq.read_metadata(path)
                if columns is None:
                    columns = Columns.of(
                        schema,
                        eta=eta,
                        phi=phi,
                        group=group,
                        groups=groups,
                        labels=labels,
                        classes=classes,
                        weights=weights,
                    )
                columns.check(schema)
            sizes = [known.row_group(place).num_rows for place in range(known.num_row_groups)]
            for some in together(sizes, most):
                place = f"partition {len(self._pieces)} ({path}, row groups {some.start} to {some.stop - 1})"
                self._pieces.append(Piece(place=place, make=ParquetRows(columns), given=(path, some)))

    def pieces(self) -> list[Piece]:
        """Return the partitions, in the order of the files and their rows."""
        return list(self._pieces)


class ModelParts:
    """Features, of which a fitted model and a fitted basis make probabilities and basis functions on the workers.

    Parameters
    ----------
    X : dask array or data frame
        Features; its partitions are the engine's.
    labels : dask array or series, optional
        Labels, among the classes of the model.
    weights : dask array or series, optional
        Sample weights.
    model : fitted classifier
        Its ``predict_proba`` gives eta. If it was fitted to these very rows, give one that was not: eta of rows that a
        model knows is too sure.
    basis : fitted transformer, optional
        Its ``transform`` gives phi; the constant basis by default.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier().fit([[0.0], [1.0]], ["no", "yes"])
    >>> parts = ModelParts(da.zeros((5, 1), chunks=2), model=model)
    >>> len(parts.pieces())
    3
    """

    def __init__(self, X: Any, *, labels: Any = None, weights: Any = None, model: Any, basis: Any = None) -> None:
        if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
            raise SettingError(f"model must be fitted and have predict_proba. Got {model!r} instead")
        given = {"X": X, "labels": labels, "weights": weights}
        self._given = {name: value for name, value in given.items() if value is not None}
        self._model, self._basis = model, basis

    def pieces(self) -> list[Piece]:
        """Return the partitions, in the order of the rows."""
        from dask import delayed

        shared = delayed((self._model, self._basis), traverse=False)  # one node of the graph: each worker has it once
        rows = ModelRows(tuple(self._given))
        return [
            Piece(place=piece.place, make=rows, given=(shared, *piece.given)) for piece in mapped(self._given, rows)
        ]


def mapped(collections: Mapping[str, Any], make: Make) -> list[Piece]:
    """Return the partitions of collections that belong together, cut alike."""
    return [
        Piece(place=f"partition {number}", make=make, given=given)
        for number, given in enumerate(zip(*_alike(collections), strict=True))
    ]


def _alike(collections: Mapping[str, Any]) -> list[list[Any]]:
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
                f"{name} has {len(found[-1])} partitions, and {next(iter(collections))} has {len(found[0])}: "
                "rechunk or repartition one like the other"
            )
    return found


def _whole_rows(name: str, array: Any, rows: tuple[int, ...] | None) -> tuple[Any, tuple[int, ...]]:
    """Return an array in blocks of whole rows, those of the first array where all lengths are known."""
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
    """Return runs of row groups of at most ``most`` rows together, or of one.

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

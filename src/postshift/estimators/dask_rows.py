"""Dask collections as the training rows of an estimator: a random sample in memory, all rows on the workers.

Bases are fitted and rules are chosen on the sample, as for an array of that size. If the choice is a single
rule, this rule reads sums over all rows. Dask is only imported if there is a Dask collection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

from postshift._validation import FloatArray, IntArray
from postshift.core.rows import Posterior, Rows
from postshift.core.sums import Engine
from postshift.engines.blocks import RowBlock
from postshift.engines.dask import DaskEngine
from postshift.engines.dask.dask_cluster import Cluster
from postshift.engines.dask.partitions import LazyPartition, aligned_partitions, block_of
from postshift.engines.dask.pass_task import Failed, attempted
from postshift.estimators.rows_of import RowsOf, RowsOfArrays
from postshift.exceptions import InputError, SettingError, ShapeError

DRAWN_ROWS = 200_000  # training rows for fitting the bases and for choosing among the rules
SMALL_ROWS = 1_000_000  # maximum number of rows of a validation sample, which is loaded into memory
Make = RowsOf | RowsOfArrays


def is_dask(value: Any) -> bool:
    """Return whether a value is a Dask collection."""
    return hasattr(value, "__dask_graph__")


def in_memory(value: Any, *, name: str) -> Any:
    """Return a small Dask collection, or a mapping of them, in memory; return anything else as it is."""
    if isinstance(value, Mapping):
        return {key: in_memory(each, name=f"{name}[{key!r}]") for key, each in value.items()}
    if not is_dask(value):
        return value
    n_rows = sum(_lengths(value))
    if n_rows > SMALL_ROWS:
        raise InputError(
            f"{name} has {n_rows} rows, but must fit into memory: give at most {SMALL_ROWS}, such as a random sample"
        )
    return value.compute()


class DaskRows(AbstractContextManager["DaskRows"]):
    """The training rows of a fit, as Dask collections with the same partitions; closing it closes what it started.

    Parameters
    ----------
    parts : mapping of names to Dask collections or None
        The partitions of the first are used.
    """

    def __init__(self, parts: Mapping[str, Any]) -> None:
        given = {name: value for name, value in parts.items() if value is not None}
        self._names = tuple(given)
        self._pieces = aligned_partitions(given)
        self._cluster = Cluster()
        try:
            self._sizes = self._row_counts(next(iter(given.values())))
        except BaseException:
            self._cluster.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._sizes.sum())

    def draw(self, *, seed: int) -> dict[str, Any]:
        """Return a random sample of the rows in memory, from each partition by its share; all rows if there are few."""
        from dask import delayed

        if self.n_rows == 0:
            raise ShapeError(f"{self._names[0]} must have at least one row. Got none in {len(self._pieces)} partitions")
        counts = shares(self._sizes, DRAWN_ROWS)
        asked = [(number, piece) for number, piece in enumerate(self._pieces) if counts[number]]
        tasks = [
            delayed(attempted, pure=False)(
                piece.place, _drawn, self._names, int(counts[number]), (seed, number), *piece.given
            )
            for number, piece in asked
        ]
        places = [piece.place for _, piece in asked]
        found = self._cluster.made(self._cluster.compute(tasks), places)
        columns = zip(*found, strict=True)
        return {name: _concatenated(list(parts)) for name, parts in zip(self._names, columns, strict=True)}

    def behind(self, table: Rows, make: Make) -> Rows:
        """Return the rows of the sample, with all rows attached as ``whole`` if there are more."""
        return table if table.n_rows >= self.n_rows else replace(table, whole=self._tables(make, table))

    def _tables(self, make: Make, like: Rows) -> RemoteDaskRows:
        """Make the tables of all partitions on the workers, and keep them there."""
        from dask import delayed

        shared = delayed(make, traverse=False)  # one node of the graph: each worker gets the model once
        tasks = [
            delayed(attempted, pure=False)(piece.place, _made, self._names, shared, *piece.given)
            for piece in self._pieces
        ]
        places = [piece.place for piece in self._pieces]
        futures = self._cluster.compute(tasks)
        counts = self._cluster.made(self._cluster.each(_count, futures, name="count"), places)
        return RemoteDaskRows(
            cluster=self._cluster,
            places=tuple(places),
            rows=tuple(futures),
            n_rows=sum(counts),
            like=like.in_memory(),
        )

    def _row_counts(self, first: Any) -> IntArray:
        """Return the number of rows of every partition; it is computed if it is not known."""
        from dask import delayed

        if hasattr(first, "chunks") and not np.isnan(first.chunks[0]).any():
            return np.array(first.chunks[0], dtype=np.intp)
        tasks = [delayed(_n_rows, pure=False)(piece.given[0]) for piece in self._pieces]
        found = self._cluster.gathered(self._cluster.compute(tasks), [piece.place for piece in self._pieces])
        return np.array(found, dtype=np.intp)


@dataclass(frozen=True, kw_only=True, eq=False)
class RemoteDaskRows:
    """All rows, kept by the workers; see :class:`postshift.core.rows.RemoteRows`."""

    cluster: Cluster
    places: tuple[str, ...]
    rows: tuple[Any, ...]  # futures
    n_rows: int
    like: Rows  # the draw, for shapes
    posteriors: tuple[Posterior, ...] = ()

    def engine(self, basis: str) -> Engine:
        """Return the engine over one basis."""
        return DaskEngine(_PartitionsOfBasis(self, basis), client=self.cluster.client)

    def through(self, posterior: Posterior) -> RemoteDaskRows:
        """Return the rows with eta replaced by a posterior."""
        return replace(self, posteriors=(*self.posteriors, posterior))


@dataclass(frozen=True, eq=False)
class _PartitionsOfBasis:
    """The partitions of one basis, for an engine."""

    rows: RemoteDaskRows
    basis: str

    def partitions(self) -> list[LazyPartition]:
        """Return the partitions, in the order of the rows."""
        make = _BasisRows(self.basis, self.rows.posteriors, self.rows.like.n_classes)
        return [
            LazyPartition(place=place, make=make, given=(future,))
            for place, future in zip(self.rows.places, self.rows.rows, strict=True)
        ]


# -- on the workers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _BasisRows:
    """Makes the rows of a partition over one basis, as an engine takes them."""

    basis: str
    posteriors: tuple[Posterior, ...]
    n_classes: int

    def __call__(self, place: str, table: Rows | Failed | None) -> RowBlock:
        """Return the rows of a partition."""
        if isinstance(table, Failed):
            raise table.error
        if table is None:
            return block_of(place, eta=np.empty((0, self.n_classes)))
        eta: FloatArray = table.eta
        for posterior in self.posteriors:
            eta = posterior(eta)
        parts = {"phi": table.functions(self.basis), "labels": table.labels, "weights": table.weights}
        given = {name: part for name, part in parts.items() if part is not None}
        return block_of(place, eta=eta, **given)


def _drawn(names: Sequence[str], count: int, seed: Sequence[int], *given: Any) -> list[Any]:
    """Return ``count`` rows of a partition, in their order."""
    rows = drawn_places(_same_length(names, given), count, seed)
    return [_safe_indexing(part, rows) for part in given]


def drawn_places(n_rows: int, count: int, seed: Sequence[int]) -> IntArray:
    """Return the positions of ``count`` rows drawn at random from ``n_rows``, in ascending order."""
    return np.sort(np.random.default_rng(seed).choice(n_rows, size=min(count, n_rows), replace=False))


def _made(names: Sequence[str], make: Make, *given: Any) -> Rows | None:
    """Return the rows of a partition, or None if it is empty."""
    return make.of_parts(dict(zip(names, given, strict=True))) if _same_length(names, given) else None


def _count(table: Rows | Failed | None) -> int | Failed:
    """Return the number of rows."""
    if isinstance(table, Failed):
        return table
    return 0 if table is None else table.n_rows


def _n_rows(part: Any) -> int:
    """Return the number of rows of an array or a data frame."""
    return int(part.shape[0])


def _same_length(names: Sequence[str], parts: Sequence[Any]) -> int:
    """Return the number of rows of a partition; raise if its parts differ in length."""
    lengths = [_n_rows(part) for part in parts]
    for name, length in zip(names, lengths, strict=True):
        if length != lengths[0]:
            raise ShapeError(f"{name} must have {lengths[0]} rows, as {names[0]} has. Got {length} instead")
    return lengths[0]


# -- on the client ----------------------------------------------------------------------------------------


def shares(sizes: IntArray, most: int) -> IntArray:
    """Return how many rows to draw from each partition, in proportion to its size: ``most`` in total, or all.

    Examples
    --------
    >>> shares(np.array([10, 0, 30, 21]), 12)
    array([2, 0, 6, 4])
    """
    total = int(sizes.sum())
    if total <= most:
        return sizes
    exact = sizes * (most / total)
    counts = np.floor(exact).astype(np.intp)
    order = np.argsort(counts - exact, kind="stable")  # the largest remainders first
    counts[order[: most - int(counts.sum())]] += 1
    return np.asarray(np.minimum(counts, sizes))


def _concatenated(parts: list[Any]) -> Any:
    """Return rows of several partitions in one: frames, series, sparse matrices or arrays."""
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return np.concatenate([np.asarray(part) for part in parts])


def _lengths(collection: Any) -> list[int]:
    """Return the number of rows of every partition; it is computed if it is not known."""
    import dask

    if hasattr(collection, "chunks") and not np.isnan(collection.chunks[0]).any():
        return list(collection.chunks[0])
    if not hasattr(collection, "to_delayed"):
        raise SettingError(f"a Dask collection must be an array, a data frame or a series. Got {type(collection)}")
    blocks = collection.to_delayed()
    first = blocks[:, 0] if getattr(blocks, "ndim", 1) == 2 else blocks
    return list(dask.compute(*(dask.delayed(_n_rows)(block) for block in first)))

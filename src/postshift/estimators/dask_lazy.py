"""Lazy predictions of Dask collections: one task per partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from postshift.engines.dask.partitions import aligned_partitions

SEPARATOR = ": "  # between the names of an argument and a basis


def lazily(estimator: Any, method: str, /, *, n_columns: int | None, dtype: Any, **given: Any) -> Any:
    """Return the result of a method of a fitted estimator for Dask collections, as a Dask array.

    Parameters
    ----------
    estimator : object
        The estimator; it is sent to each worker once.
    method : str
        The method that takes the rows of a partition.
    n_columns : int, optional
        Number of columns of the result; None if it has one value per row.
    dtype : dtype
        The dtype of the result.
    **given : Dask collections, mappings of such, or None
        The arguments, with the same partitions; None is left out.

    Returns
    -------
    dask.array.Array
        Its blocks are the partitions of the first argument.
    """
    import dask.array as da
    from dask import delayed

    parts = _flat(given)
    first = next(iter(parts.values()))
    partitions = aligned_partitions(parts)
    known = hasattr(first, "chunks") and not np.isnan(first.chunks[0]).any()
    sizes = first.chunks[0] if known else [np.nan] * len(partitions)
    shared, width = delayed(estimator, traverse=False), () if n_columns is None else (n_columns,)
    blocks = [
        da.from_delayed(
            delayed(_applied)(shared, method, tuple(parts), (width, np.dtype(dtype)), *partition.given),
            shape=(size, *width),
            dtype=dtype,
        )
        for partition, size in zip(partitions, sizes, strict=True)
    ]
    return da.concatenate(blocks, axis=0, allow_unknown_chunksizes=True)


def _applied(estimator: Any, method: str, names: Sequence[str], empty: tuple[Any, Any], *given: Any) -> Any:
    """Return the predictions of one partition."""
    if given[0].shape[0] == 0:
        return np.empty((0, *empty[0]), dtype=empty[1])
    arguments: dict[str, Any] = {}
    for name, part in zip(names, given, strict=True):
        argument, _, basis = name.partition(SEPARATOR)
        if basis:
            arguments.setdefault(argument, {})[basis] = part
        else:
            arguments[argument] = part
    return getattr(estimator, method)(**arguments)


def _flat(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are not None; mappings are flattened."""
    parts: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, Mapping):
            parts |= {f"{name}{SEPARATOR}{basis}": each for basis, each in value.items()}
        elif value is not None:
            parts[name] = value
    return parts

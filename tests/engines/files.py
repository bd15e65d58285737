"""Samples written to files, and the sources that read them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from postshift.engines import ArraySource, ArrowSource, BlockEngine, ParquetSource


def as_table(sample):
    """The columns p_*, f_*, y and w of a sample."""
    columns = {f"p_{place}": sample.eta[:, place] for place in range(sample.n_classes)}
    columns |= {f"f_{place}": sample.phi[:, place] for place in range(sample.n_bases)}
    if sample.labels is not None:
        columns["y"] = sample.labels
    if sample.weights is not None:
        columns["w"] = sample.weights
    return pa.table(columns)


def named_columns(sample):
    """The arguments by which a source of columns reads a sample."""
    return {
        "eta": "p_*",
        "phi": "f_*",
        "labels": None if sample.labels is None else "y",
        "weights": None if sample.weights is None else "w",
    }


def as_array_source(sample, folder):
    """One .npy file for each part."""
    paths = {}
    for name in ("eta", "phi", "labels", "weights"):
        part = getattr(sample, name)
        paths[name] = None if part is None else folder / f"{name}.npy"
        if part is not None:
            np.save(paths[name], part)
    return ArraySource(paths.pop("eta"), **paths)


def as_parquet_source(sample, folder, *, row_group_size=37):
    """Two Parquet files in a folder."""
    table = as_table(sample)
    half = max(len(table) // 2, 1)
    for number, part in enumerate((table.slice(0, half), table.slice(half))):
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=row_group_size)
    return ParquetSource(folder, **named_columns(sample))


def as_arrow_source(sample, folder, *, compression="lz4", batch_rows=41):
    """One Arrow file."""
    path = folder / "rows.arrow"
    feather.write_feather(as_table(sample), path, compression=compression, chunksize=batch_rows)
    return ArrowSource(path, **named_columns(sample))


def all_rows(source, part, block_rows=7):
    blocks = list(source.blocks(block_rows))
    assert max(len(block.rows.eta) for block in blocks) <= block_rows
    return np.concatenate([getattr(block.rows, part) for block in blocks])


def summed(source, **settings):
    return BlockEngine(source, block_rows=10, **settings).label_sums()


N = 100


def write(path, columns, piece_rows=40):
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path, row_group_size=piece_rows)
    else:
        feather.write_feather(pa.table(columns), path, chunksize=piece_rows)
    return path


FORMATS = pytest.mark.parametrize("kind", [ParquetSource, ArrowSource])

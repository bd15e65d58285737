"""Files of rows as users have them: harmless ones, which must be read right, and odd ones, which may be refused."""

from __future__ import annotations

import csv
import gzip
import io
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

PROBABILITIES = ("p_ant", "p_bee", "p_cat")
CELLS = (
    "", " ", "NA", "nan", "None", "inf", "-inf", "1e400", "-1", "0", "1e308", "0,5", "0.5.5", "1_000", "0x1F", "½",
    "\u0661",
    "true", "2020-01-01", "ant", "Ant", "ant ", "dodo", "\x1b[31mant", "x" * 70_000, '"', "''", "=1+1", "\0", "\ufeff",
)  # fmt: skip
NAMES = (
    "",
    " ",
    "p_*",
    "*",
    "p_",
    "p_ant",
    "y",
    "x1",
    "row",
    "label",
    "Unnamed: 0",
    "nan",
    "1",
    "\x1b[2J",
    "ünï",
    "p_dodo",
)


def csv_of(frame, **how):
    """Return the bytes of a CSV file."""
    return frame.to_csv(None, **{"index": False, **how}).encode()


def parquet_of(table):
    """Return the bytes of a Parquet file of a frame or an Arrow table."""
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(table) if isinstance(table, pd.DataFrame) else table, stream)
    return stream.getvalue()


# -- harmless: the same rows ------------------------------------------------------------------------------------

HARMLESS = {
    "mark": (".csv", lambda frame, _: b"\xef\xbb\xbf" + csv_of(frame)),
    "windows": (".csv", lambda frame, _: csv_of(frame, lineterminator="\r\n")),
    "utf-16": (".csv", lambda frame, _: csv_of(frame).decode().encode("utf-16")),
    "quoted": (".csv", lambda frame, _: csv_of(frame, quoting=csv.QUOTE_ALL)),
    "blank lines": (".csv", lambda frame, _: csv_of(frame).replace(b"\n", b"\n\n")),
    "no last line end": (".csv", lambda frame, _: csv_of(frame).rstrip(b"\n")),
    "empty ends": (".csv", lambda frame, _: csv_of(frame).replace(b"\n", b",\n").replace(b",\n", b"\n", 1)),
    "columns in any order": (".csv", lambda frame, rng: csv_of(frame[rng.permutation(frame.columns)])),
    "with an index": (".csv", lambda frame, _: csv_of(frame, index=True)),
    "another column": (".csv", lambda frame, _: csv_of(frame.assign(more="text, with\nlines"))),
    "compressed": (".csv.gz", lambda frame, _: gzip.compress(csv_of(frame))),
    "tabs": (".tsv", lambda frame, _: csv_of(frame, sep="\t")),
    "parquet": (".parquet", lambda frame, _: parquet_of(frame)),
    "categories": (".parquet", lambda frame, _: parquet_of(frame.astype({"y": "category", "region": "category"}))),
    "nullable": (".parquet", lambda frame, _: parquet_of(frame.convert_dtypes())),
    "arrow types": (".parquet", lambda frame, _: parquet_of(frame.convert_dtypes(dtype_backend="pyarrow"))),
    "index of texts": (".parquet", lambda frame, _: parquet_of(frame.set_index(frame.index.map(str)))),
    "large texts": (".parquet", lambda frame, _: parquet_of(_cast(frame, "y", pa.large_string()))),
    "dictionary": (".parquet", lambda frame, _: parquet_of(_cast(frame, "y", pa.dictionary(pa.int8(), pa.string())))),
    "feather": (".feather", lambda frame, _: _arrow(frame)),
}


def _cast(frame, name, kind):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    place = table.schema.get_field_index(name)
    return table.set_column(place, name, table.column(place).cast(kind))


def _arrow(frame):
    stream = io.BytesIO()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


# -- odd: a typed error, or rows that make sense ----------------------------------------------------------------


def odd(frame, rng):
    """Return the name of a way, the suffix and the bytes of an odd file."""
    name = str(rng.choice(list(ODD)))
    suffix, content = ODD[name](frame, rng)
    return name, suffix, content


def _cells(frame, rng):
    lines = [line.split(",") for line in csv_of(frame).decode().splitlines()]
    for _ in range(int(rng.choice([1, 1, 5]))):
        line = lines[int(rng.integers(1, len(lines)))]
        line[int(rng.integers(len(line)))] = str(rng.choice(CELLS))
    return ".csv", "\n".join(",".join(line) for line in lines).encode()


def _column_of_cells(frame, rng):
    name, cell = str(rng.choice(frame.columns)), str(rng.choice(CELLS))
    return ".csv", csv_of(frame.assign(**{name: cell}))


def _header(frame, rng):
    names = list(frame.columns)
    names[int(rng.integers(len(names)))] = str(rng.choice(NAMES))
    return ".csv", csv_of(frame.set_axis(names, axis=1))


def _ragged(frame, rng):
    lines = csv_of(frame).decode().splitlines()
    for _ in range(int(rng.choice([1, 3, 30]))):
        place = int(rng.integers(len(lines)))
        more = (",", ",,", ",7", ',"', '"', ",a,b,c,d")
        lines[place] = lines[place].rpartition(",")[0] if rng.random() < 0.4 else lines[place] + str(rng.choice(more))
    return ".csv", "\n".join(lines).encode()


def _few(frame, rng):
    return ".csv", csv_of(frame.head(int(rng.integers(4))))


def _scaled(frame, rng):
    names, factor = list(PROBABILITIES), float(rng.choice([0, -1, 2, 100, 1e-300, 1e300, np.nan, np.inf, 1.0005]))
    return ".csv", csv_of(frame.assign(**{name: frame[name] * factor for name in names}))


def _separators(frame, rng):
    separator = str(rng.choice([";", "\t", "|", " ", ":"]))
    return ".csv", csv_of(frame, sep=separator, decimal=str(rng.choice([".", ","])))


def _encodings(frame, rng):
    named = frame.assign(y=frame["y"].replace("bee", "bée"))
    return ".csv", csv_of(named).decode().encode(str(rng.choice(["latin-1", "utf-16-le", "utf-32", "utf-8"])))


def _other_kind(frame, rng):
    contents = (b"", b"\n\n", b"\0" * 100, b"{}", b"PAR1", b"<html></html>", b"a", b"a,b\n", rng.bytes(300))
    suffix = str(rng.choice([".csv", ".tsv", ".csv.gz", ".parquet", ".feather", ".arrow", ".npz", ".txt", ""]))
    chosen = (*contents, csv_of(frame), parquet_of(frame))
    return suffix, chosen[int(rng.integers(len(chosen)))]


def _damaged_parquet(frame, rng):
    from tests.fuzz.damage import damaged_bytes

    return ".parquet", damaged_bytes(parquet_of(frame), rng)[1]


def _damaged_gzip(frame, rng):
    from tests.fuzz.damage import damaged_bytes

    return ".csv.gz", damaged_bytes(gzip.compress(csv_of(frame)), rng)[1]


def _types(frame, rng):
    """One column of another type of Arrow."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    place = int(rng.integers(table.num_columns))
    n_rows = len(frame)
    arrays = (
        pa.nulls(n_rows), pa.array([None, 1.0] * n_rows)[:n_rows], pa.array([b"ant"] * n_rows),
        pa.array([[0.5]] * n_rows), pa.array([{"a": 1}] * n_rows), pa.array([Decimal("0.25")] * n_rows),
        pa.array(pd.date_range("2020-01-01", periods=n_rows)), pa.array([True, False] * n_rows)[:n_rows],
        pa.array(np.full(n_rows, 0.3, dtype=np.float16)), pa.array(np.arange(n_rows, dtype=np.uint64) + 2**63),
        pa.array(pd.date_range("2020-01-01", periods=n_rows, tz="UTC")), pa.array(pd.to_timedelta(range(n_rows))),
        pa.array(["ant"] * n_rows).dictionary_encode(), pa.array([1] * n_rows).dictionary_encode(),
        pa.array([float("nan")] * n_rows), pa.array(["\ud7ff", ""] * n_rows)[:n_rows], pa.array([0] * n_rows),
    )  # fmt: skip
    kind = arrays[int(rng.integers(len(arrays)))]
    return ".parquet", parquet_of(table.set_column(place, table.schema.names[place], kind))


def _names_of_columns(frame, rng):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    names = list(table.schema.names)
    names[int(rng.integers(len(names)))] = str(rng.choice(NAMES))
    return ".parquet", parquet_of(table.rename_columns(names))


def _labels(frame, rng):
    """Labels of other types, or other names of the classes."""
    kinds = (
        {"ant": 0, "bee": 1, "cat": 2}, {"ant": "01", "bee": "1.0", "cat": "2"},
        {"ant": True, "bee": False, "cat": True},
        {"ant": "a" * 300, "bee": "\x1b[0m", "cat": "c,\n\"'"}, {"ant": -1.5, "bee": 1e300, "cat": 0.1},
        {"ant": "nan", "bee": "NA", "cat": "null"}, {"ant": "p_bee", "bee": "*", "cat": "["},
        {"ant": "<b>", "bee": "{{x}}", "cat": "&amp;"}, {"ant": "1", "bee": "01", "cat": "1.0"},
    )  # fmt: skip
    names = kinds[int(rng.integers(len(kinds)))]
    renamed = frame.rename(columns={f"p_{old}": f"p_{new}" for old, new in names.items()})
    renamed["y"] = [names[label] for label in frame["y"]]
    if rng.random() < 0.5:
        return ".csv", csv_of(renamed)
    return ".parquet", parquet_of(renamed.loc[:, ~renamed.columns.duplicated()])


def _arrays(frame, rng):
    """An npz archive whose arrays do not fit."""
    n_rows = len(frame)
    shapes = (frame[list(PROBABILITIES)].to_numpy(), np.zeros((n_rows, 3)), np.ones(n_rows), np.ones((n_rows, 0)))
    labels = (np.zeros(n_rows, dtype=int), frame["y"].to_numpy(dtype=str), np.zeros(3), np.zeros((n_rows, 2)))
    parts = {
        "eta": shapes[int(rng.integers(len(shapes)))],
        "labels": labels[int(rng.integers(len(labels)))],
        "classes": np.array(["ant", "bee", "cat"][: int(rng.integers(2, 4))]),
    }
    stream = io.BytesIO()
    np.savez(stream, **{name: part for name, part in parts.items() if rng.random() < 0.9})
    return ".npz", stream.getvalue()


def _weights(frame, rng):
    values = (0.0, -1.0, np.nan, np.inf, 1e300, 1e-300, 1e308)
    column = np.where(rng.random(len(frame)) < rng.choice([0.1, 1.0]), values[int(rng.integers(7))], frame["amount"])
    return ".csv", csv_of(frame.assign(amount=column))


ODD = {
    "cells": _cells,
    "more cells": _cells,
    "column": _column_of_cells,
    "header": _header,
    "ragged": _ragged,
    "few": _few,
    "scaled": _scaled,
    "separators": _separators,
    "encodings": _encodings,
    "other kind": _other_kind,
    "damaged parquet": _damaged_parquet,
    "damaged gzip": _damaged_gzip,
    "types": _types,
    "more types": _types,
    "names of columns": _names_of_columns,
    "labels": _labels,
    "arrays": _arrays,
    "weights": _weights,
}

"""How much memory a pass may take, and how many rows may then be read at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from postshift._validation import check_count
from postshift.engines.sources import Source
from postshift.exceptions import SettingError

MIN_ROWS = 64  # fewer rows at a time than this are not worth the calls
_MAX_ROWS = 1 << 16  # for each thread: more rows at a time gain nothing
_TABLES = 6  # of sums at a time: those so far, those of the block and of its parts, in the making and rearranged
_UNITS = {
    "b": 1,
    **{f"{p}b": 1000**k for k, p in enumerate("kmgt", 1)},
    **{f"{p}ib": 1024**k for k, p in enumerate("kmgt", 1)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a pass needs beside the rows themselves."""

    cells: int  # numbers in a table of its sums
    features: int = 0  # numbers that are made of each row, beside a few times m and L


def bytes_of(value: Any, *, name: str) -> int:
    """Return a number of bytes, given as such or as text.

    Examples
    --------
    >>> bytes_of("1.5 GB", name="memory_limit"), bytes_of("64MiB", name="memory_limit")
    (1500000000, 67108864)
    """
    if not isinstance(value, str):
        return check_count(value, name=name, low=1)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", value)
    if found is None or found[2].lower() not in _UNITS:
        raise SettingError(
            f"{name} must be a number of bytes or text such as '512 MB' or '2 GiB'. Got {value!r} instead"
        )
    return int(float(found[1]) * _UNITS[found[2].lower()])


def rows_within(limit: int, source: Source, need: Need, *, n_threads: int) -> int:
    """Return how many rows may be read at a time, refused where they would be too few."""
    n_classes, n_bases = source.n_classes, source.n_bases
    fixed = source.fixed_bytes + 8 * need.cells * (_TABLES + n_threads)
    # Plain sums hold up to eight tables (rows, m) in double precision; labels, weights, clusters and an order of rows.
    row = source.row_bytes + 8 * (8 * n_classes + 4 * n_bases + need.features) + 64
    fewest = min(MIN_ROWS * n_threads, source.n_rows)
    if fixed + fewest * row > limit:
        whole = f", {shown(source.fixed_bytes)} of it for the largest row group or record batch of the files"
        raise SettingError(
            f"memory_limit must be at least {shown(fixed + fewest * row)} for {fewest} rows of {n_classes} classes and "
            f"{n_bases} basis functions{whole if source.fixed_bytes else ''}. Got {shown(limit)} instead"
        )
    return min((limit - fixed) // row, _MAX_ROWS * n_threads)


def shown(size: int) -> str:
    """Return a number of bytes as text, rounded up so that it can be given as a limit.

    Examples
    --------
    >>> shown(1_234_567), shown(999)
    ('1.3 MB', '999 B')
    """
    for unit in ("GB", "MB", "kB"):
        scale = _UNITS[unit.lower()]
        if size >= scale:
            return f"{np.ceil(10 * size / scale) / 10:g} {unit}"
    return f"{size} B"

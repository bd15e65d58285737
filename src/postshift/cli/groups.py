"""Groups by columns: the same group whatever the type of its column is.

One text among numbers makes texts of a whole column of a CSV file, and one missing number makes fractions of whole
ones: 1, 1.0 and "1" are the same group, as they are the same label.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from postshift.cli.columns import canonical


def with_groups_of(basis: Any, rows: Any) -> Any:
    """Return a frame with the values by which a fitted basis knows its groups; others are none of them."""
    if basis.places_ is None:
        return rows
    levels = {rows.columns[place]: known for place, known in zip(basis.places_, basis.levels_, strict=True)}
    return rows.assign(**{name: _as_known(rows[name], known) for name, known in levels.items()})


def alike(frames: Iterable[Any], columns: Iterable[str]) -> list[Any]:
    """Return frames whose columns are texts in all of them, where they are of different kinds."""
    frames = list(frames)
    odd = [name for name in columns if len({_is_number(frame[name]) for frame in frames}) > 1]
    return [frame.assign(**{name: frame[name].map(canonical, na_action="ignore") for name in odd}) for frame in frames]


def _as_known(column: Any, known: Iterable[Any]) -> Any:
    """Return a column with the values that are known, in their type; another value stays another one."""
    levels = set(known)
    if set(column.dropna().unique()) <= levels:
        return column
    texts = all(isinstance(level, str) for level in levels)
    spelled = {canonical(level): level for level in levels}

    def found(value: Any) -> Any:
        return value if value in levels else spelled.get(canonical(value), str(value) if texts else math.inf)

    return column.astype(object).map(found, na_action="ignore")


def _is_number(column: Any) -> bool:
    """Return whether a column holds numbers."""
    return column.dtype.kind in "iuf" or column.dtype == np.bool_

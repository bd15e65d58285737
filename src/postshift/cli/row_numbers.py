"""Columns that only number the rows: an index that was written with them is no feature.

Certain are columns without a name, or with the name that pandas or Arrow give to an index, and columns that count up by
1 from row to row: these are left out. A different whole number in each row, in another order, may be the number of a
customer or may mean something: it is kept, and said.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

_INDEX = re.compile(r"\s*|Unnamed: \d+(_level_\d+)?(\.\d+)*|__index_level_\d+__")
_ENOUGH = 10  # rows; fewer may count up by chance
_MANY = 100  # rows; fewer may all differ by chance
_SPREAD = 10  # numbers for each row; where there are more to take from, they may all differ by chance


def is_index_name(name: str) -> bool:
    """Return whether a column has the name of an index that was written without one.

    Examples
    --------
    >>> [name for name in ("Unnamed: 0", "", "__index_level_0__", "age", "index") if is_index_name(name)]
    ['Unnamed: 0', '', '__index_level_0__']
    """
    return _INDEX.fullmatch(name) is not None


def counts_rows(values: Any) -> bool:
    """Return whether numbers count up by 1 from row to row.

    Examples
    --------
    >>> counts_rows(np.arange(7, 50)), counts_rows(np.arange(0, 50, 2)), counts_rows(np.array([0.0, 1.0]))
    (True, False, False)
    """
    numbers = _whole(values)
    return numbers is not None and len(numbers) >= _ENOUGH and bool((np.diff(numbers) == 1).all())


def differs_by_row(values: Any) -> bool:
    """Return whether every row has a different whole number, of so few that this is no chance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> differs_by_row(rng.permutation(500)), differs_by_row(rng.integers(500, size=500))
    (True, False)
    """
    numbers = _whole(values)
    if numbers is None or len(numbers) < _MANY or np.ptp(numbers) >= _SPREAD * len(numbers):
        return False
    return len(np.unique(numbers)) == len(numbers)


def _whole(values: Any) -> Any:
    """Return values as whole numbers, or None where some are not or are missing."""
    array = values.to_numpy(dtype=np.float64, na_value=np.nan) if hasattr(values, "to_numpy") else np.asarray(values)
    whole = np.isfinite(array).all() and bool((array == np.round(array)).all())
    return array.astype(np.float64) if whole else None

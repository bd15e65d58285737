"""Columns that only number the rows: an index that was written with them is no feature.

Certain are columns without a name, or with the name that pandas or Arrow give to an index, and columns that count up by
1 from row to row: these are left out. A different whole number in each row, in another order, may be the number of a
customer or may mean something: it is kept, and said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
    >>> [name for name in ("Unnamed: 0", "", "__index_level_0__", "Unnamed: 0.1", "age", "index") if is_index_name(name)]
    ['Unnamed: 0', '', '__index_level_0__', 'Unnamed: 0.1']
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


def left_out_text(names: Sequence[str]) -> str:
    """Say which columns are left out, and how they are taken all the same."""
    return (
        f"{_columns(names)} numbers the rows, as an index that was written with them, and is left out of the features: "
        "write the file without it, or choose the features with --features"
    )


def doubtful_text(name: str, others: Iterable[str]) -> str:
    """Say that a column may number the rows, and how it is left out."""
    rest = ",".join(others)
    how = f"leave it out with --features '{rest}'" if rest else "drop it"
    return f"column {name!r} has a different whole number in each row and is read as a feature: if it only names them, {how}"


def _columns(names: Sequence[str]) -> str:
    """Name one column, or several of which each does something."""
    listed = ", ".join(map(repr, names))
    return f"column {listed}" if len(names) == 1 else f"each of the columns {listed}"


def _whole(values: Any) -> Any:
    """Return values as whole numbers, or None where some are not or are missing."""
    array = values.to_numpy(dtype=np.float64, na_value=np.nan) if hasattr(values, "to_numpy") else np.asarray(values)
    whole = np.isfinite(array).all() and bool((array == np.round(array)).all())
    return array.astype(np.float64) if whole else None

"""The roles of the columns of a table: probabilities and their classes, labels, weights, features, row numbers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Iterable, Sequence
from fnmatch import fnmatchcase
from numbers import Integral, Real
from typing import Any

import numpy as np

from postshift._validation import SUM_TOLERANCE, FloatArray, unknown
from postshift.cli.errors import UsageError, listed
from postshift.cli.files.file_table import FileTable

_WHOLE = re.compile(r"([+-]?)0*(\d+)(?:\.0*)?")
_WIDTH = 40  # characters of a value that is shown
_MISSING = ("na", "n/a", "nan", "none", "null")  # texts that pandas reads as an empty cell, among others

# -- any column ------------------------------------------------------------------------------------------------


def pick(table: FileTable, name: str, *, option: str) -> Any:
    """Return a column by its name; the error suggests the nearest name."""
    if name not in table.frame.columns:
        raise UsageError(f"{unknown(name, table.frame.columns, what='column')} ({option}, {table.path})")
    found = table.frame[name]
    first = found.first_valid_index() if found.dtype.kind == "O" else None
    if first is not None and not isinstance(found[first], Hashable):
        raise UsageError(
            f"column {name!r} of {table.path} holds lists or records ({option}): give a column with one value per row"
        )
    return found


def numbers(table: FileTable, columns: Sequence[str], *, what: str) -> FloatArray:
    """Return columns as finite numbers (n, k)."""
    for name in columns:
        if table.frame[name].dtype.kind not in "biuf":
            raise UsageError(_no_numbers(table, name, what=what))
    found = table.frame[list(columns)].to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~np.isfinite(found).all(axis=1)
    if bad.any():
        raise UsageError(
            f"{table.place} has {int(bad.sum())} rows whose {what} are missing or infinite (first: {table.row(bad)}): "
            "drop or correct these rows"
        )
    return np.asarray(found)


def _no_numbers(table: FileTable, name: str, *, what: str) -> str:
    """Return the message for a column that does not hold numbers, with the first such value."""
    import pandas as pd

    column = table.frame[name]
    bad = (pd.to_numeric(column.astype(str), errors="coerce").isna() & column.notna()).to_numpy()
    if not bad.any():  # numbers that are stored as text or as decimals
        kind = type(column.loc[column.first_valid_index()]).__name__ if column.notna().any() else "nothing"
        return f"column {name!r} of {table.path} holds {what} as {kind}: write them as numbers"
    shown = str(column.iloc[int(np.argmax(bad))])[:_WIDTH]
    return (
        f"column {name!r} of {table.path} holds {what} and must hold numbers, with a point for decimals; "
        f"{table.row(bad)} has {shown!r}: correct it"
    )


# -- classes and labels ----------------------------------------------------------------------------------------


def canonical(value: Any) -> str:
    """Return the text by which labels are compared: 1, 1.0, "1" and "01" are the same label, True and "true" too.

    Examples
    --------
    >>> canonical(1.0), canonical("1.0"), canonical(True), canonical("cat "), canonical(0.5)
    ('1', '1', 'true', 'cat', '0.5')
    """
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    text = str(value).strip()
    if isinstance(value, Real) and float(value).is_integer():
        text = f"{float(value):.0f}" if not isinstance(value, Integral) else str(int(value))
    if found := _WHOLE.fullmatch(text):
        sign, digits = found.groups()
        return f"-{digits}" if sign == "-" and digits != "0" else digits
    return text.lower() if text.lower() in ("true", "false") else text


def classes_of(names: Sequence[str], labels: Any = None) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return the names of the classes, by which labels are compared, and the classes in the type of the label column.

    ``names`` come from the columns or from the model, ``labels`` is the label column, if there is one.

    Examples
    --------
    >>> classes_of(["0", "1"]), classes_of(["no", "yes"])
    ((('0', '1'), (0, 1)), (('no', 'yes'), ('no', 'yes')))
    """
    keys = tuple(canonical(name) for name in names)
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise UsageError(f"two of the classes {listed(names)} are both read as {twice!r}: rename one of them")
    seen = [] if labels is None else list(labels.dropna().unique())
    spelled = {canonical(value): value for value in seen}
    written = [spelled.get(key, name) for key, name in zip(keys, names, strict=True)]
    return keys, _of_one_type(written, keys, seen)


def _of_one_type(written: Sequence[Any], keys: Sequence[str], seen: Sequence[Any]) -> tuple[Any, ...]:
    """Return the classes in the type of the labels; without labels, as integers if all of them are whole numbers."""
    if not seen:
        whole = all(_WHOLE.fullmatch(key) for key in keys)
        return tuple(int(key) if whole else str(name) for key, name in zip(keys, written, strict=True))
    if all(isinstance(value, bool | np.bool_) for value in seen):
        convert: Any = {"true": True, "false": False}.__getitem__
    elif all(isinstance(value, Integral) for value in seen):
        convert = int
    elif all(isinstance(value, Real) and not isinstance(value, bool | np.bool_) for value in seen):
        convert = float
    else:
        return tuple(str(name) for name in written)
    try:
        return tuple(convert(key) for key in keys)
    except (KeyError, ValueError):  # no label of this type can have the name of the class
        return tuple(str(name) for name in written)


def two_classes(table: FileTable, label: str, positive: str | None, *, column: str) -> list[str]:
    """Return the names of two classes, the positive one last, for a single column of probabilities."""
    seen = {canonical(value): str(value) for value in pick(table, label, option="--label").dropna().unique()}
    if len(seen) != 2:
        raise UsageError(
            f"one column of probabilities, {column!r}, is enough for two classes only, and column {label!r} of "
            f"{table.path} has {len(seen)} labels ({listed(sorted(seen.values()))}): name the columns of all classes "
            f"by a pattern with one star, as in --proba 'p_*'; the columns are {listed(table.frame.columns)}"
        )
    found = None if positive is None else canonical(positive)
    if found is None or found not in seen:
        got = "Got none" if positive is None else f"Got {positive!r}"
        raise UsageError(
            f"column {column!r} has the probability of one of two classes: name it with --positive, which must be one "
            f"of two labels. {got}; column {label!r} of {table.path} has the labels {listed(sorted(seen.values()))}"
        )
    return [next(name for key, name in seen.items() if key != found), seen[found]]


def labels_of(table: FileTable, column: str, *, names: Sequence[str], values: Sequence[Any]) -> Any:
    """Return the labels of a column as values of the classes; raise if a label is missing or is not a class."""
    import pandas as pd

    series = pick(table, column, option="--label")
    places, distinct = pd.factorize(series.to_numpy(dtype=object))
    if (missing := places < 0).any():
        called = next((name for name in names if name.lower() in _MISSING), None)
        remedy = f"a class is called {called!r}: give it another name" if called else "drop these rows"
        raise UsageError(
            f"{table.place} has {int(missing.sum())} rows without a label in column {column!r}, the first is "
            f"{table.row(missing)} (an empty cell, or a text such as NA that means one): {remedy}"
        )
    known = {name: place for place, name in enumerate(names)}
    codes = np.array([known.get(canonical(value), -1) for value in distinct], dtype=np.intp)[places]
    if (strange := codes < 0).any():
        label = series.iloc[int(np.argmax(strange))]
        count = int((series.map(canonical) == canonical(label)).sum())
        raise UsageError(
            f"label {str(label)!r} in column {column!r} of {table.place} ({count} rows, the first is "
            f"{table.row(strange)}) is not one of the {len(names)} classes ({listed(names)}): drop these rows, or add "
            "a column with the probabilities of this class"
        )
    return np.array(values)[codes]


# -- probabilities ---------------------------------------------------------------------------------------------


def probability_columns(table: FileTable, pattern: str, *, but: Iterable[str | None] = ()) -> dict[str, str]:
    """Return class -> column for the columns that match a pattern; the star stands for the class."""
    names = [name for name in table.frame.columns if name not in set(but)]
    if pattern.count("*") != 1:
        raise UsageError(
            f"the pattern of the probability columns must have one star, which stands for the class, as in 'p_*'. Got "
            f"{pattern!r}; {table.path} has the columns {listed(names)}"
        )
    before, after = pattern.split("*")
    stars = {
        name[len(before) : len(name) - len(after)]: name
        for name in names
        if name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after)
    }
    if len(stars) < 2:
        found = f"one column only, {next(iter(stars.values()))!r}" if stars else "no column"
        close = difflib.get_close_matches(pattern.replace("*", ""), names, n=1, cutoff=0.3)
        near = f", the nearest is {close[0]!r}" if close else ""
        raise UsageError(
            f"{pattern!r} matches {found} of {table.path}, which has the columns {listed(names)}{near}: two or more "
            "columns must match --proba of the fit"
        )
    return stars


def eta_of(table: FileTable, columns: Sequence[str], *, normalise: bool) -> FloatArray:
    """Return the probabilities (n, m); raise if a row does not sum to 1, unless it may be divided by its sum."""
    eta = numbers(table, columns, what="probabilities")
    if (eta < 0).any():
        row, place = (int(each) for each in np.argwhere(eta < 0)[0])
        raise UsageError(
            f"{table.row_of_file((eta < 0).any(axis=1))} has {eta[row, place]:g} in column {columns[place]!r}: give "
            "probabilities, not scores or logits"
        )
    sums = eta.sum(axis=1)
    if normalise:
        if (sums <= 0).any():
            raise UsageError(f"the probabilities of {table.row_of_file(sums <= 0)} are all 0: drop it")
        return np.asarray(eta / sums[:, None])
    bad = np.abs(sums - 1) > SUM_TOLERANCE
    if bad.any():
        row = int(np.argmax(bad))
        raise UsageError(
            f"the probabilities of {table.row_of_file(bad)} sum to {sums[row]:.6g}, not to 1 within {SUM_TOLERANCE:g} "
            f"({int(bad.sum())} of {len(bad)} rows; columns {listed(columns)}): correct them, or fit again with "
            "--normalise, which divides each row by its sum"
        )
    return eta


def eta_of_one(table: FileTable, column: str) -> FloatArray:
    """Return the probabilities (n, 2) from a column with those of the second class."""
    pick(table, column, option="--proba of the fit")
    p = numbers(table, [column], what="probabilities")[:, 0]
    bad = (p < 0) | (p > 1)
    if bad.any():
        row = int(np.argmax(bad))
        raise UsageError(
            f"{table.row_of_file(bad)} has {p[row]:g} in column {column!r}: give probabilities from 0 to 1, not "
            "scores or logits"
        )
    return np.column_stack([1 - p, p])


# -- features and row numbers ----------------------------------------------------------------------------------
#
# An index that was written with the rows is not a feature. Columns without a name or with a name that pandas or Arrow
# give to an index, and columns that count up by 1 from row to row, are left out. A column with a different whole number
# in each row in another order may be an ID or may mean something: it is kept, and a warning names it.

_INDEX = re.compile(r"\s*|Unnamed: \d+(_level_\d+)?(\.\d+)*|__index_level_\d+__")
_ENOUGH = 10  # rows; fewer may count up by chance
_MANY = 100  # rows; fewer may all differ by chance
_SPREAD = 10  # numbers per row; if there are more to choose from, all may differ by chance


def feature_columns(table: FileTable, *, but: Iterable[str | None], chosen: str | None) -> list[str]:
    """Return the feature columns: those that match a list of patterns, or else all named columns except some."""
    taken = set(but)
    names = [name for name in table.frame.columns if name not in taken]
    if chosen is None:
        return [name for name in names if not is_index_name(name)]
    patterns = [part.strip() for part in chosen.split(",") if part.strip()]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(f"{unknown(pattern, names, what='feature column')} (--features of the fit, {table.path})")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def is_index_name(name: str) -> bool:
    """Return whether a column has the name of an index that was written without a name.

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
    whole = _whole(values)
    return whole is not None and len(whole) >= _ENOUGH and bool((np.diff(whole) == 1).all())


def differs_by_row(values: Any) -> bool:
    """Return whether every row has a different whole number, in a range so narrow that this is not chance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> differs_by_row(rng.permutation(500)), differs_by_row(rng.integers(500, size=500))
    (True, False)
    """
    whole = _whole(values)
    if whole is None or len(whole) < _MANY or np.ptp(whole) >= _SPREAD * len(whole):
        return False
    return len(np.unique(whole)) == len(whole)


def _whole(values: Any) -> Any:
    """Return values as whole numbers, or None if some are not whole or are missing."""
    array = values.to_numpy(dtype=np.float64, na_value=np.nan) if hasattr(values, "to_numpy") else np.asarray(values)
    whole = np.isfinite(array).all() and bool((array == np.round(array)).all())
    return array.astype(np.float64) if whole else None

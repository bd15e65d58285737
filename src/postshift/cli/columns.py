"""Which columns of a table are what: probabilities and their classes, labels, weights, groups, features."""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from numbers import Integral, Real
from typing import Any

import numpy as np

from postshift._validation import SUM_TOLERANCE, FloatArray, IntArray, unknown
from postshift.cli.errors import UsageError
from postshift.cli.remedies import OF_FIT
from postshift.cli.row_numbers import is_index_name
from postshift.cli.tables import FileTable

_WHOLE = re.compile(r"([+-]?)0*(\d+)(?:\.0*)?")
_SHOWN = 12
_WIDTH = 40  # characters of a value that is shown
_MISSING = ("na", "n/a", "nan", "none", "null")  # texts in a CSV file that mean an empty cell, among others


@dataclass(frozen=True, kw_only=True)
class Classes:
    """The classes in the order of the probability columns: as they are compared, and as they are written.

    Attributes
    ----------
    names : tuple of str
        By which labels are found, see :func:`canonical`.
    values : tuple
        Of the type of the label column.
    """

    names: tuple[str, ...]
    values: tuple[Any, ...]

    @property
    def array(self) -> Any:
        """The values as an array."""
        return np.array(self.values)

    def codes(self, table: FileTable, column: str) -> IntArray:
        """Return the position of every label of a column; one that is none of the classes is an error."""
        import pandas as pd

        series = pick(table, column, option="--label")
        places, distinct = pd.factorize(series.to_numpy(dtype=object))
        if (places < 0).any():
            raise UsageError(
                f"{table.path} has {int((places < 0).sum())} rows without a label in column {column!r}, the first is "
                f"{table.row(places < 0)} (an empty cell, or a text such as NA that means one): {self._unlabelled()}"
            )
        known = {name: place for place, name in enumerate(self.names)}
        found = np.array([known.get(canonical(value), -1) for value in distinct], dtype=np.intp)
        codes: IntArray = found[places]
        if (codes < 0).any():
            self._refuse(table, column, codes, series)
        return codes

    def _unlabelled(self) -> str:
        """Say what to do about rows without a label, which may be those of a class called NA."""
        called = next((name for name in self.names if name.lower() in _MISSING), None)
        return f"a class is called {called!r}: give it another name" if called else "drop these rows"

    def _refuse(self, table: FileTable, column: str, codes: IntArray, series: Any) -> None:
        """Name the first label that is none of the classes, with its number of rows."""
        label = series.iloc[int(np.argmax(codes < 0))]
        count = int((series.map(canonical) == canonical(label)).sum())
        raise UsageError(
            f"label {str(label)!r} in column {column!r} of {table.path} ({count} rows, the first is "
            f"{table.row(codes < 0)}) is none of the {len(self.names)} classes ({listed(self.names)}): drop these "
            "rows, or give a column of probabilities for it"
        )


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


def classes_of(names: Sequence[str], labels: Any = None) -> Classes:
    """Return the classes of these names, written as the label column writes them.

    Parameters
    ----------
    names : sequence of str
        As the columns or the model name them.
    labels : pandas.Series, optional
        The label column.

    Examples
    --------
    >>> classes_of(["0", "1"]).values, classes_of(["no", "yes"]).values
    ((0, 1), ('no', 'yes'))
    """
    keys = tuple(canonical(name) for name in names)
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise UsageError(f"two of the classes {listed(names)} are both read as {twice!r}: rename one of them")
    seen = [] if labels is None else list(labels.dropna().unique())
    spelled = {canonical(value): value for value in seen}
    written = [spelled.get(key, name) for key, name in zip(keys, names, strict=True)]
    return Classes(names=keys, values=_of_one_type(written, keys, seen))


def probability_columns(
    table: FileTable, pattern: str, *, but: Iterable[str | None] = (), remedy: str = OF_FIT.columns
) -> dict[str, str]:
    """Return class -> column for the columns that a pattern matches; the class is what the star stands for."""
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
        raise UsageError(
            f"{pattern!r} matches {found} of {table.path}, which has the columns {listed(names)}"
            f"{_near(pattern, names)}: {remedy}"
        )
    return stars


def two_classes(table: FileTable, label: str, positive: str | None, *, column: str) -> list[str]:
    """Return the names of both classes, the positive one last, where one column has the probability of that one."""
    seen = {canonical(value): str(value) for value in pick(table, label, option="--label").dropna().unique()}
    if len(seen) != 2:
        raise UsageError(
            f"one column, {column!r}, is enough for two labels only, and column {label!r} of {table.path} has "
            f"{len(seen)} ({listed(sorted(seen.values()))}): name the columns of all classes by a pattern with one "
            f"star, as in --proba 'p_*'; there are {listed(table.frame.columns)}"
        )
    found = None if positive is None else canonical(positive)
    if found is None or found not in seen:
        got = "Got none" if positive is None else f"Got {positive!r}"
        raise UsageError(
            f"column {column!r} has the probability of one of two classes: name it with --positive, which must be one "
            f"of two labels. {got}; column {label!r} of {table.path} has the labels {listed(sorted(seen.values()))}"
        )
    return [next(name for key, name in seen.items() if key != found), seen[found]]


def pick(table: FileTable, name: str, *, option: str) -> Any:
    """Return a column by its name; where there is none, the nearest name is offered."""
    if name not in table.frame.columns:
        raise UsageError(f"{unknown(name, table.frame.columns, what='column')} ({option}, {table.path})")
    found = table.frame[name]
    first = found.first_valid_index() if found.dtype.kind == "O" else None
    if first is not None and not isinstance(found[first], Hashable):
        raise UsageError(
            f"column {name!r} of {table.path} holds lists or records ({option}): give a column with one value a row"
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
            f"{table.path} has {int(bad.sum())} rows whose {what} are missing or infinite, the first is "
            f"{table.row(bad)}: drop or repair these rows"
        )
    return np.asarray(found)


def _no_numbers(table: FileTable, name: str, *, what: str) -> str:
    """Name the first value of a column that is no number."""
    import pandas as pd

    column = table.frame[name]
    bad = (pd.to_numeric(column.astype(str), errors="coerce").isna() & column.notna()).to_numpy()
    if not bad.any():  # numbers that are kept as text, or as decimals
        kind = type(column.loc[column.first_valid_index()]).__name__ if column.notna().any() else "nothing"
        return f"column {name!r} of {table.path} holds {what} as {kind}: write them as numbers"
    shown = str(column.iloc[int(np.argmax(bad))])[:_WIDTH]
    return (
        f"column {name!r} of {table.path} holds {what} and must hold numbers, with a point for decimals; "
        f"{table.row(bad)} has {shown!r}: repair it"
    )


def eta_of(table: FileTable, columns: Sequence[str], *, normalise: bool, remedy: str = OF_FIT.sums) -> FloatArray:
    """Return the probabilities (n, m), refused unless every row sums to 1 or may be divided by its sum."""
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
            f"({int(bad.sum())} of {len(bad)} rows; columns {listed(columns)}): {remedy}"
        )
    return eta


def eta_of_one(table: FileTable, column: str, *, option: str = "--proba") -> FloatArray:
    """Return the probabilities (n, 2) from a column that has those of the second class."""
    pick(table, column, option=option)
    p = numbers(table, [column], what="probabilities")[:, 0]
    bad = (p < 0) | (p > 1)
    if bad.any():
        row = int(np.argmax(bad))
        raise UsageError(
            f"{table.row_of_file(bad)} has {p[row]:g} in column {column!r}: give probabilities from 0 to 1, not "
            "scores or logits"
        )
    return np.column_stack([1 - p, p])


def feature_columns(
    table: FileTable, *, but: Iterable[str | None], chosen: str | None, option: str = "--features"
) -> list[str]:
    """Return the feature columns: all but some and those without a name, or those that a list of patterns chooses."""
    taken = set(but)
    names = [name for name in table.frame.columns if name not in taken]
    if chosen is None:
        return [name for name in names if not is_index_name(name)]
    patterns = [part.strip() for part in chosen.split(",") if part.strip()]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(f"{unknown(pattern, names, what='feature column')} ({option}, {table.path})")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def listed(names: Iterable[Any]) -> str:
    """Show names, not too many.

    Examples
    --------
    >>> listed(["a", "b"]), listed(range(20))[-7:]
    ("'a', 'b'", '11, ...')
    """
    every = list(names)
    return ", ".join(map(repr, every[:_SHOWN])) + (", ..." if len(every) > _SHOWN else "")


def _near(pattern: str, names: Sequence[str]) -> str:
    """Offer the column nearest to a pattern."""
    close = difflib.get_close_matches(pattern.replace("*", ""), names, n=1, cutoff=0.3)
    return f", the nearest is {close[0]!r}" if close else ""


def _of_one_type(written: Sequence[Any], keys: Sequence[str], seen: Sequence[Any]) -> tuple[Any, ...]:
    """Return the classes in the type of the labels that were seen; without any, whole numbers where all are."""
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
    except (KeyError, ValueError):  # a class that no label of this type can name
        return tuple(str(name) for name in written)

"""What ``--basis`` means: bases are fitted to the columns that they can read, on the rows that they may use.

A new kind of basis needs an entry in ``postshift.basis.spec`` only, which reads the names (``tree:4``, ``col:region``).
This file has what the command line adds: which columns a kind reads, ``auto``, and the groups of later files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils import get_tags

from postshift._validation import FloatArray
from postshift.basis import GroupBasis, named_bases
from postshift.cli.errors import UsageError, first_line, listed
from postshift.cli.files.file_rows import FileRows
from postshift.cli.files.file_table import FileTable
from postshift.cli.files.table_columns import canonical, counts_rows, differs_by_row, pick
from postshift.estimators.rows_of import FeatureRows, fitted_bases

AUTO = "auto"


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedBasis:
    """A fitted basis and the columns it reads."""

    basis: Any
    columns: tuple[str, ...]

    def phi(self, table: FileTable) -> FloatArray:
        """Return the basis functions of the rows of a file."""
        for name in self.columns:
            pick(table, name, option="a column that a basis reads")
        rows = table.frame[list(self.columns)]
        if isinstance(self.basis, GroupBasis) and self.basis.places_ is not None:
            levels = zip(self.basis.places_, self.basis.levels_, strict=True)
            known = {self.columns[place]: values for place, values in levels}
            rows = rows.assign(**{name: _as_known(rows[name], values) for name, values in known.items()})
        try:
            return np.asarray(self.basis.transform(rows))
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"the columns {listed(self.columns)} of {table.path} cannot be read as in the fit: {first_line(error)}"
            ) from error


@dataclass(frozen=True, kw_only=True, eq=False)
class Bases:
    """Fitted bases by name, and their basis functions of the validation and the training rows.

    ``left_out`` are columns that number the rows and are therefore not features; None if no basis reads numbers.
    ``doubtful`` are features that may number the rows.
    """

    fitted: Mapping[str, FittedBasis] = field(default_factory=dict)
    val: Mapping[str, FloatArray] = field(default_factory=dict)
    train: Mapping[str, FloatArray] = field(default_factory=dict)
    left_out: tuple[str, ...] | None = None
    doubtful: tuple[str, ...] = ()


def named_functions(bases: Mapping[str, FittedBasis], phi: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Return basis functions as frames whose columns have the names of the functions."""
    import pandas as pd

    return {
        name: pd.DataFrame(values, columns=[str(each) for each in bases[name].basis.get_feature_names_out()])
        for name, values in phi.items()
    }


def fit_bases(
    text: str, *, train: FileRows | None, val: FileRows, groups: str | None = None, chosen: bool = False
) -> Bases:
    """Return the bases that ``--basis`` names, fitted.

    A basis of groups reads the columns that it names; that may be the column of the metric's ``groups``, which is not a
    feature. Other bases read the numeric features, except columns that number the rows, unless the user has ``chosen``
    the features. ``auto`` is the leaves of a tree if there are training rows with labels and numeric features, else the
    constant basis.
    """
    both = [rows for rows in (train, val) if rows is not None]
    tables = [rows.table for rows in both]
    names = [name for name in val.features if all(name in rows.features for rows in both)]
    numeric = [name for name in names if all(table.frame[name].dtype.kind in "biuf" for table in tables)]
    counting = [name for name in numeric if not chosen and any(counts_rows(table.frame[name]) for table in tables)]
    read = [name for name in numeric if name not in counting]
    unnamed = dict.fromkeys(name for rows in both for name in rows.left_out)
    about: dict[str, Any] = {
        "left_out": () if chosen else (*unnamed, *counting),
        "doubtful": tuple(
            name for name in read if not chosen and all(differs_by_row(table.frame[name]) for table in tables)
        ),
    }
    if text == AUTO:
        if train is None or train.labels is None:
            return Bases()
        made = _fitted(AUTO, read, train=train, val=val) if read else ({}, {}, {})
        return Bases(fitted=made[0], val=made[1], train=made[2], **about)
    in_files = [groups] if groups is not None and all(groups in table.frame.columns for table in tables) else []
    fitted: dict[str, FittedBasis] = {}
    phi: tuple[dict[str, FloatArray], dict[str, FloatArray]] = ({}, {})
    reads_numbers = False
    for name, basis in named_bases(text).items():
        _check_labels(name, basis, train=train, val=val)
        by_group = isinstance(basis, GroupBasis)
        columns = _columns_of(basis, [*names, *in_files], tables) if by_group else read
        if not columns:
            raise UsageError(
                f"basis {name!r} reads numeric features, but there are none: add such columns, or use --basis constant"
            )
        found, *functions = _fitted({name: basis}, columns, train=train, val=val)
        fitted |= found
        for each, more in zip(phi, functions, strict=True):
            each.update(more)
        reads_numbers = reads_numbers or not by_group
    return Bases(fitted=fitted, val=phi[0], train=phi[1], **(about if reads_numbers else {}))


def _fitted(
    basis: Any, columns: Sequence[str], *, train: FileRows | None, val: FileRows
) -> tuple[dict[str, FittedBasis], dict[str, FloatArray], dict[str, FloatArray]]:
    """Fit bases to some columns; return them, and their functions of the validation and the training rows."""
    both = [rows for rows in (val, train) if rows is not None]
    frames = _alike([rows.table.frame[list(columns)] for rows in both], columns)
    val_rows, *others = (
        FeatureRows(X=frame, y=rows.labels, weights=rows.weights, eta=rows.eta)
        for rows, frame in zip(both, frames, strict=True)
    )
    labelled = others[0] if others else None
    try:
        fitted, phi = fitted_bases(basis, given=labelled or val_rows, labelled=labelled, val=val_rows)
        on_train = {} if labelled is None else {name: each.transform(labelled.X) for name, each in fitted.items()}
    except (TypeError, ValueError) as error:
        names = [basis] if basis == AUTO else basis
        raise UsageError(
            f"basis {listed(names)} cannot be fitted to the columns {listed(columns)}: {first_line(error)} "
            "(--features chooses columns)"
        ) from error
    return {name: FittedBasis(basis=each, columns=tuple(columns)) for name, each in fitted.items()}, phi, on_train


def _check_labels(name: str, basis: Any, *, train: FileRows | None, val: FileRows) -> None:
    """Raise if a basis reads labels but there are none."""
    if not get_tags(basis).target_tags.required:
        return
    if basis.fitted_on == "val":
        if val.labels is None:
            raise UsageError(f"basis {name!r} is fitted to validation labels: name their column with --label")
    elif train is None or train.labels is None:
        raise UsageError(
            f"basis {name!r} is fitted to the labels of training rows: give them with --train, or use another basis "
            "(see postshift bases)"
        )


def _columns_of(basis: Any, names: list[str], tables: Sequence[FileTable]) -> list[str]:
    """Return the columns of a basis of groups; all columns if it gives positions or an unknown name."""
    wanted = basis.columns if isinstance(basis.columns, list | tuple) else [basis.columns]
    if any(name not in names for name in wanted):
        return names
    for table in tables:
        for name in wanted:
            pick(table, name, option="--basis")  # raises if a column holds lists or records
    return list(wanted)


# -- groups are the same in every file: 1, 1.0 and "1" are one group, whatever type pandas gives the column ------


def _alike(frames: Sequence[Any], columns: Iterable[str]) -> list[Any]:
    """Return the frames; a column that is text in one of them becomes text in all."""
    odd = [name for name in columns if len({frame[name].dtype.kind in "biuf" for frame in frames}) > 1]
    return [frame.assign(**{name: frame[name].map(canonical, na_action="ignore") for name in odd}) for frame in frames]


def _as_known(column: Any, known: Iterable[Any]) -> Any:
    """Return a column whose values have the type of the known groups; unknown groups stay unknown."""
    levels = set(known)
    if set(column.dropna().unique()) <= levels:
        return column
    texts = all(isinstance(level, str) for level in levels)
    spelled = {canonical(level): level for level in levels}

    def found(value: Any) -> Any:
        return value if value in levels else spelled.get(canonical(value), str(value) if texts else math.inf)

    return column.astype(object).map(found, na_action="ignore")

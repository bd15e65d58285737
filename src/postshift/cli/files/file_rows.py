"""From a table to rows: probabilities, labels, weights, groups and features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from postshift._validation import FloatArray
from postshift.cli.errors import UsageError, listed
from postshift.cli.files.file_table import FileTable
from postshift.cli.files.model_file import model_classes, model_eta
from postshift.cli.files.table_columns import (
    canonical,
    eta_of,
    eta_of_one,
    feature_columns,
    is_index_name,
    labels_of,
    numbers,
    pick,
    probability_columns,
)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The role of each column; a run stores it for later files.

    Attributes
    ----------
    class_names : tuple of str
        The classes in the order of the probabilities, as labels are compared (:func:`canonical`).
    class_values : tuple
        The classes in the type of the label column.
    proba : str, optional
        A pattern with a star for the class or, for two classes, the column with the probability of the second one.
    label, sample_weight, groups : str, optional
        Names of columns.
    features : str, optional
        Patterns of the feature columns; by default all other columns.
    normalise : bool
        Whether each row of probabilities is divided by its sum.
    """

    class_names: tuple[str, ...]
    class_values: tuple[Any, ...]
    proba: str | None = None
    label: str | None = None
    sample_weight: str | None = None
    groups: str | None = None
    features: str | None = None
    normalise: bool = False

    @property
    def classes(self) -> Any:
        """The classes as an array of labels."""
        return np.array(self.class_values)

    @property
    def is_one_column(self) -> bool:
        """Whether one column has the probabilities of the second of two classes."""
        return self.proba is not None and "*" not in self.proba

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return a layout from run.json; raise TypeError or ValueError for content that a fit does not write."""
        plain = dict(content)
        if unknown := set(plain) - {each.name for each in fields(cls)}:
            raise ValueError(f"the layout has an entry {min(unknown)!r} that this version does not know")
        for name in ("class_names", "class_values"):
            if not isinstance(plain.get(name), list):
                raise TypeError(f"{name!r} of the layout must be a list")
            plain[name] = tuple(plain[name])
        layout = cls(**plain)
        layout._check()
        return layout

    def _check(self) -> None:
        """Raise if a column is not a string, or if names and values of the classes do not match."""
        columns = (self.proba, self.label, self.sample_weight, self.groups, self.features)
        if not all(isinstance(each, str | None) for each in columns) or not isinstance(self.normalise, bool):
            raise ValueError("the columns of the layout must be strings")
        names, values = self.class_names, self.class_values
        if not all(isinstance(name, str) for name in names) or not all(
            isinstance(value, str | int | float) for value in values
        ):
            raise ValueError("the classes of the layout must be strings or numbers")
        if len(names) < 2 or len(names) != len({*names}) or len(names) != len(values):
            raise ValueError(f"the layout must name two or more different classes. Got {listed(names)}")
        for name, value in zip(names, values, strict=True):
            if canonical(value) != name:
                raise ValueError(f"class {name!r} of the layout has the label {value!r}")


@dataclass(frozen=True, kw_only=True, eq=False)
class FileRows:
    """The rows of a file as the library takes them; a part that was not requested or is missing is None.

    ``features`` are names of columns, ``left_out`` the columns that hold an index and are not features. ``ids`` is a
    named series of identifiers.
    """

    table: FileTable
    eta: FloatArray
    features: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    labels: Any = None
    weights: FloatArray | None = None
    groups: Any = None
    ids: Any = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.eta)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowReader:
    """How tables are read as rows, in this process or on a worker.

    Attributes
    ----------
    layout : Layout
        Which columns are what.
    model : classifier, optional
        Gives the probabilities; without it they are columns.
    needed, optional : tuple of {"label", "sample_weight", "groups"}
        The columns that must exist if the layout names them, and those that are read if they exist.
    """

    layout: Layout
    model: Any = None
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def rows(self, table: FileTable) -> FileRows:
        """Return the rows of a table."""
        layout = self.layout
        taken = [layout.label, layout.sample_weight, layout.groups]
        columns = [] if self.model is not None else _probability_columns(table, layout, but=taken)
        taken += columns
        features = feature_columns(table, but=taken, chosen=layout.features)
        if self.model is not None:
            eta = _model_eta(self.model, table, features, layout)
        elif layout.is_one_column:
            eta = eta_of_one(table, columns[0])
        else:
            eta = eta_of(table, columns, normalise=layout.normalise)
        unnamed = () if layout.features is not None else filter(is_index_name, table.frame.columns)
        label, weight, groups = (self._column(table, name) for name in ("label", "sample_weight", "groups"))
        classes: dict[str, Any] = {"names": layout.class_names, "values": layout.class_values}
        return FileRows(
            table=table,
            eta=eta,
            features=tuple(features),
            left_out=tuple(name for name in unnamed if name not in taken),
            labels=None if label is None else labels_of(table, label, **classes),
            weights=None if weight is None else numbers(table, [weight], what="weights")[:, 0],
            groups=None if groups is None else _groups(table, groups),
        )

    def _column(self, table: FileTable, option: str) -> str | None:
        """Return the column of an option if it should be read."""
        name: str | None = getattr(self.layout, option)
        if name is not None and option in self.needed:
            pick(table, name, option="--sample-weight of the fit" if option == "sample_weight" else f"--{option}")
            return name
        return name if option in self.optional and name in table.frame.columns else None


def _probability_columns(table: FileTable, layout: Layout, *, but: list[str | None]) -> list[str]:
    """Return the probability columns in the order of the classes; for two classes, one column is enough."""
    pattern = str(layout.proba)
    if layout.is_one_column:
        return [pattern]
    found = {canonical(star): name for star, name in probability_columns(table, pattern, but=but).items()}
    if missing := [name for name in layout.class_names if name not in found]:
        raise UsageError(
            f"{table.path} has no column {pattern.replace('*', missing[0])!r} with the probabilities of "
            f"class {missing[0]!r}; {pattern!r} matches {listed(found.values())}: the classes must be the same in "
            "all files"
        )
    if more := [star for star in found if star not in layout.class_names]:
        raise UsageError(
            f"column {found[more[0]]!r} of {table.path} belongs to a class that the other rows do not have "
            f"({listed(layout.class_names)}): the classes must be the same in all files"
        )
    return [found[name] for name in layout.class_names]


def _model_eta(model: Any, table: FileTable, features: list[str], layout: Layout) -> FloatArray:
    """Return the model's probabilities in the order of the classes."""
    eta = model_eta(model, table, features)
    names = model_classes(model)
    if sorted(names) != sorted(layout.class_names):
        raise UsageError(f"the model has the classes {listed(names)}, but the run has {listed(layout.class_names)}")
    return np.asarray(eta[:, [names.index(name) for name in layout.class_names]])


def _groups(table: FileTable, name: str) -> Any:
    """Return the groups of the rows, strings or numbers; raise if one is missing."""
    series = pick(table, name, option="--groups")
    missing = series.isna().to_numpy()
    if missing.any():
        raise UsageError(
            f"{table.row_of_file(missing)} has no group in column {name!r} (--groups): give such rows a separate group"
        )
    return series.to_numpy() if series.dtype.kind in "biuf" else series.astype(str).to_numpy(dtype=str)

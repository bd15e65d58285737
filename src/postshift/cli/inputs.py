"""From files to what a fit or a prediction takes: probabilities, labels, weights, groups, features of bases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.cli.columns import (
    Classes,
    canonical,
    eta_of,
    eta_of_one,
    feature_columns,
    listed,
    numbers,
    pick,
    probability_columns,
)
from postshift.cli.errors import UsageError
from postshift.cli.model_file import model_classes, model_eta
from postshift.cli.remedies import OF_FIT, Remedies
from postshift.cli.row_numbers import is_index_name
from postshift.cli.tables import FileTable


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Which columns are what; a run remembers it for the files to come.

    ``proba`` is a pattern with a star for the class or, of two classes, the column of the second one's probability.
    """

    class_names: tuple[str, ...]
    class_values: tuple[Any, ...]
    proba: str | None = None
    label: str | None = None
    weight: str | None = None
    groups: str | None = None
    features: str | None = None
    normalise: bool = False

    @property
    def classes(self) -> Classes:
        """The classes."""
        return Classes(names=self.class_names, values=self.class_values)

    @property
    def is_one_column(self) -> bool:
        """Whether one column has the probabilities, those of the second of two classes."""
        return self.proba is not None and "*" not in self.proba

    def to_json(self) -> dict[str, Any]:
        """Return plain types."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the layout that :meth:`to_json` wrote; a TypeError or ValueError says what it would not write."""
        plain = dict(content)
        if unknown := set(plain) - {each.name for each in fields(cls)}:
            raise ValueError(f"the layout has a part {min(unknown)!r} that this version does not know")
        for name in ("class_names", "class_values"):
            if not isinstance(plain.get(name), list):
                raise TypeError(f"{name!r} of the layout must be a list")
            plain[name] = tuple(plain[name])
        layout = cls(**plain)
        layout._check()
        return layout

    def _check(self) -> None:
        """Refuse names of columns that are no texts, and classes that do not fit each other."""
        columns = (self.proba, self.label, self.weight, self.groups, self.features)
        if not all(isinstance(each, str | None) for each in columns) or not isinstance(self.normalise, bool):
            raise ValueError("the columns of the layout must be texts")
        names, values = self.class_names, self.class_values
        if not all(isinstance(name, str) for name in names) or not all(
            isinstance(v, str | int | float) for v in values
        ):
            raise ValueError("the classes of the layout must be texts or numbers")
        if len(names) < 2 or len(names) != len({*names}) or len(names) != len(values):
            raise ValueError(f"the layout must name two classes or more, each once, and has {listed(names)}")
        for name, value in zip(names, values, strict=True):
            if canonical(value) != name:
                raise ValueError(f"class {name!r} of the layout has the label {value!r}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """The rows of a file as the library takes them; what was not asked for or is not there is None.

    ``left_out`` are the columns that an index was written to, which are no features.
    """

    table: FileTable
    eta: FloatArray
    features: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    codes: IntArray | None = None
    weights: FloatArray | None = None
    groups: Any = None

    def labels(self, classes: Classes) -> Any:
        """Return the labels in the type of the classes."""
        return None if self.codes is None else classes.array[self.codes]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.eta)


def read_part(
    table: FileTable,
    layout: Layout,
    *,
    model: Any = None,
    needed: Sequence[str] = (),
    optional: Sequence[str] = (),
    remedies: Remedies = OF_FIT,
) -> Part:
    """Return the rows of a file.

    Parameters
    ----------
    table : FileTable
        The file.
    layout : Layout
        Which columns are what.
    model : classifier, optional
        Gives the probabilities; without it they are columns.
    needed, optional : sequence of {"label", "weight", "groups"}
        Those of the columns that must be there where the layout names them, and those that are read if they are there.
    remedies : Remedies
        What to do about a file that does not fit.
    """
    special = (layout.label, layout.weight, layout.groups)
    columns = {} if model is not None else _ordered_columns(table, layout, special, remedy=remedies.columns)
    features = feature_columns(
        table, but=(*special, *columns.values()), chosen=layout.features, option=remedies.option("features")
    )
    if layout.is_one_column:
        eta = eta_of_one(table, str(layout.proba), option=remedies.option("proba"))
    elif model is None:
        eta = eta_of(table, list(columns.values()), normalise=layout.normalise, remedy=remedies.sums)
    else:
        eta = _by_class(model_eta(model, table, features, remedy=remedies.features), model, layout)

    def there(name: str | None, option: str) -> bool:
        if name is None:
            return False
        if option in needed:
            pick(table, name, option=remedies.option(option) if option == "weight" else f"--{option}")
        return option in needed or (option in optional and name in table.frame.columns)

    weights = None
    if there(layout.weight, "weight"):
        weights = numbers(table, [str(layout.weight)], what="weights")[:, 0]
    return Part(
        table=table,
        eta=eta,
        features=tuple(features),
        left_out=_left_out(table, layout, taken={*special, *columns.values()}),
        codes=layout.classes.codes(table, str(layout.label)) if there(layout.label, "label") else None,
        weights=weights,
        groups=_groups(table, str(layout.groups)) if there(layout.groups, "groups") else None,
    )


def concatenated(parts: Sequence[Part], path: Path, *, digest: str) -> Part:
    """Return parts of the same layout, one after the other, as that of the files of one path."""
    import pandas as pd

    first = parts[0]
    frame = pd.concat([part.table.frame for part in parts], ignore_index=True)

    def column(name: str) -> Any:
        given = [getattr(part, name) for part in parts]
        return None if given[0] is None else np.concatenate(given)

    columns = {name: column(name) for name in ("eta", "codes", "weights", "groups")}
    return Part(table=FileTable(path=path, frame=frame, digest=digest), features=first.features, **columns)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """How files of rows are read: the arguments of :func:`read_part` but for the file."""

    layout: Layout
    model: Any = None
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    remedies: Remedies = OF_FIT

    def part(self, table: FileTable) -> Part:
        """Return the rows of a file."""
        which = {"needed": self.needed, "optional": self.optional}
        return read_part(table, self.layout, model=self.model, remedies=self.remedies, **which)


def _ordered_columns(table: FileTable, layout: Layout, special: Sequence[str | None], *, remedy: str) -> dict[str, str]:
    """Return the probability columns in the order of the classes; one column for both of two, where it is one."""
    if layout.is_one_column:
        return {layout.class_names[1]: str(layout.proba)}
    named = probability_columns(table, str(layout.proba), but=[name for name in special if name], remedy=remedy)
    found = {canonical(star): name for star, name in named.items()}
    if missing := [name for name in layout.class_names if name not in found]:
        raise UsageError(
            f"{table.path} has no column {str(layout.proba).replace('*', missing[0])!r} with the probabilities of "
            f"class {missing[0]!r}; {layout.proba!r} matches {listed(found.values())}: the classes must be the same in "
            "all files"
        )
    if more := [star for star in found if star not in layout.class_names]:
        raise UsageError(
            f"column {found[more[0]]!r} of {table.path} is of a class that the other rows do not have "
            f"({listed(layout.class_names)}): the classes must be the same in all files"
        )
    return {name: found[name] for name in layout.class_names}


def _by_class(eta: FloatArray, model: Any, layout: Layout) -> FloatArray:
    """Return the model's probabilities in the order of the classes."""
    names = model_classes(model)
    if sorted(names) != sorted(layout.class_names):
        raise UsageError(f"the model has the classes {listed(names)}, and the run {listed(layout.class_names)}")
    return np.asarray(eta[:, [names.index(name) for name in layout.class_names]])


def _left_out(table: FileTable, layout: Layout, *, taken: set[str | None]) -> tuple[str, ...]:
    """Return the columns that are left out of the features for their names."""
    if layout.features is not None:
        return ()
    return tuple(name for name in table.frame.columns if name not in taken and is_index_name(name))


def _groups(table: FileTable, name: str) -> Any:
    """Return the groups of the rows, texts or numbers, none missing."""
    series = pick(table, name, option="--groups")
    missing = series.isna().to_numpy()
    if missing.any():
        raise UsageError(
            f"{table.row_of_file(missing)} has no group in column {name!r} (--groups): give such rows a group "
            "of their own"
        )
    return series.to_numpy() if series.dtype.kind in "biuf" else series.astype(str).to_numpy(dtype=str)

"""What ``--basis`` stands for: bases fitted to the columns that they can read, on the rows that they may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sklearn.utils import get_tags

from postshift._validation import FloatArray
from postshift.basis import GroupBasis, named_bases
from postshift.cli.columns import Classes, listed, pick
from postshift.cli.errors import UsageError, first_line
from postshift.cli.groups import alike
from postshift.cli.inputs import Part
from postshift.cli.row_numbers import counts_rows, differs_by_row
from postshift.cli.rule_file import FittedBasis
from postshift.cli.tables import FileTable
from postshift.estimators.rows_of import FeatureRows, fitted_bases

AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class Features:
    """Columns of numbers that bases read, and those that are left out because they only number the rows.

    ``doubtful`` are those that are read and may do the same.
    """

    names: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Sequence[str], parts: Sequence[Part], *, chosen: bool) -> Features:
        """Return what is known of some columns of numbers; where the user chose them, all are read."""
        if chosen:
            return cls(names=tuple(names))
        frames = [part.table.frame for part in parts]
        counting = [name for name in names if any(counts_rows(frame[name]) for frame in frames)]
        kept = [name for name in names if name not in counting]
        unnamed = dict.fromkeys(name for part in parts for name in part.left_out)
        return cls(
            names=tuple(kept),
            left_out=(*unnamed, *counting),
            doubtful=tuple(name for name in kept if all(differs_by_row(frame[name]) for frame in frames)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Bases:
    """Fitted bases by name, and their functions of the validation and the training rows.

    ``features`` are the columns that those which read numbers were fitted to, if there are such bases.
    """

    fitted: Mapping[str, FittedBasis] = field(default_factory=dict)
    val: Mapping[str, FloatArray] = field(default_factory=dict)
    train: Mapping[str, FloatArray] = field(default_factory=dict)
    features: Features | None = None

    def named_functions(self) -> dict[str, Any]:
        """Return the functions of the validation rows as frames with the names of the functions."""
        import pandas as pd

        return {
            name: pd.DataFrame(phi, columns=[str(each) for each in self.fitted[name].basis.get_feature_names_out()])
            for name, phi in self.val.items()
        }


def fit_bases(
    text: str, classes: Classes, *, train: Part | None, val: Part, groups: str | None = None, chosen: bool = False
) -> Bases:
    """Return the bases that a text names, fitted.

    Groups by columns see the columns they name, that of the metric's ``groups`` too, which is no feature; other bases
    see the features that are numbers, without those that number the rows, unless the features were ``chosen``. ``auto``
    is the leaves of a tree where there are training rows with labels and features that are numbers, else the constant
    basis.
    """
    parts = [part for part in (train, val) if part is not None]
    names = [name for name in val.features if all(name in part.features for part in parts)]
    read = Features.of([name for name in names if all(_is_numeric(name, part) for part in parts)], parts, chosen=chosen)
    if text == AUTO:
        if train is None or train.codes is None:
            return Bases()
        made = _fitted(AUTO, list(read.names), classes, train=train, val=val) if read.names else Bases()
        return replace(made, features=read)
    tables = [part.table for part in parts]
    grouped = [groups] if groups is not None and all(groups in each.frame.columns for each in tables) else []
    found = Bases()
    for name, basis in named_bases(text).items():
        _check_labels(name, basis, train=train, val=val)
        by_group = isinstance(basis, GroupBasis)
        columns = _columns_of(basis, [*names, *grouped], tables) if by_group else list(read.names)
        if not columns:
            raise UsageError(
                f"basis {name!r} reads features that are numbers, and there are none: add such columns, or take "
                "--basis constant"
            )
        more = _fitted({name: basis}, columns, classes, train=train, val=val)
        found = Bases(
            fitted={**found.fitted, **more.fitted},
            val={**found.val, **more.val},
            train={**found.train, **more.train},
            features=found.features if by_group else read,
        )
    return found


def _fitted(basis: Any, columns: list[str], classes: Classes, *, train: Part | None, val: Part) -> Bases:
    """Fit bases to some columns."""
    parts = [part for part in (val, train) if part is not None]
    frames = alike((part.table.frame[columns] for part in parts), columns)
    val_rows, *others = (_rows(part, frame, classes) for part, frame in zip(parts, frames, strict=True))
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
    kept = {name: FittedBasis(basis=each, columns=tuple(columns)) for name, each in fitted.items()}
    return Bases(fitted=kept, val=phi, train=on_train)


def _rows(part: Part, frame: Any, classes: Classes) -> FeatureRows:
    """Return the rows, some of their columns, as bases are fitted to them."""
    return FeatureRows(X=frame, y=part.labels(classes), codes=part.codes, weights=part.weights, eta=part.eta)


def _check_labels(name: str, basis: Any, *, train: Part | None, val: Part) -> None:
    """Refuse a basis that reads labels where there are none that it may read."""
    if not get_tags(basis).target_tags.required:
        return
    if basis.fitted_on == "val":
        if val.codes is None:
            raise UsageError(f"basis {name!r} is fitted to validation labels: name their column with --label")
    elif train is None or train.codes is None:
        raise UsageError(
            f"basis {name!r} is fitted to the labels of training rows: give them with --train, or take another basis "
            "(see postshift bases)"
        )


def _columns_of(basis: Any, names: list[str], tables: Sequence[FileTable]) -> list[str]:
    """Return the columns that groups are by, or all where positions are given or a name is not there."""
    wanted = basis.columns if isinstance(basis.columns, list | tuple) else [basis.columns]
    if any(name not in names for name in wanted):
        return names
    for table in tables:
        for name in wanted:
            pick(table, name, option="--basis")  # which refuses lists and records
    return list(wanted)


def _is_numeric(name: str, part: Part) -> bool:
    """Return whether a column holds numbers or booleans."""
    return part.table.frame[name].dtype.kind in "biuf"

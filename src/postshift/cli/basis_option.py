"""What ``--basis`` stands for: bases fitted to the columns that they can read, on the rows that they may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sklearn.utils import get_tags

from postshift._validation import FloatArray
from postshift.basis import GroupBasis, named_bases
from postshift.cli.columns import Classes, listed
from postshift.cli.errors import UsageError, first_line
from postshift.cli.inputs import Part
from postshift.cli.rule_file import FittedBasis
from postshift.estimators.bases import Rows, fitted_bases

AUTO = "auto"


@dataclass(frozen=True, kw_only=True, eq=False)
class Bases:
    """Fitted bases by name, and their functions of the validation and the training rows."""

    fitted: Mapping[str, FittedBasis] = field(default_factory=dict)
    val: Mapping[str, FloatArray] = field(default_factory=dict)
    train: Mapping[str, FloatArray] = field(default_factory=dict)

    def named_functions(self) -> dict[str, Any]:
        """Return the functions of the validation rows as frames with the names of the functions."""
        import pandas as pd

        return {
            name: pd.DataFrame(phi, columns=[str(each) for each in self.fitted[name].basis.get_feature_names_out()])
            for name, phi in self.val.items()
        }


def fit_bases(text: str, classes: Classes, *, train: Part | None, val: Part, groups: str | None = None) -> Bases:
    """Return the bases that a text names, fitted.

    Groups by columns see the columns they name, that of the metric's ``groups`` too, which is no feature; other bases
    see the features that are numbers. ``auto`` is the leaves
    of a tree where there are training rows with labels and features that are numbers, else the constant basis.
    """
    names = [name for name in val.features if train is None or name in train.features]
    numeric = [name for name in names if _is_numeric(name, val) and (train is None or _is_numeric(name, train))]
    if text == AUTO:
        if train is None or train.codes is None or not numeric:
            return Bases()
        return _fitted(AUTO, numeric, classes, train=train, val=val)
    tables = [part.table for part in (train, val) if part is not None]
    grouped = [groups] if groups is not None and all(groups in each.frame.columns for each in tables) else []
    found = Bases()
    for name, basis in named_bases(text).items():
        _check_labels(name, basis, train=train, val=val)
        columns = _columns_of(basis, [*names, *grouped]) if isinstance(basis, GroupBasis) else numeric
        if not columns:
            raise UsageError(
                f"basis {name!r} reads features that are numbers, and there are none: add such columns, or take "
                "--basis constant"
            )
        more = _fitted({name: basis}, columns, classes, train=train, val=val)
        found = Bases(
            fitted={**found.fitted, **more.fitted}, val={**found.val, **more.val}, train={**found.train, **more.train}
        )
    return found


def _fitted(basis: Any, columns: list[str], classes: Classes, *, train: Part | None, val: Part) -> Bases:
    """Fit bases to some columns."""
    val_rows = _rows(val, columns, classes)
    labelled = None if train is None else _rows(train, columns, classes)
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


def _rows(part: Part, columns: list[str], classes: Classes) -> Rows:
    """Return the rows as bases are fitted to them."""
    return Rows(
        X=part.table.frame[columns], y=part.labels(classes), codes=part.codes, weights=part.weights, eta=part.eta
    )


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


def _columns_of(basis: Any, names: list[str]) -> list[str]:
    """Return the columns that groups are by, or all where positions are given or a name is not there."""
    wanted = basis.columns if isinstance(basis.columns, list | tuple) else [basis.columns]
    return list(wanted) if all(name in names for name in wanted) else names


def _is_numeric(name: str, part: Part) -> bool:
    """Return whether a column holds numbers or booleans."""
    return part.table.frame[name].dtype.kind in "biuf"

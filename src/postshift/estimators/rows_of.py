"""Makes rows: from features by a fitted model and fitted bases, or from given arrays.

The estimators, the workers of a cluster, the command line and the report all use it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import _num_samples, has_fit_parameter

from postshift._validation import FloatArray, IntArray, as_table
from postshift.basis import named_bases
from postshift.core.rows import Rows
from postshift.estimators.model import DROP_ROWS, eta_of, label_values, positions
from postshift.exceptions import BasisError, PostshiftWarning, ShapeError

_ASKED_FOR_BY_NOBODY = (None, "auto")
MANY_FUNCTIONS, FEWEST_ROWS = 20, 10  # a basis with more functions needs this many rows for each


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureRows:
    """Rows with their features and everything else that was given; ``codes`` are positions among the classes."""

    X: Any
    y: Any = None
    codes: IntArray | None = None
    weights: Any = None
    eta: FloatArray | None = None

    def take(self, rows: IntArray, eta: FloatArray | None = None) -> FeatureRows:
        """Return these rows, with their probabilities."""
        return FeatureRows(
            X=_safe_indexing(self.X, rows),
            y=_safe_indexing(self.y, rows),
            codes=None if self.codes is None else self.codes[rows],
            weights=None if self.weights is None else np.asarray(self.weights)[rows],
            eta=eta,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class RowsOf:
    """Makes rows from features, with a fitted model and fitted bases."""

    model: Any
    classes: Any
    bases: Mapping[str, Any]

    def __call__(self, X: Any, *, eta: Any = None, codes: Any = None, weights: Any = None) -> Rows:
        """Return the rows of features; ``eta`` are the probabilities if they are already known."""
        found = eta_of(self.model, X, self.classes) if eta is None else eta
        phi = {name: np.asarray(basis.transform(X)) for name, basis in self.bases.items()}
        return Rows.of(found, bases=phi, labels=codes, weights=weights)

    def of_parts(self, parts: Mapping[str, Any]) -> Rows:
        """Return the rows of one partition of a cluster."""
        codes = positions(np.asarray(parts["y"]), self.classes, name="y")
        weights = None if "sample_weight" not in parts else np.asarray(parts["sample_weight"])
        return self(parts["X"], codes=codes, weights=weights)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowsOfArrays:
    """Makes rows from probabilities and basis functions; errors name the arguments ``eta_NAME`` and ``y_NAME``."""

    classes: Any
    name: str
    remedy: str = DROP_ROWS

    def __call__(self, eta: Any, phi: Mapping[str, Any], *, y: Any = None, weights: Any = None) -> Rows:
        """Return the rows; ``phi`` are the functions of each basis."""
        name, codes = f"eta_{self.name}", None
        if y is not None:
            y_name = f"y_{self.name}"
            codes = positions(label_values(y, name=y_name), self.classes, name=y_name, remedy=self.remedy)
        _check_order(eta, self.classes, name=name)
        n_columns = n_columns_of(eta, name=name)
        if n_columns != len(self.classes):
            raise ShapeError(f"{name} must have {len(self.classes)} columns. Got {n_columns} instead")
        return Rows.of(eta, bases=phi, labels=codes, weights=weights, name=name)

    def of_parts(self, parts: Mapping[str, Any]) -> Rows:
        """Return the rows of one partition of a cluster: ``phi_NAME[basis]`` are the functions of a basis."""
        given = {name: np.asarray(part) for name, part in parts.items()}
        eta, y, weights = (given.pop(f"{each}_{self.name}", None) for each in ("eta", "y", "sample_weight"))
        phi = {name.partition("[")[2].removesuffix("]"): part for name, part in given.items()}
        return self(eta, phi, y=y, weights=weights)


def n_columns_of(eta: Any, *, name: str) -> int:
    """Return the number of columns of probabilities, dense or sparse."""
    given = eta if sparse.issparse(eta) and len(eta.shape) == 2 else as_table(eta, name=name)
    return int(given.shape[1])


def _check_order(eta: Any, classes: Any, *, name: str) -> None:
    """Raise if the columns of a data frame have the names of the classes, but in another order."""
    if not hasattr(eta, "columns"):
        return
    columns, wanted = [str(column) for column in eta.columns], [str(label) for label in classes]
    if columns != wanted and sorted(columns) == sorted(wanted):
        raise ShapeError(
            f"{name} must have its columns in the order of the classes, {wanted}. Got {columns} instead: reorder them, "
            "or give classes in their order"
        )


def fitted_bases(
    basis: Any, *, given: FeatureRows, labelled: FeatureRows | None, val: FeatureRows
) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return the fitted bases by name, and their functions of the validation rows.

    A basis that reads labels is fitted to ``labelled``, which are not validation rows: a tree fitted to the rows on
    which rules are chosen would score too high. If there are no such rows, the default basis is left out, and a basis
    that the user chose is an error.
    """
    fitted: dict[str, Any] = {}
    phi: dict[str, FloatArray] = {}
    for name, one in named_bases(basis).items():
        on_val = one.fitted_on == "val"
        reads_labels = get_tags(one).target_tags.required
        rows = val if on_val else labelled if reads_labels else given
        if rows is None and basis in _ASKED_FOR_BY_NOBODY:
            continue
        found = _fitted(one, rows, name, asked_for=basis not in _ASKED_FOR_BY_NOBODY)
        if found is not None:
            fitted[name] = found
            phi[name] = np.asarray(found.on_fit_rows(val.X) if on_val else found.transform(val.X))
    return fitted, phi


def _fitted(basis: Any, rows: FeatureRows | None, name: str, *, asked_for: bool) -> Any:
    """Return a fitted copy, or None if the default basis cannot be fitted to these rows (text, images)."""
    if rows is None:
        raise BasisError(
            f"basis {name!r} is fitted to labels, which must not be those of the rows that choose among the rules: "
            "give X_val and y_val, or hold rows out (cv=0.3)"
        )
    if rows.y is None and get_tags(basis).target_tags.required:
        raise BasisError(f"basis {name!r} is fitted to the labels of the validation rows: give y_val, or use 'rbf:all'")
    takes_weights = rows.weights is not None and has_fit_parameter(basis, "sample_weight")
    weights = {"sample_weight": np.array(rows.weights)} if takes_weights else {}
    try:
        found = clone(basis).fit(rows.X, rows.y, **weights)
        _check_width(found, name, _num_samples(rows.X))
    except (TypeError, ValueError) as error:
        if asked_for:
            raise
        warnings.warn(
            f"no basis is used: {name!r} cannot be fitted to these rows ({error})", PostshiftWarning, stacklevel=6
        )
        return None
    return found


def _check_width(basis: Any, name: str, n_rows: int) -> None:
    """Raise if a basis has many functions for few rows: a column of numbers that was not meant as groups."""
    n_bases = len(basis.get_feature_names_out())
    if n_bases > MANY_FUNCTIONS and n_rows < FEWEST_ROWS * n_bases:
        raise BasisError(
            f"basis {name!r} has {n_bases} functions for {n_rows} rows, {n_rows / n_bases:.1f} rows each, too few to "
            "learn from: put numbers into bins, or name the values that get their own weight "
            "(GroupBasis(values=[...]))"
        )

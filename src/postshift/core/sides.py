"""The two sides of a run, training and validation, checked against each other before the first query."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postshift._validation import IntArray, check_rows
from postshift.core.mixture import Mixture
from postshift.core.moments import LabelSums
from postshift.core.rows import Rows
from postshift.core.statistics import Engine
from postshift.exceptions import EmptyBasisWarning, LabelError, MissingClassWarning, SettingError, ShapeError


def check_sides(train: Engine, val: Rows, start: Mixture | None) -> None:
    """Refuse training and validation sides that do not fit each other."""
    check_rows(val.n_samples, name="validation")
    sides = {"training rows": (train.n_classes, train.n_bases)}
    if start is not None:
        if not isinstance(start, Mixture):
            raise SettingError(f"start must be a Mixture: Mixture.of([plug_in], [1.0]). Got {type(start).__name__}")
        sides["start"] = (start.n_classes, start.n_bases)
    for name, found in sides.items():
        if found != (val.n_classes, val.n_bases):
            raise ShapeError(
                f"the validation rows have {val.n_classes} classes and {val.n_bases} basis functions, the {name} "
                f"{found[0]} and {found[1]}: both sides need the same model and the same basis"
            )


def check_training_labels(labels: LabelSums) -> None:
    """Refuse training labels of one class, and warn of classes without rows."""
    check_rows(labels.count, name="training")
    missing = np.flatnonzero(labels.classes == 0).tolist()
    if len(missing) >= len(labels.classes) - 1:
        raise LabelError("all training rows have the same class: there is nothing to weigh one against the other")
    if missing:
        warnings.warn(
            f"no training row of class {missing if len(missing) > 1 else missing[0]}: no weight can be elicited for it",
            MissingClassWarning,
            stacklevel=5,
        )


def without_evidence(labels: LabelSums, val: Rows) -> NDArray[np.bool_]:
    """Return which basis functions have no training or no validation rows, with a warning if any."""
    unknown: NDArray[np.bool_] = (labels.single.sum(axis=1) == 0) | (val.phi.sum(axis=0) == 0)
    if unknown.any():
        warnings.warn(
            f"basis functions {np.flatnonzero(unknown).tolist()} have no training or no validation rows: "
            "they take the average weights of the others",
            EmptyBasisWarning,
            stacklevel=5,
        )
    return unknown


def checked_halves(halves: Any, n_rows: int) -> tuple[IntArray, IntArray]:
    """Return two sorted, disjoint, non-empty arrays of row numbers."""
    problem = f"halves must be two arrays of distinct row numbers in 0..{n_rows - 1}, none in both"
    try:
        first, second = (np.sort(np.asarray(half)) for half in halves)
        together = np.sort(np.concatenate([first, second]))
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{problem}. Got {type(halves).__name__}: {error}") from error
    whole = together.dtype.kind in "iu" and first.ndim == 1 and first.size > 0 and second.size > 0
    if not whole or together[0] < 0 or together[-1] >= n_rows or (np.diff(together) == 0).any():
        raise ShapeError(f"{problem}. Got {first.size} and {second.size} values")
    return first.astype(np.intp), second.astype(np.intp)

"""The base model's probabilities: of a fitted model, or out of fold for the rows it is fitted to."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit, check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

from postshift._validation import FloatArray, IntArray, check_eta
from postshift.exceptions import InputError, LabelError

Split = tuple[IntArray, IntArray]


def is_frozen(estimator: Any) -> bool:
    """Return whether a model is to be taken as it is."""
    return isinstance(estimator, FrozenEstimator)


def fitted_clone(estimator: Any, X: Any, y: Any, params: Mapping[str, Any]) -> Any:
    """Return a fitted copy of a model."""
    return clone(estimator).fit(X, y, **params)


def eta_of(model: Any, X: Any, classes: Any) -> FloatArray:
    """Return the model's probabilities (n, m), a column for each of ``classes``; classes unknown to it get 0."""
    if not hasattr(model, "predict_proba"):
        raise InputError(
            f"{model!r} has no predict_proba: wrap it in sklearn.calibration.CalibratedClassifierCV, which gives it one"
        )
    given = check_eta(model.predict_proba(X), name="the model's predict_proba")
    if np.array_equal(model.classes_, classes):
        return given
    table = np.zeros((len(given), len(classes)))
    table[:, positions(model.classes_, classes, name="the model's classes")] = given
    return table


def positions(labels: Any, classes: Any, *, name: str) -> IntArray:
    """Return the position among ``classes`` of every label; one that is not there is an error."""
    values, order = np.asarray(labels), np.argsort(classes, kind="stable")
    try:
        place = np.minimum(np.searchsorted(classes, values, sorter=order), len(classes) - 1)
    except TypeError as error:
        raise LabelError(f"{name} must be of the same kind as the classes {_few(classes)}: {error}") from error
    codes = order[place]
    strange = classes[codes] != values
    if strange.any():
        raise LabelError(
            f"{name} has {int(strange.sum())} values that are none of the {len(classes)} classes of the model "
            f"({_few(classes)}), e.g. {values[strange][0]!r}: drop these rows, or fit the model to rows of them too"
        )
    return np.asarray(codes, dtype=np.intp)


def make_splits(cv: Any, X: Any, y: Any, *, seed: int, params: Mapping[str, Any]) -> list[Split]:
    """Return the splits (rows of the fit, rows left out) that ``cv`` stands for.

    A number between 0 and 1 is one stratified hold-out; None and whole numbers are stratified folds, fewer where the
    rarest class has fewer rows; anything else is a scikit-learn splitter or an iterable of splits.
    """
    if isinstance(cv, float):
        return list(StratifiedShuffleSplit(n_splits=1, test_size=cv, random_state=seed).split(X, y))
    if cv is None or isinstance(cv, int | np.integer):
        rarest = int(np.unique(y, return_counts=True)[1].min())
        cv = StratifiedKFold(max(2, min(5 if cv is None else int(cv), rarest)), shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # its rows get 0 in one fold
        return list(check_cv(cv, y, classifier=True).split(X, y, **params))


def out_of_fold_eta(
    estimator: Any,
    X: Any,
    y: Any,
    splits: Sequence[Split],
    *,
    classes: Any,
    params: Mapping[str, Any],
    n_jobs: int | None,
    step: Callable[[str], None],
) -> tuple[IntArray, FloatArray]:
    """Return the rows that were left out, split after split, and the probabilities of models not fitted to them."""
    parts = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_held_out_eta)(estimator, X, y, split, classes=classes, params=params) for split in splits
    )
    found = []
    for number, part in enumerate(parts, start=1):
        step(f"fold {number}")
        found.append(part)
    return np.concatenate([left for _, left in splits]), np.concatenate(found)


def _held_out_eta(
    estimator: Any, X: Any, y: Any, split: Split, *, classes: Any, params: Mapping[str, Any]
) -> FloatArray:
    """Fit to one part of the rows and return the probabilities of the other."""
    kept, left = split
    model = fitted_clone(
        estimator, _safe_indexing(X, kept), _safe_indexing(y, kept), _check_method_params(X, params, indices=kept)
    )
    return eta_of(model, _safe_indexing(X, left), classes)


def _few(classes: Any) -> str:
    """Show the classes, not too many."""
    shown = ", ".join(repr(label) for label in np.asarray(classes).tolist()[:6])
    return shown if len(classes) <= 6 else f"{shown}, ..."

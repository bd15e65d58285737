"""The base model's probabilities: those of a fitted model, or out-of-fold ones for the rows it is fitted to."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit, check_cv
from sklearn.utils import _safe_indexing, assert_all_finite
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, column_or_1d

from postshift._validation import FloatArray, IntArray, check_count, check_eta, check_in_range
from postshift.basis._columns import missing
from postshift.exceptions import InputError, LabelError, SettingError, WeightError

Split = tuple[IntArray, IntArray]
N_FOLDS = 5
DROP_ROWS = "drop these rows, or add rows of these classes to the fit"


def is_frozen(estimator: Any) -> bool:
    """Return whether a model is used as it is."""
    return isinstance(estimator, FrozenEstimator)


def fitted_clone(estimator: Any, X: Any, y: Any, params: Mapping[str, Any]) -> Any:
    """Return a fitted copy of a model."""
    return clone(estimator).fit(X, y, **params)


def eta_of(model: Any, X: Any, classes: Any) -> FloatArray:
    """Return the model's probabilities (n, m), a column for each of ``classes``; classes unknown to it get 0."""
    if not hasattr(model, "predict_proba"):
        raise InputError(
            f"{model!r} has no predict_proba: wrap it in sklearn.calibration.CalibratedClassifierCV, which adds it"
        )
    given = check_eta(model.predict_proba(X), name="the model's predict_proba")
    if np.array_equal(model.classes_, classes):
        return given
    table = np.zeros((len(given), len(classes)))
    table[:, positions(model.classes_, classes, name="the model's classes")] = given
    return table


def one_a_row(values: Any, *, name: str) -> Any:
    """Return values as an array (n,); raise if any is missing."""
    try:
        found = column_or_1d(values, warn=True)
    except ValueError as error:
        shape = np.shape(values)
        if len(shape) == 1:
            raise
        remedy = ": for one-hot rows give numpy.argmax(..., axis=1); several labels per row are out of scope"
        remedy = remedy if len(shape) == 2 else ""
        raise LabelError(
            f"{name} must have one value per row. Got an array of shape {shape} instead{remedy}"
        ) from error
    if len(gone := np.flatnonzero(missing(found))):
        rows = ", ".join(map(str, gone[:5])) + (", ..." if len(gone) > 5 else "")
        raise LabelError(f"{name} is missing in {len(gone)} of {len(found)} rows (rows {rows}): drop these rows")
    return found


def label_values(values: Any, *, name: str) -> Any:
    """Return labels as an array (n,): none missing, all of one kind.

    NumPy converts a list of strings and numbers to strings, so lists are checked first.
    """
    given = np.array(values, dtype=object) if isinstance(values, list | tuple) else values
    found = one_a_row(given, name=name)
    if found.dtype.kind != "O":
        return found
    kinds = {_kind(label): label for label in found}
    if len(kinds) > 1:
        (first, one), (second, other) = list(kinds.items())[:2]
        raise LabelError(
            f"{name} must be of one kind, all strings or all numbers. Got {first} such as {one!r} and {second} such as "
            f"{other!r}: convert them, e.g. all to str"
        )
    return found if given is values else one_a_row(values, name=name)


def _kind(label: Any) -> str:
    """Return the kind of a label: a string, a number, or the name of its type."""
    if isinstance(label, str):
        return "strings"
    return "numbers" if isinstance(label, Real | np.bool_) else type(label).__name__


def positions(
    labels: Any, classes: Any, *, name: str, what: str = "classes of the model", remedy: str = DROP_ROWS
) -> IntArray:
    """Return the position among ``classes`` of every label; raise if a label is not among them."""
    values, order = np.asarray(labels), np.argsort(classes, kind="stable")
    if _are_positions(values, classes):
        return values.astype(np.intp, copy=False)
    try:
        place = np.minimum(np.searchsorted(classes, values, sorter=order), len(classes) - 1)
    except TypeError as error:
        raise LabelError(f"{name} must be of the same kind as the {what} ({_few(classes)}): {error}") from error
    codes = order[place]
    strange = classes[codes] != values
    if strange.any():
        raise LabelError(
            f"{name} has {int(strange.sum())} values that are not among the {len(classes)} {what} "
            f"({_few(classes)}), e.g. {values[strange][:1].tolist()[0]!r}: {remedy}"
        )
    return np.asarray(codes, dtype=np.intp)


def make_splits(cv: Any, X: Any, y: Any, *, seed: int, params: Mapping[str, Any]) -> list[Split]:
    """Return the splits (rows of the fit, rows left out) of ``cv``.

    A number between 0 and 1 is one stratified hold-out; None and whole numbers are stratified folds, fewer if the
    rarest class has fewer rows; anything else is a scikit-learn splitter or an iterable of splits.
    """
    if isinstance(cv, Real) and not isinstance(cv, Integral):
        check_in_range(cv, name="cv", low=0, high=1, open_low=True, open_high=True)
        return list(StratifiedShuffleSplit(n_splits=1, test_size=float(cv), random_state=seed).split(X, y))
    if cv is None or isinstance(cv, Integral):
        wanted = N_FOLDS if cv is None else check_count(cv, name="cv", low=2)
        rarest = int(np.unique(y, return_counts=True)[1].min())
        cv = StratifiedKFold(max(2, min(wanted, rarest)), shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # its rows get 0 in one fold
        found = check_cv(cv, y, classifier=True).split(X, y, **params)
        splits = [(_row_numbers(kept), _row_numbers(left)) for kept, left in found]
    if not splits:
        raise SettingError(f"cv={cv!r} makes no split: a generator can be used only once; give a list or a splitter")
    return splits


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
    """Return the rows that were left out, in their order, and the probabilities of models not fitted to them.

    If several splits leave out a row, its probabilities are averaged.
    """
    parts = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_held_out_eta)(estimator, X, y, split, classes=classes, params=params) for split in splits
    )
    sums, counts = np.zeros((len(y), len(classes))), np.zeros(len(y))
    for number, ((_, left), eta) in enumerate(zip(splits, parts, strict=True), start=1):
        step(f"fold {number}")
        sums[left] += eta
        counts[left] += 1
    rows = np.flatnonzero(counts)
    return rows, sums[rows] / counts[rows, None]


def _row_numbers(rows: Any) -> IntArray:
    """Return rows as numbers, from numbers or a mask."""
    found = np.asarray(rows)
    return np.flatnonzero(found) if found.dtype == bool else found


def _held_out_eta(
    estimator: Any, X: Any, y: Any, split: Split, *, classes: Any, params: Mapping[str, Any]
) -> FloatArray:
    """Fit to one part of the rows, and return the probabilities of the other part."""
    kept, left = split
    model = fitted_clone(
        estimator, _safe_indexing(X, kept), _safe_indexing(y, kept), _check_method_params(X, params, indices=kept)
    )
    return eta_of(model, _safe_indexing(X, left), classes)


def _are_positions(values: Any, classes: Any) -> bool:
    """Return whether the classes are 0 to m - 1 in order and all labels are among them: labels are positions."""
    if values.dtype.kind not in "iu" or not np.array_equal(classes, np.arange(len(classes))):
        return False
    return len(values) == 0 or (values.min() >= 0 and values.max() < len(classes))


def _few(classes: Any) -> str:
    """Return the first classes as text."""
    shown = ", ".join(repr(label) for label in np.asarray(classes).tolist()[:6])
    return shown if len(classes) <= 6 else f"{shown}, ..."


def check_target(y: Any) -> None:
    """Raise unless every row has one label."""
    if np.asarray(y).dtype.kind == "f":
        assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    if kind not in ("binary", "multiclass"):
        raise LabelError(
            f"y must hold one label per row. Got a target of type {kind!r}: multilabel and multioutput targets are out "
            "of scope; fit one PostShiftClassifier for each"
        )


def check_folds_have_weight(weights: FloatArray | None, splits: list[Split]) -> None:
    """Raise if a split fits the model to rows of weight 0 only."""
    for number, (kept, _) in enumerate(splits, start=1):
        if weights is not None and not weights[kept].any():
            n_above = np.count_nonzero(weights)
            raise WeightError(
                f"sample_weight is above 0 in {n_above} of {len(weights)} rows only, and in none of the "
                f"{len(kept)} rows that fold {number} fits the model to: drop the rows of weight 0, and give more rows"
            )

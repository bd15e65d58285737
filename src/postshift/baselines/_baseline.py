"""The common part of all baselines: ``fit``, the checks of its rows, and the metric on the validation rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, indexable, validate_data

from postshift._validation import FloatArray, IntArray
from postshift.core.queries import Fit, without_queries
from postshift.core.rows import Rows
from postshift.core.session import Session
from postshift.estimators.model import eta_of, fitted_clone, label_values, positions
from postshift.estimators.task import Task, goal_of, known_groups, make_task
from postshift.exceptions import LabelError, SettingError, ShapeError

HELD_OUT = 0.2  # share of the rows held out if no validation rows are given

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class BothSides:
    """Training and validation rows; labels are positions among the classes."""

    X: Any
    y: IntArray
    X_val: Any
    y_val: IntArray
    n_classes: int


class Baseline(ClassifierMixin, BaseEstimator):
    """A classifier fitted to training rows and validation rows.

    A subclass defines ``_fit(rows, metadata)`` and ``_scores(X)``; the label of a row is the class with the largest
    score.
    """

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None, **metadata: Any) -> Self:
        """Fit to training and validation rows.

        Parameters
        ----------
        X, y : array-like
            Training rows with their (noisy, shifted) labels.
        X_val, y_val : array-like, optional
            Validation rows with clean labels. If they are missing, a stratified fifth of the training rows is held out.
        **metadata : array-likes of shape (n_val,)
            Arrays that the metric reads, such as ``groups``.

        Returns
        -------
        Baseline
            The fitted baseline.
        """
        if metadata and not hasattr(self, "metric"):
            raise SettingError(
                f"{type(self).__name__} has no metric and does not use {sorted(metadata)}: leave them out"
            )
        self._fit(self._checked(X, y, X_val, y_val, metadata), metadata)
        return self

    def predict(self, X: Any) -> Any:
        """Return the label of every row."""
        return self.classes_[np.argmax(self._new_scores(X), axis=1)]

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:
        """Fit to checked rows."""
        raise NotImplementedError

    def _scores(self, X: Any) -> FloatArray:
        """Return scores (n, m)."""
        raise NotImplementedError

    def _fitted_to(self, X: Any, y: IntArray, **params: Any) -> Any:
        """Return a copy of the model, fitted to rows."""
        return fitted_clone(self.estimator, X, self.classes_[y], params)

    def _counted_metric(self, rows: BothSides, metadata: Mapping[str, Any]) -> CountedMetric:
        """Return the metric on the validation rows."""
        return CountedMetric(self.metric, y_val=rows.y_val, classes=self.classes_, metadata=metadata)

    @property
    def _fits_to_all_rows(self) -> bool:
        """Whether rows that are held out for validation are training rows as well."""
        return False

    def _new_scores(self, X: Any) -> FloatArray:
        """Return the scores of new rows after checking their columns."""
        check_is_fitted(self)
        return self._scores(validate_data(self, X, reset=False, skip_check_array=True))

    def _checked(self, X: Any, y: Any, X_val: Any, y_val: Any, metadata: Mapping[str, Any]) -> BothSides:
        """Return the rows of both sides; sets ``classes_`` and ``n_features_in_``."""
        X, y = indexable(X, y)
        validate_data(self, X, skip_check_array=True)
        y = label_values(y, name="y")
        check_classification_targets(y)
        if (X_val is None) != (y_val is None):
            raise ShapeError("X_val and y_val belong together: give both, or neither to hold out a fifth of the rows")
        if X_val is None:
            if metadata:
                raise ShapeError(f"{sorted(metadata)} belong to validation rows: give X_val and y_val too")
            return self._held_out(X, y)
        X_val, y_val = indexable(X_val, y_val)
        validate_data(self, X_val, reset=False, skip_check_array=True)
        y_val = label_values(y_val, name="y_val")
        check_classification_targets(y_val)
        self.classes_ = _classes(y, y_val)
        return self._rows(X, y, X_val, y_val)

    def _held_out(self, X: Any, y: Any) -> BothSides:
        """Return the rows, with a stratified part of them as validation rows."""
        self.classes_ = _classes(y)
        codes = positions(y, self.classes_, name="y")
        stratify = codes if np.bincount(codes).min() >= 2 and HELD_OUT * len(codes) >= len(self.classes_) else None
        kept, left = train_test_split(np.arange(len(codes)), test_size=HELD_OUT, stratify=stratify, random_state=0)
        train = (X, y) if self._fits_to_all_rows else (_safe_indexing(X, kept), y[kept])
        return self._rows(*train, _safe_indexing(X, left), y[left])

    def _rows(self, X: Any, y: Any, X_val: Any, y_val: Any) -> BothSides:
        """Return the rows with labels as positions among the classes."""
        return BothSides(
            X=X,
            y=positions(y, self.classes_, name="y"),
            X_val=X_val,
            y_val=positions(y_val, self.classes_, name="y_val"),
            n_classes=len(self.classes_),
        )


class ModelBaseline(Baseline):
    """A baseline that returns the probabilities of its fitted model ``estimator_``."""

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the classes (n, m)."""
        return self._new_scores(X)

    def _scores(self, X: Any) -> FloatArray:
        """Return the probabilities of the model."""
        return eta_of(self.estimator_, X, self.classes_)


class CountedMetric:
    """The metric of labels on the validation rows, counting the queries; greater is better."""

    def __init__(self, metric: Any, *, y_val: IntArray, classes: Any, metadata: Mapping[str, Any]) -> None:
        self.n_queries = 0
        eta = np.eye(len(classes))[y_val]
        self._task = validation_task(metric, eta, y_val, classes=classes, metadata=metadata)

    def __call__(self, labels: IntArray) -> float:
        """Return the score of labels, given as positions among the classes."""
        self.n_queries += 1
        scores, _ = answered(lambda: self._task.problem.label_scores([labels]), self._task)
        return scores[0]


def validation_task(
    metric: Any, eta: FloatArray, y_val: IntArray, *, classes: Any, metadata: Mapping[str, Any]
) -> Task:
    """Return the task of a metric on the validation rows."""
    groups = known_groups(metric, metadata)
    goal = goal_of(metric, classes=classes, groups=groups, metadata=metadata)
    val = Rows.of(eta, labels=y_val, name="y_val")
    return make_task(goal, train=None, val=val, classes=classes, groups=groups, metadata=metadata)


def answered(start: Callable[[], Fit[T]], task: Task) -> tuple[T, int]:
    """Return the result of a fit whose queries the metric answers, and their number."""
    if task.oracle is None:
        return without_queries(start()), 0
    session = Session(start)
    return session.run(task.oracle), session.n_queries


def best_epoch(epochs: Iterable[tuple[T, tuple[float, float]]], *, patience: float) -> tuple[int, T, FloatArray]:
    """Return the epoch with the least stopping loss, its parameters, and the losses (epochs + 1, 2).

    ``epochs`` gives the parameters with their losses on the tuning rows and on the stopping rows; epoch 0 is the start.
    The search ends after ``patience`` epochs without a new best.
    """
    later = iter(epochs)
    best, first = next(later)
    number, losses = 0, [first]
    for epoch, (parameters, both) in enumerate(later, start=1):
        losses.append(both)
        if both[1] < losses[number][1]:
            number, best = epoch, parameters
        if epoch - number >= patience:
            break
    return number, best, np.array(losses)


def checked_labels(y: Any) -> Any:
    """Return labels as a column; raise unless they can be those of a classifier."""
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels


def check_classes(classes: Any) -> Any:
    """Return the classes; raise unless there are at least two."""
    if len(classes) < 2:
        raise LabelError(f"a classifier needs rows of at least two classes. Got one class, {classes.tolist()}")
    return classes


def _classes(*labels: Any) -> Any:
    """Return the distinct labels, sorted; at least two."""
    try:
        found = np.unique(np.concatenate([np.asarray(each) for each in labels]))
    except TypeError as error:
        raise LabelError(f"labels must be of one kind, all strings or all numbers: {error}") from error
    return check_classes(found)

"""What the baselines share: the call, the checks of its rows, and a metric that counts how often it was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, indexable, validate_data

from postshift._validation import FloatArray, IntArray
from postshift.core.queries import without_queries
from postshift.core.rows import Rows
from postshift.core.session import Session
from postshift.estimators.model import label_values, positions
from postshift.estimators.task import goal_of, known_groups, make_task
from postshift.exceptions import LabelError, SettingError, ShapeError

HELD_OUT = 0.2  # of the rows, where no validation rows are given


@dataclass(frozen=True, kw_only=True, eq=False)
class BothSides:
    """The rows of both sides, labels as positions among the classes."""

    X: Any
    y: IntArray
    X_val: Any
    y_val: IntArray
    n_classes: int


class Baseline(ClassifierMixin, BaseEstimator):
    """A classifier fitted to training rows and, maybe, validation rows.

    A subclass defines ``_fit(rows, metadata)`` and ``_scores(X)``, of which the largest in a row names its label.
    """

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None, **metadata: Any) -> Self:
        """Fit to training and validation rows.

        Parameters
        ----------
        X, y : array-like
            Training rows with their (noisy, shifted) labels.
        X_val, y_val : array-like, optional
            Validation rows with clean labels; without them a stratified fifth of the training rows is held out.
        **metadata : array-likes of shape (n_val,)
            ``groups`` and the like, where the metric reads them.

        Returns
        -------
        Baseline
            Itself.
        """
        if metadata and not hasattr(self, "metric"):
            raise SettingError(f"{type(self).__name__} optimises no metric and does not read {sorted(metadata)}")
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

    def _new_scores(self, X: Any) -> FloatArray:
        """Return the scores of new rows, looked at first."""
        check_is_fitted(self)
        return self._scores(validate_data(self, X, reset=False, skip_check_array=True))

    def _checked(self, X: Any, y: Any, X_val: Any, y_val: Any, metadata: Mapping[str, Any]) -> BothSides:
        """Return the rows of both sides; sets ``classes_`` and ``n_features_in_``."""
        X, y = indexable(X, y)
        validate_data(self, X, skip_check_array=True)
        y = label_values(y, name="y")
        check_classification_targets(y)
        if (X_val is None) != (y_val is None):
            raise ShapeError("X_val and y_val belong together: give both, or none to hold out a fifth of the rows")
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
        """Return the rows with a stratified part of them as validation rows."""
        self.classes_ = _classes(y)
        codes = positions(y, self.classes_, name="y")
        stratify = codes if np.bincount(codes).min() >= 2 and HELD_OUT * len(codes) >= len(self.classes_) else None
        kept, left = train_test_split(np.arange(len(codes)), test_size=HELD_OUT, stratify=stratify, random_state=0)
        return self._rows(_safe_indexing(X, kept), y[kept], _safe_indexing(X, left), y[left])

    def _rows(self, X: Any, y: Any, X_val: Any, y_val: Any) -> BothSides:
        """Return rows whose labels are positions."""
        return BothSides(
            X=X,
            y=positions(y, self.classes_, name="y"),
            X_val=X_val,
            y_val=positions(y_val, self.classes_, name="y_val"),
            n_classes=len(self.classes_),
        )


class CountedMetric:
    """A metric of labels on the validation rows, greater being better, that counts how often it is asked.

    It may keep its labels to itself (``from_predictions``): it is asked about these rows only.
    """

    def __init__(self, metric: Any, *, y_val: IntArray, classes: Any, metadata: Mapping[str, Any]) -> None:
        self.groups = known_groups(metric, metadata)
        self.goal = goal_of(metric, classes=classes, groups=self.groups, metadata=metadata)
        self.n_queries = 0
        table = Rows.of(np.eye(len(classes))[y_val], labels=y_val, name="y_val")
        self._task = make_task(self.goal, train=None, val=table, classes=classes, groups=self.groups, metadata=metadata)

    def __call__(self, labels: IntArray) -> float:
        """Return the metric of labels, given as positions among the classes."""
        self.n_queries += 1
        asked = self._task.problem.label_scores([labels])
        if self._task.oracle is None:
            return without_queries(asked)[0]
        return Session(lambda: asked).run(self._task.oracle)[0]


def _classes(*labels: Any) -> Any:
    """Return the distinct labels, sorted; at least two."""
    try:
        found = np.unique(np.concatenate([np.asarray(each) for each in labels]))
    except TypeError as error:
        raise LabelError(f"labels must be of one kind, all strings or all numbers: {error}") from error
    if len(found) < 2:
        raise LabelError(f"a classifier needs rows of two classes or more. Got one class, {found.tolist()}")
    return found

"""The model as it is: fitted to the training rows alone, or to the validation rows alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postshift._validation import FloatArray, IntArray
from postshift.baselines._base import Baseline, BothSides
from postshift.estimators.model import eta_of, fitted_clone, is_frozen
from postshift.exceptions import LabelError


class _OneSide(Baseline):
    """A model fitted to one side."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the model's probabilities (n, m)."""
        return self._new_scores(X)

    def _scores(self, X: Any) -> FloatArray:
        """Return the model's probabilities."""
        return eta_of(self.estimator_, X, self.classes_)

    def _fit_to(self, X: Any, y: IntArray, *, name: str) -> None:
        """Fit the model to some rows."""
        if not is_frozen(self.estimator) and y.min() == y.max():
            raise LabelError(
                f"the {len(y)} {name} rows are all of class {self.classes_[y[0]]!r}: a model needs rows of two classes"
            )
        self.estimator_ = fitted_clone(self.estimator, X, self.classes_[y], {})


class CrossEntropyOnTrain(_OneSide):
    """The model fitted to the training rows, whose labels may be wrong; its likeliest class is the label.

    Validation rows are not looked at. Where none are given, nothing is held out.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        The model. A fitted one is passed in :class:`sklearn.frozen.FrozenEstimator` and taken as it is.

    Attributes
    ----------
    estimator_ : classifier
        The fitted model.
    classes_ : array of shape (m,)
        The classes of either side. One that the training rows lack has probability 0.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from postshift.baselines.cross_entropy import CrossEntropyOnTrain
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CrossEntropyOnTrain(LogisticRegression(max_iter=1000)).fit(X[::2], y[::2], X[1::2], y[1::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Fit to the training rows."""
        self._fit_to(rows.X, rows.y, name="training")

    def _held_out(self, X: Any, y: Any) -> BothSides:
        """Return all rows as training rows: nothing else is done with any."""
        held_out = super()._held_out(X, y)
        return self._rows(X, y, held_out.X_val, self.classes_[held_out.y_val])


class CrossEntropyOnValidation(_OneSide):
    """The model fitted to the validation rows alone: few, but with the right labels.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        The model.

    Attributes
    ----------
    estimator_ : classifier
        The fitted model.
    classes_ : array of shape (m,)
        The classes of either side. One that the validation rows lack has probability 0.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from postshift.baselines.cross_entropy import CrossEntropyOnValidation
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CrossEntropyOnValidation(LogisticRegression(max_iter=1000)).fit(X[::2], y[::2], X[1::2], y[1::2])
    >>> bool(model.score(X[::2], y[::2]) > 0.9)
    True
    """

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Fit to the validation rows."""
        self._fit_to(rows.X_val, rows.y_val, name="validation")

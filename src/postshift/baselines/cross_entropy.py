"""The base model, fitted to the training rows alone or to the validation rows alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postshift._validation import IntArray
from postshift.baselines._baseline import BothSides, ModelBaseline
from postshift.estimators.model import is_frozen
from postshift.exceptions import LabelError


class _OneSide(ModelBaseline):
    """A model fitted to the training rows or to the validation rows."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def _fit_to(self, X: Any, y: IntArray, *, name: str) -> None:
        """Fit the model to some rows."""
        if not is_frozen(self.estimator) and y.min() == y.max():
            raise LabelError(
                f"the {len(y)} {name} rows are all of class {self.classes_[y[0]]!r}: give rows of at least two classes"
            )
        self.estimator_ = self._fitted_to(X, y)


class CrossEntropyOnTrain(_OneSide):
    """The model fitted to the training rows, whose labels may be noisy; it predicts the most probable class.

    Validation rows are ignored. If none are given, no rows are held out.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        The model. Pass a fitted one in :class:`sklearn.frozen.FrozenEstimator`; it is not fitted again.

    Attributes
    ----------
    estimator_ : classifier
        The fitted model.
    classes_ : array of shape (m,)
        The classes of both sides. A class without training rows has probability 0.

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

    _fits_to_all_rows = True

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Fit to the training rows."""
        self._fit_to(rows.X, rows.y, name="training")


class CrossEntropyOnValidation(_OneSide):
    """The model fitted to the validation rows alone: few rows with clean labels.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        The model.

    Attributes
    ----------
    estimator_ : classifier
        The fitted model.
    classes_ : array of shape (m,)
        The classes of both sides. A class without validation rows has probability 0.

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

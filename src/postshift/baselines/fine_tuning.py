"""Fine-tuning: a trained softmax model, trained on by gradient descent on the validation rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from postshift._validation import FloatArray, IntArray, check_count, check_in_range
from postshift.baselines._base import Baseline, BothSides
from postshift.baselines.deep import is_network
from postshift.baselines.deep_methods import fine_tune, prepared
from postshift.baselines.softmax import (
    as_design,
    head_and_last,
    joined,
    mean_loss,
    one_hot,
    safe_step,
    softmax_model,
    start_of,
    transformed,
)
from postshift.estimators.model import eta_of, fitted_clone
from postshift.exceptions import ShapeError


@dataclass(frozen=True, kw_only=True, eq=False)
class _Tuned:
    """The best epoch, its parameters, and the losses (epochs + 1,) of either part of the rows, the start's first."""

    epoch: int
    theta: FloatArray
    tuning_losses: FloatArray
    stopping_losses: FloatArray


class FineTuned(Baseline):
    """A model trained on the training rows, then trained on with the validation rows (the paper's "Fine-tuning").

    Every epoch is one step of gradient descent on the mean cross-entropy of the tuning rows, without penalty. The
    parameters kept are those with the least cross-entropy on the stopping rows; the model as it was is one of them. An
    epoch of a network is a pass over the tuning rows in its batches, with its momentum, weight decay and augmentation.

    Parameters
    ----------
    estimator : SoftmaxRegression, LogisticRegression, NetworkClassifier or Pipeline that ends in one
        The model. A fitted one is passed in :class:`sklearn.frozen.FrozenEstimator` and taken as it is.
    learning_rate : float, optional
        The step. By default the inverse of the largest curvature there can be, with which the loss always falls; for a
        network a twentieth of its own.
    max_epochs : int, default=1000
        The most epochs.
    patience : float, default=50
        Epochs without a new best after which tuning ends; ``numpy.inf`` for never.
    held_out : float, default=0.25
        Share of the validation rows that tuning is stopped by, stratified by label where each has rows enough. With 0
        all rows are tuning rows and stopping rows.
    random_state : int, RandomState or None, default=0
        Seed of this split.

    Attributes
    ----------
    estimator_ : classifier
        The tuned model.
    classes_ : array of shape (m,)
        The classes. One that the model did not know starts with about one thousandth of the probability.
    tuning_losses_, stopping_losses_ : arrays of shape (epochs + 1,)
        Cross-entropy of either part after each epoch; the first is that of the model as it was.
    stopping_rows_ : array
        Row numbers of the validation rows that tuning was stopped by.
    best_epoch_ : int
        The epoch whose parameters are kept; 0 is the model as it was.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from postshift.baselines.fine_tuning import FineTuned
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = np.where(np.arange(150) % 4 == 0, 2, y)
    >>> model = FineTuned(LogisticRegression(max_iter=1000)).fit(X[::2], wrong[::2], X[1::2], y[1::2])
    >>> bool(model.stopping_losses_[model.best_epoch_] < model.stopping_losses_[0])
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        learning_rate: float | None = None,
        max_epochs: int = 1000,
        patience: float = 50,
        held_out: float = 0.25,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.patience = patience
        self.held_out = held_out
        self.random_state = random_state

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the tuned model's probabilities (n, m)."""
        return self._new_scores(X)

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Train and tune."""
        tuning, self.stopping_rows_ = self._parts(rows.y_val)
        if is_network(self.estimator):
            self._tune_network(rows, tuning, self.stopping_rows_)
            return
        trained = fitted_clone(self.estimator, rows.X, self.classes_[rows.y], {})
        self._tune_softmax(trained, rows, tuning, self.stopping_rows_)

    def _tune_network(self, rows: BothSides, tuning: IntArray, stopping: IntArray) -> None:
        """Tune a network."""
        head, model, rows = prepared(self.estimator, rows, classes=self.classes_)
        found = fine_tune(
            model,
            rows,
            classes=self.classes_,
            tuning=tuning,
            stopping=stopping,
            learning_rate=self.learning_rate,
            max_epochs=self.max_epochs,
            patience=self.patience,
        )
        self.tuning_losses_, self.stopping_losses_ = found.tuning_losses, found.stopping_losses
        self.best_epoch_ = found.best_epoch
        self.estimator_ = joined(head, found.model)

    def _tune_softmax(self, trained: Any, rows: BothSides, tuning: IntArray, stopping: IntArray) -> None:
        """Tune a softmax model."""
        head, last = head_and_last(trained)
        X_val = transformed(head, rows.X_val)
        start = start_of(last, X=X_val, classes=self.classes_)
        design, targets = as_design(X_val), one_hot(rows.y_val, rows.n_classes)
        found = _descend(
            start,
            tuning=(design[tuning], targets[tuning]),
            stopping=(design[stopping], targets[stopping]),
            step=self._step(design[tuning]),
            max_epochs=check_count(self.max_epochs, name="max_epochs", low=0),
            patience=check_in_range(self.patience, name="patience", low=1, high=np.inf),
        )
        self.tuning_losses_, self.stopping_losses_ = found.tuning_losses, found.stopping_losses
        self.best_epoch_ = found.epoch
        self.estimator_ = joined(head, softmax_model(found.theta, X=X_val, classes=self.classes_))

    def _parts(self, y_val: IntArray) -> tuple[IntArray, IntArray]:
        """Return the rows to tune with and those to stop by."""
        share = check_in_range(self.held_out, name="held_out", low=0, high=1, open_high=True)
        everything = np.arange(len(y_val))
        if share == 0:
            return everything, everything
        n_held_out = max(1, round(share * len(y_val)))
        if n_held_out >= len(y_val):
            raise ShapeError(
                f"held_out={share:g} of {len(y_val)} validation rows leaves none to tune with: give more rows, or "
                "held_out=0"
            )
        smallest = min(n_held_out, len(y_val) - n_held_out)
        counts = np.bincount(y_val)
        stratify = y_val if counts[counts > 0].min() >= 2 and smallest >= np.count_nonzero(counts) else None
        tuning, stopping = train_test_split(
            everything, test_size=n_held_out, stratify=stratify, random_state=self.random_state
        )
        return tuning, stopping

    def _step(self, X: Any) -> float:
        """Return the length of a step."""
        if self.learning_rate is None:
            return safe_step(X)
        return check_in_range(
            self.learning_rate, name="learning_rate", low=0, high=np.inf, open_low=True, open_high=True
        )

    def _scores(self, X: Any) -> FloatArray:
        """Return the tuned model's probabilities."""
        return eta_of(self.estimator_, X, self.classes_)


def _descend(
    theta: FloatArray,
    *,
    tuning: tuple[Any, FloatArray],
    stopping: tuple[Any, FloatArray],
    step: float,
    max_epochs: int,
    patience: float,
) -> _Tuned:
    """Return the parameters of the epoch with the least loss on the stopping rows."""
    best, best_epoch = theta, 0
    loss, slope = mean_loss(theta, *tuning)
    tuning_losses, stopping_losses = [loss], [mean_loss(theta, *stopping)[0]]
    for epoch in range(1, max_epochs + 1):
        theta = theta - step * slope
        loss, slope = mean_loss(theta, *tuning)
        tuning_losses.append(loss)
        stopping_losses.append(mean_loss(theta, *stopping)[0])
        if stopping_losses[-1] < stopping_losses[best_epoch]:
            best, best_epoch = theta, epoch
        if epoch - best_epoch >= patience:
            break
    return _Tuned(
        epoch=best_epoch,
        theta=best,
        tuning_losses=np.array(tuning_losses),
        stopping_losses=np.array(stopping_losses),
    )

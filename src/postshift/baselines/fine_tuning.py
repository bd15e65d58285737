"""Fine-tuning: a model of the training rows, trained further on the validation rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from postshift._validation import FloatArray, IntArray, check_count, check_in_range, check_positive
from postshift.baselines._baseline import BothSides, ModelBaseline, best_epoch
from postshift.baselines.deep import is_network
from postshift.baselines.deep_methods import fine_tune, prepared
from postshift.baselines.softmax import (
    as_design,
    head_and_last,
    joined,
    mean_loss,
    safe_step,
    softmax_model,
    start_of,
    transformed,
)
from postshift.core.plugin import onehot
from postshift.exceptions import ShapeError


@dataclass(eq=False, repr=False)
class FineTuned(ModelBaseline):
    """A model of the training rows, trained further on the validation rows (the paper's "Fine-tuning").

    Every epoch is one step of gradient descent on the mean cross-entropy of the tuning rows, without penalty. The
    parameters with the least cross-entropy on the stopping rows are kept; those of the base are among the candidates.
    An epoch of a network is a pass over the tuning rows in its batches, with its momentum, weight decay and
    augmentation.

    Parameters
    ----------
    estimator : SoftmaxRegression, LogisticRegression, NetworkClassifier or Pipeline that ends in one
        The model. Pass a fitted one in :class:`sklearn.frozen.FrozenEstimator`.
    learning_rate : float, optional
        The step. Default: the inverse of a bound on the curvature, with which the loss always decreases; for a network
        a twentieth of its own learning rate.
    max_epochs : int, default=1000
        Maximum number of epochs.
    patience : float, default=50
        Tuning ends after this number of epochs without a new best; ``numpy.inf`` for never.
    held_out : float, default=0.25
        Share of the validation rows that are stopping rows, stratified by label if every label has enough rows. With 0
        all rows are tuning rows and stopping rows.
    random_state : int, RandomState or None, default=0
        Seed of this split.

    Attributes
    ----------
    estimator_ : classifier
        The tuned model.
    classes_ : array of shape (m,)
        The classes. A class unknown to the model starts with about one thousandth of the probability.
    tuning_losses_, stopping_losses_ : arrays of shape (epochs + 1,)
        Cross-entropy of the tuning rows and of the stopping rows after each epoch; the first is that of the base.
    stopping_rows_ : array
        Row numbers of the stopping rows among the validation rows.
    best_epoch_ : int
        The epoch whose parameters are kept; 0 is the base.

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

    estimator: Any
    _: KW_ONLY
    learning_rate: float | None = None
    max_epochs: int = 1000
    patience: float = 50
    held_out: float = 0.25
    random_state: Any = 0

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Train and tune."""
        tuning, self.stopping_rows_ = self._parts(rows.y_val)
        tune = self._tuned_network if is_network(self.estimator) else self._tuned_softmax
        self.best_epoch_, self.estimator_, losses = tune(rows, tuning, self.stopping_rows_)
        self.tuning_losses_, self.stopping_losses_ = losses[:, 0], losses[:, 1]

    def _tuned_network(self, rows: BothSides, tuning: IntArray, stopping: IntArray) -> tuple[int, Any, FloatArray]:
        """Return the best epoch of a network, the tuned model and the losses."""
        head, model, rows = prepared(self.estimator, rows, classes=self.classes_)
        epoch, tuned, losses = fine_tune(
            model,
            rows,
            classes=self.classes_,
            tuning=tuning,
            stopping=stopping,
            learning_rate=self.learning_rate,
            max_epochs=self.max_epochs,
            patience=self.patience,
        )
        return epoch, joined(head, tuned), losses

    def _tuned_softmax(self, rows: BothSides, tuning: IntArray, stopping: IntArray) -> tuple[int, Any, FloatArray]:
        """Return the best epoch of a softmax model, the tuned model and the losses."""
        head, last = head_and_last(self._fitted_to(rows.X, rows.y))
        X_val = transformed(head, rows.X_val)
        start = start_of(last, X=X_val, classes=self.classes_)
        design, targets = as_design(X_val), onehot(rows.y_val, n_classes=rows.n_classes)
        epochs = _descent(
            start,
            tuning=(design[tuning], targets[tuning]),
            stopping=(design[stopping], targets[stopping]),
            step=self._step(design[tuning]),
            max_epochs=check_count(self.max_epochs, name="max_epochs", low=0),
        )
        patience = check_in_range(self.patience, name="patience", low=1, high=np.inf)
        epoch, theta, losses = best_epoch(epochs, patience=patience)
        return epoch, joined(head, softmax_model(theta, X=X_val, classes=self.classes_)), losses

    def _parts(self, y_val: IntArray) -> tuple[IntArray, IntArray]:
        """Return the numbers of the tuning rows and of the stopping rows."""
        share = check_in_range(self.held_out, name="held_out", low=0, high=1, open_high=True)
        everything = np.arange(len(y_val))
        if share == 0:
            return everything, everything
        n_held_out = max(1, round(share * len(y_val)))
        if n_held_out >= len(y_val):
            raise ShapeError(
                f"held_out={share:g} of {len(y_val)} validation rows leaves no row for tuning: give more rows, or "
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
        return safe_step(X) if self.learning_rate is None else check_positive(self.learning_rate, name="learning_rate")


def _descent(
    theta: FloatArray,
    *,
    tuning: tuple[Any, FloatArray],
    stopping: tuple[Any, FloatArray],
    step: float,
    max_epochs: int,
) -> Iterator[tuple[FloatArray, tuple[float, float]]]:
    """Yield the parameters after every epoch, beginning with the start, and their losses on both parts."""
    loss, slope = mean_loss(theta, *tuning)
    yield theta, (loss, mean_loss(theta, *stopping)[0])
    for _ in range(max_epochs):
        theta = theta - step * slope
        loss, slope = mean_loss(theta, *tuning)
        yield theta, (loss, mean_loss(theta, *stopping)[0])

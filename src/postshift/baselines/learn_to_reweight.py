"""Learning to reweight examples (Ren et al., 2018), for softmax regression in closed form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from postshift._validation import FloatArray, IntArray, check_count, check_in_range, check_positive
from postshift.baselines._baseline import BothSides, ModelBaseline
from postshift.baselines.deep import is_network
from postshift.baselines.deep_methods import learn_to_reweight, prepared
from postshift.baselines.softmax import (
    as_design,
    fitted_head,
    joined,
    mean_loss,
    penalised_loss,
    penalty_of,
    row_losses,
    scores_of,
    softmax_model,
    transformed,
)
from postshift.core.plugin import onehot
from postshift.exceptions import InputError

Labelled = tuple[Any, FloatArray]  # rows (n, d) and their targets (n, m)


@dataclass(eq=False, repr=False)
class LearnToReweight(ModelBaseline):
    """Stochastic gradient descent in which the rows of a batch are weighted by how much they help the validation rows.

    The weight of a row in a batch is the negative derivative of the loss of a batch of validation rows with respect to
    the row's weight, at least 0, divided by the sum over the batch. The step uses these weights (Ren et al., 2018). A
    batch in which no row helps is skipped.

    Parameters
    ----------
    estimator : SoftmaxRegression, NetworkClassifier or Pipeline that ends in one, optional
        The model, ``SoftmaxRegression()`` by default, of which only the penalty ``C`` is used. Training starts from
        zeros. A network is trained with its own parameters; of those below only ``batch_size`` is used, for the
        validation rows.
    learning_rate : float, default=0.1
        The first step. Steps decrease linearly to 0.
    n_epochs : int, default=10
        Number of passes over the training rows.
    batch_size : int, default=100
        Number of training rows, and of validation rows, in a batch; all rows if there are fewer.
    momentum : float, default=0.9
        Momentum of the descent.
    random_state : int, RandomState or None, default=0
        Seed of the order of the rows.

    Attributes
    ----------
    estimator_ : classifier
        The trained model.
    example_weights_ : array of shape (n_train,)
        Mean weight of each training row, times the batch size: above 1 if it counted more than the average row. Not set
        for a network.

    Examples
    --------
    >>> import numpy as np
    >>> from postshift.baselines.learn_to_reweight import LearnToReweight
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2100, 2))
    >>> clean = (X[:, 0] > 0).astype(int)
    >>> noisy = np.where(rng.random(2100) < 0.7, 0, clean)  # most rows of class 1 are labelled 0
    >>> model = LearnToReweight().fit(X[:2000], noisy[:2000], X[2000:], clean[2000:])
    >>> wrong = noisy[:2000] != clean[:2000]
    >>> bool(model.example_weights_[wrong].mean() < 0.5 * model.example_weights_[~wrong].mean())
    True
    """

    estimator: Any = None
    _: KW_ONLY
    learning_rate: float = 0.1
    n_epochs: int = 10
    batch_size: int = 100
    momentum: float = 0.9
    random_state: Any = 0

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Train."""
        if is_network(self.estimator):
            self._fit_network(rows)
        else:
            self._fit_softmax(rows)

    def _fit_network(self, rows: BothSides) -> None:
        """Train a network."""
        head, model, rows = prepared(self.estimator, rows, classes=self.classes_)
        if hasattr(model, "weights_"):
            raise InputError("learning to reweight trains the model itself: give one that is not frozen")
        trained = learn_to_reweight(model, rows, classes=self.classes_, val_batch_size=self.batch_size)
        self.estimator_ = joined(head, trained)
        self.__dict__.pop("example_weights_", None)  # of an earlier fit

    def _fit_softmax(self, rows: BothSides) -> None:
        """Train a softmax model."""
        head, X, model = fitted_head(self.estimator, rows.X, self.classes_[rows.y], method="learning to reweight")
        theta = self._train(
            (as_design(X), onehot(rows.y, n_classes=rows.n_classes)),
            (as_design(transformed(head, rows.X_val)), onehot(rows.y_val, n_classes=rows.n_classes)),
            penalty=penalty_of(model.C, n_classes=rows.n_classes, total=len(rows.y)),
        )
        self.estimator_ = joined(head, softmax_model(theta, X=X, classes=self.classes_))

    def _train(self, train: Labelled, val: Labelled, *, penalty: float) -> FloatArray:
        """Return the trained parameters; sets the example weights."""
        rate = check_positive(self.learning_rate, name="learning_rate")
        momentum = check_in_range(self.momentum, name="momentum", low=0, high=1, open_high=True)
        theta = np.zeros((train[1].shape[1], train[0].shape[1] + 1))
        move, total = np.zeros_like(theta), np.zeros(len(train[1]))
        for left, batch, batch_val in self._batches(len(train[1]), len(val[1])):
            inner = _take(train, batch)
            weights = example_weights(theta, inner, _take(val, batch_val))
            _, slope = penalised_loss(theta, *inner, shares=weights, penalty=penalty)
            move = momentum * move - rate * left * slope
            theta = theta + move
            total[batch] += weights * len(batch)
        self.example_weights_ = total / self.n_epochs
        return theta

    def _batches(self, n_rows: int, n_val: int) -> Iterator[tuple[float, IntArray, IntArray]]:
        """Yield, for each step, the remaining share of the training, and rows of both sides."""
        n_epochs = check_count(self.n_epochs, name="n_epochs", low=1)
        size = check_count(self.batch_size, name="batch_size", low=1)
        rng = check_random_state(self.random_state)
        n_steps = -(-n_rows // size)
        drawn = _endless(n_val, min(size, n_val), rng)
        for epoch in range(n_epochs):
            for step, batch in enumerate(np.array_split(rng.permutation(n_rows), n_steps)):
                yield 1 - (epoch * n_steps + step) / (n_epochs * n_steps), batch, next(drawn)


def meta_gradient(theta: FloatArray, train: Labelled, val: Labelled) -> FloatArray:
    """Return the derivatives (n,), in eps at 0, of ``mean_loss_val(theta - sum_i eps_i grad loss_i)``.

    They are ``-sum_j (x_j . x_i + 1) (r_j . r_i) / n_val`` with residuals r: the scores of row i under the gradient of
    the validation rows, times its residuals.
    """
    _, towards = mean_loss(theta, *val)
    X, targets = train
    _, residuals = row_losses(scores_of(X, theta), targets)
    return np.asarray(-(scores_of(X, towards) * residuals).sum(axis=1))


def example_weights(theta: FloatArray, train: Labelled, val: Labelled) -> FloatArray:
    """Return the weights (n,) of a batch: how much each row helps the validation rows; sum 1, or 0 if none helps."""
    helps = np.maximum(-meta_gradient(theta, train, val), 0)
    total = helps.sum()
    return helps / total if total > 0 else helps


def _take(sample: Labelled, rows: IntArray) -> Labelled:
    """Return some rows."""
    return sample[0][rows], sample[1][rows]


def _endless(n_rows: int, size: int, rng: np.random.RandomState) -> Iterator[IntArray]:
    """Yield batches of rows without end, every row about equally often."""
    while True:
        order = rng.permutation(n_rows)
        yield from (order[start : start + size] for start in range(0, n_rows - size + 1, size))

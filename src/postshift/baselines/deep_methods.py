"""Fine-tuning and learning to reweight for networks, and helpers for the forward correction of a network.

The functions take a :class:`~postshift.baselines.deep.NetworkClassifier`, whose parameters control the training, and
return another one, fitted. ``FineTuned``, ``LearnToReweight`` and ``ForwardCorrection`` call them if their model is a
network.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from postshift._validation import FloatArray, IntArray, check_count, check_in_range
from postshift.baselines._baseline import BothSides, best_epoch
from postshift.baselines._checkpoint import digest
from postshift.baselines._processes import Member
from postshift.baselines._training import (
    CrossEntropy,
    TensorRows,
    Training,
    Weights,
    outputs,
    row_losses,
    torch_settings,
)
from postshift.baselines.deep import NetworkClassifier, checked_rows, fit_positions, recipe_of
from postshift.baselines.networks import torch_module
from postshift.baselines.softmax import head_and_last
from postshift.estimators.model import is_frozen
from postshift.exceptions import LabelError, SettingError

TUNING_SHARE = 0.05  # of the learning rate of the training, if none is given for tuning


def prepared(estimator: Any, rows: BothSides, *, classes: Any) -> tuple[Any, NetworkClassifier, BothSides]:
    """Return the fitted transforming steps of a model (or None), its network, and the transformed rows.

    The network is fitted if it was frozen, alone or with the whole model.
    """
    head, network = head_and_last(estimator)
    frozen = is_frozen(estimator)
    if not frozen and not (head is not None and is_frozen(estimator.steps[-1][1])):
        network = clone(network)
    if head is None:
        return None, network, rows
    if not frozen:
        head = clone(head).fit(rows.X, np.asarray(classes)[rows.y])
    return head, network, replace(rows, X=head.transform(rows.X), X_val=head.transform(rows.X_val))


def trained(model: NetworkClassifier, rows: BothSides, *, classes: Any) -> NetworkClassifier:
    """Return the model itself if it is fitted, else a copy fitted to the training rows."""
    if not hasattr(model, "weights_"):
        return fit_positions(clone(model), rows.X, rows.y, classes=classes)
    if not np.array_equal(model.classes_, classes):
        raise LabelError(
            f"the network was fitted to the classes {model.classes_.tolist()}, and the rows have "
            f"{np.asarray(classes).tolist()}: give a network fitted to the same classes"
        )
    return model


def fine_tune(
    model: NetworkClassifier,
    rows: BothSides,
    *,
    classes: Any,
    tuning: IntArray,
    stopping: IntArray,
    learning_rate: float | None = None,
    max_epochs: int = 1000,
    patience: float = 50,
) -> tuple[int, NetworkClassifier, FloatArray]:
    """Train a network further on validation rows; return the best epoch, its network, and the losses (epochs + 1, 2).

    A network that is not fitted is first trained on the training rows. ``tuning`` and ``stopping`` are numbers of
    validation rows. The epoch with the least cross-entropy on the stopping rows is kept; epoch 0 is the network before
    tuning. The parameters of the network control the batches, the weight decay and the augmentation. The learning rate
    is constant, by default a twentieth of the network's own, and one process does all the work.
    """
    patience = check_in_range(patience, name="patience", low=1, high=np.inf)
    max_epochs = check_count(max_epochs, name="max_epochs", low=0)
    rate = model.learning_rate * TUNING_SHARE if learning_rate is None else learning_rate
    rate = check_in_range(rate, name="learning_rate", low=0, high=np.inf, open_high=True)
    start = trained(model, rows, classes=classes)
    recipe = replace(recipe_of(start), epochs=max_epochs, learning_rate=rate, cyclic=False, n_processes=1)
    X = checked_rows(start, rows.X_val)
    parts = [TensorRows(X=X[part], y=rows.y_val[part]) for part in (tuning, stopping)]
    tuned = copy(start)
    with torch_settings(recipe.n_threads):
        training = Training(recipe, start=start.weights_)
        epoch, tuned.weights_, losses = best_epoch(_epochs(training, *parts), patience=patience)
    return epoch, tuned, losses


def learn_to_reweight(
    model: NetworkClassifier, rows: BothSides, *, classes: Any, val_batch_size: int = 100
) -> NetworkClassifier:
    """Return a network trained with rows weighted by how much they help the validation rows (Ren et al., 2018).

    Training starts from the ``initial_weights`` of the model. Every batch is compared with ``val_batch_size``
    validation rows, or all if there are fewer. Of several processes, each weights its own share of a batch.
    """
    check_no_transition(model, method="learning to reweight")
    new = clone(model)
    validate_data(new, rows.X, skip_check_array=True)
    new.input_shape_ = np.shape(rows.X)[1:]
    val = TensorRows(X=checked_rows(new, rows.X_val), y=rows.y_val)
    size = check_count(val_batch_size, name="val_batch_size", low=1)
    objective = ReweightedLoss(val=val, size=min(size, len(val.y)))
    return fit_positions(new, rows.X, rows.y, classes=classes, objective=objective, name="reweighting")


@dataclass(frozen=True, kw_only=True, eq=False)
class ReweightedLoss:
    """The loss of a batch, with rows weighted by how much they help ``size`` validation rows drawn for each batch."""

    val: TensorRows
    size: int

    @property
    def identity(self) -> str:
        """A digest of the validation rows and their number."""
        return f"{digest(self.val.X, self.val.y)}/{self.size}"

    def __call__(self, network: Any, batch: TensorRows, rng: np.random.Generator) -> Any:
        """Return the weighted loss of a batch."""
        val = self.val.batch(rng.choice(len(self.val.y), size=self.size, replace=False))
        weights = example_weights(meta_gradient(network, (batch.X, batch.y), (val.X, val.y)))
        return (weights * row_losses(network(batch.X), batch.y)).sum()


def meta_gradient(network: Any, batch: tuple[Any, Any], val: tuple[Any, Any]) -> Any:
    """Return the derivatives (n,), in eps at 0, of the validation loss after the step ``-sum_i eps_i grad loss_i``.

    At eps = 0 the derivative in eps_i is ``-grad loss_i . grad loss_val``: how fast the loss of row i falls along the
    gradient of the validation loss. Forward differentiation gives that for all rows in one pass, faster than
    differentiating through the step. Running averages of the network are not changed.
    """
    torch = torch_module()
    parameters = {name: each.detach() for name, each in network.named_parameters() if each.requires_grad}

    def losses(given: Any, x: Any, y: Any) -> Any:
        """Return the losses of rows under given parameters."""
        buffers = {name: each.clone() for name, each in network.named_buffers()}
        return row_losses(torch.func.functional_call(network, (given, buffers), (x,)), y)

    slope = torch.func.grad(lambda given: losses(given, *val).mean())(parameters)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit.script` is", DeprecationWarning)  # torch's own, at its first jvp
        _, falling = torch.func.jvp(lambda given: losses(given, *batch), (parameters,), (slope,))
    return -falling


def example_weights(gradient: Any) -> Any:
    """Return the weights of a batch (n,): the negative gradient, at least 0, with sum 1; all 0 if no row helps."""
    helps = (-gradient).clamp(min=0)
    total = helps.sum()
    return helps / total if total > 0 else helps


def _epochs(
    training: Training, tuning: TensorRows, stopping: TensorRows
) -> Iterator[tuple[Weights, tuple[float, float]]]:
    """Yield the weights after every epoch, beginning with the start, and their losses on both parts."""
    network = training.network
    yield training.weights, (_mean_loss(network, tuning), _mean_loss(network, stopping))
    for _ in range(training.recipe.epochs):
        training.run_epoch(tuning, CrossEntropy(), Member())
        yield training.weights, (_mean_loss(network, tuning), _mean_loss(network, stopping))


def check_no_transition(model: NetworkClassifier, *, method: str) -> None:
    """Raise if the network has a transition, which would not be used."""
    if model.transition is not None:
        raise SettingError(f"the network of {method} must have transition=None. Got a matrix: set it to None")


def _mean_loss(network: Any, sample: TensorRows) -> float:
    """Return the mean cross-entropy of rows."""
    log_p = log_softmax(outputs(network, sample.X), axis=1)
    return float(-np.take_along_axis(log_p, sample.y[:, None], axis=1).mean())

"""Three methods of the paper's comparison for networks: fine-tuning, learning to reweight, forward correction.

They take a :class:`~postshift.baselines.deep.NetworkClassifier`, whose parameters say how a network is trained, and
return another one, fitted. The classifiers ``FineTuned``, ``LearnToReweight`` and ``ForwardCorrection`` call them where
their model is a network.
"""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from postshift._validation import FloatArray, IntArray, check_count, check_in_range
from postshift.baselines._base import BothSides
from postshift.baselines._checkpoint import digest
from postshift.baselines._processes import Member
from postshift.baselines._training import (
    Batch,
    CrossEntropy,
    TensorRows,
    Training,
    Weights,
    laid_out,
    outputs,
    row_losses,
    torch_settings,
)
from postshift.baselines.deep import NetworkClassifier, checked_rows, fit_positions, recipe_of
from postshift.baselines.forward_correction import anchor_transition
from postshift.baselines.networks import torch_module
from postshift.baselines.softmax import head_and_last
from postshift.estimators.model import eta_of, is_frozen
from postshift.exceptions import LabelError, SettingError

TUNING_SHARE = 0.05  # of the learning rate of the training, where none is given for tuning


@dataclass(frozen=True, kw_only=True, eq=False)
class FineTuning:
    """A tuned network, the epoch it is of, and the mean losses (epochs + 1,) of either part of the rows."""

    model: NetworkClassifier
    best_epoch: int
    tuning_losses: FloatArray
    stopping_losses: FloatArray


def prepared(estimator: Any, rows: BothSides, *, classes: Any) -> tuple[Any, NetworkClassifier, BothSides]:
    """Return the fitted transforming steps of a model (or None), its network, and the rows as the network sees them.

    The network is fitted where it was frozen, alone or with the whole model.
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
    """Return the model itself where it is fitted, else one of its parameters fitted to the training rows."""
    if not hasattr(model, "weights_"):
        return fit_positions(clone(model), rows.X, rows.y, classes=classes)
    if not np.array_equal(model.classes_, classes):
        raise LabelError(
            f"the network was fitted to the classes {model.classes_.tolist()}, and the rows have "
            f"{np.asarray(classes).tolist()}: a fitted network must know all classes and no other"
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
) -> FineTuning:
    """Train a network on with validation rows, and keep the epoch with the least cross-entropy on the stopping rows.

    Parameters
    ----------
    model : NetworkClassifier
        The network; one that is not fitted is trained on the training rows first. Batches, weight decay and
        augmentation are as its parameters say; the learning rate does not change, and one process does it all.
    rows : BothSides
        Rows of both sides.
    classes : array of shape (m,)
        The labels, sorted.
    tuning, stopping : arrays of int
        Numbers of the validation rows to train with, and of those to stop by.
    learning_rate : float, optional
        By default a twentieth of the network's own.
    max_epochs : int, default=1000
        The most epochs.
    patience : float, default=50
        Epochs without a new best after which tuning ends.

    Returns
    -------
    FineTuning
        The tuned network, with the losses of both parts; epoch 0 is the network as it was.
    """
    patience = check_in_range(patience, name="patience", low=1, high=np.inf)
    max_epochs = check_count(max_epochs, name="max_epochs", low=0)
    rate = model.learning_rate * TUNING_SHARE if learning_rate is None else learning_rate
    rate = check_in_range(rate, name="learning_rate", low=0, high=np.inf, open_high=True)
    start = trained(model, rows, classes=classes)
    recipe = replace(recipe_of(start), epochs=max_epochs, learning_rate=rate, cyclic=False, n_processes=1)
    X = checked_rows(start, rows.X_val)
    parts = [TensorRows(X=X[part], y=rows.y_val[part]) for part in (tuning, stopping)]
    with torch_settings(recipe.n_threads):
        training = Training(recipe, start=start.weights_)
        tuned = copy(start)
        best_epoch, tuned.weights_, losses = _best_epoch(training, parts, patience=patience)
    return FineTuning(model=tuned, best_epoch=best_epoch, tuning_losses=losses[:, 0], stopping_losses=losses[:, 1])


def learn_to_reweight(
    model: NetworkClassifier, rows: BothSides, *, classes: Any, val_batch_size: int = 100
) -> NetworkClassifier:
    """Train a network in which every row of a batch counts as far as it helps validation rows (Ren et al., 2018).

    Parameters
    ----------
    model : NetworkClassifier
        Whose parameters say how the network is trained, from its ``initial_weights`` on. Of several processes, each
        weights its own share of a batch.
    rows : BothSides
        Rows of both sides.
    classes : array of shape (m,)
        The labels, sorted.
    val_batch_size : int, default=100
        Validation rows that a batch is compared with; all where there are fewer.

    Returns
    -------
    NetworkClassifier
        Fitted.
    """
    check_no_transition(model, method="learning to reweight")
    new = clone(model)
    validate_data(new, rows.X, skip_check_array=True)
    new.input_shape_ = np.shape(rows.X)[1:]
    val = TensorRows(X=checked_rows(new, rows.X_val), y=rows.y_val)
    size = check_count(val_batch_size, name="val_batch_size", low=1)
    objective = Reweighted(val=val, size=min(size, len(val.y)))
    return fit_positions(new, rows.X, rows.y, classes=classes, objective=objective, name="reweighting")


def forward_correct(
    model: NetworkClassifier, rows: BothSides, *, classes: Any, transition: Any = None, percentile: float = 97
) -> NetworkClassifier:
    """Train a network on noisy labels through the matrix by which they came about (Patrini et al., 2017).

    Parameters
    ----------
    model : NetworkClassifier
        Whose parameters say how the network is trained. Where it is fitted, the transition is estimated from it.
    rows : BothSides
        Rows of both sides; those of validation are not looked at.
    classes : array of shape (m,)
        The labels, sorted.
    transition : array-like of shape (m, m), optional
        Chance of each label (column) in each class (row). If not given, it is estimated: row i is what a network that
        was trained on the noisy labels says of an anchor, the training row at a percentile of label i's probability.
    percentile : float, default=97
        This percentile.

    Returns
    -------
    NetworkClassifier
        Fitted, with the transition as its parameter.
    """
    check_no_transition(model, method="forward correction")
    if transition is None:
        noisy = trained(model, rows, classes=classes)
        transition = anchor_transition(eta_of(noisy, rows.X, classes), percentile=percentile)
    corrected = clone(model).set_params(transition=transition)
    return fit_positions(corrected, rows.X, rows.y, classes=classes, name="corrected")


@dataclass(frozen=True, kw_only=True, eq=False)
class Reweighted:
    """The loss of a batch whose rows count as far as they help ``size`` validation rows, drawn anew for each batch."""

    val: TensorRows
    size: int

    @property
    def identity(self) -> str:
        """A digest of the validation rows and their number."""
        return f"{digest(self.val.X, self.val.y)}/{self.size}"

    def __call__(self, network: Any, batch: Batch) -> Any:
        """Return the weighted loss of a batch."""
        torch = torch_module()
        drawn = batch.rng.choice(len(self.val.y), size=self.size, replace=False)
        val = laid_out(torch.tensor(self.val.X[drawn])), torch.tensor(self.val.y[drawn])
        weights = example_weights(meta_gradient(network, (batch.x, batch.y), val))
        return (weights * row_losses(network(batch.x), batch.y)).sum()


def meta_gradient(network: Any, batch: tuple[Any, Any], val: tuple[Any, Any]) -> Any:
    """Return the derivatives (n,), in eps at 0, of the validation loss after the step ``-sum_i eps_i grad loss_i``.

    With eps at 0 the step leads nowhere, so the derivative in eps_i is ``-grad loss_i . grad loss_val``: how fast the
    loss of row i falls along the gradient of the validation loss. Forward differentiation gives that for all rows in
    one pass, faster than differentiating through the step. Running averages of the network stay as they are.
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
    """Return the weights of a batch (n,): the negative gradient, at least 0, of sum 1; all 0 where no row helps."""
    helps = (-gradient).clamp(min=0)
    total = helps.sum()
    return helps / total if total > 0 else helps


def _best_epoch(training: Training, parts: list[TensorRows], *, patience: float) -> tuple[int, Weights, FloatArray]:
    """Train on the first part; return the best epoch on the second, its weights, and the losses (epochs + 1, 2)."""
    losses = [[_mean_loss(training.network, part) for part in parts]]
    best_epoch, best = 0, training.weights
    for epoch in range(1, training.recipe.epochs + 1):
        training.run_epoch(parts[0], CrossEntropy(), Member())
        losses.append([_mean_loss(training.network, part) for part in parts])
        if losses[epoch][1] < losses[best_epoch][1]:
            best_epoch, best = epoch, training.weights
        if epoch - best_epoch >= patience:
            break
    return best_epoch, best, np.array(losses)


def check_no_transition(model: NetworkClassifier, *, method: str) -> None:
    """Refuse a network with a transition of its own, which would not be used."""
    if model.transition is not None:
        raise SettingError(f"the network of {method} must have transition=None. Got one of its own")


def _mean_loss(network: Any, sample: TensorRows) -> float:
    """Return the mean cross-entropy of a network that is done training, for now."""
    log_p = log_softmax(outputs(network, sample.X), axis=1)
    return float(-np.take_along_axis(log_p, sample.y[:, None], axis=1).mean())

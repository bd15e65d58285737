"""A network as a scikit-learn classifier, trained on the CPU; an interrupted training can be resumed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from postshift._validation import FloatArray, IntArray, check_count, check_in_range, check_weights
from postshift.baselines._baseline import check_classes, checked_labels
from postshift.baselines._checkpoint import Checkpoint, digest
from postshift.baselines._training import (
    CrossEntropy,
    Epoch,
    Objective,
    Recipe,
    TensorRows,
    Training,
    new_network,
    outputs,
    torch_settings,
    train,
)
from postshift.baselines.networks import Build, last_linear, torch_module
from postshift.baselines.softmax import check_transition, head_and_last
from postshift.core.plugin import onehot
from postshift.estimators.shifts import seed_of
from postshift.exceptions import SettingError, ShapeError


@dataclass(eq=False, repr=False)
class NetworkClassifier(ClassifierMixin, BaseEstimator):
    """A torch network as a scikit-learn classifier.

    It is trained by stochastic gradient descent with Nesterov's momentum (0.9) and one cycle of the learning rate: up
    to ``learning_rate`` in the first 15 % of the steps, then down to 0 along a cosine. The weights are kept as NumPy
    arrays, so a fitted classifier is pickled without torch. Needs ``pip install '.[deep]'`` in a clone of postshift.

    Parameters
    ----------
    network : {"resnet14", "small"} or callable, default="resnet14"
        :func:`~postshift.baselines.networks.resnet14` for images, the tiny
        :func:`~postshift.baselines.networks.small_network` for images or rows of features, or a function
        ``(n_classes, input_shape) -> torch.nn.Module`` whose module takes rows to logits.
    epochs : int, default=20
        Number of passes over the rows.
    batch_size : int, default=128
        Number of rows in a step, over all processes.
    learning_rate : float, default=0.2
        The largest learning rate.
    weight_decay : float, default=2e-4
        Weight of the squared norm of all weights.
    augment : bool, default=False
        Whether to move images by up to four pixels and to mirror half of them, differently in each epoch.
    random_state : int, RandomState or None, default=0
        Seed of the first weights, the batches and the augmentation. The same seed gives the same weights.
    n_threads : int, default=1
        Number of torch's threads in each process.
    n_processes : int, default=1
        Number of processes that share each batch and sum their gradients; each normalises over its own share. On two
        cores, two processes are faster than two threads. A script needs the guard ``if __name__ == "__main__":``.
    transition : array-like of shape (m, m), optional
        Probability of each given label (column) for each true class (row). With it the loss is forward-corrected
        (Patrini et al. 2017), and the network learns the true classes.
    initial_weights : mapping of str to array, optional
        Weights to start from, such as ``weights_`` of another fit; random by default.
    checkpoint : path, optional
        A folder to which the state is written after every epoch. A fit to the same rows with the same parameters
        resumes from it; a file of another fit is an error.
    progress : callable, optional
        Called after every epoch with an object that has ``number``, ``n_epochs`` and ``loss``.

    Attributes
    ----------
    classes_ : array of shape (m,)
        The labels.
    weights_ : dict of str to array
        The weights of the network, with torch's names.
    losses_ : list of float
        Mean loss of each epoch.
    input_shape_ : tuple of int
        Shape of one row.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> images = X.reshape(-1, 1, 8, 8) / 8 - 1
    >>> model = NetworkClassifier("small", epochs=3).fit(images[:500], y[:500])  # doctest: +SKIP
    >>> model.embeddings(images[500:]).shape  # doctest: +SKIP
    (1297, 64)
    """

    network: str | Build = "resnet14"
    _: KW_ONLY
    epochs: int = 20
    batch_size: int = 128
    learning_rate: float = 0.2
    weight_decay: float = 2e-4
    augment: bool = False
    random_state: Any = 0
    n_threads: int = 1
    n_processes: int = 1
    transition: Any = None
    initial_weights: Mapping[str, Any] | None = None
    checkpoint: str | os.PathLike[str] | None = None
    progress: Callable[[Epoch], object] | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NetworkClassifier:
        """Train the network.

        Parameters
        ----------
        X : array-like of shape (n, channels, height, width) or (n, d)
            Images or rows of features, scaled to about mean 0 and variance 1.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows; only their ratios count.

        Returns
        -------
        NetworkClassifier
            The fitted classifier.
        """
        labels = checked_labels(y)
        check_consistent_length(X, labels)
        classes, codes = np.unique(labels, return_inverse=True)
        weights = check_weights(sample_weight, n_rows=len(codes), name="sample_weight")
        return fit_positions(self, X, codes, classes=classes, weights=weights)

    def predict(self, X: Any) -> Any:
        """Return the label of every row."""
        logits = self._outputs(X)
        return self.classes_[np.argmax(logits, axis=1)]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the classes (n, m), of the true classes if a transition was given."""
        return np.asarray(softmax(self._outputs(X), axis=1))

    def embeddings(self, X: Any) -> FloatArray:
        """Return the input of the network's last linear layer (n, d)."""
        return self._outputs(X, embedded=True)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the network has weights; a failed fit leaves none."""
        return hasattr(self, "weights_")

    def _outputs(self, X: Any, *, embedded: bool = False) -> FloatArray:
        """Return the logits of rows, or their embeddings."""
        check_is_fitted(self)
        X = checked_rows(self, X)
        with torch_settings(check_count(self.n_threads, name="n_threads", low=1)):
            network = new_network(self.network, len(self.classes_), self.input_shape_, weights=self.weights_)
            return outputs(network, X, layer=last_linear(network) if embedded else None)


def is_network(estimator: Any) -> bool:
    """Return whether a model is a network, or a pipeline that ends in one; frozen or not."""
    return isinstance(head_and_last(estimator)[1], NetworkClassifier)


def fit_positions(
    model: NetworkClassifier,
    X: Any,
    codes: IntArray,
    *,
    classes: Any,
    weights: FloatArray | None = None,
    objective: Objective | None = None,
    name: str = "training",
) -> NetworkClassifier:
    """Fit a classifier to labels given as positions among ``classes``, some of which may have no rows; return it.

    ``objective`` replaces the cross-entropy (with ``model.transition``). ``name`` is the file in the folder
    ``model.checkpoint``.
    """
    torch_module()
    model.__dict__.pop("weights_", None)  # a failed fit must not leave the weights of an earlier one
    model.classes_ = check_classes(np.asarray(classes))
    X = validate_data(model, X, dtype=np.float32, allow_nd=True, ensure_min_samples=2)
    model.input_shape_ = X.shape[1:]
    recipe = recipe_of(model)
    scaled = None if weights is None else weights / weights.mean()
    sample = TensorRows(X=X, y=np.asarray(codes, dtype=np.int64), weights=scaled)
    if objective is None:
        objective = CrossEntropy(log_transition=_log_transition(model.transition, sample.y, len(model.classes_)))
    with torch_settings(recipe.n_threads):
        training = Training(recipe, start=model.initial_weights)
        checkpoint = _checkpoint(model, training, sample, objective, name)
        train(training, sample, objective, checkpoint=checkpoint, progress=model.progress)
    model.weights_, model.losses_ = training.weights, training.losses
    return model


def checked_rows(model: NetworkClassifier, X: Any) -> Any:
    """Return rows as numbers; raise if their shape differs from that in the fit."""
    X = validate_data(model, X, reset=False, dtype=np.float32, allow_nd=True)
    if X.shape[1:] != model.input_shape_:
        raise ShapeError(f"rows must have shape {model.input_shape_}, as in the fit. Got {X.shape[1:]} instead")
    return X


def recipe_of(model: NetworkClassifier) -> Recipe:
    """Return the checked parameters of a classifier whose ``input_shape_`` and ``classes_`` are set."""
    images = len(model.input_shape_) == 3
    if model.augment and not images:
        raise SettingError(f"augment=True is for images (n, channels, height, width). Got rows {model.input_shape_}")
    n_processes = check_count(model.n_processes, name="n_processes", low=1)
    return Recipe(
        network=model.network,
        n_classes=len(model.classes_),
        input_shape=model.input_shape_,
        epochs=check_count(model.epochs, name="epochs", low=0),
        batch_size=check_count(model.batch_size, name="batch_size", low=n_processes),
        learning_rate=check_in_range(model.learning_rate, name="learning_rate", low=0, high=np.inf, open_high=True),
        weight_decay=check_in_range(model.weight_decay, name="weight_decay", low=0, high=np.inf, open_high=True),
        augment=bool(model.augment),
        seed=check_count(seed_of(model.random_state), name="random_state", low=0),
        n_threads=check_count(model.n_threads, name="n_threads", low=1),
        n_processes=n_processes,
    )


def _log_transition(transition: Any, codes: IntArray, n_classes: int) -> FloatArray | None:
    """Return the logarithm of a transition matrix, or None."""
    if transition is None:
        return None
    with np.errstate(divide="ignore"):  # the logarithm of 0 is -inf
        return np.asarray(np.log(check_transition(transition, onehot(codes, n_classes=n_classes))))


def _checkpoint(
    model: NetworkClassifier, training: Training, sample: TensorRows, objective: Objective, name: str
) -> Checkpoint | None:
    """Return the checkpoint of a new training, or None if no folder is given."""
    if model.checkpoint is None:
        return None
    if not isinstance(model.random_state, Integral):
        raise SettingError(f"a fit with a checkpoint needs a whole number as random_state. Got {model.random_state!r}")
    shown = ("epochs", "batch_size", "learning_rate", "weight_decay", "augment", "seed", "n_processes")
    identity = {each: getattr(training.recipe, each) for each in shown}
    identity["network"] = model.network if isinstance(model.network, str) else getattr(model.network, "__name__", "")
    identity["rows"] = digest(sample.X, sample.y, sample.weights)
    identity["first weights"] = digest(*training.weights.values())
    identity["objective"] = objective.identity
    return Checkpoint(model.checkpoint, name=name, identity=identity)

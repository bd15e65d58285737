"""Small problems and networks that the tests of this folder share."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from postshift.baselines._baseline import BothSides
from postshift.baselines.deep import NetworkClassifier
from postshift.baselines.networks import torch_module


def digits(n_rows=200, *, flat=False, n_classes=10):
    """Return images of digits, 8 x 8, or rows of 64 features, with their labels."""
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    X = (X[:n_rows] / 8 - 1).astype(np.float32)
    return (X if flat else X.reshape(-1, 1, 8, 8)), y[:n_rows]


def linear(n_classes, input_shape):
    """Return softmax regression as a network, its weights drawn."""
    return torch_module().nn.Linear(input_shape[0], n_classes)


def smooth(n_classes, input_shape):
    """Return a network without kinks, so that finite differences are exact."""
    nn = torch_module().nn
    return nn.Sequential(nn.Linear(input_shape[0], 5), nn.Tanh(), nn.Linear(5, n_classes))


def normalised(n_classes, input_shape):
    """Return a network with running averages and dropout."""
    nn = torch_module().nn
    first = [nn.Conv2d(input_shape[0], 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2)]
    return nn.Sequential(*first, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, n_classes))


def small(**params):
    """Return a classifier that is trained in no time."""
    return NetworkClassifier(**{"network": "small", "epochs": 4, "batch_size": 32, **params})


def noisy_blobs(n_rows=600, n_val=150, *, seed=0, flip=0.6):
    """Return three classes of which the first two can be told apart, class 1 labelled 0 with a chance of ``flip``.

    Returns
    -------
    Rows
        Noisy training rows and clean validation rows.
    array
        The clean labels of the training rows.
    """
    rng = np.random.default_rng(seed)
    centres = np.array([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]])
    y = rng.integers(3, size=n_rows + n_val)
    X = (centres[y] + rng.normal(scale=0.6, size=(len(y), 2))).astype(np.float32)
    clean = y[:n_rows]
    noisy = np.where((clean == 1) & (rng.random(n_rows) < flip), 0, clean)
    rows = BothSides(X=X[:n_rows], y=noisy, X_val=X[n_rows:], y_val=y[n_rows:], n_classes=3)
    return rows, clean


def same_weights(one, other):
    """Return whether two dicts of weights are equal to the last bit."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)

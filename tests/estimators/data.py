"""Rows with noisy training labels and a clean validation sample."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from sklearn.datasets import make_classification

NAMES = ["no", "yes"]


def noisy(n_classes=2, seed=0, n_rows=2000):
    X, y = make_classification(
        n_rows, n_features=8, n_informative=6, n_redundant=0, n_classes=n_classes, random_state=seed
    )
    rng = np.random.default_rng(seed)
    keep = (y == 0) | (rng.random(n_rows) < 0.35)  # the first class is the common one
    X, y = X[keep], y[keep]
    shown = np.where((y == 1) & (rng.random(len(y)) < 0.3), 0, y)
    thirds = np.array_split(rng.permutation(len(y)), [len(y) // 2, len(y) // 2 + 350])
    train, val, test = thirds
    return SimpleNamespace(X=X[train], y=shown[train], X_val=X[val], y_val=y[val], X_test=X[test], y_test=y[test])


def overlapping(n_rows=400, n_classes=2, weights=(0.7,), seed=0):
    return make_classification(
        n_rows,
        n_features=5,
        n_informative=4,
        n_redundant=0,
        n_classes=n_classes,
        weights=None if weights is None else list(weights),
        random_state=seed,
        class_sep=0.6,
        flip_y=0.1,
    )

"""Rows for fits on Dask collections."""

from __future__ import annotations

import dask.array as da
import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

N_TRAIN, N_VAL = 3000, 600


def some_rows(seed=0):
    X, y = make_classification(
        N_TRAIN + N_VAL + 500, n_classes=3, n_informative=6, weights=[0.7, 0.2, 0.1], random_state=seed
    )
    rng = np.random.default_rng(seed)
    noisy = np.where(rng.random(len(y)) < 0.3, 0, y)
    names = np.array(["no", "perhaps", "yes"])
    model = LogisticRegression().fit(X[-500:], names[noisy[-500:]])
    train, val = slice(0, N_TRAIN), slice(N_TRAIN, N_TRAIN + N_VAL)
    return model, X[train], names[noisy[train]], X[val], names[y[val]]


def in_blocks(array, size=700):
    return da.from_array(np.asarray(array), chunks=(size, *np.shape(array)[1:]))


def halves(X):
    """A hard basis of two functions."""
    right = (np.asarray(X)[:, 0] > 0).astype(float)
    return np.column_stack([right, 1 - right])

"""Random rows, and what scikit-learn says of a randomised classifier: each row m times, weighted."""

from __future__ import annotations

import numpy as np


class Rows:
    """True classes, a table of class distributions (hard ones are one-hot), weights and perhaps groups."""

    def __init__(self, seed, *, n_classes, soft, n_groups=None, n_rows=60):
        rng = np.random.default_rng(seed)
        self.n_classes, self.n_groups = n_classes, n_groups
        self.truth = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n_rows - n_classes)])
        labels = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n_rows - n_classes)])
        self.table = rng.dirichlet(np.ones(n_classes), size=n_rows) if soft else np.eye(n_classes)[labels]
        self.weights = rng.uniform(0.5, 2, size=n_rows)
        self.groups = np.zeros(n_rows, dtype=int) if n_groups is None else rng.integers(n_groups, size=n_rows)

    @property
    def confusion(self):
        """The shares (groups * m, m)."""
        found = np.zeros(((self.n_groups or 1) * self.n_classes, self.n_classes))
        shares = self.weights / self.weights.sum()
        np.add.at(found, self.groups * self.n_classes + self.truth, shares[:, None] * self.table)
        return found

    def repeated(self, classes=None):
        """Return y_true, y_pred and sample_weight with each row once for each label it may get."""
        names = np.arange(self.n_classes) if classes is None else np.asarray(classes)
        weights = self.table * self.weights[:, None]
        rows, labels = np.nonzero(weights)
        return names[self.truth[rows]], names[labels], weights[rows, labels], self.groups[rows]


def slope_and_difference(metric, confusion, seed):
    """Return the slope along a move of predicted mass, by the gradient and by a difference."""
    direction = np.random.default_rng(seed).normal(size=confusion.shape)
    direction -= direction.mean(axis=1, keepdims=True)
    size = 1e-5 * confusion.min() / np.abs(direction).max()
    ahead, behind = (float(metric.value(confusion + sign * size * direction)) for sign in (1, -1))
    return float((metric.gradient(confusion) * direction).sum()), (ahead - behind) / (2 * size)

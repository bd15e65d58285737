"""Rows whose probabilities are right: labels are drawn from them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from scipy.special import softmax


def drawn(seed, *, n_rows=1000, n_classes=2, n_groups=1, rare=False):
    """Probabilities, labels drawn from them and, with several groups, groups with different shares of classes."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(n_groups, size=n_rows)
    scores = rng.normal(scale=1.6, size=(n_rows, n_classes))
    scores[:, 0] += 1.0 + 0.9 * groups
    eta = softmax(scores, axis=1)
    if rare:
        eta = np.column_stack([1 - 0.45 * eta[:, 1], 0.45 * eta[:, 1]])
    labels = np.array([rng.choice(n_classes, p=row) for row in eta])
    return SimpleNamespace(eta=eta, labels=labels, groups=groups)

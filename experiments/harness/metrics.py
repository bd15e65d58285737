"""Metrics of labels, computed by scikit-learn or by the few lines below, never by postshift."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    cohen_kappa_score,
    f1_score,
    jaccard_score,
    matthews_corrcoef,
    precision_score,
    recall_score,
)


def g_mean(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """Return the geometric mean of the recalls."""
    recalls = recall_score(y_true, y_pred, average=None)
    return float(np.prod(recalls) ** (1 / len(recalls)))


def min_recall(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """Return the lowest recall."""
    return float(recall_score(y_true, y_pred, average=None).min())


METRICS: dict[str, Callable[[Any, Any], float]] = {
    "accuracy": accuracy_score,
    "balanced_accuracy": balanced_accuracy_score,
    "f1": f1_score,
    "f1_macro": partial(f1_score, average="macro", zero_division=0),
    "f1_weighted": partial(f1_score, average="weighted", zero_division=0),
    "precision_macro": partial(precision_score, average="macro", zero_division=0),
    "jaccard_macro": partial(jaccard_score, average="macro", zero_division=0),
    "matthews_corrcoef": matthews_corrcoef,
    "cohen_kappa": cohen_kappa_score,
    "g_mean": g_mean,
    "min_recall": min_recall,
}

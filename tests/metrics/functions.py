"""Metrics as a user may write them, and a query about predictions."""

from __future__ import annotations

import numpy as np

from postshift.core.queries import Query

CLASSES = np.array(["cat", "dog", "eel"])


def hits(y_true, y_pred, sample_weight=None):
    return np.average(y_true == y_pred, weights=sample_weight)


def plain_hits(y_true, y_pred):
    return np.mean(y_true == y_pred)


def gain(y_true, y_pred, *, amount, sample_weight=None):
    return np.average(amount * (y_true == y_pred), weights=sample_weight)


def query(kind, shown, *, n_rows=None, rows=None):
    return Query(
        key="7:0", kind=kind, text="some value", n_rows=n_rows or len(shown), rows=rows, _predict=lambda: shown
    )

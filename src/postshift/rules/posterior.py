"""Posteriors: the probabilities that a rule reads in place of the model's eta."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from postshift._validation import FloatArray, IntArray, relative_weights

FLOOR = 1e-6  # smaller probabilities are raised to this value


@dataclass(frozen=True, slots=True)
class Identity:
    """The model's own probabilities."""

    def __call__(self, eta: FloatArray) -> FloatArray:
        """Return eta."""
        return eta


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """A softmax regression on the model's log-probabilities, fitted to clean labels; unseen classes get 0."""

    weights: FloatArray
    intercept: FloatArray
    seen: IntArray

    def __call__(self, eta: FloatArray) -> FloatArray:
        """Return the stacked posterior."""
        table = np.zeros_like(eta)
        table[:, self.seen] = softmax(centred_logs(eta) @ self.weights + self.intercept, axis=1)
        return table


def centred_logs(eta: FloatArray) -> FloatArray:
    """Return the row-centred logarithms of the probabilities."""
    logs = np.log(np.clip(eta, FLOOR, 1))
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


def fit_stack(eta: FloatArray, labels: IntArray, weights: FloatArray | None) -> Stack:
    """Fit the stack by ridge multinomial logistic regression (C = 1); the scale of the weights does not matter."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if weights is not None:
        rows = weights > 0
        eta, labels, weights = eta[rows], labels[rows], relative_weights(weights[rows])
    seen = np.unique(labels)
    n_classes = eta.shape[1]
    if len(seen) == 1:
        return Stack(np.zeros((n_classes, 1)), np.zeros(1), seen)
    model = LogisticRegression(C=1.0, max_iter=2000, tol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a fit that stops early is scored like any other rule
        model.fit(centred_logs(eta), labels, sample_weight=weights)
    coef, intercept = model.coef_, model.intercept_
    if len(seen) == 2:  # scikit-learn gives the second class's score against 0
        coef, intercept = np.vstack([np.zeros_like(coef), coef]), np.append(0.0, intercept)
    return Stack(coef.T, intercept, seen)

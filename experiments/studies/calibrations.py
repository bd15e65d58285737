"""Calibrations of a model's probabilities on validation labels: temperature scaling and structured matrix scaling.

Structured matrix scaling is that of Berta, Holzmueller, Jordan and Bach (2025, arXiv 2511.03685): a multinomial
logistic regression on log-probabilities whose penalties have a structure. Their package (probmetrics) needs torch, so
it is written anew here, from the abstract: the scores are ``(a I + diag(d) + V) log eta + b``. The temperature 1 / a is
free; d and b have a ridge penalty, and V, which has no diagonal, one that is m times as strong. So a strong penalty
leaves temperature scaling. The strength is chosen by cross-validated log loss.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax

from experiments.studies.rival_value import Floats, Ints, folds
from postshift.core.rows import Posterior
from postshift.rules.posterior import centred_logs

Calibration = Posterior  # from probabilities (n, m) to probabilities (n, m)
STRENGTHS = (1.0, 0.1, 0.01, 0.001)  # of the penalty, for a mean log loss; from strong to weak
N_FOLDS = 5
_LOG_RANGE = (-4.0, 4.0)  # of log a


def temperature_scaling(eta: Floats, y: Ints) -> Calibration:
    """Fit the one factor of the log-probabilities by log loss.

    It is what scikit-learn (from 1.8) has as ``CalibratedClassifierCV(method="temperature")``, and works with older
    versions too, and with validation rows that lack a class.
    """
    logs, at = centred_logs(eta), np.arange(len(y))

    def loss(log_factor: float) -> float:
        return -float(log_softmax(np.exp(log_factor) * logs, axis=1)[at, y].mean())

    factor = np.exp(minimize_scalar(loss, bounds=_LOG_RANGE, method="bounded", options={"xatol": 1e-6}).x)
    return lambda eta: np.asarray(softmax(factor * centred_logs(eta), axis=1))


def matrix_scaling(eta: Floats, y: Ints) -> Calibration:
    """Fit structured matrix scaling; its strength comes from cross-validation."""
    logs = centred_logs(eta)
    losses = np.zeros(len(STRENGTHS))
    for fitted, held in folds(y, N_FOLDS):
        start = _start(eta.shape[1])
        for place, strength in enumerate(STRENGTHS):
            start = _fitted(logs[fitted], y[fitted], strength, start)
            found = log_softmax(_scores(start, logs[held]), axis=1)
            losses[place] -= found[np.arange(len(held)), y[held]].sum()
    start = _start(eta.shape[1])
    for strength in STRENGTHS[: int(np.argmin(losses)) + 1]:
        start = _fitted(logs, y, strength, start)
    return lambda eta: np.asarray(softmax(_scores(start, centred_logs(eta)), axis=1))


def _start(n_classes: int) -> Floats:
    """Return the parameters (a, the matrix row by row, b) that leave the probabilities as they are."""
    return np.concatenate([[1.0], np.zeros(n_classes * (n_classes + 1))])


def _scores(parameters: Floats, logs: Floats) -> Floats:
    """Return the scores (n, m) of log-probabilities."""
    n_classes = logs.shape[1]
    table = parameters[1 : 1 + n_classes**2].reshape(n_classes, n_classes)
    return np.asarray(parameters[0] * logs + logs @ table.T + parameters[1 + n_classes**2 :])


def _fitted(logs: Floats, y: Ints, strength: float, start: Floats) -> Floats:
    """Return the parameters with the least mean log loss plus penalty."""
    n_rows, n_classes = logs.shape
    weights = np.full((n_classes, n_classes), float(n_classes))
    np.fill_diagonal(weights, 1.0)
    ridge = strength * np.concatenate([[0.0], weights.ravel(), np.ones(n_classes)])
    true = np.eye(n_classes)[y]

    def loss(parameters: Floats) -> tuple[float, Floats]:
        found = log_softmax(_scores(parameters, logs), axis=1)
        apart = (np.exp(found) - true) / n_rows
        slopes = np.concatenate([[(apart * logs).sum()], (apart.T @ logs).ravel(), apart.sum(axis=0)])
        penalty = float((ridge * parameters**2).sum()) / 2
        return penalty - float((found * true).sum()) / n_rows, slopes + ridge * parameters

    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 100}).x)

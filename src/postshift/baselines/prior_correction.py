"""Label shift: new class priors by expectation maximisation from rows without labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _num_samples

from postshift._validation import FloatArray, IntArray, check_count, check_in_range, unknown
from postshift.baselines._base import Baseline, BothSides
from postshift.estimators.model import eta_of, fitted_clone, is_frozen
from postshift.exceptions import InputError, SettingError

SOURCES = ("X_val", "y_val")


class PriorCorrection(Baseline):
    r"""The model's probabilities adjusted to the class priors of the validation rows, whose labels are not needed.

    Where classes are more or less frequent than in training and look the same (label shift), the posterior is

    .. math:: p'(i \mid x) \propto \frac{\pi'_i}{\pi_i} \, p(i \mid x).

    The new priors are those under which the validation rows are likeliest, by expectation maximisation
    (Saerens, Latinne and Decaestecker 2002): adjust, average over the rows, repeat.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        The model. It should believe in the priors of its training labels, which ``class_weight="balanced"`` undoes. A
        fitted one is passed in :class:`sklearn.frozen.FrozenEstimator` and taken as it is.
    max_iter : int, default=1000
        Most iterations.
    tol : float, default=1e-6
        Stops where no prior changes by more.
    on : {"X_val", "y_val"}, default="X_val"
        What the new priors are from: the features of the validation rows, where ``y_val`` may be left out and is not
        read, not even for a class of its own; or the shares of their labels, counted.

    Attributes
    ----------
    train_priors_ : array of shape (m,)
        Shares of the classes among the training labels.
    priors_ : array of shape (m,)
        The new priors.
    log_likelihood_ : array
        Mean log likelihood of the validation rows, relative to the training priors (0, then after each iteration, so
        ``n_iter_ + 1`` values); it never falls. Only with ``on="X_val"``.
    n_iter_ : int
        Iterations; 0 where labels are counted.
    estimator_ : classifier
        The fitted model.
    classes_ : array of shape (m,)
        The classes.

    Notes
    -----
    A class without training rows is unknown to the model and stays at probability 0. A class whose new prior is 0 gets
    probability 0, except in rows where the model is sure of such classes: these are left as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from postshift.baselines.prior_correction import PriorCorrection
    >>> rng = np.random.default_rng(0)
    >>> y, y_new = rng.random(4000) < 0.5, rng.random(4000) < 0.1
    >>> X, X_new = rng.normal(2.0 * y)[:, None], rng.normal(2.0 * y_new)[:, None]
    >>> model = PriorCorrection(LogisticRegression()).fit(X, y, X_new)
    >>> model.priors_.round(1)
    array([0.9, 0.1])
    """

    def __init__(
        self,
        estimator: Any,
        *,
        max_iter: int = 1000,
        tol: float = 1e-6,
        on: Literal["X_val", "y_val"] = "X_val",
    ) -> None:
        self.estimator = estimator
        self.max_iter = max_iter
        self.tol = tol
        self.on = on

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the adjusted probabilities (n, m)."""
        return self._new_scores(X)

    def _checked(self, X: Any, y: Any, X_val: Any, y_val: Any, metadata: Mapping[str, Any]) -> BothSides:
        """Return the rows of both sides; labels that are not read are replaced by one of the training labels."""
        if self.on not in SOURCES:
            raise SettingError(unknown(self.on, SOURCES, what="value of on"))
        if self.on == "X_val" and X_val is not None:
            y_val = np.repeat(np.asarray(y)[:1], _num_samples(X_val), axis=0)
        return super()._checked(X, y, X_val, y_val, metadata)

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Fit the model and find the new priors."""
        check_count(self.max_iter, name="max_iter", low=1)
        check_in_range(self.tol, name="tol", low=0, high=1)
        self.estimator_ = self._fitted_model(rows)
        self.train_priors_ = _shares(rows.y, rows.n_classes)
        if self.on == "y_val":
            self.priors_, self.n_iter_ = _shares(rows.y_val, rows.n_classes), 0
            return
        likelihoods = _likelihoods(eta_of(self.estimator_, rows.X_val, self.classes_), self.train_priors_)
        self.priors_, self.log_likelihood_ = likeliest_priors(
            likelihoods, start=self.train_priors_, max_iter=self.max_iter, tol=self.tol
        )
        self.n_iter_ = len(self.log_likelihood_) - 1

    def _fitted_model(self, rows: BothSides) -> Any:
        """Return the model, fitted to the training rows unless it is frozen."""
        if is_frozen(self.estimator):
            return self.estimator
        return fitted_clone(self.estimator, rows.X, self.classes_[rows.y], {})

    def _scores(self, X: Any) -> FloatArray:
        """Return the adjusted probabilities."""
        eta = eta_of(self.estimator_, X, self.classes_)
        joint = self.priors_ * _likelihoods(eta, self.train_priors_)
        totals = joint.sum(axis=1, keepdims=True)
        adjusted: FloatArray = np.divide(joint, totals, out=eta.copy(), where=totals > 0)
        return adjusted


def likeliest_priors(
    likelihoods: FloatArray, *, start: FloatArray, max_iter: int, tol: float
) -> tuple[FloatArray, FloatArray]:
    """Return the priors under which rows are likeliest, and the mean log likelihood before and after each iteration.

    ``likelihoods`` (n, m) are those of the rows in each class, up to a factor for each row. Rows that no class with a
    prior above 0 explains are left out.
    """
    rows = likelihoods[likelihoods @ start > 0]
    if len(rows) == 0:
        raise InputError(
            f"none of the {len(likelihoods)} validation rows is of a class that the training rows have, says the model"
        )
    priors, trace, change = start, [_mean_log(rows, start)], np.inf
    while change > tol and len(trace) <= max_iter:
        joint = priors * rows
        new = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
        change, priors = float(np.abs(new - priors).max()), new
        trace.append(_mean_log(rows, priors))
    if change > tol:
        warnings.warn(
            f"after {max_iter} iterations a prior still changes by {change:.2g}: increase max_iter, or tol ({tol:g})",
            ConvergenceWarning,
            stacklevel=4,
        )
    return priors, np.array(trace)


def _mean_log(rows: FloatArray, priors: FloatArray) -> float:
    """Return the mean log likelihood of rows under priors."""
    return float(np.log(rows @ priors).mean())


def _likelihoods(eta: FloatArray, priors: FloatArray) -> FloatArray:
    """Return probabilities divided by the priors they were learnt with, 0 where these are 0."""
    return np.divide(eta, priors, out=np.zeros_like(eta), where=priors > 0)


def _shares(codes: IntArray, n_classes: int) -> FloatArray:
    """Return the share of each class."""
    return np.bincount(codes, minlength=n_classes) / len(codes)

"""Label shift: new class priors from rows without labels, by expectation maximisation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _num_samples

from postshift._validation import FloatArray, IntArray, check_count, check_in_range, unknown
from postshift.baselines._baseline import BothSides, ModelBaseline
from postshift.estimators.model import eta_of
from postshift.exceptions import InputError, SettingError

SOURCES = ("X_val", "y_val")


@dataclass(eq=False, repr=False)
class PriorCorrection(ModelBaseline):
    r"""The probabilities of a model, adjusted to the class priors of the validation rows; no labels are needed.

    If only the frequencies of the classes differ from the training rows (label shift), the posterior is

    .. math:: p'(i \mid x) \propto \frac{\pi'_i}{\pi_i} \, p(i \mid x).

    The new priors maximise the likelihood of the validation rows, by expectation maximisation (Saerens, Latinne and
    Decaestecker 2002): adjust, average over the rows, repeat.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        The model. Its probabilities should have the priors of the training labels, so it should not use
        ``class_weight="balanced"``. Pass a fitted one in :class:`sklearn.frozen.FrozenEstimator`.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-6
        Iterations stop when no prior changes by more.
    on : {"X_val", "y_val"}, default="X_val"
        Source of the new priors: the features of the validation rows (``y_val`` is ignored and may be left out), or the
        shares of their labels.

    Attributes
    ----------
    train_priors_ : array of shape (m,)
        Shares of the classes among the training labels.
    priors_ : array of shape (m,)
        The new priors.
    log_likelihood_ : array
        Mean log likelihood of the validation rows, relative to the training priors: 0, then the value after each
        iteration (``n_iter_ + 1`` values). It never decreases. Only with ``on="X_val"``.
    n_iter_ : int
        Number of iterations; 0 with ``on="y_val"``.
    estimator_ : classifier
        The fitted model.

    Notes
    -----
    A class without training rows is unknown to the model and keeps probability 0. A class whose new prior is 0 gets
    probability 0. Rows to which the model gives only such classes are not changed.

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

    estimator: Any
    _: KW_ONLY
    max_iter: int = 1000
    tol: float = 1e-6
    on: Literal["X_val", "y_val"] = "X_val"

    def _checked(self, X: Any, y: Any, X_val: Any, y_val: Any, metadata: Mapping[str, Any]) -> BothSides:
        """Return the rows of both sides; ignored validation labels are replaced by a training label."""
        if self.on not in SOURCES:
            raise SettingError(unknown(self.on, SOURCES, what="value of on"))
        if self.on == "X_val" and X_val is not None:
            y_val = np.repeat(np.asarray(y)[:1], _num_samples(X_val), axis=0)
        return super()._checked(X, y, X_val, y_val, metadata)

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Fit the model and find the new priors."""
        check_count(self.max_iter, name="max_iter", low=1)
        check_in_range(self.tol, name="tol", low=0, high=1)
        self.estimator_ = self._fitted_to(rows.X, rows.y)
        self.train_priors_ = _shares(rows.y, rows.n_classes)
        if self.on == "y_val":
            self.priors_, self.n_iter_ = _shares(rows.y_val, rows.n_classes), 0
            return
        likelihoods = _likelihoods(eta_of(self.estimator_, rows.X_val, self.classes_), self.train_priors_)
        self.priors_, self.log_likelihood_ = likeliest_priors(
            likelihoods, start=self.train_priors_, max_iter=self.max_iter, tol=self.tol
        )
        self.n_iter_ = len(self.log_likelihood_) - 1

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
    """Return the priors of maximum likelihood, and the mean log likelihood before and after each iteration.

    ``likelihoods`` (n, m) are those of the rows in each class, up to a factor for each row. Rows with likelihood 0 in
    all classes whose prior is above 0 are left out.
    """
    rows = likelihoods[likelihoods @ start > 0]
    if len(rows) == 0:
        raise InputError(
            f"the model gives the {len(likelihoods)} validation rows probability 0 in all classes of the training "
            "rows: give validation rows of these classes"
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
    """Return probabilities divided by the priors of the training rows; 0 where the prior is 0."""
    return np.divide(eta, priors, out=np.zeros_like(eta), where=priors > 0)


def _shares(codes: IntArray, n_classes: int) -> FloatArray:
    """Return the share of each class."""
    return np.bincount(codes, minlength=n_classes) / len(codes)

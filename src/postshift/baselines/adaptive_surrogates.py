"""Adaptive surrogates: a linear model whose surrogate losses are moved towards a better score (Jiang et al. 2020).

======  ===========================================================  ===========
symbol  meaning                                                      shape
======  ===========================================================  ===========
theta   coefficients of a linear model, the intercept last           (p + 1, c)
c       columns: 1 for two classes, else one per class
K       surrogates: one for each class and basis function with rows
shares  weight of each row in each surrogate; columns sum to 1        (n, K)
======  ===========================================================  ===========
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.utils import check_array, check_random_state

from postshift._validation import FloatArray, IntArray, check_count, check_positive, unknown
from postshift.baselines._baseline import Baseline, BothSides
from postshift.estimators.rows_of import FeatureRows as BasisRows
from postshift.estimators.rows_of import fitted_bases
from postshift.exceptions import SettingError

SHARPNESS = 1.5  # of the sigmoid loss, as in the authors' program
START = 0.1  # of Adagrad's sums of squares, as in the authors' program
SPARSE = 0.3  # below this share of nonzero entries, sparse rows are multiplied faster
LOSSES = ("sigmoid", "cross_entropy")


@dataclass(frozen=True, kw_only=True, eq=False)
class Surrogates:
    """The average losses of a linear model on the training rows of each class within each basis function.

    The sigmoid loss is ``1 - p_y``, where p is the softmax of 1.5 times the scores; the cross-entropy is ``-log p_y``,
    where p is the softmax of the scores. ``rows`` hold numbers, dense or sparse.
    """

    rows: BothSides
    shares: FloatArray
    loss: str

    @property
    def start(self) -> FloatArray:
        """The parameters of the first model, all 0."""
        n_classes = self.rows.n_classes
        return np.zeros((self.rows.X.shape[1] + 1, 1 if n_classes == 2 else n_classes))

    def profile(self, theta: FloatArray) -> FloatArray:
        """Return the K surrogates of a model."""
        return self._profile(self._log_shares(scores_of(self.rows.X, theta)))

    def profiles(self, thetas: FloatArray) -> FloatArray:
        """Return the surrogates (q, K) of models (q, p + 1, c); one product gives all scores."""
        n_models, n_parameters, n_columns = thetas.shape
        flat = thetas.transpose(1, 0, 2).reshape(n_parameters, n_models * n_columns)
        scores = (self.rows.X @ flat[:-1] + flat[-1]).T.reshape(n_models, n_columns, -1)
        return np.array([self._profile(self._log_shares(_all_classes(each))) for each in scores])

    def excess(self, theta: FloatArray, target: FloatArray) -> tuple[float, FloatArray]:
        """Return ``sum_k max(0, profile_k - target_k)^2`` and its gradient in theta."""
        logs = self._log_shares(scores_of(self.rows.X, theta))
        above = np.maximum(self._profile(logs) - target, 0)
        pull = self._slopes(logs)[-theta.shape[1] :] * (self.shares @ (2 * above))
        return float(above @ above), np.vstack([self.rows.X.T @ pull.T, pull.sum(axis=1)])

    def _log_shares(self, scores: FloatArray) -> FloatArray:
        """Return the logarithms of the softmax of scores (m, n)."""
        return np.asarray(log_softmax(SHARPNESS * scores if self.loss == "sigmoid" else scores, axis=0))

    def _profile(self, logs: FloatArray) -> FloatArray:
        """Return the surrogates from the logarithms of the softmax."""
        own = logs[self.rows.y, np.arange(len(self.rows.y))]
        return np.asarray((-np.expm1(own) if self.loss == "sigmoid" else -own) @ self.shares)

    def _slopes(self, logs: FloatArray) -> FloatArray:
        """Return the derivatives (m, n) of the losses in the scores."""
        slopes, own = np.exp(logs), (self.rows.y, np.arange(len(self.rows.y)))
        factor = SHARPNESS * slopes[own] if self.loss == "sigmoid" else np.ones(len(self.rows.y))
        slopes[own] -= 1
        return np.asarray(factor * slopes)


@dataclass(kw_only=True, eq=False, repr=False)
class AdaptiveSurrogates(Baseline):
    """A linear model whose surrogate losses are moved in the direction in which the metric improves.

    The metric is treated as an unknown function of K surrogates: the average losses on the training rows of each class,
    over all rows and within each basis function. Each outer step perturbs the parameters of the model at random, scores
    the labels of each perturbed model on the validation rows, and regresses the scores on the surrogates. The
    coefficients are the gradient of the metric, and a step along it is the target of the surrogates. Inner steps of
    Adagrad reduce the squared excess of the surrogates over their target. The model with the best score on the
    validation rows is kept.

    The sigmoid loss, the start at 0, the perturbations and Adagrad are those of the authors' program, which makes more
    steps (250 and 100) and does not perturb the intercept. The paper chooses both learning rates from 0.1 and 1, and
    the basis functions, by cross-validation.

    Parameters
    ----------
    metric : str, metric, scorer or callable, default="g_mean"
        The metric to maximise, as for :class:`~postshift.PostShiftClassifier`.
    basis : str, transformer, list or dict of them, default="constant"
        Basis functions with separate surrogates, in addition to all rows (:mod:`postshift.basis`).
    transformer : transformer, optional
        Transforms the rows for the linear model; fitted to the training rows. Columns should have the same scale,
        because all are perturbed alike.
    loss : {"sigmoid", "cross_entropy"}, default="sigmoid"
        The loss.
    n_outer, n_inner : int, default=30
        Number of outer steps, and of inner steps in each of them.
    outer_learning_rate, inner_learning_rate : float, default=1.0
        Step of the target along the gradient, and step of Adagrad.
    n_perturbations : int, default=100
        Number of perturbed models in an outer step.
    perturbation_scale : float, default=1.0
        Standard deviation of the perturbations.
    random_state : int, RandomState or None, default=0
        Seed of the perturbations.

    Attributes
    ----------
    coef_ : array of shape (c, p)
        Coefficients; one row for two classes, else one per class.
    intercept_ : array of shape (c,)
        Intercepts.
    transformer_ : transformer or None
        The fitted transformer.
    bases_ : dict
        The fitted bases by name.
    history_ : array of shape (n_outer + 1,)
        Score of the model before each outer step and after the last; greater is better.
    score_ : float
        Score of the selected model on the validation rows.
    n_queries_ : int
        Number of queries: ``n_outer (n_perturbations + 1) + 1``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from postshift.baselines.adaptive_surrogates import AdaptiveSurrogates
    >>> X, y = make_classification(1000, weights=[0.9, 0.1], random_state=0)
    >>> model = AdaptiveSurrogates(metric="g_mean", n_outer=10, n_inner=20, n_perturbations=30)
    >>> model = model.fit(X[:600], y[:600], X[600:], y[600:])
    >>> bool(model.score_ > model.history_[0]), model.n_queries_
    (True, 311)
    """

    metric: Any = "g_mean"
    basis: Any = "constant"
    transformer: Any = None
    loss: str = "sigmoid"
    n_outer: int = 30
    n_inner: int = 30
    outer_learning_rate: float = 1.0
    inner_learning_rate: float = 1.0
    n_perturbations: int = 100
    perturbation_scale: float = 1.0
    random_state: Any = 0

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:
        """Run the outer steps and keep the best model."""
        self._check_settings()
        self.transformer_ = None if self.transformer is None else clone(self.transformer).fit(rows.X, rows.y)
        numbers = replace(rows, X=self._numbers(rows.X), X_val=self._numbers(rows.X_val))
        surrogates = Surrogates(rows=numbers, shares=self._shares(rows), loss=self.loss)
        metric = self._counted_metric(rows, metadata)
        models, scores = self._run(surrogates, lambda theta: metric(np.argmax(scores_of(numbers.X_val, theta), axis=0)))
        best = int(np.argmax(scores))
        self.coef_, self.intercept_ = models[best][:-1].T, models[best][-1]
        self.history_, self.score_ = np.array(scores), scores[best]
        self.n_queries_ = metric.n_queries

    def _check_settings(self) -> None:
        """Raise if a setting is out of range."""
        if self.loss not in LOSSES:
            raise SettingError(unknown(self.loss, LOSSES, what="loss"))
        for name in ("n_outer", "n_inner", "n_perturbations"):
            check_count(getattr(self, name), name=name, low=1)
        for name in ("outer_learning_rate", "inner_learning_rate", "perturbation_scale"):
            check_positive(getattr(self, name), name=name)

    def _shares(self, rows: BothSides) -> FloatArray:
        """Fit the bases and return the weight of each training row in each surrogate."""
        train = BasisRows(X=rows.X, y=self.classes_[rows.y], codes=rows.y)
        val = BasisRows(X=rows.X_val, y=self.classes_[rows.y_val], codes=rows.y_val)
        self.bases_, _ = fitted_bases(self.basis, given=train, labelled=train, val=val)
        functions = [
            np.ones((len(rows.y), 1)),
            *(np.asarray(basis.transform(rows.X)) for basis in self.bases_.values()),
        ]
        return shares_of(rows.y, np.hstack(functions), n_classes=rows.n_classes)

    def _numbers(self, X: Any) -> Any:
        """Return the rows for the linear model, as sparse rows if most entries are 0."""
        table = X if self.transformer_ is None else self.transformer_.transform(X)
        table = check_array(table, accept_sparse="csr", dtype=np.float64)
        if sparse.issparse(table) or np.count_nonzero(table) < SPARSE * table.size:
            return sparse.csr_array(table)
        return table

    def _run(
        self, surrogates: Surrogates, value: Callable[[FloatArray], float]
    ) -> tuple[list[FloatArray], list[float]]:
        """Return the start and the models of all outer steps, and their scores."""
        rng, theta = check_random_state(self.random_state), surrogates.start
        squares = np.full(theta.shape, START)
        models, values = [theta], [value(theta)]
        for _ in range(self.n_outer):
            noise = self.perturbation_scale * rng.standard_normal((self.n_perturbations, *theta.shape))
            gradient = elicited_gradient(surrogates, value, theta + noise)
            target = surrogates.profile(theta) + self.outer_learning_rate * gradient
            theta, squares = approached(
                surrogates, theta, target, squares=squares, n_steps=self.n_inner, rate=self.inner_learning_rate
            )
            models.append(theta)
            values.append(value(theta))
        return models, values

    def _scores(self, X: Any) -> FloatArray:
        """Return the linear model's scores."""
        return scores_of(self._numbers(X), np.vstack([self.coef_.T, self.intercept_])).T


def elicited_gradient(surrogates: Surrogates, value: Callable[[FloatArray], float], models: FloatArray) -> FloatArray:
    """Return the gradient of the metric in the K surrogates, from models (q, p + 1, c) around one point."""
    values = np.array([value(theta) for theta in models])
    return np.asarray(LinearRegression().fit(surrogates.profiles(models), values).coef_)


def approached(
    surrogates: Surrogates,
    theta: FloatArray,
    target: FloatArray,
    *,
    squares: FloatArray,
    n_steps: int,
    rate: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the model after steps of Adagrad towards a target, and Adagrad's sums of squares."""
    for _ in range(n_steps):
        _, slope = surrogates.excess(theta, target)
        squares = squares + slope**2
        theta = theta - rate * slope / np.sqrt(squares)
    return theta, squares


def shares_of(labels: IntArray, phi: FloatArray, *, n_classes: int) -> FloatArray:
    """Return the weight of each row in each class within each basis function; those without rows are left out."""
    table = (np.eye(n_classes)[labels][:, :, None] * phi[:, None, :]).reshape(len(labels), -1)
    totals = table.sum(axis=0)
    return np.asarray(table[:, totals > 0] / totals[totals > 0])


def scores_of(X: Any, theta: FloatArray) -> FloatArray:
    """Return the scores (m, n) of a linear model."""
    return _all_classes((X @ theta[:-1] + theta[-1]).T)


def _all_classes(scores: FloatArray) -> FloatArray:
    """Return scores with a row for every class; the first of two classes has the score 0."""
    return np.vstack([np.zeros_like(scores), scores]) if len(scores) == 1 else scores

"""Opt-metric [val]: Frank-Wolfe on a known metric with a model of the validation rows (Narasimhan et al. 2015)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from postshift._validation import FloatArray, check_count
from postshift.baselines._baseline import Baseline, BothSides
from postshift.core.plugin import onehot
from postshift.core.psi import DifferentiableMetric, gradient_of
from postshift.core.rows import Rows
from postshift.estimators.model import eta_of, fitted_clone, is_frozen
from postshift.estimators.task import goal_of, known_groups, make_task
from postshift.exceptions import MetricError, SettingError
from postshift.rules.problem import Problem

NUDGE = 1e-3  # towards the uniform classifier, where the gradient vanishes


@dataclass(eq=False, repr=False)
class OptMetric(Baseline):
    """Frank-Wolfe on the validation rows for a metric whose gradient is known.

    A class-probability model is fitted to the validation rows. The first classifier is uniformly random. Each iteration
    takes the gradient G of the metric at the confusion matrix of the current mixture and adds the classifier
    ``argmax_j sum_i G_ij eta_i(x)`` with the step ``2 / (t + 2)``. The last mixture is the result. Both the model and
    the confusion matrices use all validation rows, as in the paper; training rows are not used. If the gradient
    vanishes (that of the G-mean does if a class is never predicted), it is taken a thousandth nearer to the uniformly
    random classifier; if it vanishes there too, the run ends. A minimum is replaced by a smooth minimum.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        The model, fitted to the validation rows. Pass a fitted one, such as a model of the training rows, in
        :class:`sklearn.frozen.FrozenEstimator`.
    metric : str or metric, default="g_mean"
        The metric to maximise: a function of the confusion matrix that has a gradient. For a metric over groups the
        model is fitted to the (group, class) pairs, and prediction needs no groups.
    max_iter : int, default=30
        Number of iterations, the maximum number of classifiers in the mixture.

    Attributes
    ----------
    estimator_ : classifier
        The fitted model.
    categories_ : array of shape (R,)
        The labels of the model: the classes, or the numbers ``group * m + class`` of the pairs.
    gains_ : array of shape (n_iter, R, m)
        The gradient that each member of the mixture maximises.
    shares_ : array of shape (n_iter,)
        Share of each member in the mixture; they sum to 1.
    history_ : array of shape (n_iter,)
        Score of the mixture after each iteration, on the validation rows; greater is better.
    n_queries_ : int
        0: the formula of the metric is known.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from postshift.baselines.opt_metric import OptMetric
    >>> X, y = make_classification(1000, weights=[0.9, 0.1], random_state=0)
    >>> model = OptMetric(LogisticRegression(), metric="g_mean").fit(X[:500], y[:500], X[500:], y[500:])
    >>> bool(model.history_[-1] >= model.history_[0]), model.predict_distribution(X[:3]).shape
    (True, (3, 2))
    """

    estimator: Any
    _: KW_ONLY
    metric: Any = "g_mean"
    max_iter: int = 30

    def predict_distribution(self, X: Any) -> FloatArray:
        """Return the class distributions of the mixture (n, m); ``predict`` takes the most probable class."""
        return self._new_scores(X)

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:
        """Fit the model to the validation rows and run Frank-Wolfe on them."""
        max_iter = check_count(self.max_iter, name="max_iter", low=1)
        problem = self._problem(rows, metadata)
        over_groups = problem.n_categories > rows.n_classes
        if over_groups and is_frozen(self.estimator):
            raise SettingError(
                f"metric {self.metric!r} is over {problem.n_categories} (group, class) pairs, which a frozen model of "
                f"{rows.n_classes} classes cannot predict: give a model that can be fitted"
            )
        self.categories_ = np.arange(problem.n_categories) if over_groups else self.classes_
        self.estimator_ = fitted_clone(self.estimator, rows.X_val, self.categories_[problem.categories], {})
        eta = eta_of(self.estimator_, rows.X_val, self.categories_)
        self.gains_, self.shares_, self.history_ = frank_wolfe(problem, eta, max_iter=max_iter)
        self.n_queries_ = 0

    def _problem(self, rows: BothSides, metadata: Mapping[str, Any]) -> Problem:
        """Return the problem of the metric on the validation rows; raise if the metric has no gradient."""
        groups = known_groups(self.metric, metadata)
        goal = goal_of(self.metric, classes=self.classes_, groups=groups, metadata=metadata)
        if not isinstance(goal, DifferentiableMetric):
            raise MetricError(
                f"metric {goal.name!r} has no gradient in the confusion matrix, and Frank-Wolfe needs one: give a "
                "metric of postshift.metrics, or use CoordinatePlugin or DirectSearch, which need scores only"
            )
        table = Rows.of(onehot(rows.y_val, n_classes=rows.n_classes), labels=rows.y_val, name="y_val")
        task = make_task(goal, train=None, val=table, classes=self.classes_, groups=groups, metadata=metadata)
        return task.problem

    def _scores(self, X: Any) -> FloatArray:
        """Return the share of the mixture that predicts each class."""
        eta = eta_of(self.estimator_, X, self.categories_)
        return np.asarray(
            sum(share * _vertex(eta, gain) for gain, share in zip(self.gains_, self.shares_, strict=True))
        )


def frank_wolfe(problem: Problem, eta: FloatArray, *, max_iter: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the gradients that the members maximise, their shares, and the metric after each iteration."""
    uniform = problem.confusion(np.full((len(eta), problem.n_classes), 1 / problem.n_classes))
    confusion, shares = uniform, np.zeros(0)
    gains, history = [], []
    for iteration in range(max_iter):
        gain = _gradient(problem, confusion, uniform)
        if gain is None:
            break
        step = 2 / (iteration + 2)
        shares = np.append((1 - step) * shares, step)
        confusion = (1 - step) * confusion + step * problem.confusion(_vertex(eta, gain))
        gains.append(gain)
        history.append(float(problem.metric_of(confusion)))
    if not gains:
        raise MetricError(
            f"metric {problem.fitting_metric.name!r} does not change near the uniformly random classifier: give another"
        )
    return np.array(gains), shares, np.array(history)


def _gradient(problem: Problem, confusion: FloatArray, uniform: FloatArray) -> FloatArray | None:
    """Return the gradient, taken a little nearer to the uniform classifier if it is the same for all classes."""
    metric: Any = problem.fitting_metric
    for place in (confusion, (1 - NUDGE) * confusion + NUDGE * uniform):
        slopes = gradient_of(metric, place)
        if np.ptp(slopes, axis=1).any():
            return slopes
    return None


def _vertex(eta: FloatArray, gain: FloatArray) -> FloatArray:
    """Return the classifier that maximises a linear metric, one-hot (n, m)."""
    return onehot(np.argmax(eta @ gain, axis=1), n_classes=gain.shape[1])

"""Class weights for a model's probabilities, ``argmax_i w_i eta_i``, searched one by one on the validation rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray, check_count, check_in_range
from postshift.baselines._base import Baseline, BothSides, CountedMetric
from postshift.core.queries import without_queries
from postshift.core.rows import Rows
from postshift.core.session import Session
from postshift.estimators.model import eta_of, fitted_clone, is_frozen
from postshift.estimators.task import Task, goal_of, known_groups, make_task
from postshift.rules.fitted import FittedRule
from postshift.rules.search import PluginSearch, overtaking


def model_of(estimator: Any, X: Any, y: Any) -> Any:
    """Return a fitted copy of a model, or the model itself where it is frozen."""
    return estimator if is_frozen(estimator) else fitted_clone(estimator, X, y, {})


class WeightedModel(Baseline):
    """A model fitted to the training rows whose probabilities are multiplied with class weights.

    A subclass defines ``_search(eta, rows, metadata)``, which returns the weights and the number of queries.
    """

    estimator: Any

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:
        """Fit the model, then search the weights on the validation rows."""
        self.estimator_ = model_of(self.estimator, rows.X, self.classes_[rows.y])
        eta = eta_of(self.estimator_, rows.X_val, self.classes_)
        self.weights_, self.n_queries_ = self._search(eta, rows, metadata)

    def _search(self, eta: FloatArray, rows: BothSides, metadata: Mapping[str, Any]) -> tuple[FloatArray, int]:
        """Return the class weights and how often the metric was asked."""
        raise NotImplementedError

    def _scores(self, X: Any) -> FloatArray:
        """Return the weighted probabilities."""
        return np.asarray(self.weights_ * eta_of(self.estimator_, X, self.classes_))


class CoordinatePlugin(WeightedModel):
    """Plug-in [train-val]: the weights of ``argmax_i w_i eta_i``, found one by one on the validation rows.

    Without ``spacing`` this is the rule "plug-in search" of the menu: from equal weights, one weight after the other is
    moved to the best of all values at which a label changes, until a round brings nothing.

    With ``spacing`` it is the search of the paper's appendix on this baseline. The last class is the reference, and
    each other class j is searched by itself: the classifier that knows j and the reference only predicts j where
    ``zeta eta_j >= (1 - zeta) eta_reference``. Of the grid ``spacing, 2 spacing, ...`` below 1, the zeta with the best
    metric gives ``w_j = zeta / (1 - zeta)`` (the appendix writes ``w_j = zeta``, which is no ratio of weights). Of
    several best ones it is the one nearest to 1/2: such a classifier scores 0 on the G-mean of three classes, whatever
    zeta is, and then the weight is 1. Neighbours on the grid with the same labels are asked about once.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        The model, fitted to the training rows. A fitted one is passed in :class:`sklearn.frozen.FrozenEstimator`.
    metric : str, metric, scorer or callable, default="balanced_accuracy"
        What to maximise: all that :class:`~postshift.PostShiftClassifier` takes.
    spacing : float, optional
        Distance of the grid of zeta; the paper has 1e-4. None for the exact search.
    max_sweeps : int, default=3
        Exact search: rounds over the classes at the most.
    max_cuts : int, default=15
        Exact search, where only values of the metric are told: the most cuts tried for a class, spread evenly.

    Attributes
    ----------
    estimator_ : classifier
        The fitted model.
    weights_ : array of shape (m,)
        The class weights.
    n_queries_ : int
        Queries put to the metric; 0 in the exact search where it is a function of the confusion matrix.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from postshift.baselines.plugin_search import CoordinatePlugin
    >>> X, y = make_classification(1000, weights=[0.9, 0.1], random_state=0)
    >>> model = CoordinatePlugin(LogisticRegression(), metric="g_mean").fit(X[:600], y[:600], X[600:], y[600:])
    >>> bool(model.weights_[1] > model.weights_[0])
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        metric: Any = "balanced_accuracy",
        spacing: float | None = None,
        max_sweeps: int = 3,
        max_cuts: int = 15,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.spacing = spacing
        self.max_sweeps = max_sweeps
        self.max_cuts = max_cuts

    def _search(self, eta: FloatArray, rows: BothSides, metadata: Mapping[str, Any]) -> tuple[FloatArray, int]:
        """Return the weights of the exact search or of the paper's grid."""
        if self.spacing is None:
            return self._exact(eta, rows, metadata)
        zeta = grid(self.spacing)
        metric = CountedMetric(self.metric, y_val=rows.y_val, classes=self.classes_, metadata=metadata)
        weights = np.ones(rows.n_classes)
        for label in range(rows.n_classes - 1):
            weights[label] = best_ratio(metric, eta, label, zeta=zeta)
        return weights, metric.n_queries

    def _exact(self, eta: FloatArray, rows: BothSides, metadata: Mapping[str, Any]) -> tuple[FloatArray, int]:
        """Return the weights that the rule of the menu finds."""
        rule = PluginSearch(
            max_sweeps=check_count(self.max_sweeps, name="max_sweeps", low=1),
            max_cuts=check_count(self.max_cuts, name="max_cuts", low=1),
        )
        groups = known_groups(self.metric, metadata)
        goal = goal_of(self.metric, classes=self.classes_, groups=groups, metadata=metadata)
        table = Rows.of(eta, labels=rows.y_val)
        task = make_task(goal, train=None, val=table, classes=self.classes_, groups=groups, metadata=metadata)
        found, n_queries = _fitted(rule, task)
        return np.array(found.mixture.members[0].alpha[0]), n_queries


def grid(spacing: float) -> FloatArray:
    """Return the multiples of a spacing between 0 and 1, the one nearest to 1/2 first."""
    step = check_in_range(spacing, name="spacing", low=0, high=0.5, open_low=True)
    zeta = step * np.arange(1, int(np.ceil(1 / step - 1e-9)))
    return np.asarray(zeta[np.argsort(np.abs(zeta - 0.5), kind="stable")])


def best_ratio(metric: CountedMetric, eta: FloatArray, label: int, *, zeta: FloatArray) -> float:
    """Return the best ``zeta / (1 - zeta)`` for a class against the last one, the first of several."""
    ratios, last = zeta / (1 - zeta), eta.shape[1] - 1
    changes = overtaking(np.ones(2), eta[:, [label, last]], 0)
    moved = np.searchsorted(np.sort(changes), ratios, side="right")  # how many rows are predicted to be of the class
    _, first = np.unique(moved, return_index=True)
    tried = ratios[np.sort(first)]
    values = [metric(_pair_labels(changes <= ratio, label, last)) for ratio in tried]
    return float(tried[int(np.argmax(values))])


def _pair_labels(moved: Any, label: int, last: int) -> IntArray:
    """Return the labels of a classifier that knows two classes only."""
    return np.where(moved, label, last).astype(np.intp)


def _fitted(rule: PluginSearch, task: Task) -> tuple[FittedRule, int]:
    """Return the fitted rule and the number of queries that were answered."""
    if task.oracle is None:
        return without_queries(rule.fit(task.problem)), 0
    session = Session(lambda: rule.fit(task.problem))
    return session.run(task.oracle), session.n_queries

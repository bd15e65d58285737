"""Class weights for the probabilities of a model, ``argmax_i w_i eta_i``, found one by one on the validation rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from postshift._validation import FloatArray, check_count, check_in_range
from postshift.baselines._baseline import Baseline, BothSides, CountedMetric, answered, validation_task
from postshift.estimators.model import eta_of
from postshift.rules.search import PluginSearch, overtaking


class WeightedModel(Baseline):
    """A model fitted to the training rows whose probabilities are multiplied by class weights.

    A subclass defines ``_search(eta, rows, metadata)``, which returns the weights and the number of queries.
    """

    estimator: Any

    def _fit(self, rows: BothSides, metadata: Mapping[str, Any]) -> None:
        """Fit the model, then find the weights on the validation rows."""
        self.estimator_ = self._fitted_to(rows.X, rows.y)
        eta = eta_of(self.estimator_, rows.X_val, self.classes_)
        self.weights_, self.n_queries_ = self._search(eta, rows, metadata)

    def _search(self, eta: FloatArray, rows: BothSides, metadata: Mapping[str, Any]) -> tuple[FloatArray, int]:
        """Return the class weights and the number of queries."""
        raise NotImplementedError

    def _scores(self, X: Any) -> FloatArray:
        """Return the weighted probabilities."""
        return np.asarray(self.weights_ * eta_of(self.estimator_, X, self.classes_))


@dataclass(eq=False, repr=False)
class CoordinatePlugin(WeightedModel):
    """Plug-in [train-val]: the weights of ``argmax_i w_i eta_i``, found one by one on the validation rows.

    Without ``spacing`` this is the rule "plug-in search" of the menu: starting from equal weights, each weight in turn
    is moved to the best of all values at which a label changes, until a sweep brings no improvement.

    With ``spacing`` it is the search of the paper's appendix on this baseline. The last class is the reference, and
    the weight of each other class j is found separately, with a classifier of two classes: it predicts j where
    ``zeta eta_j >= (1 - zeta) eta_reference``, and the reference elsewhere. The grid is ``spacing, 2 spacing, ...``
    below 1, and the zeta with the best score gives ``w_j = zeta / (1 - zeta)`` (the appendix writes ``w_j = zeta``,
    which is not a ratio of weights). Ties go to the zeta nearest to 1/2: on the G-mean of three classes such a
    classifier always scores 0, and then the weight is 1. Values of zeta with the same labels cost one query.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        The model, fitted to the training rows. Pass a fitted one in :class:`sklearn.frozen.FrozenEstimator`.
    metric : str, metric, scorer or callable, default="balanced_accuracy"
        The metric to maximise, as for :class:`~postshift.PostShiftClassifier`.
    spacing : float, optional
        Spacing of the grid of zeta; 1e-4 in the paper. None for the exact search.
    max_sweeps : int, default=3
        Exact search: maximum number of sweeps over the classes.
    max_cuts : int, default=15
        Exact search with queries: maximum number of cuts tried for a class, evenly spread.

    Attributes
    ----------
    estimator_ : classifier
        The fitted model.
    weights_ : array of shape (m,)
        The class weights.
    n_queries_ : int
        Number of queries; 0 in the exact search for a function of the confusion matrix.

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

    estimator: Any
    _: KW_ONLY
    metric: Any = "balanced_accuracy"
    spacing: float | None = None
    max_sweeps: int = 3
    max_cuts: int = 15

    def _search(self, eta: FloatArray, rows: BothSides, metadata: Mapping[str, Any]) -> tuple[FloatArray, int]:
        """Return the weights of the exact search or of the paper's grid."""
        if self.spacing is None:
            return self._exact(eta, rows, metadata)
        zeta = grid(self.spacing)
        metric = self._counted_metric(rows, metadata)
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
        task = validation_task(self.metric, eta, rows.y_val, classes=self.classes_, metadata=metadata)
        found, n_queries = answered(lambda: rule.fit(task.problem), task)
        return np.array(found.mixture.members[0].alpha[0]), n_queries


def grid(spacing: float) -> FloatArray:
    """Return the multiples of a spacing between 0 and 1, sorted by their distance to 1/2."""
    step = check_in_range(spacing, name="spacing", low=0, high=0.5, open_low=True)
    zeta = step * np.arange(1, int(np.ceil(1 / step - 1e-9)))
    return np.asarray(zeta[np.argsort(np.abs(zeta - 0.5), kind="stable")])


def best_ratio(metric: CountedMetric, eta: FloatArray, label: int, *, zeta: FloatArray) -> float:
    """Return the best ``zeta / (1 - zeta)`` for a class against the last one; ties go to the first."""
    ratios, last = zeta / (1 - zeta), eta.shape[1] - 1
    changes = overtaking(np.ones(2), eta[:, [label, last]], 0)
    moved = np.searchsorted(np.sort(changes), ratios, side="right")  # number of rows predicted to be of the class
    _, first = np.unique(moved, return_index=True)
    tried = ratios[np.sort(first)]
    scores = [metric(np.where(changes <= ratio, label, last).astype(np.intp)) for ratio in tried]
    return float(tried[int(np.argmax(scores))])

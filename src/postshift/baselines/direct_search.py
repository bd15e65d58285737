"""Class weights for the probabilities of a model, found by differential evolution: the metric is a black box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.optimize import differential_evolution
from scipy.stats.qmc import LatinHypercube
from sklearn.utils import check_random_state

from postshift._validation import FloatArray, check_count, check_in_range
from postshift.baselines._baseline import BothSides
from postshift.baselines.plugin_search import WeightedModel
from postshift.exceptions import SettingError

MIN_POPULATION = 5  # what differential evolution needs


@dataclass(eq=False, repr=False)
class DirectSearch(WeightedModel):
    """The weights of ``argmax_i w_i eta_i`` by differential evolution on the metric of the validation rows.

    The search is over the logarithms of the weights; the logarithm of the first class is 0. The first population is a
    Latin hypercube that also contains equal weights, that is, the base: the result never scores lower on these rows.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        The model, fitted to the training rows. Pass a fitted one in :class:`sklearn.frozen.FrozenEstimator`.
    metric : str, metric, scorer or callable, default="balanced_accuracy"
        The metric to maximise, as for :class:`~postshift.PostShiftClassifier`.
    max_queries : int, default=1000
        Maximum number of queries, at least ``population``.
    population : int, default=20
        Number of candidates in a generation, at least 5.
    max_log_weight : float, default=7.0
        Largest absolute logarithm of a weight.
    random_state : int, RandomState or None, default=0
        Seed of the search.

    Attributes
    ----------
    estimator_ : classifier
        The fitted model.
    weights_ : array of shape (m,)
        The class weights; the first is 1.
    n_queries_ : int
        Number of queries.
    score_ : float
        Score of the result on the validation rows; greater is better.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from postshift.baselines.direct_search import DirectSearch
    >>> X, y = make_classification(1000, weights=[0.9, 0.1], random_state=0)
    >>> model = DirectSearch(LogisticRegression(), metric="g_mean", max_queries=200)
    >>> model = model.fit(X[:600], y[:600], X[600:], y[600:])
    >>> bool(model.weights_[1] > 1), model.n_queries_
    (True, 200)
    """

    estimator: Any
    _: KW_ONLY
    metric: Any = "balanced_accuracy"
    max_queries: int = 1000
    population: int = 20
    max_log_weight: float = 7.0
    random_state: Any = 0

    def _search(self, eta: FloatArray, rows: BothSides, metadata: Mapping[str, Any]) -> tuple[FloatArray, int]:
        """Return the weights of the best candidate of all generations."""
        n_generations = self._n_generations()
        radius = check_in_range(self.max_log_weight, name="max_log_weight", low=0, high=300, open_low=True)
        metric = self._counted_metric(rows, metadata)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        bounds = [(-radius, radius)] * (rows.n_classes - 1)
        found = differential_evolution(
            lambda logs: -metric(np.argmax(weights_of(logs) * eta, axis=1)),
            bounds,
            init=self._first_population(bounds, seed),
            maxiter=n_generations - 1,
            tol=0,  # stops early only if all candidates score the same
            polish=False,  # the metric is a step function: it has no gradient
            seed=seed,
        )
        self.score_ = -float(found.fun)
        return weights_of(found.x), metric.n_queries

    def _n_generations(self) -> int:
        """Return the number of generations within the maximum number of queries."""
        population = check_count(self.population, name="population", low=MIN_POPULATION)
        max_queries = check_count(self.max_queries, name="max_queries", low=1)
        if max_queries < population:
            raise SettingError(
                f"max_queries={max_queries} is not enough for one generation of {population}: raise it, or lower "
                "population"
            )
        return max_queries // population

    def _first_population(self, bounds: list[tuple[float, float]], seed: int) -> FloatArray:
        """Return candidates that fill the box evenly; the first has equal weights."""
        low, high = np.transpose(bounds)
        points = low + (high - low) * LatinHypercube(len(bounds), seed=seed).random(self.population)
        points[0] = 0
        return np.asarray(points)


def weights_of(logs: Any) -> FloatArray:
    """Return the class weights from the logarithms of all but the first, which is 1."""
    return np.asarray(np.exp(np.concatenate([[0.0], logs])))

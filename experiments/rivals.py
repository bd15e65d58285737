"""Rivals from elsewhere, behind the same call as the baselines."""

from __future__ import annotations

from typing import Any, Self

from sklearn.frozen import FrozenEstimator
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV

from experiments.baseline_methods import logistic
from experiments.comparison import METRICS


class TunedThreshold:
    """scikit-learn's ``TunedThresholdClassifierCV``: logistic regression, its threshold tuned on validation rows.

    Parameters
    ----------
    metric : str
        A name of ``experiments.comparison.METRICS``, which scikit-learn computes.
    """

    def __init__(self, *, metric: str) -> None:
        self.metric = metric

    def fit(self, X: Any, y: Any, X_val: Any, y_val: Any) -> Self:
        """Fit the model, then tune the threshold."""
        model = logistic().fit(X, y)
        scorer = make_scorer(METRICS[self.metric])
        tuned = TunedThresholdClassifierCV(FrozenEstimator(model), scoring=scorer, cv="prefit", refit=False)
        self.tuned_ = tuned.fit(X_val, y_val)
        return self

    def predict(self, X: Any) -> Any:
        """Return the labels above the threshold."""
        return self.tuned_.predict(X)

"""Your own metric that reads a column: the profit of a decision depends on the size of the order.

A function of ``y_true``, ``y_pred`` and one value for each row is a metric. Pass the values to ``fit`` under the name
of the argument. Each score of the function is a query, so ``fit`` counts them.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from postshift import PostShifter
from postshift.metrics import from_labels


def profit(y_true: np.ndarray, y_pred: np.ndarray, *, amount: np.ndarray) -> float:
    """Return the mean profit: stopping a fraud saves its amount, and each stop costs 5."""
    stopped = y_pred == 1
    return float(np.mean(np.where(stopped, np.where(y_true == 1, amount, 0.0) - 5.0, 0.0)))


def main() -> None:
    """Fit to the probabilities of 1,000 orders, and compare on 1,000 others."""
    rng = np.random.default_rng(0)
    X, y = make_classification(4000, n_informative=5, weights=[0.93], class_sep=0.8, random_state=0)
    amount = rng.lognormal(3.5, 0.5, size=len(y))
    model = LogisticRegression(max_iter=1000).fit(X[:2000], y[:2000])
    val, test = slice(2000, 3000), slice(3000, 4000)
    eta_val, eta_test = model.predict_proba(X[val]), model.predict_proba(X[test])
    metric = from_labels(profit, scale=10.0)
    shifter = PostShifter(metric, budget=120).fit(eta_val, y[val], amount=amount[val])
    print(f"{shifter.n_queries_} queries: {shifter.diagnostics_.choice.reason}")
    for name, labels in (("base", eta_test.argmax(axis=1)), ("shifted", shifter.predict(eta_test))):
        print(f"profit of an order, {name:8s}{profit(y[test], labels, amount=amount[test]):.3f}")


if __name__ == "__main__":
    main()

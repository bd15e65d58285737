"""Only an oracle: it has the labels and the metric, and answers at most 150 queries with a score.

A query contains predictions for the validation rows. Here the oracle is a function that keeps its labels secret. It
can also be a service or an experiment. The maximum number of queries is known in advance.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split

from postshift import PostShifter
from postshift.metrics import from_predictions

BUDGET = 150


def main() -> None:
    """Ask the oracle, and compare on test rows that it does not have."""
    X, y = load_digits(n_class=4, return_X_y=True)
    X, y = X[:, :24] / 16, np.array(["zero", "one", "two", "three"])[y]  # the upper three of eight lines of pixels
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=100, stratify=y, random_state=0)
    kept = (y_train != "three") | (np.arange(len(y_train)) % 5 == 0)  # few threes among the training rows
    X_val, X_test, secret, y_test = train_test_split(X_rest, y_rest, train_size=0.5, stratify=y_rest, random_state=0)
    model = LogisticRegression(C=0.01, max_iter=1000).fit(X_train[kept], y_train[kept])
    eta_val, eta_test = model.predict_proba(X_val), model.predict_proba(X_test)

    oracle = from_predictions(lambda labels: balanced_accuracy_score(secret, labels), name="their metric")
    shifter = PostShifter(oracle, classes=model.classes_, budget=BUDGET).fit(eta_val)
    print(f"{shifter.n_queries_} queries of {BUDGET}: {shifter.diagnostics_.choice.reason}")
    print(f"the metric of the base             {balanced_accuracy_score(y_test, model.predict(X_test)):.3f}")
    print(f"the metric of the shifted model    {balanced_accuracy_score(y_test, shifter.predict(eta_test)):.3f}")


if __name__ == "__main__":
    main()

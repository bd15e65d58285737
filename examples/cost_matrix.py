"""A cost matrix: a missed malignant tumour costs 20 and a false alarm costs 1. The labels are clean.

Rows of the matrix are true classes and columns are predicted classes, both in the order of ``classes_`` (sorted). A
cost is minimised. In ``score_`` it has a minus sign, so that greater is better.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from postshift import PostShiftClassifier
from postshift.metrics import ExpectedCost

COST = np.array([[0.0, 1.0], [20.0, 0.0]])  # benign, malignant


def main() -> None:
    """Fit to five columns of the table, and compare the cost of a case on test rows."""
    bunch = load_breast_cancer()
    X, y = bunch.data[:, 4:9], bunch.target_names[bunch.target]
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    model = PostShiftClassifier(pipeline, metric=ExpectedCost(COST)).fit(X_train, y_train)
    truth = np.searchsorted(model.classes_, y_test)
    for name, labels in (("base", model.estimator_.predict(X_test)), ("shifted", model.predict(X_test))):
        predicted = np.searchsorted(model.classes_, labels)
        missed = np.sum((truth == 1) & (predicted == 0))
        print(f"{name:8s} cost of a case {COST[truth, predicted].mean():.3f}, malignant tumours missed {missed}")


if __name__ == "__main__":
    main()

"""A cost matrix: a missed malignant tumour costs 20, a false alarm 1, and the data are clean.

Rows of the matrix are true classes, columns predicted ones, both in the order of ``classes_`` (sorted). A cost is
minimised; ``score_`` has it with a minus, so that greater is better there too.
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
    """Fit to five columns of the table, and compare what a case costs on test rows."""
    bunch = load_breast_cancer()
    X, y = bunch.data[:, 4:9], bunch.target_names[bunch.target]
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    model = PostShiftClassifier(pipeline, metric=ExpectedCost(COST)).fit(X_train, y_train)
    truth = np.searchsorted(model.classes_, y_test)
    for name, labels in (("as it is", model.estimator_.predict(X_test)), ("shifted", model.predict(X_test))):
        told = np.searchsorted(model.classes_, labels)
        missed = np.sum((truth == 1) & (told == 0))
        print(f"the model {name:10s} cost of a case {COST[truth, told].mean():.3f}, malignant tumours missed {missed}")


if __name__ == "__main__":
    main()

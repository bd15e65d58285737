"""A hidden group: one row in four comes from a faint scanner, and the training rows have none of them.

The model almost never predicts "high" for faint rows. The metric is the accuracy of the worst group. The basis lets
the weights differ between faint and dark rows, which it recognises from the features.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from postshift import PostShiftClassifier
from postshift.basis import GroupBasis

FAINT = 0.35


def darkness(X: np.ndarray) -> np.ndarray:
    """Return "faint" or "dark" for each row: the groups of the basis."""
    return np.where(X.sum(axis=1) < 12, "faint", "dark")


def main() -> None:
    """Train on dark rows, fit the shift to 600 rows of both kinds, and compare both groups of the test rows."""
    rng = np.random.default_rng(0)
    X, y = load_digits(return_X_y=True)
    X, y = X / 16, np.where(y >= 5, "high", "low")
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=1200, stratify=y, random_state=0)
    faint = rng.random(len(X_rest)) < 0.25
    X_rest = np.where(faint[:, None], FAINT * X_rest, X_rest)
    val, test = np.arange(600), np.arange(600, 1200)
    groups = np.where(faint, "faint", "dark")
    model = PostShiftClassifier(
        LogisticRegression(max_iter=1000), metric="worst_group_accuracy", basis=GroupBasis(by=darkness)
    )
    model.fit(X_train, y_train, X_rest[val], y_rest[val], groups=groups[val])
    for name, labels in (
        ("base", model.estimator_.predict(X_rest[test])),
        ("shifted", model.predict(X_rest[test])),
    ):
        right = labels == y_rest[test]
        found = ", ".join(f"{group} {right[groups[test] == group].mean():.3f}" for group in ("dark", "faint"))
        print(f"{name:8s} accuracy by group: {found}")


if __name__ == "__main__":
    main()

"""Wrong training labels: half of the 7s are labelled 1 and half of the 8s are labelled 3. 300 rows have clean labels.

The model is fitted to the wrong labels and is not changed. The clean rows show which of its probabilities are wrong.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from postshift import PostShiftClassifier

WRONG_LABEL = {7: 1, 8: 3}


def with_errors(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the labels, with half of two classes labelled as another class."""
    wrong = rng.random(len(y)) < 0.5
    return np.array(
        [WRONG_LABEL.get(label, label) if is_wrong else label for label, is_wrong in zip(y, wrong, strict=True)]
    )


def main() -> None:
    """Compare the recalls of the two classes, and the smallest recall, on test rows."""
    X, y = load_digits(return_X_y=True)
    X_rest, X_test, y_rest, y_test = train_test_split(X / 16, y, test_size=500, stratify=y, random_state=0)
    X_train, X_val, y_train, y_val = train_test_split(X_rest, y_rest, test_size=300, stratify=y_rest, random_state=0)
    model = PostShiftClassifier(LogisticRegression(max_iter=1000), metric="g_mean")
    model.fit(X_train, with_errors(y_train, np.random.default_rng(0)), X_val, y_val)
    for name, labels in (("base", model.estimator_.predict(X_test)), ("shifted", model.predict(X_test))):
        recalls = [float(np.mean(labels[y_test == digit] == digit)) for digit in range(10)]
        print(f"{name:10s} recall of 7 {recalls[7]:.3f}, of 8 {recalls[8]:.3f}, smallest {min(recalls):.3f}")
    print(f"Why: {model.diagnostics_.choice.reason}")


if __name__ == "__main__":
    main()

"""Prior shift: all digits are equally frequent in the training rows, but most new rows show 0, 1 or 2.

The model sees only the upper part of each picture, so it is often uncertain, and class frequencies matter. 350
labelled rows of the new place are enough. The fitted model is frozen: it is not changed.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from postshift import PostShiftClassifier


def main() -> None:
    """Fit a model in one place, shift it in another, and compare the accuracy there."""
    rng = np.random.default_rng(0)
    X, y = load_digits(return_X_y=True)
    X = X[:, :24] / 16  # the upper three of eight lines of pixels
    X_old, X_new, y_old, y_new = train_test_split(X, y, test_size=1500, stratify=y, random_state=0)
    kept = (y_new <= 2) | (rng.random(len(y_new)) < 0.1)
    X_new, y_new = X_new[kept], y_new[kept]
    X_val, X_test, y_val, y_test = train_test_split(X_new, y_new, train_size=350, stratify=y_new, random_state=0)
    old_model = LogisticRegression(max_iter=1000).fit(X_old, y_old)
    # Use only rows of the new place: the model is overconfident on rows that it was fitted to.
    model = PostShiftClassifier(FrozenEstimator(old_model), metric="accuracy").fit(X_val, y_val)
    print(f"{len(y_val)} labelled rows of the new place")
    print(f"accuracy there, base      {np.mean(old_model.predict(X_test) == y_test):.3f}")
    print(f"accuracy there, shifted   {np.mean(model.predict(X_test) == y_test):.3f}")


if __name__ == "__main__":
    main()

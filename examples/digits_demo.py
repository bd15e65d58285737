"""Digits with wrong training labels: the base, the paper's method and the menu, side by side.

In the training labels, six out of ten 9s are labelled 1, 2s are labelled 0, 4s are labelled 7, and 3s and 5s are
swapped. 300 rows have clean labels. The model is not changed; only its probabilities get weights.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from postshift import FitResult, Rows, fw_eg, pi_ew
from postshift.core.queries import without_queries
from postshift.metrics import Accuracy
from postshift.rules import Choice, Problem, menu

FLIPS = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
FLIP_SHARE = 0.6


def spoil(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the labels of a careless annotator."""
    wrong = rng.random(len(labels)) < FLIP_SHARE
    return np.array([FLIPS.get(y, y) if w else y for y, w in zip(labels, wrong, strict=True)])


def load(seed: int) -> tuple[Rows, Rows, Rows]:
    """Return probabilities and labels: training rows with noisy labels, 300 clean rows, test rows."""
    X, y = load_digits(return_X_y=True)
    X = X / 16  # pixels in [0, 1]
    X_rest, X_test, y_rest, y_test = train_test_split(X, y, test_size=500, stratify=y, random_state=seed)
    X_train, X_val, y_train, y_val = train_test_split(X_rest, y_rest, test_size=300, stratify=y_rest, random_state=seed)
    y_noisy = spoil(y_train, np.random.default_rng(seed))
    model = LogisticRegression(max_iter=2000).fit(X_train, y_noisy)
    parts = ((X_train, y_noisy), (X_val, y_val), (X_test, y_test))
    train, val, test = (Rows.of(model.predict_proba(features), labels=labels) for features, labels in parts)
    return train, val, test


def in_words(fit: FitResult) -> list[str]:
    """Return in words what the full-matrix weights W reveal about the training labels.

    Row i of W is the value of each prediction if the training label is i, up to a constant. With correct labels, i
    would have the value 1 and all other classes 0. If labels of class i were changed to j, the value of j is negative.
    """
    weights = fit.mixture.members[0].weight_matrices()[0]
    values = weights - np.median(weights, axis=1, keepdims=True)
    sentences = []
    for i, row in enumerate(values):
        best, worst = int(np.argmax(row)), int(np.argmin(row))
        if best != i:
            sentences.append(f"training label {i} is mostly a {best}")
        elif row[worst] < -0.75:
            sentences.append(f"{i} gets more weight against {worst}: many {i}s have the training label {worst}")
    return sentences


def show_paper(train: Rows, val: Rows, test: Rows) -> None:
    """Fit the paper's method, score it on the test rows and print the elicited weights in words."""
    metric = Accuracy()
    fits = {
        "PI-EW, weights on the diagonal": pi_ew(train, val, metric),
        "FW-EG, weights on the diagonal": fw_eg(train, val, metric),
        "PI-EW, weights on the full matrix": pi_ew(train, val, metric, weighting="full"),
        "FW-EG, weights on the full matrix": fw_eg(train, val, metric, weighting="full"),
    }
    print(f"{'the paper':36s}{'accuracy':>10s}{'queries':>12s}")
    print(f"{'base: argmax eta':36s}{np.mean(np.argmax(test.eta, axis=1) == test.labels):10.3f}{0:12d}")
    for name, fit in fits.items():
        found = np.mean(fit.mixture.predict(test.eta) == test.labels)
        print(f"{name:36s}{found:10.3f}{fit.n_queries:12d}")
    weights = fits["PI-EW, weights on the diagonal"].mixture.members[0].alpha[0]
    print("\nElicited class weights on the diagonal (1 means no change):")
    print("  " + "  ".join(f"{digit}: {weight / np.median(weights):.2f}" for digit, weight in enumerate(weights)))
    print("\nWhat the full matrix reveals about the training labels:")
    for sentence in in_words(fits["PI-EW, weights on the full matrix"]):
        print(f"  {sentence}")


def show_menu(train: Rows, val: Rows, test: Rows) -> None:
    """Cross-validate the menu on the clean rows, and print the scores, the weights and the reason."""
    tables = [Rows.of(part.eta, labels=part.labels) for part in (train, val, test)]
    problem = Problem.labelled(tables[0], tables[1], Accuracy())
    chosen = without_queries(Choice().fit(problem))
    print(f"\n{'the menu':36s}{'accuracy':>10s}{'out of fold':>14s}{'weight':>10s}")
    for rule, entry in zip(menu(problem), chosen.record.entries, strict=True):
        found = np.mean(without_queries(rule.fit(problem)).labels(tables[2]) == test.labels)
        print(f"{rule.name:36s}{found:10.3f}{entry.score:14.3f}{entry.weight:10.3f}")
    found = np.mean(chosen.rule.labels(tables[2]) == test.labels)
    print(f"{'weighted average (the default)':36s}{found:10.3f}{chosen.record.score:14.3f}")
    print(f"\nWhy: {chosen.record.reason}")


def main() -> None:
    """Print the results of both on test rows that were not used for any fit."""
    train, val, test = load(seed=0)
    sizes = [len(part.eta) for part in (train, val, test)]
    print("digits: {} training rows with noisy labels, {} clean rows, {} test rows\n".format(*sizes))
    show_paper(train, val, test)
    show_menu(train, val, test)


if __name__ == "__main__":
    main()

"""Ask and tell: a person scores predictions, one query at a time, and the run is saved after every answer.

Here the person is a function that rounds to whole per cent, as people do. After four answers the process stops. The
saved run is loaded and continues where it stopped. Nothing is asked twice.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from postshift import FrankWolfe, MemoryEngine, Rows, Settings


def main() -> None:
    """Ask until no query is left, in two sessions."""
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_val, y_train, truth = train_test_split(X[:, 4:9], y, test_size=300, stratify=y, random_state=0)
    model = GaussianNB().fit(X_train, y_train)
    train, val = Rows.of(model.predict_proba(X_train), labels=y_train), Rows.of(model.predict_proba(X_val))

    def person(labels: np.ndarray) -> float:
        """Return the mean of both recalls, rounded to whole per cent."""
        return round(float(np.mean([np.mean(labels[truth == k] == k) for k in (0, 1)])), 2)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.npz"
        settings = Settings(max_iter=3, radius=0.4)
        run = FrankWolfe(MemoryEngine(train), val, kind="hard", settings=settings)
        print(f"at most {run.max_queries} queries")
        answered = []
        while queries := run.ask():
            query = queries[0]
            run.tell(query.key, person(query.predictions))
            run.save(file)
            answered.append(query.key)
            if len(answered) == 4:  # stop here; another process continues later
                run = FrankWolfe.load(file, MemoryEngine(train), val, kind="hard")
        result = run.result()
    print(f"{len(answered)} queries answered, {len(set(answered))} of them different")
    before, after = person(model.predict(X_val)), person(result.mixture.predict(val.eta))
    print(f"score of the base {before:.2f}, of the rule {after:.2f}")


if __name__ == "__main__":
    main()

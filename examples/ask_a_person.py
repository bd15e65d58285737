"""Ask and tell: a person rates predictions, one at a time, over days; a journal keeps every answer.

The person here is a function that rounds to whole per cents, as people do. After four answers the session ends. The
next session resumes the journal, and nothing is asked twice.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from postshift import Rows, fw_eg_session


def main() -> None:
    """Ask until there is no query left, in two sittings."""
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_val, y_train, truth = train_test_split(X[:, 4:9], y, test_size=300, stratify=y, random_state=0)
    model = GaussianNB().fit(X_train, y_train)
    train, val = Rows.of(model.predict_proba(X_train), labels=y_train), Rows.of(model.predict_proba(X_val))

    def person(labels: np.ndarray) -> float:
        """Return the mean of both recalls, in whole per cents."""
        return round(float(np.mean([np.mean(labels[truth == k] == k) for k in (0, 1)])), 2)

    with tempfile.TemporaryDirectory() as folder:
        how = {"kind": "hard", "max_iter": 3, "radius": 0.4, "journal": Path(folder) / "run.jsonl"}
        answered = []
        for sitting in (4, 1000):  # four answers in the evening; in the morning another process goes on
            with fw_eg_session(train, val, **how) as session:
                print(f"{session.n_queries} of at most {session.max_queries} queries are answered")
                while len(answered) < sitting and session.ask():
                    query = session.ask()[0]
                    session.tell(query.key, person(query.predictions))
                    answered.append(query.fingerprint())
        result = session.result()
    print(f"{len(answered)} queries answered, {len(set(answered))} of them different")
    print(
        f"the model as it is {person(model.predict(X_val)):.2f}, the rule {person(result.mixture.predict(val.eta)):.2f}"
    )


if __name__ == "__main__":
    main()

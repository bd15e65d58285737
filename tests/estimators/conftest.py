"""Rows that several modules of tests use."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from tests.estimators.data import NAMES


@pytest.fixture(scope="module")
def rare_classes():
    """Probabilities and labels of four classes, of which the last two are rare and hardly ever predicted."""
    X, y = make_classification(
        8000, n_classes=4, n_informative=6, weights=[0.6, 0.25, 0.1, 0.05], class_sep=0.8, random_state=0
    )
    model = LogisticRegression(max_iter=500).fit(X[:3000], y[:3000])
    return model.predict_proba(X[3000:]), y[3000:]


@pytest.fixture(scope="module")
def yes_or_no():
    """Probabilities, and labels that are words."""
    rng = np.random.default_rng(0)
    y = rng.random(500) < 0.3
    raised = np.clip(rng.normal(0.35 + 0.3 * y, 0.2), 0.01, 0.99)
    return np.column_stack([1 - raised, raised]), np.array(NAMES)[y.astype(int)]

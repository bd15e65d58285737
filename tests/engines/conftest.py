"""Probabilities, and the columns of a table with them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engines.files import N


@pytest.fixture
def eta():
    return np.random.default_rng(0).dirichlet(np.ones(3), size=N).astype(np.float32)


@pytest.fixture
def columns(eta):
    return {
        **{f"p_{place}": eta[:, place] for place in range(3)},
        "y": np.arange(N) % 3,
        "name": np.array(["cat", "dog", "eel"])[np.arange(N) % 3],
        "group": np.array(["b", "a"])[np.arange(N) % 2],
        "w": np.ones(N),
        "unused": [None] * N,
    }

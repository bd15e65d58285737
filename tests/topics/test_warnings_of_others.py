"""No warning of another library reaches the user: here, as everywhere in the tests, warnings are errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from postshift import PostShifter
from postshift.exceptions import PostshiftWarning


def others(call):
    """Return the warnings of other libraries that a call gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [each for each in caught if not issubclass(each.category, PostshiftWarning)]


@pytest.mark.parametrize("method", ["stack", "auto"])
def test_a_stack_that_stops_before_it_has_converged(method):
    rng = np.random.default_rng(37)
    eta = rng.dirichlet(np.full(6, 0.05), size=60)
    y = np.arange(60) % 6
    weights = 10.0 ** rng.uniform(-8, 8, size=60)
    assert others(lambda: PostShifter("accuracy", method=method).fit(eta, y, sample_weight_val=weights)) == []


@pytest.mark.parametrize("metric", ["matthews_corrcoef", "cohen_kappa", "f1_macro", "g_mean"])
def test_classes_that_are_hardly_ever_predicted(metric):
    """The softened argmax gives them shares of 1e-200, at which the gradient of Matthews' correlation overflows."""
    rng = np.random.default_rng(26)
    n_classes = int(rng.integers(2, 4))
    small = 10.0 ** -rng.uniform(2, 12, size=(30, n_classes - 1))
    eta = np.column_stack([1 - small.sum(axis=1), small])
    y = rng.integers(n_classes, size=30)
    y[:n_classes] = np.arange(n_classes)
    assert others(lambda: PostShifter(metric, method="smoothed plug-in").fit(eta, y)) == []

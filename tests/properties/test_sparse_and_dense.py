"""Sparse probabilities give what the same dense table gives: labels, weights, scores and intervals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from postshift import PostShifter
from postshift.exceptions import PostshiftWarning

METHODS = ["base", "inverse prior", "expected counts", "label counts"]
METRICS = [
    "f1_macro",
    "f1_macro_present",
    "balanced_accuracy",
    "g_mean",
    "precision_weighted",
    "recall_macro",
    "accuracy",
]
NEAR = 1e-9


def draw(seed, n_rows, n_classes):
    """Rows with a few classes each, that sum to 1; the commonest class is in most rows."""
    rng = np.random.default_rng(seed)
    odds = rng.exponential(size=(n_rows, n_classes)) ** 3 / np.arange(1, n_classes + 1)
    odds[odds < np.quantile(odds, 0.6, axis=1, keepdims=True)] = 0
    eta = odds / odds.sum(axis=1, keepdims=True)
    labels = (rng.random((n_rows, 1)) > eta.cumsum(axis=1)).sum(axis=1).clip(0, n_classes - 1)
    weights = rng.uniform(0.5, 2, size=n_rows) if seed % 2 else None
    return eta, labels, weights


def fitted(metric, method, eta, labels, weights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PostshiftWarning)
        return PostShifter(metric, method=method).fit(eta, labels, sample_weight_val=weights)


def without_near_ties(shifter, eta):
    """Rows whose two best scores differ by more than rounding."""
    scores = np.sort(shifter.rule_.rules[0].mixture.members[0].scores(eta, np.ones((len(eta), 1))), axis=1)
    return scores[:, -1] - scores[:, -2] > NEAR * np.abs(scores).max()


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), metric=st.sampled_from(METRICS), form=st.sampled_from(["csr", "csc", "coo"]))
def test_fits_are_equal(method, metric, seed, form):
    eta, labels, weights = draw(seed, 60, 5)
    new = draw(seed + 1, 30, 5)[0]
    dense = fitted(metric, method, eta, labels, weights)
    thin = fitted(metric, method, sparse.coo_array(eta).asformat(form), labels, weights)
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-6, atol=1e-9)
    sure = without_near_ties(dense, new)
    np.testing.assert_array_equal(thin.predict(sparse.csr_array(new))[sure], dense.predict(new)[sure])
    np.testing.assert_array_equal(thin.predict(new)[sure], dense.predict(new)[sure])
    assert thin.score_ == pytest.approx(dense.score_, abs=1e-9)
    assert thin.base_score_ == pytest.approx(dense.base_score_, abs=1e-9)
    assert thin.score(sparse.csr_array(eta), labels) == pytest.approx(dense.score(eta, labels), abs=1e-9)
    found, expected = thin.diagnostics_.choice, dense.diagnostics_.choice
    assert (found.fallback, found.how) == (expected.fallback, expected.how)
    np.testing.assert_allclose(found.intervals.score, expected.intervals.score, atol=1e-9)
    np.testing.assert_allclose(found.noise, expected.noise, atol=1e-9)

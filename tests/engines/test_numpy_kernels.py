"""The parts of the NumPy kernels against NumPy's own argmax and the scores of the rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import PlugIn
from postshift.core.weighting import weighting_named
from postshift.engines.memory.kernel_rows import RuleWeights
from postshift.engines.memory.numpy_kernels import (
    _first_largest_is,
    class_scores,
    first_largest,
    runs_of,
    sorted_columns,
)
from tests.problems import make_problem


@given(seed=st.integers(0, 10**5), n_classes=st.integers(2, 6))
def test_the_first_largest_is_the_argmax(seed, n_classes):
    scores = np.random.default_rng(seed).integers(3, size=(n_classes, 40)).astype(float)  # many ties
    expected = scores.argmax(axis=0)
    np.testing.assert_array_equal(first_largest(scores), expected)
    for label in range(n_classes):
        np.testing.assert_array_equal(_first_largest_is(scores, label), expected == label)


@pytest.mark.parametrize("weighting", ["diagonal", "columns", "full", "entries 0-1 1-1"])
def test_scores_are_those_of_the_rule(weighting):
    rows = make_problem(seed=1, n_bases=3, basis="soft").val
    alpha = np.random.default_rng(0).normal(size=(3, weighting_named(weighting).n_terms(3)))
    rule = PlugIn(weighting=weighting, alpha=alpha, n_classes=3)
    found = class_scores(RuleWeights.of(rule), rows.eta.T, rows.phi.T)
    np.testing.assert_allclose(found.T, rule.scores(rows.eta, rows.phi), atol=1e-12)


def test_runs_of_equal_values():
    values = np.array([0, 0, 0, 0, 2, 2, 1])
    assert runs_of(values, 3) == [slice(0, 3), slice(3, 4), slice(4, 6), slice(6, 7)]


def test_columns_in_another_order(monkeypatch):
    monkeypatch.setattr("postshift.engines.memory.numpy_kernels._COPY_CELLS", 64)
    table = np.random.default_rng(0).random((100, 3))
    order = np.random.default_rng(1).permutation(100)
    np.testing.assert_array_equal(sorted_columns(table, order), table[order].T)

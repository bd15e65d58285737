"""Rows and coefficients in the types of the kernels, with the checks that compiled loops need."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import PlugIn
from postshift.engines.memory.kernel_rows import (
    KernelRows,
    RuleWeights,
    check_shapes,
    clusters_of,
    kernel_table,
    row_slices,
    stable_order,
)
from postshift.exceptions import LabelError, ShapeError
from tests.problems import make_problem


def test_rows_are_converted():
    problem = make_problem(seed=0, n_bases=2, weighted=True).train
    rows = KernelRows.of(problem, n_categories=3)
    assert (rows.n_rows, rows.n_classes, rows.n_bases) == (90, 3, 2)
    np.testing.assert_array_equal(rows.labels, problem.labels)
    np.testing.assert_array_equal(rows.clusters, problem.phi.argmax(axis=1))
    assert KernelRows.of(make_problem(seed=0, basis="soft").train, n_categories=3).clusters is None


def test_labels_beyond_the_categories():
    with pytest.raises(LabelError, match=r"labels must be in 0\.\.1\. Got 0\.\.2 instead.*n_categories="):
        KernelRows.of(make_problem(seed=0).train, n_categories=2)


@pytest.mark.parametrize(
    ("given", "kept"), [("f2", "f4"), ("f4", "f4"), (">f4", "f4"), ("f8", "f8"), ("i4", "f8"), (bool, "f8")]
)
def test_precision(given, kept):
    table = kernel_table(np.asfortranarray(np.eye(3).astype(given)))
    assert table.dtype == np.dtype(kept)
    assert table.flags.c_contiguous
    assert not table.flags.writeable
    np.testing.assert_array_equal(table, np.eye(3))


@pytest.mark.parametrize(
    "phi", [[[1.0, 1.0], [0.0, 0.0]], [[0.5, 0.5], [1.0, 0.0]], [[1.0, 0.1], [0.0, 1.0]], [[0.0, 0.0], [1.0, 0.0]]]
)
def test_what_is_no_hard_cluster(phi):
    assert clusters_of(np.array(phi)) is None


def test_hard_clusters_in_several_reads():
    codes = np.random.default_rng(0).integers(4, size=100)
    np.testing.assert_array_equal(clusters_of(np.eye(4)[codes], rows=7), codes)


@pytest.mark.parametrize(("weighting", "n_terms"), [("diagonal", 3), ("columns", 6), ("full", 9), ("entries 0-1", 1)])
def test_coefficients_of_a_rule(weighting, n_terms):
    rng = np.random.default_rng(0)
    rule, other = (PlugIn(weighting=weighting, alpha=rng.normal(size=(2, n_terms)), n_classes=3) for _ in range(2))
    found = RuleWeights.of(rule)
    assert found.full == (weighting in {"full", "entries 0-1"})
    assert (found.shift is not None) == (weighting == "columns")
    assert found.key == RuleWeights.of(rule).key != RuleWeights.of(other).key


def test_rows_of_another_shape():
    rule = PlugIn(weighting="diagonal", alpha=np.ones((2, 3)), n_classes=3)
    check_shapes(rule, np.ones((5, 3)), np.ones((5, 2)))
    for eta, phi in (((5, 4), (5, 2)), ((5, 3), (5, 1)), ((5, 3), (4, 2))):
        with pytest.raises(ShapeError, match=r"shapes \(n, 3\) and \(n, 2\)"):
            check_shapes(rule, np.ones(eta), np.ones(phi))


def test_order_of_codes():
    assert stable_order(np.array([300, 0, 300, 7])).tolist() == [1, 3, 0, 2]
    assert stable_order(np.array([], dtype=np.intp)).tolist() == []


def test_slices_of_rows():
    assert row_slices(2, 9, 3) == [slice(2, 5), slice(5, 8), slice(8, 9)]
    assert row_slices(4, 4, 3) == []

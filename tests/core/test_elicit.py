"""Elicitation (Algorithm 1): the solution, its diagnostics, and the decoupled solve against the SVD."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import MemoryEngine, PlugIn, Rows, fw_eg
from postshift.core import elicit
from postshift.core.elicit import probe_matrix, solve, solve_decoupled
from postshift.core.weighting import DIAGONAL
from postshift.exceptions import SingularProbesError
from postshift.metrics import GMean
from tests.problems import make_problem, problems


def test_diagnostics_are_part_of_the_result():
    sigma = np.diag([4.0, 2.0, 0.5, 1e-14])
    found = solve(sigma, np.ones(4), n_bases=2)
    assert (found.rank, found.n_unknowns) == (3, 4)
    assert (found.largest, found.smallest, found.condition) == pytest.approx((4, 0.5, 8))
    assert found.residual == pytest.approx(1.0)
    np.testing.assert_allclose(found.alpha, [[0.25, 0.5], [2.0, 0.0]], atol=1e-12)


@pytest.mark.parametrize("n_null", [0, 1, 30])
@pytest.mark.parametrize("shape", [(140, 140), (150, 140), (140, 150)])
def test_a_large_system_has_the_solution_of_the_svd(shape, n_null, monkeypatch):
    """With null directions, that of minimum norm; the extreme singular values are estimates from below and above."""
    rng = np.random.default_rng(0)
    rank = min(shape) - n_null
    left, right = (np.linalg.qr(rng.normal(size=(size, rank)))[0] for size in shape)
    sigma, gains = left * np.geomspace(1, 1e-4, rank) @ right.T, rng.normal(size=shape[0])
    large = solve(sigma, gains, n_bases=2)
    monkeypatch.setattr(elicit, "_LARGE", np.inf)
    exact = solve(sigma, gains, n_bases=2)
    assert large.rank == exact.rank == rank
    np.testing.assert_allclose(large.alpha, exact.alpha, rtol=0, atol=1e-8 * np.abs(exact.alpha).max())
    assert large.residual == pytest.approx(exact.residual, abs=1e-8)
    assert 0.5 * exact.largest <= large.largest <= exact.largest * (1 + 1e-9)
    assert exact.smallest * (1 - 1e-9) <= large.smallest <= 2 * exact.smallest


def test_ridge_shrinks():
    sigma, gains = np.diag([2.0, 1.0]), np.ones(2)
    plain, shrunk = (solve(sigma, gains, n_bases=1, ridge=ridge) for ridge in (0.0, 0.25))
    np.testing.assert_allclose(plain.alpha[0], [0.5, 1.0])
    np.testing.assert_allclose(shrunk.alpha[0], [2 / 5, 1 / 2])


def test_collinear_bases_have_a_deficient_rank_and_an_answer():
    """The paper's own {all, private, non-private}: rank 4 of 6."""
    problem = make_problem(seed=1, n_classes=2, n_bases=2, basis="hard")

    def with_all(sample):
        phi = np.column_stack([np.ones(sample.n_rows), sample.phi])
        return Rows.of(sample.eta, phi=phi, labels=sample.labels)

    fit = fw_eg(with_all(problem.train), with_all(problem.val), GMean(), max_iter=3, linearise="gradient")
    apart = fw_eg(problem.train, problem.val, GMean(), max_iter=3, linearise="gradient")
    assert [line.rank for line in fit.trace[:-1]] == [4, 4, 4]
    assert fit.score == pytest.approx(apart.score, rel=1e-9)


def test_probes_that_change_nothing():
    with pytest.raises(SingularProbesError, match=r"none of the 2 probes.*rank 0.*give one that covers them"):
        solve(np.zeros((2, 2)), np.ones(2), n_bases=1)


def sums_of(sample, seed):
    rng = np.random.default_rng(seed)
    alpha = rng.uniform(0.5, 2, size=(sample.n_bases, sample.n_classes))
    engine, rule = MemoryEngine(sample), PlugIn(weighting=DIAGONAL, alpha=alpha, n_classes=sample.n_classes)
    return engine.label_sums(), engine.classifier_sums(rule, confusions=False), rng.normal(size=alpha.size)


@given(problem=problems(), seed=st.integers(0, 99))
def test_it_is_the_solution_of_the_svd(problem, seed):
    labels, sums, gains = sums_of(problem.train, seed)
    found = solve_decoupled(labels, sums, gains)
    if found is None:
        return
    whole = solve(probe_matrix(DIAGONAL, labels=labels, anchor=sums), gains, n_bases=problem.train.n_bases)
    assert whole.rank == len(gains)
    np.testing.assert_allclose(found.alpha, whole.alpha, atol=1e-13 * whole.condition * np.abs(whole.alpha).max())
    assert found.residual <= 1e-11 * whole.condition


def test_the_extreme_singular_values_are_estimated():
    labels, sums, gains = sums_of(make_problem(seed=3, n_train=4000, n_classes=8, n_bases=4, basis="soft").train, 0)
    found = solve_decoupled(labels, sums, gains)
    whole = solve(probe_matrix(DIAGONAL, labels=labels, anchor=sums), gains, n_bases=4)
    assert found.largest == pytest.approx(whole.largest, rel=0.1)
    assert found.smallest == pytest.approx(whole.smallest, rel=0.3)


def test_collinear_bases_are_left_to_the_svd():
    sample = make_problem(seed=1, n_classes=2, n_bases=2, basis="hard").train
    labels, sums, gains = sums_of(type(sample).of(sample.eta, phi=np.tile(sample.phi, 2) / 2, labels=sample.labels), 0)
    assert solve_decoupled(labels, sums, gains) is None


def test_a_whole_run_is_the_same_both_ways(monkeypatch):
    problem = make_problem(seed=2, n_train=3000, n_val=600, n_classes=12, n_bases=6, basis="hard")
    fast = fw_eg(problem.train, problem.val, GMean(), max_iter=5)
    monkeypatch.setattr(elicit, "_SMALL", 10_000)
    slow = fw_eg(problem.train, problem.val, GMean(), max_iter=5)
    for one, two in zip(fast.mixture.members, slow.mixture.members, strict=True):
        np.testing.assert_allclose(one.alpha, two.alpha, rtol=1e-7)
    np.testing.assert_allclose([line.score for line in fast.trace], [line.score for line in slow.trace])

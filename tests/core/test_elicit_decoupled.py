"""The decoupled solve: the SVD's answer where there is one, nothing where there are many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import PlugIn, fw_eg
from postshift.core import elicit
from postshift.core.elicit import probe_matrix, solve, solve_decoupled
from postshift.core.weighting import DIAGONAL
from postshift.engines import MemoryEngine
from postshift.metrics import GMean
from tests.problems import make_problem, problems


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

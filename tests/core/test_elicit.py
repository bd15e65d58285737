from __future__ import annotations

import numpy as np
import pytest

from postshift import Mixture, PlugIn, Rows, fw_eg
from postshift.core.constrained import constrained_probes
from postshift.core.elicit import solve
from postshift.core.weighting import DIAGONAL
from postshift.engines import MemoryEngine
from postshift.metrics import Accuracy, GMean
from tests.problems import make_problem


def test_diagnostics_are_part_of_the_result():
    sigma = np.diag([4.0, 2.0, 0.5, 1e-14])
    found = solve(sigma, np.ones(4), n_bases=2)
    assert (found.rank, found.n_unknowns) == (3, 4)
    assert (found.largest, found.smallest, found.condition) == pytest.approx((4, 0.5, 8))
    assert found.residual == pytest.approx(1.0)
    np.testing.assert_allclose(found.alpha, [[0.25, 0.5], [2.0, 0.0]], atol=1e-12)


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


def test_gamma_and_omega_are_relaxed_in_steps_and_reported():
    problem = make_problem(seed=0, n_train=400, n_bases=2)
    engine = MemoryEngine(problem.train)
    far = constrained_probes(engine, min_hit=0.9, max_leak=1e-4)
    assert far.relaxed
    hits = engine.label_sums().single / 400
    assert far.min_hit <= hits.min() < far.min_hit / 0.9
    leaks = engine.classifier_sums(far.anchor, confusions=False).single / 400
    assert leaks.max() <= far.max_leak
    near = constrained_probes(engine, min_hit=hits.min(), max_leak=leaks.max())
    assert not near.relaxed
    assert (near.min_hit, near.max_leak) == (hits.min(), leaks.max())


def test_constrained_probes_do_not_mind_a_trivial_start():
    """Fixed probes are singular around a classifier that predicts one class only; the anchor is not the start."""
    problem = make_problem(seed=0, n_train=2000, n_val=500, n_bases=3)
    rule = PlugIn(weighting=DIAGONAL, alpha=np.tile([1.0, 0, 0], (3, 1)), n_classes=3)
    common = {"start": Mixture.of([rule], [1.0]), "max_iter": 1, "radius": 0.5}
    fixed = fw_eg(problem.train, problem.val, Accuracy(), **common)
    constrained = fw_eg(problem.train, problem.val, Accuracy(), **common, min_hit=0.05, max_leak=0.01)
    assert fixed.trace[0].rank < 9
    assert constrained.trace[0].rank == 9
    assert constrained.trace[0].condition < 10
    assert constrained.probes.relaxed

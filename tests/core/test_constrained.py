"""Constrained probes (Eq. 11): their limits, how these are relaxed, and what they need."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import MemoryEngine, Mixture, PlugIn, Rows, fw_eg
from postshift.core.constrained import constrained_probes
from postshift.core.weighting import DIAGONAL, FULL, weighting_named
from postshift.engines.blocks import ArraySource, BlockEngine
from postshift.exceptions import BasisError, SettingError
from postshift.metrics import Accuracy, HardOracle, SoftOracle
from tests.problems import make_problem


@pytest.mark.parametrize(("gamma", "omega"), [(0.1, 0.2), (0.1, 0.1), (1.0, 0.1)])
def test_gamma_and_omega(gamma, omega):
    problem = make_problem(seed=0)
    with pytest.raises(SettingError, match="0 < max_leak < min_hit < 1"):
        fw_eg(problem.train, problem.val, Accuracy(), min_hit=gamma, max_leak=omega)


@pytest.mark.parametrize(
    "weighting", ["diagonal", "columns", pytest.param("full", marks=pytest.mark.slow), ((0, 1), (1, 1))]
)
@pytest.mark.parametrize("basis", ["soft", "overlapping", "hard"])
def test_any_basis_and_any_weighting(basis, weighting):
    """Every look serves the probes: matrices here or by queries, soft and hard scores."""
    problem = make_problem(seed=0, basis=basis)
    how = {"weighting": weighting, "min_hit": 0.1, "max_leak": 0.01, "max_iter": 2, "radius": 0.4}
    fit = fw_eg(problem.train, problem.val, Accuracy(), **how)
    n_entries = 2 * weighting_named(weighting).n_terms(3)
    assert fit.trace[0].rank <= n_entries
    if (basis, weighting) != ("hard", "diagonal"):
        assert len(fit.probes.classifiers) == n_entries
        assert fit.n_queries <= 1 + 1 + n_entries + 2
    labels = problem.val.labels
    for oracle in (
        SoftOracle(lambda table: float(table[np.arange(len(labels)), labels].mean())),
        HardOracle(lambda found: float(np.mean(found == labels))),
    ):
        asked = fw_eg(problem.train, problem.val, oracle, **how)
        assert asked.n_queries <= asked.max_queries == 2 * (2 + n_entries) + 1


def test_probes_may_have_no_more_hits_than_leaks():
    """The first basis function is 1 everywhere: an entry of the second is a part of one of the first."""
    problem = make_problem(seed=1, basis="overlapping", n_train=400)
    found = constrained_probes(MemoryEngine(problem.train), min_hit=0.1, max_leak=0.02)
    assert found.relaxed
    assert found.min_hit <= found.max_leak
    values = np.linalg.svd(found.sigma, compute_uv=False)
    assert values[0] / values[-1] < 50  # of nearly equal probes, those with fewer leaks: otherwise 1,000 and more


@pytest.mark.slow
def test_omega_is_relaxed_where_no_classifier_is_feasible():
    """The entries of one true class sum to its share: one of them is at least a third of it."""
    problem = make_problem(seed=2, basis="soft", n_train=300)
    found = constrained_probes(MemoryEngine(problem.train), min_hit=0.3, max_leak=1e-4, weighting=FULL)
    masses = problem.train.phi.T @ problem.train.eta / 300
    assert found.max_leak > 0.9 * masses.max() / 3


def test_limits_that_can_be_met_are_not_relaxed():
    """Where eta knows the class, a row can be missed, or hit, at will."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=900)
    phi = rng.dirichlet([0.1, 0.1], size=900)
    found = constrained_probes(
        MemoryEngine(Rows.of(np.eye(3)[labels], phi=phi, labels=labels)), min_hit=0.1, max_leak=0.01
    )
    assert not found.relaxed
    assert (found.min_hit, found.max_leak) == (0.1, 0.01)
    anchor = found.anchor.distribution(np.eye(3)[labels], phi)
    assert anchor[np.arange(900), labels].max() <= 1e-9


def test_an_entry_without_rows_has_gamma_0():
    problem = make_problem(seed=3, basis="soft", n_train=200)
    rows = problem.train.take(np.flatnonzero(problem.train.labels != 1))
    found = constrained_probes(MemoryEngine(rows), min_hit=0.1, max_leak=0.01)
    assert found.min_hit == 0


def test_blocks_give_the_same_probes():
    train = make_problem(seed=4, basis="soft", n_train=200).train
    one = constrained_probes(MemoryEngine(train), min_hit=0.1, max_leak=0.02)
    source = ArraySource(train.eta, phi=train.phi, labels=train.labels)
    two = constrained_probes(BlockEngine(source, block_rows=37), min_hit=0.1, max_leak=0.02)
    np.testing.assert_allclose(np.diag(two.sigma), np.diag(one.sigma), atol=2e-3)
    assert two.min_hit == pytest.approx(one.min_hit, rel=0.25)


def test_a_group_that_lacks_a_class():
    problem = make_problem(seed=0)
    inside = (problem.train.phi[:, 1] == 1) & (problem.train.labels == 2)
    with pytest.raises(BasisError, match="group 1 has no training row of class 2"):
        fw_eg(problem.train.take(np.flatnonzero(~inside)), problem.val, Accuracy(), min_hit=0.1, max_leak=0.01)


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

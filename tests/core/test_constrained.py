"""Constrained probes (Eq. 11): their limits, how these are relaxed, and what they need."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import MemoryEngine, Mixture, PlugIn, fw_eg
from postshift.core.constrained import constrained_probes
from postshift.core.weighting import DIAGONAL
from postshift.exceptions import BasisError, SettingError
from postshift.metrics import Accuracy
from tests.problems import make_problem


@pytest.mark.parametrize(("gamma", "omega"), [(0.1, 0.2), (0.1, 0.1), (1.0, 0.1)])
def test_gamma_and_omega(gamma, omega):
    problem = make_problem(seed=0)
    with pytest.raises(SettingError, match="0 < max_leak < min_hit < 1"):
        fw_eg(problem.train, problem.val, Accuracy(), min_hit=gamma, max_leak=omega)


@pytest.mark.parametrize("basis", ["soft", "overlapping"])
def test_constrained_probes_need_disjoint_groups(basis):
    problem = make_problem(seed=0, basis=basis)
    with pytest.raises(BasisError, match=r"disjoint groups.*fixed probes"):
        fw_eg(problem.train, problem.val, Accuracy(), min_hit=0.1, max_leak=0.01)


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

"""Slopes of the probes: what a gradient says of every displacement, without building any."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift.core.probes import Departing, Fixed, Joined, Reassigning, Towards

FAMILIES = [Fixed(), Departing(), Reassigning(), Joined(Fixed(), Departing()), Towards(((0, 1), (1, 1)))]


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@given(seed=st.integers(0, 10**6), n_bases=st.integers(1, 4), n_classes=st.integers(2, 5), n_groups=st.integers(1, 2))
def test_slopes_are_those_of_the_displacements(family, seed, n_bases, n_classes, n_groups):
    rng = np.random.default_rng(seed)
    mass = rng.random((n_bases, n_groups * n_classes, n_classes))
    beta = rng.normal(size=mass.shape[1:])
    moved = family.displace(mass, np.arange(family.n_probes(n_classes)))
    np.testing.assert_allclose(family.slopes(mass, beta), np.einsum("rlij,ij->lr", moved, beta), atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@given(seed=st.integers(0, 10**6), n_bases=st.integers(1, 4), n_classes=st.integers(2, 5), some=st.booleans())
def test_hits_are_the_diagonals_of_the_displacements(family, seed, n_bases, n_classes, some):
    rng = np.random.default_rng(seed)
    mass = rng.random((n_bases, n_classes, n_classes))
    probes = np.arange(family.n_probes(n_classes))
    probes = rng.permutation(probes)[:2] if some else probes
    expected = np.diagonal(family.displace(mass, probes), axis1=-2, axis2=-1)
    np.testing.assert_allclose(family.displace_hits(mass, probes), expected, atol=1e-12)


def test_mass_goes_towards_the_entries():
    mass = np.array([[1.0, 2.0, 4.0]])
    family = Towards(((0, 1), (2, 2), (1, 0)))
    expected = [[[-1, 1, 0]], [[-1, -2, 3]], [[2, -2, 0]]]
    np.testing.assert_array_equal(family.displace(mass, np.arange(3)), expected)
    drawn = [family.redraw(np.array([0, 1, 2]), probe, np.zeros(3), n_classes=3).tolist() for probe in range(3)]
    assert drawn == [[1, 1, 2], [2, 2, 2], [0, 0, 2]]
    assert family.describe(0, n_classes=3) == "class 0 to class 1"
    assert family.describe(1, n_classes=3) == "everything to class 2"

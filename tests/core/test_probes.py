"""Slopes of the probes: what a gradient says of every displacement, without building any."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift.core.probes import Departing, Fixed, Joined, Reassigning


@pytest.mark.parametrize("family", [Fixed(), Departing(), Reassigning(), Joined(Fixed(), Departing())], ids=repr)
@given(seed=st.integers(0, 10**6), n_bases=st.integers(1, 4), n_classes=st.integers(2, 5), n_groups=st.integers(1, 2))
def test_slopes_are_those_of_the_displacements(family, seed, n_bases, n_classes, n_groups):
    rng = np.random.default_rng(seed)
    mass = rng.random((n_bases, n_groups * n_classes, n_classes))
    beta = rng.normal(size=mass.shape[1:])
    moved = family.displace(mass, np.arange(family.n_probes(n_classes)))
    np.testing.assert_allclose(family.slopes(mass, beta), np.einsum("rlij,ij->lr", moved, beta), atol=1e-12)

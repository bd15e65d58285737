"""Prediction in one pass: the table of the mixture itself, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift import Mixture, PlugIn
from postshift.core.weighting import weighting_named
from postshift.engines.memory import mixture_votes
from postshift.engines.memory.mixture_votes import mixture_table
from tests.problems import make_problem, problems


def mixture_of(sample, names, seed):
    rng = np.random.default_rng(seed)
    members = []
    for name in names:
        shape = (sample.n_bases, weighting_named(name).n_terms(sample.n_classes))
        members.append(PlugIn(weighting=name, alpha=rng.normal(size=shape), n_classes=sample.n_classes))
    return Mixture.of(members, rng.dirichlet(np.ones(len(members))))


@pytest.mark.parametrize("kernels", ["auto", "numpy", "numba"])
@given(
    problem=problems(),
    names=st.lists(st.sampled_from(["diagonal", "columns", "full", "entries 0-1 1-1"]), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_it_is_the_mixtures_own_table(kernels, problem, names, seed):
    sample = problem.val
    for kind in (names, ["diagonal"] * len(names)):
        mixture = mixture_of(sample, kind, seed)
        expected = mixture.distribution(sample.eta, sample.phi)
        np.testing.assert_allclose(
            mixture_table(mixture, sample.eta, sample.phi, kernels=kernels), expected, atol=1e-15
        )


def test_ties_go_to_the_first_class():
    pytest.importorskip("numba")
    eta = np.array([[0.25, 0.25, 0.5], [0.2, 0.4, 0.4]])
    mixture = Mixture.of([PlugIn(weighting="diagonal", alpha=[[2.0, 2.0, 1.0]], n_classes=3)], [1.0])
    for kernels in ("numpy", "numba"):
        table = mixture_table(mixture, eta, np.ones((2, 1)), kernels=kernels)
        np.testing.assert_array_equal(np.argmax(table, axis=1), [0, 1])


def test_blocks_do_not_change_it(monkeypatch):
    sample = make_problem(seed=3, n_val=500, n_classes=5).val
    mixture = mixture_of(sample, ["diagonal", "full"], 0)
    whole = mixture_table(mixture, sample.eta, sample.phi, kernels="numpy")
    monkeypatch.setattr(mixture_votes, "_BLOCK_CELLS", 64 * 5)
    np.testing.assert_array_equal(mixture_table(mixture, sample.eta, sample.phi, kernels="numpy"), whole)


@given(
    seed=st.integers(0, 9999),
    n_classes=st.integers(2, 6),
    kind=st.sampled_from(["usual", "signs", "extreme", "round"]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_rows_that_no_member_moves_are_found_exactly(seed, n_classes, kind, dtype):
    pytest.importorskip("numba")
    rng = np.random.default_rng(seed)
    eta = rng.dirichlet(np.full(n_classes, 0.4), size=300)
    eta[:100] = np.round(eta[:100] * 8) / 8  # ties, and rows without any probability
    phi = np.eye(3)[rng.integers(3, size=300)]
    draws = {
        "usual": lambda: rng.uniform(0.3, 3, size=(3, n_classes)),
        "signs": lambda: rng.normal(size=(3, n_classes)),
        "extreme": lambda: 10.0 ** rng.uniform(-150, 150, size=(3, n_classes)),
        "round": lambda: rng.integers(0, 3, size=(3, n_classes)).astype(float),
    }
    members = [PlugIn(weighting="diagonal", alpha=draws[kind](), n_classes=n_classes) for _ in range(5)]
    mixture = Mixture.of(members, rng.dirichlet(np.ones(5)))
    table = eta.astype(dtype)
    found = mixture_table(mixture, table, phi, kernels="numba")
    np.testing.assert_array_equal(found, mixture.distribution(table, phi))

"""Random rows and rules for the sorted rows of the memory engine, and their counts by the definition."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from postshift import Rows
from postshift.core.rows import PHI
from postshift.engines.memory.kernel_rows import KernelRows, RuleWeights


def drawn_rows(rng, *, n, m, n_bases, weighted, dtype, coarse):
    """Rows with ties, zeros and rows without any probability among them."""
    eta = rng.dirichlet(np.full(m, 0.5), size=n)
    if coarse:
        eta = np.round(eta * 8) / 8  # many ties, sums that differ from 1
    phi = np.eye(n_bases)[rng.integers(n_bases, size=n)]
    weights = rng.uniform(0, 2, size=n) if weighted else None
    sample = Rows(eta=eta.astype(dtype), bases={PHI: phi}, labels=rng.integers(m, size=n), weights=weights)
    return KernelRows.of(sample, n_categories=m)


def drawn_rule(rng, *, m, n_bases, kind):
    weights = rng.uniform(0.2, 3, size=(n_bases, m))
    if kind in {"signs", "shifted signs"}:
        weights = rng.normal(size=(n_bases, m))
    if kind == "extreme":
        weights = 10.0 ** rng.uniform(-200, 200, size=(n_bases, m))
    if kind == "round":
        weights = rng.integers(0, 3, size=(n_bases, m)).astype(float)
    shift = rng.normal(size=(n_bases, m)) * 0.2 if "shifted" in kind else None
    return RuleWeights(weights=weights, shift=shift)


def counted(rows, rule):
    """The definition: score every row, take the first largest, count."""
    scores = rule.weights[rows.clusters] * rows.eta.astype(np.float64)
    if rule.shift is not None:
        scores += rule.shift[rows.clusters]
    table = np.zeros((rows.n_bases, rows.n_categories, rows.n_classes))
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    np.add.at(table, (rows.clusters, rows.labels, np.argmax(scores, axis=1)), weights)
    return table


kinds = st.sampled_from(["usual", "signs", "extreme", "round", "shifted", "shifted signs"])
options = {
    "seed": st.integers(0, 10_000),
    "n": st.integers(1, 400),
    "n_bases": st.integers(1, 4),
    "weighted": st.booleans(),
    "coarse": st.booleans(),
    "dtype": st.sampled_from([np.float32, np.float64]),
    "kind": kinds,
}


def check(found, expected, *, exact):
    np.testing.assert_allclose(found, expected, rtol=0 if exact else 1e-12, atol=0 if exact else 1e-12)

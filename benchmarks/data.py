"""Rows to measure on: normal classes, with the probabilities that such a model would give."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import sparse

from postshift.core.rows import PHI, Rows

Basis = Literal["hard", "soft"]


def draw(n: int, m: int, *, n_bases: int = 1, basis: Basis = "hard", separation: float = 2.0, seed: int = 0) -> Rows:
    """Return n rows of m classes; the rarest class has a fifth of the rows of the commonest.

    Row x of class y is standard normal in m dimensions, its mean moved by ``separation`` along axis y; eta is the exact
    posterior. Basis functions do not depend on the class: hard clusters, or positive functions that sum to 1.
    """
    rng = np.random.default_rng(seed)
    prior = np.geomspace(1, 0.2, m)
    prior /= prior.sum()
    labels = rng.choice(m, size=n, p=prior)
    eta = rng.standard_normal((n, m))
    eta[np.arange(n), labels] += separation
    eta *= separation
    eta += np.log(prior)
    eta -= eta.max(axis=1, keepdims=True)
    np.exp(eta, out=eta)
    eta /= eta.sum(axis=1, keepdims=True)
    return Rows(eta=eta, bases={PHI: _functions(rng, n, n_bases, basis)}, labels=labels.astype(np.intp))


def draw_sparse(n: int, m: int, *, n_stored: int = 20, seed: int = 0) -> tuple[sparse.csr_array, np.ndarray]:
    """Return the largest probabilities of n rows of m classes as a CSR array, and labels.

    A row has a quarter more classes than are stored, drawn with a prior of 1 / (i + 10): a few are common, most are
    rare. Its probabilities are squares of exponential variables in shares, and its label is drawn from all of them.
    """
    rng = np.random.default_rng(seed)
    n_drawn = n_stored + n_stored // 4
    prior = np.cumsum(1 / (np.arange(m) + 10))
    classes = np.searchsorted(prior, prior[-1] * rng.random((n, n_drawn)))
    shares = rng.standard_exponential((n, n_drawn)) ** 2
    shares /= shares.sum(axis=1, keepdims=True)
    chosen = (rng.random((n, 1)) > shares.cumsum(axis=1)).sum(axis=1).clip(0, n_drawn - 1)
    kept = np.argsort(-shares, axis=1)[:, :n_stored]
    rows, columns = np.repeat(np.arange(n), n_stored), np.take_along_axis(classes, kept, axis=1).ravel()
    eta = sparse.csr_array((np.take_along_axis(shares, kept, axis=1).ravel(), (rows, columns)), shape=(n, m))
    eta.sum_duplicates()
    return eta, classes[np.arange(n), chosen]


def _functions(rng: np.random.Generator, n: int, n_bases: int, basis: Basis) -> np.ndarray:
    """Return basis functions (n, L)."""
    if n_bases == 1:
        return np.ones((n, 1))
    if basis == "soft":
        phi = rng.standard_exponential((n, n_bases))
        return phi / phi.sum(axis=1, keepdims=True)
    phi = np.zeros((n, n_bases))
    phi[np.arange(n), rng.integers(n_bases, size=n)] = 1
    return phi

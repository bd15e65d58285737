"""Prediction by a mixture of plug-ins: all members in one pass over the rows."""

from __future__ import annotations

from typing import Literal

import numpy as np

from postshift._validation import FloatArray
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.engines.memory.kernel_rows import RuleWeights, check_shapes, clusters_of, row_slices
from postshift.engines.memory.numpy_kernels import class_scores, first_largest

FEW_SCORES = 20_000_000  # rows times classes times members below which numba is not worth its import
_MARGIN = 1e-12  # of a ratio: products and quotients are off by a few roundings
_LARGEST = 1e100  # weights within these limits: no product that matters under- or overflows
_BLOCK_CELLS = 1 << 15  # of a block of eta, 256 KB: it stays in the cache while every member reads it


def mixture_table(
    mixture: Mixture, eta: FloatArray, phi: FloatArray, *, kernels: Literal["auto", "numpy", "numba"] = "auto"
) -> FloatArray:
    """Return the class distribution (n, m) of a mixture for every row: ``mixture.distribution``, in one pass.

    Parameters
    ----------
    mixture : Mixture
        The mixture.
    eta : array of shape (n, m)
        Class probabilities.
    phi : array of shape (n, L)
        Basis functions.
    kernels : {"auto", "numpy", "numba"}
        Compiled loops, for hard clusters and weights per class, or NumPy block by block; "auto" takes the faster one.

    Examples
    --------
    >>> from postshift import PlugIn
    >>> rules = [PlugIn(weighting="diagonal", alpha=[w], n_classes=2) for w in ([1.0, 1], [1.0, 4])]
    >>> mixture_table(Mixture.of(rules, [0.75, 0.25]), np.array([[0.9, 0.1], [0.7, 0.3]]), np.ones((2, 1)))
    array([[1.  , 0.  ],
           [0.75, 0.25]])
    """
    check_shapes(mixture, eta, phi)
    few = eta.size * len(mixture.members) < FEW_SCORES
    if kernels == "numba" or (kernels == "auto" and not few):
        found = _compiled(mixture, eta, phi)
        if found is not None:
            return found
    table = np.empty((len(eta), mixture.n_classes))
    for rows in row_slices(0, len(eta), max(_BLOCK_CELLS // mixture.n_classes, 64)):
        columns = class_columns(eta[rows], phi[rows])
        votes, places = np.zeros(columns[0].shape), np.arange(columns[0].shape[1])
        for member, share in zip(mixture.members, mixture.shares, strict=True):
            votes[first_largest(member_scores(member, *columns)), places] += share
        table[rows] = votes.T
    return table


def class_columns(eta: FloatArray, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return rows class by class, eta' (m, n) and phi' (L, n), or (1, 1) for one function that is 1 everywhere.

    Operations along contiguous rows are several times faster than along short ones.
    """
    constant = phi.shape[1] == 1 and bool((phi == 1).all())
    return np.ascontiguousarray(eta.T), np.ones((1, 1)) if constant else np.ascontiguousarray(phi.T)


def member_scores(member: PlugIn, eta: FloatArray, phi: FloatArray) -> FloatArray:
    """Return the scores (m, n) of a plug-in for rows that :func:`class_columns` returned."""
    rule = RuleWeights.of(member)
    if rule is None:
        phi = np.broadcast_to(phi, (len(phi), eta.shape[1]))
        return np.ascontiguousarray(member.scores(eta.T, phi.T).T)
    return class_scores(rule, eta, phi)


def _compiled(mixture: Mixture, eta: FloatArray, phi: FloatArray) -> FloatArray | None:
    """Return the table by compiled loops; None for rules and bases that they do not know, and without numba."""
    rules = [RuleWeights.of(member) for member in mixture.members]
    if any(rule is None or rule.full or rule.shift is not None for rule in rules):
        return None
    clusters = clusters_of(phi)
    if clusters is None:
        return None
    try:
        from postshift.engines.memory.numba_kernels import add_votes
    except ImportError:
        return None
    table = np.zeros((len(eta), mixture.n_classes))
    weights = np.stack([rule.weights for rule in rules if rule is not None])
    add_votes(np.ascontiguousarray(eta), clusters, weights, mixture.shares, _floors(weights), table)
    return table


def _floors(weights: FloatArray) -> FloatArray:
    """Return, for weights (T, L, m), the share (L, m, m) of the probability of k below which j loses in every member.

    A floor of 0 says nothing; the floor of a class against itself is infinite.
    """
    usual = (np.abs(weights) < _LARGEST) & (np.abs(weights) > 1 / _LARGEST)
    own, other = np.where(usual, weights, 0)[..., None], np.where(usual, weights, np.inf)[:, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(other > 0, own / other, np.inf)  # a class of negative weight never wins over a positive one
    floors = np.where(own > 0, ratios, 0).min(axis=0) * (1 - _MARGIN)
    floors[:, np.arange(floors.shape[1]), np.arange(floors.shape[1])] = np.inf
    return np.asarray(floors)

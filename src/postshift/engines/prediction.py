"""Prediction by a mixture of plug-ins: all members in one pass over the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from postshift._validation import FloatArray
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.engines.plain import class_scores, first_largest
from postshift.engines.rows import CodeArray, RuleWeights, clusters_of, row_slices
from postshift.exceptions import ShapeError

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
        Compiled loops, for hard clusters and weights per class, or NumPy block by block; "auto" takes what pays.

    Examples
    --------
    >>> from postshift import PlugIn
    >>> rules = [PlugIn(weighting="diagonal", alpha=[w], n_classes=2) for w in ([1.0, 1], [1.0, 4])]
    >>> mixture_table(Mixture.of(rules, [0.75, 0.25]), np.array([[0.9, 0.1], [0.7, 0.3]]), np.ones((2, 1)))
    array([[1.  , 0.  ],
           [0.75, 0.25]])
    """
    _check_shapes(mixture, eta, phi)
    few = eta.size * len(mixture.members) < FEW_SCORES
    if kernels == "numba" or (kernels == "auto" and not few):
        found = _compiled(mixture, eta, phi)
        if found is not None:
            return found
    table = np.empty((len(eta), mixture.n_classes))
    for rows in row_slices(0, len(eta), max(_BLOCK_CELLS // mixture.n_classes, 64)):
        table[rows] = _votes(mixture, ClassColumns.of(eta[rows], phi[rows])).T
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassColumns:
    """Rows kept class by class: operations along contiguous rows are several times faster than along short ones."""

    eta: FloatArray  # (m, n)
    phi: FloatArray  # (L, n), or (1, 1) for one function that is 1 everywhere

    @classmethod
    def of(cls, eta: FloatArray, phi: FloatArray) -> ClassColumns:
        """Turn tables of rows."""
        constant = phi.shape[1] == 1 and bool((phi == 1).all())
        return cls(eta=np.ascontiguousarray(eta.T), phi=np.ones((1, 1)) if constant else np.ascontiguousarray(phi.T))

    def scores(self, member: PlugIn) -> FloatArray:
        """Return the scores (m, n) of a plug-in."""
        rule = RuleWeights.of(member)
        if rule is None:
            phi = np.broadcast_to(self.phi, (len(self.phi), self.eta.shape[1]))
            return np.ascontiguousarray(member.scores(self.eta.T, phi.T).T)
        return class_scores(rule, self.eta, self.phi)


def _check_shapes(mixture: Mixture, eta: FloatArray, phi: FloatArray) -> None:
    """Refuse rows that do not fit the mixture: compiled loops do not check bounds."""
    if (eta.shape[1], *phi.shape) != (mixture.n_classes, len(eta), mixture.n_bases):
        raise ShapeError(
            f"eta and phi must have shapes (n, {mixture.n_classes}) and (n, {mixture.n_bases}), as in the fit. "
            f"Got {eta.shape} and {phi.shape} instead"
        )


def _votes(mixture: Mixture, rows: ClassColumns) -> FloatArray:
    """Return the share of the members (m, n) that are for each class."""
    votes, places = np.zeros(rows.eta.shape), np.arange(rows.eta.shape[1])
    for member, share in zip(mixture.members, mixture.shares, strict=True):
        votes[first_largest(rows.scores(member)), places] += share
    return votes


def _compiled(mixture: Mixture, eta: FloatArray, phi: FloatArray) -> FloatArray | None:
    """Return the table by compiled loops, or None where there are none for it."""
    rules = [RuleWeights.of(member) for member in mixture.members]
    if any(rule is None or rule.full or rule.shift is not None for rule in rules):
        return None
    clusters: CodeArray | None = clusters_of(phi)
    if clusters is None:
        return None
    try:
        from postshift.engines import fused_kernels as loops
    except ImportError:
        return None
    table = np.zeros((len(eta), mixture.n_classes))
    weights = np.stack([rule.weights for rule in rules if rule is not None])
    loops.add_votes(np.ascontiguousarray(eta), clusters, weights, mixture.shares, _floors(weights), table)
    return table


def _floors(weights: FloatArray) -> FloatArray:
    """Return (L, m, m) of weights (T, L, m): below which share of the probability of k class j loses under any member.

    0 promises nothing; a class that stands for itself is no rival.
    """
    usual = (np.abs(weights) < _LARGEST) & (np.abs(weights) > 1 / _LARGEST)
    own, other = np.where(usual, weights, 0)[..., None], np.where(usual, weights, np.inf)[:, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(other > 0, own / other, np.inf)  # a class of negative weight never wins over a positive one
    floors = np.where(own > 0, ratios, 0).min(axis=0) * (1 - _MARGIN)
    floors[:, np.arange(floors.shape[1]), np.arange(floors.shape[1])] = np.inf
    return np.asarray(floors)

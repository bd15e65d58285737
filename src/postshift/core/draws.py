"""Draws of hard labels that the iterate and its probes share.

Two labellings that are drawn independently differ on many rows by chance, and this noise hides the difference in the
metric. Here a row keeps its draws for the iterate and for every probe of an iteration, so a probe differs from the
iterate only where it moved mass. The draws are a low-discrepancy sequence along the rows sorted by their probabilities
(a Kronecker sequence with a random shift): each draw alone is uniform, and the rows that a probe moves are spread
evenly over easy and hard rows alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from postshift._validation import FloatArray, IntArray

# Over 200 neighbouring rows, the share that a probe moves has a fifth of the noise of independent draws, and the
# share of one label that it moves less than half. The golden ratio, the most even, is for the moves.
_STRIDES = np.array([np.sqrt(2) - 1, (np.sqrt(5) - 1) / 2, np.sqrt(3) - 1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draws:
    """Three uniforms per row: which label the base takes, whether a probe moves it, where it lands."""

    take: FloatArray
    move: FloatArray
    land: FloatArray


def even_order(eta: FloatArray) -> IntArray:
    """Return the rank of each row when rows are sorted by predicted class, then by its probability."""
    top = np.argmax(eta, axis=1)
    order = np.lexsort((eta[np.arange(len(eta)), top], top))
    ranks = np.empty(len(eta), dtype=np.intp)
    ranks[order] = np.arange(len(eta))
    return ranks


def shared_draws(ranks: IntArray, *, seed: int, iteration: int) -> Draws:
    """Return the draws of one iteration; the same seed and iteration give the same draws."""
    shift = np.random.default_rng([seed, iteration]).random(3)
    uniform = (shift + ranks[:, None] * _STRIDES) % 1.0
    return Draws(take=uniform[:, 0], move=uniform[:, 1], land=uniform[:, 2])


def drawn_labels(distribution: FloatArray, uniform: FloatArray) -> IntArray:
    """Return the label of every row for its draw, by the inverse of the cumulative distribution."""
    below: IntArray = (np.cumsum(distribution, axis=1) <= uniform[:, None]).sum(axis=1)
    return np.asarray(np.minimum(below, distribution.shape[1] - 1))

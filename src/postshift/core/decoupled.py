"""The equations of diagonal weights in O(m L^3): they meet in L numbers only.

With the fixed probes the equation of probe (l, i) is (Eq. (10) in differences, times n)

    sum_k A[l,k,i] alpha[k,i] - v[l] = n gains[l,i],    v[l] = sum_kj B[l,k,j] alpha[k,j].

Given v, each class stands alone: ``alpha_i = A_i^-1 (n gains_i + v)``. Put into the definition of v, what is left is
one system of L unknowns, ``(I - sum_i B_i A_i^-1) v = sum_i B_i A_i^-1 n gains_i``.

This is the solution wherever there is just one. Collinear bases, and classes without rows in a cluster, have many; then
the SVD of :mod:`postshift.core.elicitation` finds the one of minimum norm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from postshift._validation import FloatArray
from postshift.core.moments import ClassifierSums, LabelSums

MAX_CONDITION = 1e6  # of any of the small systems; beyond it the SVD decides what is zero
_POWER_STEPS = 8

Map = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecoupledSolution:
    """The coefficients (L, m), the extreme singular values of the equations (estimates) and what is left over."""

    alpha: FloatArray
    largest: float
    smallest: float
    residual: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Equations:
    """The equations and their solution as maps of (L, m) tables: A_i / n, B_i / n, B_i A_i^-1, and I less their sum."""

    own: FloatArray
    shared: FloatArray
    per_class: FloatArray
    meeting: FloatArray

    def apply(self, alpha: FloatArray) -> FloatArray:
        """Return the left sides."""
        together = np.einsum("ilk,ki->l", self.shared, alpha)
        return np.asarray(np.einsum("ilk,ki->li", self.own, alpha) - together[:, None])

    def apply_transposed(self, right: FloatArray) -> FloatArray:
        """Return the transposed map of ``apply``."""
        spread = np.einsum("ilk,l->ki", self.shared, right.sum(axis=1))
        return np.asarray(np.einsum("ilk,li->ki", self.own, right) - spread)

    def solve(self, right: FloatArray) -> FloatArray:
        """Return the coefficients that give the right sides."""
        v = np.linalg.solve(self.meeting, np.einsum("ilk,ki->l", self.per_class, right))
        return self._each_class(right + v[:, None])

    def solve_transposed(self, alpha: FloatArray) -> FloatArray:
        """Return the transposed map of ``solve``."""
        classes = self._each_class(alpha)
        v = np.linalg.solve(self.meeting.T, classes.sum(axis=1))
        return np.asarray(classes + np.einsum("ilk,l->ki", self.per_class, v))

    def _each_class(self, table: FloatArray) -> FloatArray:
        """Return A_i^-1 of every column i."""
        return np.asarray(np.linalg.solve(self.own, table.T[:, :, None])[:, :, 0].T)


def solve_decoupled(labels: LabelSums, sums: ClassifierSums, gains: FloatArray) -> DecoupledSolution | None:
    """Solve the equations of differences, or return None where they have no single well-determined solution.

    Parameters
    ----------
    labels : LabelSums
        A of the training rows.
    sums : ClassifierSums
        B of what the probes are built around.
    gains : array of shape (L m,)
        Differences of the metric, per unit of reach.
    """
    equations = _equations(labels, sums)
    if equations is None:
        return None
    right = gains.reshape(labels.single.shape)
    alpha = equations.solve(right)
    return DecoupledSolution(
        alpha=alpha,
        largest=_growth(equations.apply, equations.apply_transposed, right.shape),
        smallest=1 / _growth(equations.solve, equations.solve_transposed, right.shape),
        residual=float(np.linalg.norm(equations.apply(alpha) - right)),
    )


def _equations(labels: LabelSums, sums: ClassifierSums) -> _Equations | None:
    """Return the equations, or None where one of the small systems is close to singular."""
    own = np.moveaxis(labels.pair, 2, 0) / labels.total
    shared = np.moveaxis(sums.pair, 2, 0) / labels.total
    if _condition(own) > MAX_CONDITION:
        return None
    per_class = np.swapaxes(np.linalg.solve(own, np.swapaxes(shared, 1, 2)), 1, 2)  # own is symmetric
    meeting = np.eye(own.shape[1]) - per_class.sum(axis=0)
    if _condition(meeting[None]) > MAX_CONDITION:
        return None
    return _Equations(own=own, shared=shared, per_class=per_class, meeting=meeting)


def _condition(matrices: FloatArray) -> float:
    """Return the largest condition number of a stack of square matrices."""
    values = np.linalg.svd(matrices, compute_uv=False)
    return float((values[:, 0] / values[:, -1]).max()) if values[:, -1].min() > 0 else np.inf


def _growth(forward: Map, back: Map, shape: tuple[int, ...]) -> float:
    """Return the largest singular value of a linear map, by power steps from a fixed start."""
    vector = np.random.default_rng(0).normal(size=shape)
    for _ in range(_POWER_STEPS):
        vector = back(forward(vector / np.linalg.norm(vector)))
    return float(np.sqrt(np.linalg.norm(vector)))

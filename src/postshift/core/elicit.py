"""ElicitWeights (Algorithm 1): the equations of differences and their solution.

Notation: R probes per basis function l, P coefficients per basis function k.

==========  ==================  ===========================================================
symbol      shape               meaning
==========  ==================  ===========================================================
sigma       (L R, L P)          Phi of each probe minus Phi of the centre, Eq. (10) in differences
gains       (L R,)              metric of each probe minus metric of the centre
alpha       (L, P)              sigma alpha = gains, minimum norm
==========  ==================  ===========================================================

The centre is the classifier that the probes are around. The paper prints ``alpha = inverse(Sigma) E``. This differs in
two ways. Both sides are differences to the centre: the paper subtracts it from neither side or, in Algorithm 3*, from
one, which does not give the gradient. And the solution is that of minimum norm, by SVD, because collinear bases and
full weights make Sigma singular.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from postshift._validation import FloatArray
from postshift.core.sums import Classifier, ClassifierSums, Engine, LabelSums
from postshift.core.weighting import DIAGONAL, Weighting
from postshift.exceptions import SingularProbesError

RCOND = 1e-10  # singular values below this share of the largest count as zero
_SMALL = 64  # up to this many unknowns, the SVD is as fast and its diagnostics are exact
_LARGE = 128  # from this many unknowns on, a pivoted QR is four times as fast as the SVD
MAX_CONDITION = 1e6  # of the small systems; above it, the SVD is used
_POWER_STEPS = 8

Map = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Elicitation:
    """Elicited coefficients and how well the probes determined them.

    ``largest`` and ``smallest`` are singular values of the equations of differences per unit of reach, of the
    ``rank`` values that were kept (large systems: estimates). A rank below ``n_unknowns`` is a diagnostic,
    not an error: collinear bases and full-matrix weights are never of full rank.
    """

    alpha: FloatArray
    rank: int
    largest: float
    smallest: float
    residual: float

    @property
    def n_unknowns(self) -> int:
        """Number of coefficients."""
        return int(self.alpha.size)

    @property
    def condition(self) -> float:
        """Condition number of the equations, over the kept singular values."""
        return self.largest / self.smallest


def elicit(
    weighting: Weighting,
    *,
    labels: LabelSums,
    anchor: ClassifierSums,
    gains: FloatArray,
    rcond: float = RCOND,
    ridge: float = 0.0,
) -> Elicitation:
    """Return the example weights that explain the gains of the probes (Algorithm 1).

    Parameters
    ----------
    weighting : Weighting
        Which confusion entries get weights.
    labels : LabelSums
        The sums over the training rows that do not depend on a classifier.
    anchor : ClassifierSums
        The sums of the classifier that the probes are built around.
    gains : array of shape (L R,)
        The metric of each probe minus that of the centre, per unit of reach: E in differences.
    rcond, ridge : float
        Options of the least-squares solution; see :func:`solve`.
    """
    if weighting.name == DIAGONAL.name and len(gains) > _SMALL and ridge == 0:
        found = solve_decoupled(labels, anchor, gains)
        if found is not None:
            return found
    sigma = probe_matrix(weighting, labels=labels, anchor=anchor)  # lines 2 to 7
    return solve(sigma, gains, n_bases=len(labels.single), rcond=rcond, ridge=ridge)  # line 8


def probe_matrix(
    weighting: Weighting,
    *,
    labels: LabelSums,
    anchor: ClassifierSums,
) -> FloatArray:
    """Return sigma per unit of reach: the weighted entries of each probe minus those of the centre, Eq. (10)."""
    rows = weighting.displaced(labels, anchor)
    size = rows.shape[0] * rows.shape[1]
    return rows.reshape(size, -1) / labels.total


def solve(
    sigma: FloatArray, gains: FloatArray, *, n_bases: int, rcond: float = RCOND, ridge: float = 0.0
) -> Elicitation:
    """Solve ``sigma alpha = gains`` by least squares of minimum norm.

    Parameters
    ----------
    sigma : array of shape (L R, L P)
        Equations of differences.
    gains : array of shape (L R,)
        Differences of the metric.
    n_bases : int
        Number of basis functions L.
    rcond : float
        Singular values below ``rcond`` times the largest are treated as zero.
    ridge : float
        Shrinks along each singular direction as ``s / (s^2 + ridge s_max^2)``; 0 is plain least squares.
    """
    if not sigma.any():
        raise SingularProbesError(
            f"none of the {len(gains)} probes changed a confusion entry of the training rows that has a weight (rank "
            "0); the basis is empty on the training rows: give one that covers them, or start from a classifier that "
            "predicts more than one class"
        )
    if sigma.shape[1] >= _LARGE and ridge == 0:
        return _solve_large(sigma, gains, n_bases=n_bases, rcond=rcond)
    left, values, right = scipy.linalg.svd(sigma, full_matrices=False)
    rank = int(np.count_nonzero(values > rcond * values[0]))
    kept = values[:rank]
    shrunk = kept / (kept**2 + ridge * kept[0] ** 2)
    alpha = right[:rank].T @ (shrunk * (left[:, :rank].T @ gains))
    return Elicitation(
        alpha=alpha.reshape(n_bases, -1),
        rank=rank,
        largest=float(values[0]),
        smallest=float(values[rank - 1]),
        residual=float(np.linalg.norm(sigma @ alpha - gains)),
    )


def _solve_large(sigma: FloatArray, gains: FloatArray, *, n_bases: int, rcond: float) -> Elicitation:
    """Solve by a pivoted QR, ``sigma P = Q R``; the first rows of R, as many as the rank, are factored once more."""
    q, r, order = scipy.linalg.qr(sigma, mode="economic", pivoting=True)
    sizes = np.abs(np.diagonal(r))
    rank = int(np.count_nonzero(sizes > rcond * sizes[0]))
    z, s = scipy.linalg.qr(r[:rank].T, mode="economic")
    q, back = q[:, :rank], np.argsort(order)

    def solved(right: FloatArray) -> FloatArray:
        return np.asarray((z @ scipy.linalg.solve_triangular(s, q.T @ right, trans="T"))[back])

    def solved_transposed(alpha: FloatArray) -> FloatArray:
        return np.asarray(q @ scipy.linalg.solve_triangular(s, z.T @ alpha[order]))

    alpha = solved(gains)
    return Elicitation(
        alpha=alpha.reshape(n_bases, -1),
        rank=rank,
        largest=_growth(lambda each: sigma @ each, lambda each: sigma.T @ each, alpha.shape),
        smallest=1 / _growth(solved, solved_transposed, gains.shape),
        residual=float(np.linalg.norm(sigma @ alpha - gains)),
    )


class ElicitedVertex:
    """Finds the next vertex as the paper does: weights elicited around the iterate (Algorithms 1 and 2).

    Parameters
    ----------
    train : Engine
        The engine that holds the training rows.
    weighting : Weighting
        Which confusion entries get weights.
    labels : LabelSums
        The sums of the training labels.
    anchor : Classifier, optional
        What the probes are built around; None for the iterate itself.
    sigma : array of shape (L R, L P), optional
        The equations, if they are known; by default they come from the sums of the anchor.
    unknown : array of bool, shape (L,)
        Basis functions without rows, for which no weights can be learnt.
    rcond, ridge : float
        Options of the least-squares solution.
    """

    def __init__(
        self,
        train: Engine,
        *,
        weighting: Weighting,
        labels: LabelSums,
        anchor: Classifier | None,
        unknown: NDArray[np.bool_],
        rcond: float,
        ridge: float,
        sigma: FloatArray | None = None,
    ) -> None:
        self.weighting, self.n_classes = weighting, train.n_classes
        self._train, self._labels, self._unknown = train, labels, unknown
        self._rcond, self._ridge = rcond, ridge
        self._sigma = sigma
        self._anchor = None if anchor is None or sigma is not None else self.sums_of(anchor)

    def sums_of(self, classifier: Classifier) -> ClassifierSums:
        """Return a classifier's sums over the training rows."""
        return self._train.classifier_sums(classifier, confusions=self.weighting.needs_confusions)

    def find(self, sums: ClassifierSums, gains: FloatArray) -> Elicitation:
        """Return the weights that explain the gains of the probes around the current iterate."""
        how = {"rcond": self._rcond, "ridge": self._ridge}
        if self._sigma is not None:
            found = solve(self._sigma, gains, n_bases=len(self._labels.single), **how)
        else:
            anchor = sums if self._anchor is None else self._anchor
            found = elicit(self.weighting, labels=self._labels, anchor=anchor, gains=gains, **how)
        if not self._unknown.any():
            return found
        # A basis function without rows takes the average weights of the others, not 0.
        mass = np.where(self._unknown, 0, self._labels.single.sum(axis=1))
        alpha = np.where(self._unknown[:, None], mass @ found.alpha / mass.sum(), found.alpha)
        return replace(found, alpha=alpha)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Equations:
    """The equations and their solution as maps of (L, m) tables: A_i / n, B_i / n, B_i A_i^-1, I minus their sum."""

    own: FloatArray
    shared: FloatArray
    per_class: FloatArray
    meeting: FloatArray

    def apply(self, alpha: FloatArray) -> FloatArray:
        """Return the left sides of the equations."""
        together = np.einsum("ilk,ki->l", self.shared, alpha)
        return np.asarray(np.einsum("ilk,ki->li", self.own, alpha) - together[:, None])

    def apply_transposed(self, right: FloatArray) -> FloatArray:
        """Apply the transpose of ``apply``."""
        spread = np.einsum("ilk,l->ki", self.shared, right.sum(axis=1))
        return np.asarray(np.einsum("ilk,li->ki", self.own, right) - spread)

    def solve(self, right: FloatArray) -> FloatArray:
        """Return the coefficients for given right sides."""
        v = np.linalg.solve(self.meeting, np.einsum("ilk,ki->l", self.per_class, right))
        return self._each_class(right + v[:, None])

    def solve_transposed(self, alpha: FloatArray) -> FloatArray:
        """Apply the transpose of ``solve``."""
        classes = self._each_class(alpha)
        v = np.linalg.solve(self.meeting.T, classes.sum(axis=1))
        return np.asarray(classes + np.einsum("ilk,l->ki", self.per_class, v))

    def _each_class(self, table: FloatArray) -> FloatArray:
        """Return A_i^-1 of every column i."""
        return np.asarray(np.linalg.solve(self.own, table.T[:, :, None])[:, :, 0].T)


def solve_decoupled(labels: LabelSums, sums: ClassifierSums, gains: FloatArray) -> Elicitation | None:
    """Solve the equations of diagonal weights in O(m L^3), or return None if the solution is not unique.

    With the fixed probes the equation of probe (l, i) is (Eq. (10) in differences, times n)

        sum_k A[l,k,i] alpha[k,i] - v[l] = n gains[l,i],    v[l] = sum_kj B[l,k,j] alpha[k,j].

    Given v, the classes are independent: ``alpha_i = A_i^-1 (n gains_i + v)``. With the definition of v, this is one
    system of L unknowns, ``(I - sum_i B_i A_i^-1) v = sum_i B_i A_i^-1 n gains_i``. Collinear bases, and classes
    without rows in a cluster, have many solutions; then :func:`solve` finds the one of minimum norm.

    Parameters
    ----------
    labels : LabelSums
        A of the training rows.
    sums : ClassifierSums
        B of the classifier that the probes are built around.
    gains : array of shape (L m,)
        Differences of the metric, per unit of reach.
    """
    equations = _equations(labels, sums)
    if equations is None:
        return None
    right = gains.reshape(labels.single.shape)
    alpha = equations.solve(right)
    return Elicitation(
        alpha=alpha,
        rank=len(gains),
        largest=_growth(equations.apply, equations.apply_transposed, right.shape),
        smallest=1 / _growth(equations.solve, equations.solve_transposed, right.shape),
        residual=float(np.linalg.norm(equations.apply(alpha) - right)),
    )


def _equations(labels: LabelSums, sums: ClassifierSums) -> _Equations | None:
    """Return the equations, or None if one of the small systems is close to singular."""
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

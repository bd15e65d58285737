"""Weight elicitation (Algorithm 1): the equations of differences and their solution.

Notation: R probes per basis function l, P coefficients per basis function k.

==========  ==================  ===========================================================
symbol      shape               meaning
==========  ==================  ===========================================================
sigma       (L R, L P)          Phi of each probe less Phi of the centre, Eq. (10) in differences
gains       (L R,)              metric of each probe less metric of the centre
alpha       (L, P)              sigma alpha = gains, minimum norm
==========  ==================  ===========================================================

The paper prints ``alpha = inverse(Sigma) E``. Two departures: both sides are differences to the centre
(shifting neither side, as printed, or one, as in Algorithm 3*, does not give the gradient), and the
solution is that of minimum norm by SVD, for collinear bases and the full matrix are singular by nature.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from postshift._validation import FloatArray
from postshift.core.decoupled import solve_decoupled
from postshift.core.moments import ClassifierSums, LabelSums
from postshift.core.statistics import Classifier, Engine
from postshift.core.weighting import DIAGONAL, Weighting
from postshift.exceptions import SingularProbesError

RCOND = 1e-10  # singular values below this share of the largest count as zero
_SMALL = 64  # up to so many unknowns the SVD is as fast, and its diagnostics are exact


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """How far the probes stand from the base, and what they are built around.

    A probe is ``centre + reach phi_l M_r a`` with ``centre = (1 - share) h + share a``. The fixed probes have the
    base itself as anchor a and share 1, so the centre is the base; the constrained probes (Eq. (11)) have an anchor
    of their own, radius 1, and are mixed into the base by ``share``. Differences are taken to the centre: there the
    equations keep the conditioning for which the anchor was made.
    """

    radius: float
    share: float = 1.0

    @property
    def reach(self) -> float:
        """The size of the displacement, by which equations are divided for the sake of their scale."""
        return self.radius * self.share


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


def probe_matrix(
    weighting: Weighting,
    *,
    labels: LabelSums,
    anchor: ClassifierSums,
) -> FloatArray:
    """Return sigma per unit of reach: the weighed entries of each probe less those of the centre, Eq. (10)."""
    rows = weighting.displaced(labels, anchor)
    size = rows.shape[0] * rows.shape[1]
    return rows.reshape(size, -1) / labels.total


def elicit(
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
    left, values, right = scipy.linalg.svd(sigma, full_matrices=False)
    rank = int(np.count_nonzero(values > rcond * values[0])) if values[0] > 0 else 0
    if rank == 0:
        raise SingularProbesError(
            f"none of the {len(gains)} probes changed a weighed training confusion (rank 0); the basis is "
            "empty on the training rows: give one that covers them, or start from a classifier that predicts "
            "more than one class"
        )
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


class ElicitedWeights:
    """The paper's way to a vertex: example weights elicited from the equations of differences (Algorithm 1).

    ``anchor`` is what the probes are built around (None: the iterate itself); ``unknown`` marks basis functions without
    rows, of which nothing can be learnt.
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
    ) -> None:
        self.weighting = weighting
        self._train, self._labels, self._unknown = train, labels, unknown
        self._rcond, self._ridge = rcond, ridge
        self._anchor = None if anchor is None else self.sums_of(anchor)

    def sums_of(self, classifier: Classifier) -> ClassifierSums:
        """Return a classifier's sums over the training rows."""
        return self._train.classifier_sums(classifier, confusions=self.weighting.needs_confusions)

    def find(self, sums: ClassifierSums, gains: FloatArray) -> Elicitation:
        """Solve the equations of differences around the current iterate."""
        anchor = sums if self._anchor is None else self._anchor
        found = self._decoupled(anchor, gains)
        if found is None:
            sigma = probe_matrix(self.weighting, labels=self._labels, anchor=anchor)
            found = elicit(sigma, gains, n_bases=len(self._unknown), rcond=self._rcond, ridge=self._ridge)
        if not self._unknown.any():
            return found
        # Nothing was learnt where there are no rows: such a function takes the others' average, not weight 0.
        mass = np.where(self._unknown, 0, self._labels.single.sum(axis=1))
        alpha = np.where(self._unknown[:, None], mass @ found.alpha / mass.sum(), found.alpha)
        return replace(found, alpha=alpha)

    def _decoupled(self, anchor: ClassifierSums, gains: FloatArray) -> Elicitation | None:
        """Solve many equations of diagonal weights class by class, where they have one solution."""
        if len(gains) <= _SMALL or self.weighting.name != DIAGONAL.name or self._ridge > 0:
            return None
        found = solve_decoupled(self._labels, anchor, gains)
        if found is None:
            return None
        return Elicitation(
            alpha=found.alpha,
            rank=len(gains),
            largest=found.largest,
            smallest=found.smallest,
            residual=found.residual,
        )

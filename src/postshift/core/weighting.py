"""Weightings: which confusion entries get weights, chosen by what the metric depends on.

The weights multiply some entries of the phi-transformed confusion matrices. Each choice has its own
probes and its own plug-in scores. L basis functions, m classes, P coefficients per basis function.

==========  =====  =======================================  =====================================
weighting   P      weighs (per basis function)              score of class j in the plug-in
==========  =====  =======================================  =====================================
diagonal    m      Phi_ii                                   W_j(x) eta_j(x)
columns     2 m    Phi_ii and the rates sum_i Phi_ij        W_j(x) eta_j(x) + V_j(x)
full        m^2    Phi_ij (Appendix A)                      sum_i W_ij(x) eta_i(x)
==========  =====  =======================================  =====================================
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from postshift._validation import FloatArray
from postshift.core.probes import Departing, Fixed, Joined, ProbeFamily, Reassigning
from postshift.core.sums import ClassifierSums, LabelSums
from postshift.exceptions import SettingError


class Weighting(Protocol):
    """One choice of the confusion entries that get weights."""

    name: str
    probes: ProbeFamily
    needs_confusions: bool  # the sums F, f of the training rows, not only their diagonal B, b

    def n_terms(self, n_classes: int) -> int:
        """Return P, the coefficients per basis function."""

    def displaced(self, labels: LabelSums, sums: ClassifierSums) -> FloatArray:
        """Return the entries that have weights, for every displacement ``phi_l M_r h``: shape (L, R, L, P)."""

    def scores(self, alpha: FloatArray, eta: FloatArray, phi: FloatArray) -> FloatArray:
        """Return the plug-in scores (n, m) whose argmax is the plug-in classifier."""

    def weight_matrices(self, alpha: FloatArray, n_classes: int) -> FloatArray:
        """Return the coefficients as weights on (true, predicted) entries: shape (L, m, m)."""


class _Diagonal:
    """Weights on the diagonal, as in Algorithms 1 to 3."""

    name = "diagonal"
    probes: ProbeFamily = Fixed()
    needs_confusions = False

    def n_terms(self, n_classes: int) -> int:
        return n_classes

    def displaced(self, labels: LabelSums, sums: ClassifierSums) -> FloatArray:
        # Eq. (10) with the probes of Eq. (12), minus the base's own row: A[l,k,j] [i=j] - B[l,k,j].
        n_bases, _, n_classes = sums.pair.shape
        rows = np.repeat(-sums.pair[:, None], n_classes, axis=1)
        same = np.arange(n_classes)
        rows[:, same, :, same] += np.moveaxis(labels.pair, 2, 0)
        return rows.reshape(n_bases, n_classes, n_bases, n_classes)

    def scores(self, alpha: FloatArray, eta: FloatArray, phi: FloatArray) -> FloatArray:
        return (phi @ alpha) * eta

    def weight_matrices(self, alpha: FloatArray, n_classes: int) -> FloatArray:
        return alpha[:, :, None] * np.eye(n_classes)


class _Columns:
    """Weights on the diagonal and on the predicted-class rates: macro-F and its family."""

    name = "columns"
    probes: ProbeFamily = Joined(Fixed(), Departing())
    needs_confusions = True

    def n_terms(self, n_classes: int) -> int:
        return 2 * n_classes

    def displaced(self, labels: LabelSums, sums: ClassifierSums) -> FloatArray:
        # Closed forms of what displace(F) does to the weighed entries; the tensor itself would hold R L^2 m^2 numbers.
        n_classes = labels.single.shape[1]
        hits, rates = np.einsum("lkii->lki", sums.pair), sums.pair.sum(axis=2)
        mass, same = sums.pair.sum(axis=3), np.arange(n_classes)
        stay = np.concatenate([hits, rates], axis=2)
        fixed = np.repeat(-stay[:, None], n_classes, axis=1)
        fixed[:, same, :, same] += np.moveaxis(mass, 2, 0)
        fixed[:, same, :, same + n_classes] += mass.sum(axis=2)
        share = 1 / (n_classes - 1)
        leave = np.concatenate([np.moveaxis(sums.pair, 3, 1) * share, _spread(rates) * share], axis=3)  # (l, r, k, 2 m)
        leave[:, same, :, same] = -np.moveaxis(hits, 2, 0)
        leave[:, same, :, same + n_classes] = -np.moveaxis(rates, 2, 0)
        return np.concatenate([fixed, leave], axis=1)

    def scores(self, alpha: FloatArray, eta: FloatArray, phi: FloatArray) -> FloatArray:
        n_classes = eta.shape[1]
        return (phi @ alpha[:, :n_classes]) * eta + phi @ alpha[:, n_classes:]

    def weight_matrices(self, alpha: FloatArray, n_classes: int) -> FloatArray:
        diagonal, rate = alpha[:, :n_classes], alpha[:, n_classes:]
        return diagonal[:, :, None] * np.eye(n_classes) + rate[:, None, :]


class _Full:
    """Weights on the whole confusion matrix, Appendix A."""

    name = "full"
    probes: ProbeFamily = Reassigning()
    needs_confusions = True

    def n_terms(self, n_classes: int) -> int:
        return n_classes**2

    def displaced(self, labels: LabelSums, sums: ClassifierSums) -> FloatArray:
        n_bases, n_classes = labels.single.shape
        every = np.arange(self.probes.n_probes(n_classes))
        moved = self.probes.displace(sums.pair, every)  # (r, l, k, i, j)
        return np.swapaxes(moved, 0, 1).reshape(n_bases, len(every), n_bases, n_classes**2)

    def scores(self, alpha: FloatArray, eta: FloatArray, phi: FloatArray) -> FloatArray:
        n_classes = eta.shape[1]
        scores = np.zeros_like(eta)
        for basis, weights in enumerate(alpha):
            scores += phi[:, basis, None] * (eta @ weights.reshape(n_classes, n_classes))
        return scores

    def weight_matrices(self, alpha: FloatArray, n_classes: int) -> FloatArray:
        return alpha.reshape(-1, n_classes, n_classes)


DIAGONAL: Final[Weighting] = _Diagonal()
COLUMNS: Final[Weighting] = _Columns()
FULL: Final[Weighting] = _Full()
_BY_NAME = {weighting.name: weighting for weighting in (DIAGONAL, COLUMNS, FULL)}


def weighting_named(name: str) -> Weighting:
    """Return the weighting of this name: ``"diagonal"``, ``"columns"`` or ``"full"``.

    Examples
    --------
    >>> weighting_named("columns").n_terms(10)
    20
    """
    if not isinstance(name, str) or name not in _BY_NAME:
        raise SettingError(f"weighting must be one of {sorted(_BY_NAME)}. Got {name!r} instead")
    return _BY_NAME[name]


def _spread(rates: FloatArray) -> FloatArray:
    """Return rates (l, k, r) as (l, r, k, m): the rate of the class that mass leaves, in every column."""
    return np.repeat(np.moveaxis(rates, 2, 1)[..., None], rates.shape[2], axis=3)

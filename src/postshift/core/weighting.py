"""Weightings: which confusion entries get weights, chosen by what the metric depends on.

The weights multiply some entries of the phi-transformed confusion matrices. Each choice has its own
probes and its own plug-in scores. L basis functions, m classes, P coefficients per basis function.

==========  =====  =======================================  =====================================
weighting   P      weighs (per basis function)              score of class j in the plug-in
==========  =====  =======================================  =====================================
diagonal    m      Phi_ii                                   W_j(x) eta_j(x)
columns     2 m    Phi_ii and the rates sum_i Phi_ij        W_j(x) eta_j(x) + V_j(x)
full        m^2    Phi_ij (Appendix A)                      sum_i W_ij(x) eta_i(x)
entries     d      Phi_ij of d named entries (Appendix A)   sum_i W_ij(x) eta_i(x) over these entries
==========  =====  =======================================  =====================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from postshift._validation import FloatArray
from postshift.core.probes import Departing, Fixed, Joined, ProbeFamily, Reassigning, Towards
from postshift.core.sums import ClassifierSums, LabelSums
from postshift.exceptions import SettingError


class Weighting(Protocol):
    """One choice of the confusion entries that get weights."""

    needs_confusions: bool  # the sums F, f of the training rows, not only their diagonal B, b

    @property
    def name(self) -> str:
        """The name, with which :func:`weighting_named` finds the weighting."""

    @property
    def probes(self) -> ProbeFamily:
        """The fixed probes that determine the weights."""

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


@dataclass(frozen=True, slots=True)
class Entries:
    """Weights on some confusion entries: pairs (true class, predicted class).

    The metric depends on these entries only. The score of a class without an entry is 0.
    """

    pairs: tuple[tuple[int, int], ...]
    needs_confusions = True

    @property
    def name(self) -> str:
        """The entries as text, such as ``"entries 0-1 2-2"``."""
        return " ".join([_ENTRIES, *(f"{true}-{predicted}" for true, predicted in self.pairs)])

    @property
    def probes(self) -> ProbeFamily:
        """One probe for each entry."""
        return Towards(self.pairs)

    def n_terms(self, n_classes: int) -> int:
        """Return d; raise if an entry is outside the confusion matrix."""
        outside = [pair for pair in self.pairs if max(pair) >= n_classes]
        if outside:
            raise SettingError(
                f"weighting has the entry {outside[0]}, but the classes are 0..{n_classes - 1}: use these numbers"
            )
        return len(self.pairs)

    def displaced(self, labels: LabelSums, sums: ClassifierSums) -> FloatArray:  # noqa: ARG002
        """Return the entries of every displacement: shape (L, d, L, d)."""
        true, predicted = np.transpose(self.pairs)
        moved = self.probes.displace(sums.pair, np.arange(len(self.pairs)))  # (r, l, k, i, j)
        return np.swapaxes(moved[..., true, predicted], 0, 1)

    def scores(self, alpha: FloatArray, eta: FloatArray, phi: FloatArray) -> FloatArray:
        """Return the plug-in scores (n, m): those of full weights that are 0 elsewhere."""
        return FULL.scores(self.weight_matrices(alpha, eta.shape[1]).reshape(len(alpha), -1), eta, phi)

    def weight_matrices(self, alpha: FloatArray, n_classes: int) -> FloatArray:
        """Return the coefficients as weights on (true, predicted) entries: shape (L, m, m)."""
        true, predicted = np.transpose(self.pairs)
        matrices = np.zeros((len(alpha), n_classes, n_classes))
        matrices[:, true, predicted] = alpha
        return matrices


DIAGONAL: Final[Weighting] = _Diagonal()
COLUMNS: Final[Weighting] = _Columns()
FULL: Final[Weighting] = _Full()
_BY_NAME = {weighting.name: weighting for weighting in (DIAGONAL, COLUMNS, FULL)}
_ENTRIES = "entries"


def weighting_named(given: str | Sequence[tuple[int, int]]) -> Weighting:
    """Return the weighting of this name, or the weighting of some confusion entries.

    Parameters
    ----------
    given : {"diagonal", "columns", "full"} or sequence of pairs
        A name, or the entries that get weights, as pairs (true class, predicted class).

    Examples
    --------
    >>> weighting_named("columns").n_terms(10)
    20
    >>> weighting_named([(0, 1), (2, 2)])
    Entries(pairs=((0, 1), (2, 2)))
    """
    if isinstance(given, str) and given in _BY_NAME:
        return _BY_NAME[given]
    found = _pairs(given)
    if not found or len(set(found)) < len(found) or min(map(min, found)) < 0:
        raise SettingError(
            f"weighting must be one of {sorted(_BY_NAME)} or different pairs (true class, predicted class). "
            f"Got {given!r} instead"
        )
    return Entries(found)


def _pairs(given: Any) -> tuple[tuple[int, int], ...]:
    """Return the pairs of a sequence or of the name of a weighting of entries; none if it is not one."""
    if isinstance(given, str):
        kind, _, places = given.partition(" ")
        given = [place.split("-") for place in places.split()] if kind == _ENTRIES else []
    try:
        return tuple((int(true), int(predicted)) for true, predicted in given)
    except (TypeError, ValueError):
        return ()


def _spread(rates: FloatArray) -> FloatArray:
    """Return rates (l, k, r) as (l, r, k, m): the rate of the class that mass leaves, in every column."""
    return np.repeat(np.moveaxis(rates, 2, 1)[..., None], rates.shape[2], axis=3)

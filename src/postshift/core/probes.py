"""Probing classifiers: the current classifier with some of its predicted mass moved.

A probe moves mass *within one basis function*: ``h + radius * phi_l * (M h)``, where the m x m matrix M has
columns that sum to zero and depends on the probe r only. With M = e_i 1' - I it is the fixed probe of
Eq. (12); the other families are what the predicted-class rates, the full confusion matrix and some of its entries need.
Because a probe is linear in h, every confusion matrix of every probe follows from the confusion matrices
of h weighted by the basis functions.

=================  =====================================  ==================================
family             probe r                                moves
=================  =====================================  ==================================
Fixed              h + eps phi_l (e_r - h)                everything to class r, Eq. (12)
Departing          h + eps phi_l h_r (u_r - e_r)          class r to all others in equal shares
Reassigning        h + eps phi_l h_k (e_j - e_k)          class k to class j
Towards            one of Fixed or Reassigning per entry  mass to the entry (k, j)
=================  =====================================  ==================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from postshift._validation import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """How far the probes are from the base, and what they are built around.

    A probe is ``centre + reach phi_l M_r a`` with ``centre = (1 - share) h + share a``. The fixed probes have the
    base itself as anchor a and share 1, so the centre is the base. The constrained probes (Eq. (11)) have their own
    anchor and radius 1, and are mixed into the base by ``share``. Differences are taken to the centre: there the
    equations keep the good conditioning of the anchor.
    """

    radius: float
    share: float = 1.0

    @property
    def reach(self) -> float:
        """The size of the displacement; the equations are divided by it."""
        return self.radius * self.share


class ProbeFamily(Protocol):
    """A numbered family of ways to move predicted mass between the m classes."""

    def n_probes(self, n_classes: int) -> int:
        """Return the number of probes per basis function."""

    def displace(self, mass: FloatArray, probes: IntArray) -> FloatArray:
        """Return ``M_r mass`` along the last axis for each probe r: shape ``(len(probes), *mass.shape)``."""

    def displace_hits(self, mass: FloatArray, probes: IntArray) -> FloatArray:
        """Return the diagonals of ``M_r mass_l`` of each probe r, from mass (L, m, m): shape (len(probes), L, m)."""

    def slopes(self, mass: FloatArray, beta: FloatArray) -> FloatArray:
        """Return ``<beta, M_r mass_l>`` of every probe, from mass (L, R, m) and beta (R, m): shape (L, probes)."""

    def redraw(self, labels: IntArray, probe: int, uniform: FloatArray, *, n_classes: int) -> IntArray:
        """Return where hard predictions ``labels`` land when probe r moves them."""

    def describe(self, probe: int, *, n_classes: int) -> str:
        """Return what probe r does, in words."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Everything to class r: the fixed probes of Eq. (12)."""

    def n_probes(self, n_classes: int) -> int:
        """Return m: one per class."""
        return n_classes

    def displace(self, mass: FloatArray, probes: IntArray) -> FloatArray:
        """Return ``e_r sum(mass) - mass``."""
        moved = np.repeat(-mass[None], len(probes), axis=0)
        moved[np.arange(len(probes)), ..., probes] += mass.sum(axis=-1)
        return moved

    def displace_hits(self, mass: FloatArray, probes: IntArray) -> FloatArray:
        """Return the diagonals: all rows of class r become hits, those of the other classes are lost."""
        moved = np.repeat(-_diagonals(mass)[None], len(probes), axis=0)
        moved[np.arange(len(probes)), :, probes] += mass.sum(axis=-1)[:, probes].T
        return moved

    def slopes(self, mass: FloatArray, beta: FloatArray) -> FloatArray:
        """Return ``<beta, e_r sum(mass) - mass>``."""
        return np.asarray(mass.sum(axis=-1) @ beta - np.tensordot(mass, beta, axes=2)[:, None])

    def redraw(self, labels: IntArray, probe: int, uniform: FloatArray, *, n_classes: int) -> IntArray:  # noqa: ARG002
        """Return class r everywhere."""
        return np.full_like(labels, probe)

    def describe(self, probe: int, *, n_classes: int) -> str:  # noqa: ARG002
        """Return what the probe does, in words."""
        return f"everything to class {probe}"


@dataclass(frozen=True, slots=True)
class Departing:
    """Class r to all other classes in equal shares."""

    def n_probes(self, n_classes: int) -> int:
        """Return m: one per class."""
        return n_classes

    def displace(self, mass: FloatArray, probes: IntArray) -> FloatArray:
        """Return ``mass_r (u_r - e_r)``."""
        n_classes = mass.shape[-1]
        source = np.moveaxis(mass[..., probes], -1, 0)
        moved = np.repeat(source[..., None] / (n_classes - 1), n_classes, axis=-1)
        moved[np.arange(len(probes)), ..., probes] = -source
        return moved

    def displace_hits(self, mass: FloatArray, probes: IntArray) -> FloatArray:
        """Return the diagonals: hits of class r are lost, rows of the others that were predicted as r become hits."""
        moved = np.asarray(np.moveaxis(mass[..., probes], -1, 0) / (mass.shape[-1] - 1))
        moved[np.arange(len(probes)), :, probes] = -mass[:, probes, probes].T
        return moved

    def slopes(self, mass: FloatArray, beta: FloatArray) -> FloatArray:
        """Return ``<beta, mass_r (u_r - e_r)>``."""
        others = (beta.sum(axis=1, keepdims=True) - beta) / (beta.shape[1] - 1)
        return np.asarray(np.einsum("lij,ij->lj", mass, others - beta))

    def redraw(self, labels: IntArray, probe: int, uniform: FloatArray, *, n_classes: int) -> IntArray:
        """Return another class, drawn uniformly, where the label is r."""
        other = np.minimum((uniform * (n_classes - 1)).astype(np.intp), n_classes - 2)
        return np.where(labels == probe, other + (other >= probe), labels)

    def describe(self, probe: int, *, n_classes: int) -> str:  # noqa: ARG002
        """Return what the probe does, in words."""
        return f"class {probe} to the others"


@dataclass(frozen=True, slots=True)
class Reassigning:
    """Class k to class j, for every ordered pair of classes; probe r is the r-th pair (k, j), sorted by k, then j."""

    def n_probes(self, n_classes: int) -> int:
        """Return m (m - 1): one per ordered pair."""
        return n_classes * (n_classes - 1)

    def displace(self, mass: FloatArray, probes: IntArray) -> FloatArray:
        """Return ``mass_k (e_j - e_k)``."""
        source, target = self.pairs(probes, n_classes=mass.shape[-1])
        amount = np.moveaxis(mass[..., source], -1, 0)
        moved = np.zeros((len(probes), *mass.shape))
        moved[np.arange(len(probes)), ..., target] = amount
        moved[np.arange(len(probes)), ..., source] = -amount
        return moved

    def displace_hits(self, mass: FloatArray, probes: IntArray) -> FloatArray:
        """Return the diagonals: hits of class k are lost, rows of class j that were predicted as k become hits."""
        source, target = self.pairs(probes, n_classes=mass.shape[-1])
        moved = np.zeros((len(probes), len(mass), mass.shape[-1]))
        moved[np.arange(len(probes)), :, target] = mass[:, target, source].T
        moved[np.arange(len(probes)), :, source] = -mass[:, source, source].T
        return moved

    def slopes(self, mass: FloatArray, beta: FloatArray) -> FloatArray:
        """Return ``<beta, mass_k (e_j - e_k)>``."""
        n_classes = beta.shape[1]
        pulls = np.swapaxes(mass, 1, 2) @ beta  # (l, k, j)
        gains = pulls - np.einsum("lkk->lk", pulls)[:, :, None]
        source, target = self.pairs(np.arange(self.n_probes(n_classes)), n_classes=n_classes)
        return np.asarray(gains[:, source, target])

    def redraw(self, labels: IntArray, probe: int, uniform: FloatArray, *, n_classes: int) -> IntArray:  # noqa: ARG002
        """Return class j where the label is k."""
        source, target = self.pairs(np.array([probe]), n_classes=n_classes)
        return np.where(labels == source[0], target[0], labels)

    def describe(self, probe: int, *, n_classes: int) -> str:
        """Return what the probe does, in words."""
        source, target = self.pairs(np.array([probe]), n_classes=n_classes)
        return f"class {source[0]} to class {target[0]}"

    @staticmethod
    def pairs(probes: IntArray, *, n_classes: int) -> tuple[IntArray, IntArray]:
        """Return source and target class of each probe."""
        source, place = np.divmod(probes, n_classes - 1)
        return source, place + (place >= source)


@dataclass(frozen=True, slots=True)
class Towards:
    """Mass to each of some entries (k, j): class k to class j, and for (j, j) everything to class j."""

    pairs: tuple[tuple[int, int], ...]

    def n_probes(self, n_classes: int) -> int:  # noqa: ARG002
        """Return d: one per entry."""
        return len(self.pairs)

    def displace(self, mass: FloatArray, probes: IntArray) -> FloatArray:
        """Return the moves of each probe's entry."""
        moved = np.zeros((len(probes), *mass.shape))
        for move, probe in zip(moved, probes, strict=True):
            source, target = self.pairs[probe]
            leaves = np.arange(mass.shape[-1]) == source if source != target else np.ones(mass.shape[-1], dtype=bool)
            move[..., leaves] = -mass[..., leaves]
            move[..., target] += mass[..., leaves].sum(axis=-1)
        return moved

    def displace_hits(self, mass: FloatArray, probes: IntArray) -> FloatArray:
        """Return the diagonals of the moves."""
        return _diagonals(self.displace(mass, probes))

    def slopes(self, mass: FloatArray, beta: FloatArray) -> FloatArray:
        """Return ``<beta, M_r mass>``."""
        return np.asarray(np.einsum("rlij,ij->lr", self.displace(mass, np.arange(len(self.pairs))), beta))

    def redraw(self, labels: IntArray, probe: int, uniform: FloatArray, *, n_classes: int) -> IntArray:  # noqa: ARG002
        """Return class j where the label is k; everywhere for (j, j)."""
        source, target = self.pairs[probe]
        return np.where((labels == source) | (source == target), target, labels)

    def describe(self, probe: int, *, n_classes: int) -> str:  # noqa: ARG002
        """Return what the probe does, in words."""
        source, target = self.pairs[probe]
        return f"{f'class {source}' if source != target else 'everything'} to class {target}"


@dataclass(frozen=True, slots=True)
class Joined:
    """Two families one after the other."""

    first: ProbeFamily
    second: ProbeFamily

    def n_probes(self, n_classes: int) -> int:
        """Return the number of probes of both."""
        return self.first.n_probes(n_classes) + self.second.n_probes(n_classes)

    def displace(self, mass: FloatArray, probes: IntArray) -> FloatArray:
        """Return each family's displacements, in the order of ``probes``."""
        moved = np.empty((len(probes), *mass.shape))
        split = self.first.n_probes(mass.shape[-1])
        early = probes < split
        moved[early] = self.first.displace(mass, probes[early])
        moved[~early] = self.second.displace(mass, probes[~early] - split)
        return moved

    def displace_hits(self, mass: FloatArray, probes: IntArray) -> FloatArray:
        """Return the diagonals of each family's displacements, in the order of ``probes``."""
        moved = np.empty((len(probes), *mass.shape[:-1]))
        split = self.first.n_probes(mass.shape[-1])
        early = probes < split
        moved[early] = self.first.displace_hits(mass, probes[early])
        moved[~early] = self.second.displace_hits(mass, probes[~early] - split)
        return moved

    def slopes(self, mass: FloatArray, beta: FloatArray) -> FloatArray:
        """Return each family's slopes."""
        return np.concatenate([self.first.slopes(mass, beta), self.second.slopes(mass, beta)], axis=1)

    def redraw(self, labels: IntArray, probe: int, uniform: FloatArray, *, n_classes: int) -> IntArray:
        """Return what the probe's own family does."""
        family, own = self._owner(probe, n_classes)
        return family.redraw(labels, own, uniform, n_classes=n_classes)

    def describe(self, probe: int, *, n_classes: int) -> str:
        """Return what the probe does, in words."""
        family, own = self._owner(probe, n_classes)
        return family.describe(own, n_classes=n_classes)

    def _owner(self, probe: int, n_classes: int) -> tuple[ProbeFamily, int]:
        """Return the family of a probe and its number there."""
        split = self.first.n_probes(n_classes)
        return (self.first, probe) if probe < split else (self.second, probe - split)


def _diagonals(tables: FloatArray) -> FloatArray:
    """Return the diagonals (..., m) of tables (..., m, m)."""
    return np.diagonal(tables, axis1=-2, axis2=-1)

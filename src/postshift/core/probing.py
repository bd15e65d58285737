"""The probes of a run, as the looks see them: what is fixed, and what each probe changes.

A look mixes the probes into the iterate h: their centre is ``(1 - share) h + share a``, and a probe differs from the
centre by ``reach`` times a *move*. The anchor a is the iterate itself or a fixed classifier.

==================  =============================================  ======================================
probes              the move of probe r in basis function l        for
==================  =============================================  ======================================
DisplacedProbes     ``phi_l M_r a``                                Eq. (12); Eq. (11) for disjoint groups
ClassifierProbes    ``g_lr - a``, with a fixed classifier g_lr     Eq. (11) for any basis
==================  =============================================  ======================================

The looks see the validation rows through the iterate and through the *known* classifiers: the anchor, if it is not the
iterate, and then the probes that are classifiers of their own. These do not change during a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.core.draws import Draws, drawn_labels
from postshift.core.probes import ProbeFamily, ProbePlan
from postshift.core.sums import Classifier

Probe = tuple[()] | tuple[int, int]  # no probe: their centre; else basis function and number
Known = Callable[[int], FloatArray]  # the table (n, m) of a known classifier on the validation rows
_CHUNK = 1 << 21  # numbers held at once when all probes' confusion matrices are built


class Probing(Protocol):
    """The probes of a run.

    In all methods, ``seen`` (1 + known, 1 + K, R, m) holds confusion matrices: those of the iterate, then those of the
    known classifiers; of all rows, then of the rows weighted with each function.
    """

    @property
    def known(self) -> tuple[Classifier, ...]:
        """The classifiers that do not change: the anchor first; empty if the anchor is the iterate."""

    @property
    def share(self) -> float:
        """The share of the anchor in the centre."""

    @property
    def reach(self) -> float:
        """The size of the moves; the equations are divided by it."""

    def n_probes(self, n_classes: int) -> int:
        """Return the number of probes per basis function."""

    def describe(self, probe: int, *, n_classes: int) -> str:
        """Return what probe r does, in words."""

    def moves(self, seen: FloatArray) -> Iterator[FloatArray]:
        """Yield the moves of the confusion matrix, (L, some probes, R, m), for all probes."""

    def count_moves(self, seen: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the moves of the hits and of the column sums, (L, some probes, m) each, for all probes."""

    def slopes(self, seen: FloatArray, beta: FloatArray) -> FloatArray:
        """Return ``<beta, move>`` of every probe (L R,), for a gradient beta (R, m)."""

    def moved(self, base: FloatArray, known: Known, functions: FloatArray, probe: Probe) -> FloatArray:
        """Return the table (n, m) that is mixed into the iterate's table: the anchor's, or that of a probe."""

    def moved_labels(
        self, labels: IntArray, known: Known, functions: FloatArray, probe: Probe, *, draws: Draws, n_classes: int
    ) -> IntArray:
        """Return the labels that are mixed into the iterate's labels, by the draws of the iteration."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DisplacedProbes:
    """Probes that move mass of the anchor within one basis function.

    Attributes
    ----------
    family : ProbeFamily
        Which mass moves where.
    plan : ProbePlan
        How far the probes are from the iterate.
    anchor : Classifier, optional
        What the probes are built around; None for the iterate itself.
    """

    family: ProbeFamily
    plan: ProbePlan
    anchor: Classifier | None = None

    @property
    def known(self) -> tuple[Classifier, ...]:
        """The anchor, if it is not the iterate."""
        return () if self.anchor is None else (self.anchor,)

    @property
    def share(self) -> float:
        """The share of the anchor in the centre."""
        return self.plan.share

    @property
    def reach(self) -> float:
        """The size of the moves."""
        return self.plan.reach

    def n_probes(self, n_classes: int) -> int:
        """Return the number of probes per basis function."""
        return self.family.n_probes(n_classes)

    def describe(self, probe: int, *, n_classes: int) -> str:
        """Return what probe r does, in words."""
        return self.family.describe(probe, n_classes=n_classes)

    def moves(self, seen: FloatArray) -> Iterator[FloatArray]:
        """Yield the moves ``phi_l M_r a`` of the confusion matrix."""
        mass = seen[-1, 1:]
        for probes in self._chunks(mass.shape[-1], size=mass.size):
            yield np.swapaxes(self.family.displace(mass, probes), 0, 1)

    def count_moves(self, seen: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the moves of the hits and of the column sums."""
        mass = seen[-1, 1:]
        columns = mass.sum(axis=-2)
        for probes in self._chunks(mass.shape[-1], size=columns.size):
            hits, predicted = self.family.displace_hits(mass, probes), self.family.displace(columns, probes)
            yield np.swapaxes(hits, 0, 1), np.swapaxes(predicted, 0, 1)

    def _chunks(self, n_classes: int, *, size: int) -> Iterator[IntArray]:
        """Yield the numbers of the probes in chunks; a probe takes ``size`` numbers."""
        n_probes, step = self.n_probes(n_classes), max(1, _CHUNK // size)
        for first in range(0, n_probes, step):
            yield np.arange(first, min(first + step, n_probes))

    def slopes(self, seen: FloatArray, beta: FloatArray) -> FloatArray:
        """Return ``<beta, phi_l M_r a>``."""
        return self.family.slopes(seen[-1, 1:], beta).reshape(-1)

    def moved(self, base: FloatArray, known: Known, functions: FloatArray, probe: Probe) -> FloatArray:
        """Return the anchor's table, or ``a + radius phi_l M_r a``."""
        around = base if self.anchor is None else known(0)
        if not probe:
            return around
        basis, number = probe
        direction = self.family.displace(around, np.array([number]))[0]
        return np.asarray(around + self.plan.radius * functions[:, [basis]] * direction)

    def moved_labels(
        self, labels: IntArray, known: Known, functions: FloatArray, probe: Probe, *, draws: Draws, n_classes: int
    ) -> IntArray:
        """Return the anchor's labels, or where the probe moves them."""
        around = labels if self.anchor is None else np.argmax(known(0), axis=1)
        if not probe:
            return around
        basis, number = probe
        landed = self.family.redraw(around, number, draws.land, n_classes=n_classes)
        # move is uniform: below share the anchor is taken, below share * radius * phi the probe moves it.
        return np.where(draws.move < self.reach * functions[:, basis], landed, around)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassifierProbes:
    """Probes that are classifiers of their own.

    Attributes
    ----------
    anchor : Classifier
        The classifier that the probes are compared with.
    classifiers : tuple of Classifier
        The probes: those of the first basis function, then those of the next.
    n_terms : int
        The number of probes per basis function.
    share : float
        The share of a probe in the iterate with the probe.
    """

    anchor: Classifier
    classifiers: tuple[Classifier, ...]
    n_terms: int
    share: float

    @property
    def known(self) -> tuple[Classifier, ...]:
        """The anchor and the probes."""
        return (self.anchor, *self.classifiers)

    @property
    def reach(self) -> float:
        """The size of the moves: the share."""
        return self.share

    def n_probes(self, n_classes: int) -> int:  # noqa: ARG002
        """Return the number of probes per basis function."""
        return self.n_terms

    def describe(self, probe: int, *, n_classes: int) -> str:  # noqa: ARG002
        """Return what probe r does, in words."""
        return f"a share of the constrained probe {probe}"

    def moves(self, seen: FloatArray) -> Iterator[FloatArray]:
        """Yield the moves ``g_lr - a`` of the confusion matrix."""
        yield (seen[2:, 0] - seen[1, 0])[None]

    def count_moves(self, seen: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the moves of the hits and of the column sums."""
        for moves in self.moves(seen):
            yield np.diagonal(moves, axis1=-2, axis2=-1), moves.sum(axis=-2)

    def slopes(self, seen: FloatArray, beta: FloatArray) -> FloatArray:
        """Return ``<beta, g_lr - a>``."""
        return np.tensordot(seen[2:, 0] - seen[1, 0], beta, axes=2)

    def moved(self, base: FloatArray, known: Known, functions: FloatArray, probe: Probe) -> FloatArray:  # noqa: ARG002
        """Return the table of the anchor or of a probe."""
        return known(self._place(probe))

    def moved_labels(
        self,
        labels: IntArray,  # noqa: ARG002
        known: Known,
        functions: FloatArray,  # noqa: ARG002
        probe: Probe,
        *,
        draws: Draws,
        n_classes: int,  # noqa: ARG002
    ) -> IntArray:
        """Return labels of the anchor or of a probe; both take the same draws."""
        return drawn_labels(known(self._place(probe)), draws.land)

    def _place(self, probe: Probe) -> int:
        """Return the place among the known classifiers: 0 is the anchor."""
        if not probe:
            return 0
        basis, number = probe
        return 1 + basis * self.n_terms + number

"""The constrained probing classifiers of Eq. (11), for any basis and any weighting.

Probe (l, i) hits its own entry often, at least gamma, and every other entry rarely, at most omega. There are two
constructions, both of the appendix:

*Disjoint groups, weights on the diagonal.* Probe (l, i) predicts class i on group l and, everywhere else, an *anchor*:
a classifier with as few hits as a post-shift of eta can have. The anchor predicts ``argmin_j w_lj eta_j`` in group l;
the paper prints argmax, which contradicts its own binary case and its own line search. The weights come from one line
search per group and class against the last class. Two facts make it cheap and safe: along the search one hit count
falls and the other rises, so bisection finds the crossing with one pass over the data per step for all groups and
classes at once; and the combined argmin hits no class more often than its pairs do.

*Any other basis or weighting.* The anchor and each probe are solutions of a rate program
(:mod:`postshift.core.rate_program`), with eta in place of the labels:

    anchor         minimise the largest entry
    probe (l, i)   maximise entry (l, i), every other entry at most omega

One program serves all: a rule that was found for one probe is known to the next. The entries are those that have
weights: (l, i) for the diagonal, (l, i, j) for the whole matrix (Appendix A).

Often many classifiers have the largest entry (l, i): if basis functions are nested, two entries may even share a probe.
So what the other entries have above the anchor's has a small price, and of nearly equal probes the one that differs
least from the anchor elsewhere is taken. Omega is relaxed in steps until some classifier has all entries below it; for
one probe, also while its entry is less than gamma / omega times omega and a step brings it closer. Otherwise the limits
could leave no room, and every probe would be the anchor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from postshift._validation import FloatArray
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.core.probes import ProbeFamily, ProbePlan
from postshift.core.probing import ClassifierProbes, DisplacedProbes, Probing
from postshift.core.rate_program import Limits, RateProgram, RateSolution
from postshift.core.sums import Classifier, Engine, LabelSums
from postshift.core.weighting import DIAGONAL, Weighting
from postshift.exceptions import BasisError, SettingError

_BISECTIONS = 44  # down to 6e-14: finer than ratios of probabilities differ, coarser than their rounding
_RELAXATION = 0.9  # gamma is multiplied, omega divided by it, until Eq. (11) holds
_GAP = 1e-3  # of a probe's entry, as a share of the largest that any classifier reaches; small beside the price
_PRICE = 0.1  # of the mean by which the other entries are above the anchor's: it decides among nearly equal probes
_ROUNDING = 1e-9  # the limits of the program hold up to this
_CLOSER = 1.001  # a step of omega that raises the ratio of the entry to omega by less is not taken


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConstrainedProbes:
    """The anchor, and the gamma (``min_hit``) and omega (``max_leak``) of Eq. (11) that were reached.

    For disjoint groups, the anchor is all that the probes need. Otherwise ``classifiers`` are the probes, one for each
    entry that has a weight, and ``sigma`` has the entries of each probe minus those of the anchor.
    """

    anchor: PlugIn | Mixture
    min_hit: float
    max_leak: float
    requested_min_hit: float
    requested_max_leak: float
    classifiers: tuple[Mixture, ...] = ()
    sigma: FloatArray | None = None

    @property
    def relaxed(self) -> bool:
        """Whether the requested values could not be met."""
        return self.min_hit < self.requested_min_hit or self.max_leak > self.requested_max_leak

    def mixed_in(self, share: float, *, family: ProbeFamily) -> Probing:
        """Return the probes with this share in the iterate; groups use the moves of ``family``."""
        if self.sigma is None:
            return DisplacedProbes(family=family, plan=ProbePlan(radius=1.0, share=share), anchor=self.anchor)
        n_terms = len(self.classifiers) // self.anchor.n_bases
        return ClassifierProbes(anchor=self.anchor, classifiers=self.classifiers, n_terms=n_terms, share=share)


def constrained_probes(
    train: Engine, *, min_hit: float, max_leak: float, weighting: Weighting = DIAGONAL
) -> ConstrainedProbes:
    """Return probing classifiers that satisfy Eq. (11), with gamma and omega relaxed in steps if needed.

    The constraints apply to the probes before they are mixed into the base classifier: after mixing,
    the base's own hits, which the equations of differences remove, would count as leaks.

    Parameters
    ----------
    train : Engine
        The engine that holds the training rows with labels.
    min_hit, max_leak : float
        gamma and omega.
    weighting : Weighting
        Which confusion entries get weights.
    """
    if not 0 < max_leak < min_hit < 1:
        raise SettingError(
            f"max_leak and min_hit must satisfy 0 < max_leak < min_hit < 1. Got {max_leak!r} and {min_hit!r} instead"
        )
    labels = train.label_sums()
    if weighting.name == DIAGONAL.name and _are_disjoint(labels):
        return _group_probes(train, labels, min_hit=min_hit, max_leak=max_leak)
    return _program_probes(train, weighting, min_hit=min_hit, max_leak=max_leak)


def _relaxed(hits: FloatArray, leaks: FloatArray, *, min_hit: float, max_leak: float) -> dict[str, Any]:
    """Return the requested values, and those that all probes meet: relaxed in steps; gamma 0 if a probe never hits."""
    reached_hit, reached_leak = min_hit if hits.min() > 0 else 0.0, max_leak
    while reached_hit > hits.min():
        reached_hit *= _RELAXATION
    while reached_leak < leaks.max():
        reached_leak /= _RELAXATION
    return {
        "min_hit": reached_hit,
        "max_leak": reached_leak,
        "requested_min_hit": min_hit,
        "requested_max_leak": max_leak,
    }


# -- disjoint groups ------------------------------------------------------------------------------------------


def _are_disjoint(labels: LabelSums) -> bool:
    """Return whether the basis functions are indicators of disjoint groups."""
    own = np.einsum("lli->li", labels.pair)
    overlap = labels.pair.sum(axis=2) - np.diag(own.sum(axis=1))
    return bool(np.abs(own - labels.single).max() <= 1e-9 * labels.total and overlap.max() <= 1e-9 * labels.total)


def _group_probes(train: Engine, labels: LabelSums, *, min_hit: float, max_leak: float) -> ConstrainedProbes:
    """Return the probes for disjoint groups: class i on group l, the anchor elsewhere."""
    anchor = PlugIn(weighting=DIAGONAL, alpha=-_anchor_weights(train), n_classes=train.n_classes)
    hits = labels.single / labels.total
    leaks = train.classifier_sums(anchor, confusions=False).single / labels.total
    if train.n_bases == 1:
        leaks = np.zeros_like(leaks)  # with a single group, the anchor is never predicted
    if not hits.all():
        group, label = np.argwhere(hits == 0)[0]
        raise BasisError(
            f"group {group} has no training row of class {label}, so no probe can hit it and no min_hit can be met: "
            "use fewer groups or the fixed probes"
        )
    return ConstrainedProbes(anchor=anchor, **_relaxed(hits, leaks, min_hit=min_hit, max_leak=max_leak))


def _anchor_weights(train: Engine) -> FloatArray:
    """Return w (L, m) with few hits of ``argmin_j w_lj eta_j``; the last class has weight 1."""
    reference = train.n_classes - 1
    low = np.zeros((train.n_bases, train.n_classes))  # zeta = 0: always the other class
    high = np.ones_like(low)  # zeta = 1: never
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        found = train.pair_hits(_ratio(middle), reference=reference)
        crossed = found.reference >= found.own
        low, high = np.where(crossed, low, middle), np.where(crossed, middle, high)
    worst_low, worst_high = _worst(train, low, reference), _worst(train, high, reference)
    weights = _ratio(np.where(worst_low < worst_high, low, high))
    weights[:, reference] = 1
    return weights


def _worst(train: Engine, zeta: FloatArray, reference: int) -> FloatArray:
    """Return the larger of the two hit counts of each pair, (L, m)."""
    found = train.pair_hits(_ratio(zeta), reference=reference)
    return np.maximum(found.own, found.reference)


def _ratio(zeta: FloatArray) -> FloatArray:
    """Return ``zeta / (1 - zeta)``, finite at 1."""
    return zeta / np.maximum(1 - zeta, np.finfo(float).tiny)


# -- any basis ------------------------------------------------------------------------------------------------


class _Rates:
    """The rates of a rule, with eta in place of the labels; the rates with the labels are kept beside them."""

    def __init__(self, train: Engine) -> None:
        self._train = train
        self.labelled: list[FloatArray] = []

    def __call__(self, rule: Classifier) -> FloatArray:
        """Return the rates (L, m, m) of a rule, in one pass."""
        n_bases, n_classes = self._train.n_bases, self._train.n_classes
        look = self._train.look(rule, influence=True)
        both = look[1:].reshape(n_bases, n_classes, n_classes, n_classes) / look[0].sum()  # (l, eta, label, predicted)
        self.labelled.append(both.sum(axis=1))
        return np.asarray(both.sum(axis=2))


def _program_probes(train: Engine, weighting: Weighting, *, min_hit: float, max_leak: float) -> ConstrainedProbes:
    """Return the probes for any basis and weighting, by the rate program."""
    entries = _entries(weighting, n_bases=train.n_bases, n_classes=train.n_classes)
    rates = _Rates(train)
    every = Limits(
        coefficients=entries,
        bounds=np.zeros(len(entries)),
        names=tuple(f"entry {place}" for place in range(len(entries))),
        slacks=np.zeros(len(entries), dtype=np.intp),
        costs=np.ones(1),
    )
    size = {"n_bases": train.n_bases, "n_classes": train.n_classes}
    program = RateProgram(rates, **size, limits=every, tol=_GAP * max_leak)
    anchor = program.maximise(np.zeros(entries.shape[1:]))  # its slack is the largest entry
    omega = max_leak
    while omega < -anchor.value:
        omega /= _RELAXATION
    contrast = min_hit / max_leak
    probes = [
        _probe(program, entries, place, level=anchor.rates, omega=omega, contrast=contrast)
        for place in range(len(entries))
    ]

    def reached(found: RateSolution) -> FloatArray:
        """Return the entries of a solution, by the labels."""
        labelled = np.tensordot(found.shares, np.stack(rates.labelled[: len(found.shares)]), axes=1)
        return np.asarray(np.tensordot(entries, labelled, axes=3))

    table = np.stack([reached(found) for found in probes])
    leaks = table[~np.eye(len(table), dtype=bool)] - _ROUNDING
    return ConstrainedProbes(
        anchor=anchor.mixture,
        **_relaxed(np.diag(table), leaks, min_hit=min_hit, max_leak=max_leak),
        classifiers=tuple(found.mixture for found in probes),
        sigma=table - reached(anchor),
    )


def _entries(weighting: Weighting, *, n_bases: int, n_classes: int) -> FloatArray:
    """Return the entries that have weights as coefficients of rates: (L P, L, m, m)."""
    terms = weighting.weight_matrices(np.eye(weighting.n_terms(n_classes)), n_classes)
    entries = np.einsum("lk,pij->lpkij", np.eye(n_bases), terms)
    return np.asarray(entries.reshape(-1, n_bases, n_classes, n_classes))


def _probe(
    program: RateProgram, entries: FloatArray, place: int, *, level: FloatArray, omega: float, contrast: float
) -> RateSolution:
    """Return the solution with the largest entry of this place, and every other entry at most omega.

    Omega is relaxed in steps while the entry is less than ``contrast`` times omega, and a step brings it closer.
    """
    own, others = entries[place], np.delete(entries, place, axis=0)
    tol = _GAP * max(float(np.sum(own * rates)) for rates in program.columns)  # a constant rule reaches the most
    best, ratio = None, 0.0
    while True:
        limits = _limits(others, level=level, omega=omega)
        found = program.with_limits(limits, tol=tol).maximise(own)
        reached = float(np.sum(own * found.rates)) / omega
        if best is not None and reached <= _CLOSER * ratio:
            return best
        if reached >= contrast:
            return found
        best, ratio, omega = found, reached, omega / _RELAXATION


def _limits(others: FloatArray, *, level: FloatArray, omega: float) -> Limits:
    """Return the limits of a probe: each other entry is at most omega, and has a price above the anchor's level."""
    n_others = len(others)
    names = [f"entry {other}" for other in range(n_others)]
    return Limits(
        coefficients=np.concatenate([others, others]),
        bounds=np.concatenate([np.full(n_others, omega), np.tensordot(others, level, axes=3)]),
        names=(*names, *(f"{name} above the anchor" for name in names)),
        slacks=np.concatenate([np.full(n_others, -1), np.arange(n_others)]),
        costs=np.full(n_others, _PRICE / (n_others + 1)),
    )

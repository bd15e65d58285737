"""The constrained probing classifiers of Eq. (11), by the constructions of the appendix for disjoint groups.

Probe (l, i) predicts class i on group l and, everywhere else, an *anchor*: a classifier with as few hits as
a post-shift of eta can have. The anchor predicts ``argmin_j w_lj eta_j`` in group l; the paper prints argmax,
which contradicts its own binary case and its own line search. The weights come from one line search per
group and class against the last class. Two facts make it cheap and safe: along the search one hit count
falls and the other rises, so bisection finds the crossing with one pass over the data per step for all
groups and classes at once; and the combined argmin hits no class more often than its pairs do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from postshift._validation import FloatArray
from postshift.core.plugin import PlugIn
from postshift.core.sums import Engine, LabelSums
from postshift.core.weighting import DIAGONAL
from postshift.exceptions import BasisError, SettingError

_BISECTIONS = 44  # down to 6e-14: finer than ratios of probabilities differ, coarser than their rounding
_RELAXATION = 0.9  # gamma is multiplied, omega divided by it, until Eq. (11) holds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConstrainedProbes:
    """The anchor, and the gamma (``min_hit``) and omega (``max_leak``) of Eq. (11) that were reached."""

    anchor: PlugIn
    min_hit: float
    max_leak: float
    requested_min_hit: float
    requested_max_leak: float

    @property
    def relaxed(self) -> bool:
        """Whether the requested values could not be met."""
        return self.min_hit < self.requested_min_hit or self.max_leak > self.requested_max_leak


def constrained_probes(train: Engine, *, min_hit: float, max_leak: float) -> ConstrainedProbes:
    """Return probing classifiers that satisfy Eq. (11), with gamma and omega relaxed in steps if needed.

    The constraints apply to the probes before they are mixed into the base classifier: after mixing,
    the base's own hits, which the equations of differences remove, would count as leaks.
    """
    if not 0 < max_leak < min_hit < 1:
        raise SettingError(
            f"max_leak and min_hit must satisfy 0 < max_leak < min_hit < 1. Got {max_leak!r} and {min_hit!r} instead"
        )
    labels = train.label_sums()
    _check_disjoint(labels)
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
    reached_hit, reached_leak = min_hit, max_leak
    while reached_hit > hits.min():
        reached_hit *= _RELAXATION
    while reached_leak < leaks.max():
        reached_leak /= _RELAXATION
    return ConstrainedProbes(
        anchor=anchor,
        min_hit=reached_hit,
        max_leak=reached_leak,
        requested_min_hit=min_hit,
        requested_max_leak=max_leak,
    )


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


def _check_disjoint(labels: LabelSums) -> None:
    """Raise if basis functions overlap or are not indicators: the constructions are for groups."""
    own = np.einsum("lli->li", labels.pair)
    overlap = labels.pair.sum(axis=2) - np.diag(own.sum(axis=1))
    if np.abs(own - labels.single).max() > 1e-9 * labels.total or overlap.max() > 1e-9 * labels.total:
        raise BasisError(
            "constrained probes need a basis of disjoint groups (columns of 0 and 1, one 1 per row); "
            "use the fixed probes for overlapping or soft bases"
        )

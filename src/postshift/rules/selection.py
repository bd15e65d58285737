"""Which rules of the menu are kept, and with what weight: selected by the labels of some rows, judged on others.

*Averaging* weighs rule c by ``exp((M_c - M_best) / (2 sigma))``, where M is the score on rows not used for the fit, and
sigma is the noise of the differences under exponential reweightings of the rows. *Choosing* takes the best rule. The
weights and the votes are chosen by labels, so a score on the same labels is too optimistic: each part of the rows is
labelled by the selection of the other parts. Nothing is refitted for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.rules.scoring import OutOfFold, reweighted_values, shrunk_value

How = Literal["average", "best", "only"]
REWEIGHTINGS = 40
VOTES_FROM = 2000  # validation rows; with fewer, averaged scores are safer than votes


@dataclass(frozen=True, kw_only=True, eq=False)
class Selection:
    """The weight of every rule, and whether labels are voted instead of averaging scores."""

    weights: FloatArray
    votes: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Selector:
    """Selects rules by the rows it is given.

    ``passes`` hold the same rows, labelled with different folds. The parts are those of the first pass.
    """

    how: How
    passes: Sequence[OutOfFold]
    seed: int

    def selected(self) -> Selection:
        """Return the selection by all rows."""
        return self._by(np.arange(len(self.passes[0].rows)))

    def labels_by_others(self) -> IntArray:
        """Return labels (n,) of all rows: each part is labelled by the selection of the other parts."""
        first = self.passes[0]
        if self.how == "only":
            return np.asarray(first.labels[-1])
        labels = np.empty(len(first.rows), dtype=np.intp)
        for part in np.unique(first.parts):
            here = np.flatnonzero(first.parts == part)
            chosen = self._by(np.flatnonzero(first.parts != part))
            labels[here] = first.take(here).averaged(chosen.weights, votes=chosen.votes)
        return labels

    def _by(self, rows: IntArray) -> Selection:
        """Return the selection by some rows."""
        passes = [each.take(rows) for each in self.passes]
        n_entries = len(passes[0].labels)
        if self.how == "only":
            return Selection(weights=np.eye(n_entries)[-1])
        values = np.mean([each.values() for each in passes], axis=0)
        if self.how == "best":
            return Selection(weights=np.eye(n_entries)[int(np.argmax(values))])
        weights = average_weights(values, self._noise(passes[0], rows, best=int(np.argmax(values))))
        return Selection(weights=weights, votes=self._votes(passes[0], weights))

    def _votes(self, scored: OutOfFold, weights: FloatArray) -> bool:
        """Return whether voted labels score higher than averaged scores."""
        if len(self.passes[0].rows) < VOTES_FROM:
            return False
        ways = [shrunk_value(scored.problem, scored.averaged(weights, votes=votes)) for votes in (False, True)]
        return ways[1] > ways[0]

    def _noise(self, scored: OutOfFold, rows: IntArray, *, best: int) -> float:
        """Return the median over rules of the spread of ``M_best - M_c`` under reweightings of the rows."""
        table = reweighted_values(scored.problem, scored.labels, self._reweightings[:, rows])
        spread = (table[:, [best]] - table).std(axis=0)
        return float(np.median(np.delete(spread, best))) if len(spread) > 1 else 0.0

    @cached_property
    def _reweightings(self) -> FloatArray:
        """Exponential weights (B, n), the same for every selection."""
        rng = np.random.default_rng([self.seed, 1])
        return np.asarray(rng.exponential(size=(REWEIGHTINGS, len(self.passes[0].rows))))


def average_weights(values: FloatArray, noise: float) -> FloatArray:
    """Return ``exp((M_c - M_best) / (2 sigma))``, normalised."""
    gaps = values - values.max()
    raw = np.exp(gaps / (2 * noise)) if noise > 0 else (gaps == 0).astype(np.float64)
    return np.asarray(raw / raw.sum())

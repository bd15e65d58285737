"""The chance to see a gain: how often the verdict on a rule is "worth it", given expected shares of rows in cells.

A rule is compared with the base on the same rows, and is "worth it" if the interval of the gain is above 0
(:mod:`postshift.rules.verdict`). The rows are in cells: category, label of the rule, label of the base. A row in a cell
moves the gain by its influence, to first order, so the gain of n rows is about normal around the gain of the shares,
and its variance is that of the influence over n. The interval also counts a few prior rows, which draw it towards 0.
For a metric with kinks, such as a minimum, samples are simulated instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from postshift._validation import FloatArray
from postshift.core.psi import ConfusionMetric, value_of
from postshift.metrics.gaps import GapMetric
from postshift.metrics.penalised import Penalised
from postshift.rules.verdict import DRAWS, prior_cells

N_SIMULATED = 400  # samples, for a metric that is not smooth
_AT_ONCE = 1 << 22  # cells in memory at once
_STEP = 1e-6  # share of rows that moves to a cell for its influence


@dataclass(frozen=True, kw_only=True, eq=False)
class GainChance:
    """The chance to see a gain of a rule whose expected shares of rows are ``cells`` (R, m, m).

    ``gain`` is the gain to see; by default the one of the cells.
    """

    metric: ConfusionMetric
    cells: FloatArray
    confidence: float
    gain: float | None = None

    def __call__(self, n_rows: int, *, n_simulated: int = N_SIMULATED) -> float:
        """Return the chance that the interval of the gain is above 0."""
        if has_kinks(self.metric):
            return self._simulated(n_rows, n_simulated)
        return self._by_influences(n_rows)

    @property
    def _shift(self) -> float:
        """By how much the gain to see is above that of the cells."""
        return 0.0 if self.gain is None else self.gain - gain_of(self.metric, self.cells)

    def _by_influences(self, n_rows: int) -> float:
        """Return the chance to first order."""
        prior = self._prior
        n_prior = float(prior.sum())
        kept = n_rows / (n_rows + n_prior)
        blended = kept * self.cells + prior / (n_rows + n_prior)
        middle = gain_of(self.metric, blended) + kept * self._shift
        apart, variance = _influences(self.metric, blended)
        n_all = n_rows + n_prior
        spread = float(np.sqrt(variance / n_all))
        reach = float(stats.norm.ppf((1 + self.confidence) / 2))
        # The draws are skewed: rows have exponential weights. Cornish and Fisher's expansion gives their quantile.
        skewness = 2 * float(np.sum(blended * apart**3)) / (variance**1.5 * np.sqrt(n_all))
        low = middle - spread * (reach - (reach**2 - 1) / 6 * skewness)
        # A row also moves the spread, by half of what it adds to the variance.
        moved = apart - reach * (apart**2 - variance) / (2 * spread * n_all)
        error = kept * float(np.sqrt(np.sum(self.cells * moved**2) / n_rows))
        return float(stats.norm.cdf(low / max(error, 1e-300)))

    def _simulated(self, n_rows: int, n_simulated: int) -> float:
        """Return the share of simulated samples whose interval is above 0, as the verdict computes it."""
        rng = np.random.default_rng(0)
        flat, prior = self.cells.reshape(-1), self._prior.reshape(-1)
        at_once = max(1, _AT_ONCE // (DRAWS * flat.size))
        seen = 0
        for done in range(0, n_simulated, at_once):
            counts = rng.multinomial(n_rows, flat / flat.sum(), size=min(at_once, n_simulated - done))
            masses = rng.standard_gamma((counts + prior)[:, None], size=(len(counts), DRAWS, flat.size))
            drawn = (masses / masses.sum(axis=-1, keepdims=True)).reshape(len(counts), DRAWS, *self.cells.shape)
            gains = value_of(self.metric, drawn.sum(axis=-1)) - value_of(self.metric, drawn.sum(axis=-2))
            seen += int(np.count_nonzero(np.quantile(gains, (1 - self.confidence) / 2, axis=1) + self._shift > 0))
        return seen / n_simulated

    @property
    def _prior(self) -> FloatArray:
        """The prior rows of the comparison in each cell (R, m, m)."""
        categories, labels, base = np.nonzero(self.cells > 0)
        found = prior_cells(
            categories,
            labels,
            base,
            shares=self.cells[categories, labels, base],
            predicted=self.cells.sum(axis=(0, 2)) + self.cells.sum(axis=(0, 1)),
            of_recalls=self.metric.weighting == "diagonal",
        )
        prior = np.zeros(self.cells.shape)
        np.add.at(prior, found[:3], found[3])
        return prior


def has_kinks(metric: ConfusionMetric) -> bool:
    """Return whether a metric is a minimum, or has a penalty for a gap: influences do not describe it well."""
    return hasattr(metric, "smoothed") or isinstance(metric, Penalised | GapMetric)


def gain_of(metric: ConfusionMetric, cells: FloatArray) -> float:
    """Return the metric of the rule minus that of the base."""
    return float(value_of(metric, cells.sum(axis=2)) - value_of(metric, cells.sum(axis=1)))


def _influences(metric: ConfusionMetric, cells: FloatArray) -> tuple[FloatArray, float]:
    """Return the influence of a row in each cell (R, m, m) on the gain, with mean 0, and its variance."""
    ours, theirs = (_influence(metric, cells.sum(axis=axis)) for axis in (2, 1))
    apart = ours[:, :, None] - theirs[:, None, :]
    apart = apart - np.sum(cells * apart)
    return apart, max(float(np.sum(cells * apart**2)), 1e-300)


def _influence(metric: ConfusionMetric, confusion: FloatArray) -> FloatArray:
    """Return how a metric moves towards each cell (R, m), per share of rows that moves there."""
    moved = (1 - _STEP) * confusion + _STEP * np.eye(confusion.size).reshape(-1, *confusion.shape)
    slopes = (value_of(metric, moved) - value_of(metric, confusion)) / _STEP
    return np.asarray(slopes.reshape(confusion.shape))

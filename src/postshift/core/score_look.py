"""The look at scores of predictions: for oracles that score soft or hard predictions.

Hard labels are drawn, and base and probes share their draws. Two labellings that are drawn independently differ on many
rows by chance, and this noise hides the difference in the metric. Here a row keeps its draws for the base and for every
probe of an iteration, so a probe differs from the base only where it moved mass. The draws are a low-discrepancy
sequence along the rows sorted by their probabilities (a Kronecker sequence with a random shift): each draw alone is
uniform, and the rows that a probe moves are spread evenly over easy and hard rows alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.core.frank_wolfe import Newest
from postshift.core.probes import ProbeFamily, ProbePlan
from postshift.core.queries import Fit, Kind, Query
from postshift.core.rows import Rows
from postshift.core.sums import Classifier

Probe = tuple[()] | tuple[int, int]  # no probe: their centre; else basis function and number
ROUNDING = 1e-14  # of a metric, relative
# Over 200 neighbouring rows, the share that a probe moves has a fifth of the noise of independent draws, and the
# share of one label that it moves less than half. The golden ratio, the most even, is for the moves.
_STRIDES = np.array([np.sqrt(2) - 1, (np.sqrt(5) - 1) / 2, np.sqrt(3) - 1])


class ScoreLook:
    """Looks at the scores of the iterate and of each probe, with soft or hard predictions.

    A view is a pair: the table of h^t on the validation rows, and the scores.

    Parameters
    ----------
    val : Rows
        eta and phi of the validation rows.
    kind : Kind
        What the oracle is shown.
    functions : array of shape (n, K)
        The functions of the probes: phi, or the features of influence regression.
    family, plan
        The probes.
    rows : array of int, optional
        The rows that are asked about; None for all.
    anchor : Classifier, optional
        What the probes are built around; None for the iterate itself.
    seed : int
        Seed of the draws of hard labels.
    """

    def __init__(
        self,
        val: Rows,
        *,
        kind: Kind,
        functions: FloatArray,
        family: ProbeFamily,
        plan: ProbePlan,
        rows: IntArray | None,
        anchor: Classifier | None,
        seed: int,
    ) -> None:
        self._val, self._kind, self._functions, self._family, self._plan = val, kind, functions, family, plan
        self._rows, self._seed = rows, seed
        self._n_probes = family.n_probes(val.n_classes)
        self._anchor = None if anchor is None else anchor.distribution(val.eta, val.phi)
        self._n_before = 1 if anchor is None else 2  # the iterate and, if it differs, the centre
        self._ranks = even_order(val.eta)
        self.asked: set[str] = set()

    def n_queries(self, *, first: bool, last: bool) -> int:  # noqa: ARG002
        """Return one query for the iterate and, unless it is the last, one per probe (and one for their centre)."""
        return 1 if last else self._n_before + self._functions.shape[1] * self._n_probes

    def at(self, newest: Newest, previous: tuple[FloatArray, FloatArray] | None) -> Fit[tuple[FloatArray, FloatArray]]:
        """Ask for the score of the iterate and of every probe."""
        table = newest.classifier.distribution(self._val.eta, self._val.phi)
        if previous is not None:
            table = (1 - newest.step) * previous[0] + newest.step * table
        queries = self._queries(table, newest)
        self.asked = set() if previous is None else self.asked
        self.asked |= {query.fingerprint() for query in queries}
        answers = yield queries
        return table, np.array(answers, dtype=np.float64)

    def score(self, view: tuple[FloatArray, FloatArray]) -> float:
        """Return the iterate's score."""
        return float(view[1][0])

    def gains(self, view: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Return each probe's score minus that of their centre."""
        _, scores = view
        return np.asarray((scores[self._n_before :] - scores[self._n_before - 1]) / self._plan.reach)

    def rounding(self, view: tuple[FloatArray, FloatArray]) -> float:
        """Return the rounding error of differences of the scores."""
        return ROUNDING * float(np.abs(view[1]).max()) / self._plan.reach

    def _queries(self, table: FloatArray, newest: Newest) -> list[Query]:
        """Return the queries of a look."""
        t = newest.iteration
        predict = partial(self._soft, table) if self._kind.soft else self._hard(table, t)
        asked = [self._query(f"{t}:base", f"the score of iterate {t}", partial(predict, None))]
        if newest.last:
            return asked
        if self._anchor is not None:
            asked.append(self._query(f"{t}:centre", f"the centre of the probes {t}", partial(predict, ())))
        for basis in range(self._functions.shape[1]):
            for probe in range(self._n_probes):
                move = self._family.describe(probe, n_classes=self._val.n_classes)
                text = f"the score of iterate {t} with {move} in basis function {basis}"
                asked.append(self._query(f"{t}:{basis}.{probe}", text, partial(predict, (basis, probe))))
        return asked

    def _query(self, key: str, text: str, predict: Callable[[], Any]) -> Query:
        """Return a query about one classifier, on the rows that are asked about."""
        rows = slice(None) if self._rows is None else self._rows
        return Query(
            key=key,
            kind=self._kind.name,
            text=text,
            n_rows=self._val.n_rows,
            rows=self._rows,
            _predict=lambda: predict()[rows],
        )

    def _soft(self, table: FloatArray, probe: Probe | None) -> FloatArray:
        """Return the distribution of the iterate (None), of the centre (no probe) or of a probe."""
        if probe is None:
            return table
        around = moved = table if self._anchor is None else self._anchor
        if probe:
            basis, number = probe
            direction = self._family.displace(around, np.array([number]))[0]
            moved = around + self._plan.radius * self._functions[:, [basis]] * direction
        return np.asarray((1 - self._plan.share) * table + self._plan.share * moved)

    def _hard(self, table: FloatArray, iteration: int) -> Callable[[Probe | None], IntArray]:
        """Return the function that gives labels of the iterate and its probes, with this iteration's draws."""
        draws = shared_draws(self._ranks, seed=self._seed, iteration=iteration)
        return partial(self._moved, draws, drawn_labels(table, draws.take))

    def _moved(self, draws: Draws, labels: IntArray, probe: Probe | None) -> IntArray:
        """Return labels of the iterate, the centre or a probe; all take the same draws row by row."""
        if probe is None:
            return labels
        around = moved = labels if self._anchor is None else np.argmax(self._anchor, axis=1)
        if probe:
            basis, number = probe
            landed = self._family.redraw(around, number, draws.land, n_classes=self._val.n_classes)
            # move is uniform: below share the anchor is taken, below share * radius * phi the probe moves it.
            moved = np.where(draws.move < self._plan.reach * self._functions[:, basis], landed, around)
        return np.where(draws.move < self._plan.share, moved, labels)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draws:
    """Three uniforms per row: which label the base takes, whether a probe moves it, where it lands."""

    take: FloatArray
    move: FloatArray
    land: FloatArray


def even_order(eta: FloatArray) -> IntArray:
    """Return the rank of each row when rows are sorted by predicted class, then by its probability."""
    top = np.argmax(eta, axis=1)
    order = np.lexsort((eta[np.arange(len(eta)), top], top))
    ranks = np.empty(len(eta), dtype=np.intp)
    ranks[order] = np.arange(len(eta))
    return ranks


def shared_draws(ranks: IntArray, *, seed: int, iteration: int) -> Draws:
    """Return the draws of one iteration; the same seed and iteration give the same draws."""
    shift = np.random.default_rng([seed, iteration]).random(3)
    uniform = (shift + ranks[:, None] * _STRIDES) % 1.0
    return Draws(take=uniform[:, 0], move=uniform[:, 1], land=uniform[:, 2])


def drawn_labels(distribution: FloatArray, uniform: FloatArray) -> IntArray:
    """Return the label of every row for its draw, by the inverse of the cumulative distribution."""
    below: IntArray = (np.cumsum(distribution, axis=1) <= uniform[:, None]).sum(axis=1)
    return np.asarray(np.minimum(below, distribution.shape[1] - 1))

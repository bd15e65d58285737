"""The look at scores of predictions: for oracles that score soft or hard predictions.

Hard labels are drawn, and the iterate and its probes share their draws (:mod:`postshift.core.draws`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.core.draws import Draws, drawn_labels, even_order, shared_draws
from postshift.core.frank_wolfe import Newest
from postshift.core.probing import Probe, Probing
from postshift.core.queries import Fit, Kind, Query
from postshift.core.rows import Rows

ROUNDING = 1e-14  # of a metric, relative


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
    probes : Probing
        The probes.
    rows : array of int, optional
        The rows that are asked about; None for all.
    seed : int
        Seed of the draws of hard labels.
    """

    def __init__(
        self,
        val: Rows,
        *,
        kind: Kind,
        functions: FloatArray,
        probes: Probing,
        rows: IntArray | None,
        seed: int,
    ) -> None:
        self._val, self._kind, self._functions, self._probes = val, kind, functions, probes
        self._rows, self._seed = rows, seed
        self._n_probes = probes.n_probes(val.n_classes)
        self._n_before = 2 if probes.known else 1  # the iterate and, if it differs, the centre
        # All tables of many probes may not fit into memory; the anchor's is used for every probe and stays.
        self._known = lru_cache(maxsize=2)(lambda place: probes.known[place].distribution(val.eta, val.phi))
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
        return np.asarray((scores[self._n_before :] - scores[self._n_before - 1]) / self._probes.reach)

    def rounding(self, view: tuple[FloatArray, FloatArray]) -> float:
        """Return the rounding error of differences of the scores."""
        return ROUNDING * float(np.abs(view[1]).max()) / self._probes.reach

    def _queries(self, table: FloatArray, newest: Newest) -> list[Query]:
        """Return the queries of a look."""
        t = newest.iteration
        predict = partial(self._soft, table) if self._kind.soft else self._hard(table, t)
        asked = [self._query(f"{t}:base", f"the score of iterate {t}", partial(predict, None))]
        if newest.last:
            return asked
        if self._probes.known:
            asked.append(self._query(f"{t}:centre", f"the centre of the probes {t}", partial(predict, ())))
        for basis in range(self._functions.shape[1]):
            for probe in range(self._n_probes):
                move = self._probes.describe(probe, n_classes=self._val.n_classes)
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
        moved = self._probes.moved(table, self._known, self._functions, probe)
        return np.asarray((1 - self._probes.share) * table + self._probes.share * moved)

    def _hard(self, table: FloatArray, iteration: int) -> Callable[[Probe | None], IntArray]:
        """Return the function that gives labels of the iterate and its probes, with this iteration's draws."""
        draws = shared_draws(self._ranks, seed=self._seed, iteration=iteration)
        return partial(self._moved, draws, drawn_labels(table, draws.take))

    def _moved(self, draws: Draws, labels: IntArray, probe: Probe | None) -> IntArray:
        """Return labels of the iterate, the centre or a probe; all take the same draws row by row."""
        if probe is None:
            return labels
        moved = self._probes.moved_labels(
            labels, self._known, self._functions, probe, draws=draws, n_classes=self._val.n_classes
        )
        return np.where(draws.move < self._probes.share, moved, labels)

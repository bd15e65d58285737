"""The slopes of a function of predictions that is known by its scores only, from probes around a rule (Algorithm 1).

Notation: T (L, m, m) are rates on the validation rows, ``T_lij = mean of phi_l 1(y = i) h_j``. Without labels, the
probabilities p_i take the place of ``1(y = i)``. The probes r are those of full weights (Appendix A). With the rates
T_r and the score f_r of each probe, and T_0, f_0 of the rule, the slopes solve ``<slopes, T_r - T_0> = f_r - f_0``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.core.elicit import solve
from postshift.core.frank_wolfe import Newest
from postshift.core.plugin import PlugIn, onehot
from postshift.core.probes import ProbePlan
from postshift.core.probing import DisplacedProbes
from postshift.core.queries import Fit, Kind, Query
from postshift.core.rows import Rows
from postshift.core.score_look import ScoreLook
from postshift.core.weighting import FULL
from postshift.exceptions import SingularProbesError

RADIUS = 0.1  # how far the probes are from the rule
RCOND = 1e-6  # singular values below this share of the largest count as zero


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Probed:
    """The score of a rule, and the slopes (L, m, m) of the score by rates around it."""

    score: float
    slopes: FloatArray

    @property
    def is_flat(self) -> bool:
        """Whether no probe changed the score."""
        return not self.slopes.any()


class Prober:
    """Probes rules on some rows.

    Parameters
    ----------
    rows : Rows
        The validation rows with one basis; their eta is the posterior that the rules read.
    labels : array of shape (n,), optional
        Their labels.
    about : callable
        Turns a query about these rows into one that the oracle takes.
    """

    def __init__(self, rows: Rows, labels: IntArray | None, about: Callable[[Query], Query]) -> None:
        self._rows, self._about = rows, about
        truth = rows.eta if labels is None else onehot(labels, n_classes=rows.n_classes)
        weights = rows.row_weights / rows.row_weights.sum()
        self._columns = (weights[:, None, None] * rows.phi[:, :, None] * truth[:, None, :]).reshape(rows.n_rows, -1)

    def n_queries(self) -> int:
        """Return the number of queries of one rule and its probes."""
        return 1 + self._rows.n_bases * FULL.probes.n_probes(self._rows.n_classes)

    def probe(self, rule: PlugIn, kind: Kind) -> Fit[Probed]:
        """Ask for the scores of a rule and its probes, and return the slopes that explain them."""
        probes = DisplacedProbes(family=FULL.probes, plan=ProbePlan(radius=RADIUS))
        look = ScoreLook(self._rows, kind=kind, functions=self._rows.phi, probes=probes, rows=None, seed=0)
        queries = next(look.at(Newest(iteration=0, classifier=rule, step=1.0, last=False), None))
        assert isinstance(queries, list)  # noqa: S101
        scores = np.array((yield [self._about(query) for query in queries]), dtype=np.float64)
        rates = np.stack([self._rates(query.predictions) for query in queries])
        shape = (self._rows.n_bases, self._rows.n_classes, self._rows.n_classes)
        try:
            found = solve(rates[1:] - rates[0], scores[1:] - scores[0], n_bases=shape[0], rcond=RCOND)
        except SingularProbesError:  # no probe moved a row
            return Probed(score=float(scores[0]), slopes=np.zeros(shape))
        return Probed(score=float(scores[0]), slopes=found.alpha.reshape(shape))

    def _rates(self, shown: FloatArray | IntArray) -> FloatArray:
        """Return the rates of distributions or labels as a vector."""
        distribution = onehot(np.asarray(shown), n_classes=self._rows.n_classes) if shown.ndim == 1 else shown
        return np.asarray((self._columns.T @ distribution).reshape(-1))

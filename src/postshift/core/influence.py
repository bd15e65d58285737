"""Influence regression: another way to find a vertex, in the same loop.

The weights W_ij of the full confusion matrix are free up to a constant per row. Choosing that constant so that it
cancels the iterate's own term decouples the paper's system; what is left is a regression of the metric's *influence*
on the features z = phi (x) p. It is never singular, needs no training label, and handles the full matrix.

Notation: p a posterior (eta itself or stacked), q = (l, i) a feature, P = L m of them, E_R the mean with half the
weight on the training and half on the validation rows.

==========  ================  ================================================================
symbol      shape             meaning
==========  ================  ================================================================
E           (P, m)            gain of the probe ``h + eps z_q (e_k - h)``, per unit of eps
R           (P m, m)          ``E_R[z_q (delta_ki p_i - h_i p_i)]``: what diagonal weights explain
a           (m,)              diagonal part: least squares of E on R
K           (P, P)            ``E_R[z z']``
A           (P, m)            the rest: ``(K + rho I)^-1 (E - R a)``, rho = ridge tr(K) / n_val
==========  ================  ================================================================

The vertex is ``argmax_k a_k p_k + z' A_k``: a plug-in with full weights ``alpha[l,i,k] = delta_ik a_k + A[(l,i),k]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from postshift._validation import FloatArray, check_in_range
from postshift.core.elicit import Elicitation
from postshift.core.frank_wolfe import FitResult, RunSettings, affordable, cautious, check_sides, frank_wolfe
from postshift.core.look import make_look
from postshift.core.mixture import Mixture, shares_of
from postshift.core.plugin import PlugIn, inverse_prior
from postshift.core.probes import Fixed, ProbePlan
from postshift.core.probing import DisplacedProbes
from postshift.core.psi import ConfusionMetric
from postshift.core.queries import Fit, Kind
from postshift.core.rows import Rows
from postshift.core.sums import (
    Classifier,
    ClassifierSums,
    Engine,
    GramSums,
    gram_sums,
    influence_sums,
)
from postshift.core.weighting import FULL
from postshift.exceptions import BasisError

_SOFTENING = 1e-3  # what the start adds to every class


@dataclass(frozen=True, kw_only=True)
class InfluenceSettings(RunSettings):
    """The settings of influence regression.

    Attributes
    ----------
    radius : float in (0, 1]
        How far the probes are from the current classifier.
    rcond : float
        Cut-off of singular values in the least squares for the diagonal part.
    ridge : float
        Penalty for the rest, in units of tr(K) / n_val.
    """

    radius: float = 0.1
    rcond: float = 1e-3
    ridge: float = 3.0

    def __post_init__(self) -> None:
        """Raise if a value is out of range."""
        super().__post_init__()
        for name, high, open_low in (("radius", 1.0, True), ("rcond", 1.0, False), ("ridge", np.inf, True)):
            value = check_in_range(getattr(self, name), name=name, low=0, high=high, open_low=open_low)
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True, eq=False)
class SoftInversePrior:
    """The start: ``h_i`` proportional to ``p_i / prior_i`` plus a little for every class."""

    prior: FloatArray
    n_bases: int = 1

    def distribution(self, eta: FloatArray, phi: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the distribution of every row."""
        raised = eta / np.maximum(self.prior, np.finfo(float).tiny ** 0.5) + _SOFTENING
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    def after(self, vertices: Sequence[PlugIn], steps: Sequence[float]) -> Mixture:
        """Return the mixture of the vertices, without the start; if there is no vertex, the inverse-prior plug-in."""
        if not vertices:
            return Mixture.of([inverse_prior(self.prior, n_bases=self.n_bases)], [1.0])
        shares = shares_of(steps)[1:]
        return Mixture.of(list(vertices), shares / shares.sum())


class InfluenceVertex:
    """Finds a vertex by regressing the probes' gains on the features; see the module's notation."""

    weighting = FULL

    def __init__(self, train: Engine | None, val: Rows, *, held: Engine | None, rcond: float, ridge: float) -> None:
        self._train, self._val, self._held, self._rcond = train, val, held, rcond
        self.n_classes = val.n_classes
        own = gram_sums(val) if held is None else held.gram_sums()
        grams = [own] if train is None else [train.gram_sums(), own]
        self.prior = grams[0].cross.sum(axis=0) / grams[0].total
        self._totals = [gram.total for gram in grams]
        gram, self._cross = _mean_gram(grams)
        penalty = ridge * np.trace(gram) / np.count_nonzero(val.row_weights)
        self._factor = scipy.linalg.cho_factor(gram + penalty * np.eye(len(gram)))

    def sums_of(self, classifier: Classifier) -> ClassifierSums:
        """Return E_R[z (h p)'] of a classifier."""
        own = self._own_sums(classifier)
        if self._train is None:
            return _scaled(own, 1 / self._totals[0])
        train = self._train.influence_sums(classifier)
        return _scaled(train, 0.5 / self._totals[0]) + _scaled(own, 0.5 / self._totals[1])

    def _own_sums(self, classifier: Classifier) -> ClassifierSums:
        """Return the sums over the validation rows."""
        if self._held is not None:
            return self._held.influence_sums(classifier)
        return influence_sums(self._val, classifier.distribution(self._val.eta, self._val.phi))

    def find(self, sums: ClassifierSums, gains: FloatArray) -> Elicitation:
        """Return the diagonal part and the rest as full weights."""
        n_features, n_classes = self._cross.shape
        table = gains.reshape(n_features, n_classes)
        diagonal, values = _diagonal_part(self._cross, sums.pair, table, rcond=self._rcond)
        left = table - (self._cross * diagonal - (sums.pair @ diagonal)[:, None])
        rest = scipy.linalg.cho_solve(self._factor, left).reshape(-1, n_classes, n_classes)
        alpha = rest + np.diag(diagonal)
        return Elicitation(
            alpha=alpha.reshape(len(alpha), -1),
            rank=len(values),
            largest=float(values[-1]),
            smallest=float(values[0]),
            residual=float(np.linalg.norm(left)),
        )


def influence_fit(
    train: Engine | None,
    val: Rows,
    *,
    kind: Kind,
    metric: ConfusionMetric | None = None,
    settings: InfluenceSettings | None = None,
    held: Engine | None = None,
) -> Fit[FitResult]:
    """Return influence regression as a fit, a generator of queries.

    Parameters
    ----------
    train : Engine, optional
        The engine that holds p and phi of the training rows; None puts all weight on the validation rows.
    val : Rows
        p (as eta) and phi of the validation rows; the rows of phi sum to 1.
    kind : Kind
        Which queries the oracle answers.
    metric : ConfusionMetric, optional
        psi, needed for kind "confusion".
    settings : InfluenceSettings
        The settings of the run.
    held : Engine, optional
        An engine that holds the validation rows with their labels; if given, no queries are asked (kind "confusion").
    """
    settings = settings or InfluenceSettings()
    if np.abs(val.phi.sum(axis=1) - 1).max() > 1e-6:
        raise BasisError("influence regression needs a basis whose rows sum to 1: divide each row by its sum")
    check_sides(train, val)
    look = make_look(
        val,
        kind,
        metric=metric,
        held=held,
        influence=True,
        probes=DisplacedProbes(family=Fixed(), plan=ProbePlan(radius=settings.radius)),  # z in place of phi
        seed=settings.random_state,
    )
    finder = InfluenceVertex(train, val, held=held, rcond=settings.rcond, ridge=settings.ridge)
    start = SoftInversePrior(finder.prior, val.n_bases)
    n_iter = affordable(look, max_iter=settings.max_iter, budget=settings.budget)
    return frank_wolfe(look, finder, start, step=cautious, max_iter=n_iter)


def _diagonal_part(
    cross: FloatArray, pair: FloatArray, gains: FloatArray, *, rcond: float
) -> tuple[FloatArray, FloatArray]:
    """Return the least squares a of E on R, and the singular values of R that were kept, ascending.

    R has P m rows, ``R[(q,k), i] = delta_ki cross[q,i] - pair[q,i]``, and is never built: its normal equations of m
    unknowns are sums over q. Squaring loses no digits that matter: singular values below rcond = 1e-3 are dropped.
    """
    n_classes = cross.shape[1]
    mixed = cross.T @ pair
    normal = np.diag((cross**2).sum(axis=0)) - mixed - mixed.T + n_classes * (pair.T @ pair)
    right = (cross * gains).sum(axis=0) - pair.T @ gains.sum(axis=1)
    squares, vectors = scipy.linalg.eigh(normal)
    kept = squares > max(rcond**2 * squares[-1], 0.0)
    kept[-1] = True
    squares, vectors = np.maximum(squares[kept], np.finfo(np.float64).tiny), vectors[:, kept]
    return vectors @ ((vectors.T @ right) / squares), np.sqrt(squares)


def _mean_gram(grams: list[GramSums]) -> tuple[FloatArray, FloatArray]:
    """Return E_R[z z'] and E_R[z p'], each sample with an equal share of the weight."""
    share = 1 / len(grams)
    gram: FloatArray = sum(share / part.total * part.gram for part in grams)  # type: ignore[assignment]
    cross: FloatArray = sum(share / part.total * part.cross for part in grams)  # type: ignore[assignment]
    return gram, cross


def _scaled(sums: ClassifierSums, factor: float) -> ClassifierSums:
    """Return sums times a factor."""
    return ClassifierSums(pair=factor * sums.pair, single=factor * sums.single)

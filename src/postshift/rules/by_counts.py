"""Rules that read three numbers of each class: its hits, its rows, and the rows that are predicted as it.

A Frank-Wolfe loop over these 3 m numbers. In each iteration the derivatives of the metric by them give a plug-in rule,
``argmax_i a_i eta_i + b_i``: the gain of a hit, and the loss of one more prediction. Nothing of size m^2 or n m is
needed, so the rules also read sparse eta (:mod:`postshift.core.sparse_eta`), of any number of classes.

With very many classes, most have few rows, and their rates are mostly chance. So every class gets one prior row: a row
of the class and a prediction of it, a hit as often as all rows are.

Notation: a *count* is a share of the weight of the rows, as in a confusion matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.core.frank_wolfe import harmonic
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.core.psi import CountSlopesMetric, count_slopes_of, has_count_slopes
from postshift.core.queries import Fit
from postshift.core.rows import Rows
from postshift.core.weighting import COLUMNS, DIAGONAL
from postshift.exceptions import MetricError
from postshift.rules.fitted import FittedRule
from postshift.rules.problem import Problem

Source = Literal["labels", "eta"]
_NAMES: dict[Source, str] = {"labels": "label counts", "eta": "expected counts"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counts:
    """The hits, rows and predictions (m,) of each class, as shares of the weight of the rows."""

    hits: FloatArray
    true: FloatArray
    predicted: FloatArray

    def mixed(self, other: Counts, step: float) -> Counts:
        """Return the counts of the classifier ``(1 - step) self + step other`` on the same rows."""
        return Counts(
            hits=(1 - step) * self.hits + step * other.hits,
            true=self.true,
            predicted=(1 - step) * self.predicted + step * other.predicted,
        )

    def with_prior(self, share: float) -> Counts:
        """Return the counts with a prior row of this share in each class, a hit as often as all rows are."""
        rate = self.hits.sum() / self.true.sum()
        return Counts(hits=self.hits + share * rate, true=self.true + share, predicted=self.predicted + share)


@dataclass(frozen=True, slots=True)
class ByCounts:
    """Class weights by Frank-Wolfe on the counts of the classes.

    Parameters
    ----------
    source : {"labels", "eta"}
        Where the hits come from: the labels of the validation rows, or eta itself, each label drawn from its row. The
        second needs probabilities that can be trusted, but then it has much less noise, and needs no labels: it reads
        the training rows, if there are any.
    max_iter : int
        Frank-Wolfe iterations; with a prior row, more of them change nothing.
    prior_rows : float
        The prior rows of each class.
    """

    source: Source = "eta"
    max_iter: int = 5
    prior_rows: float = 1.0

    @property
    def name(self) -> str:
        """The name of the rule."""
        return _NAMES[self.source]

    def usable(self, problem: Problem) -> bool:
        """Return whether the metric is one of counts, with known derivatives."""
        is_of_classes = problem.n_categories == problem.n_classes
        return problem.is_labelled and is_of_classes and has_count_slopes(problem.fitting_metric)

    def bound(self, problem: Problem) -> int:  # noqa: ARG002
        """Return 0."""
        return 0

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Run the loop from the inverse prior; the rule is the plug-in of the last iterate."""
        yield from ()
        metric = problem.fitting_metric
        if not has_count_slopes(metric):
            raise MetricError(f"metric {metric.name!r} is not one of counts with known derivatives")
        rows = problem.val if self.source == "labels" else problem.train_or_val.in_memory()
        count, share = _counter(rows, self.source), self.prior_rows / rows.n_rows
        prior = rows.mean_eta() + share
        member = PlugIn(
            weighting=DIAGONAL, alpha=1 / np.maximum(prior, prior[prior > 0].min())[None], n_classes=rows.n_classes
        )
        counts = count(member)
        for t in range(self.max_iter):
            found = _plug_in(metric, counts.with_prior(share))
            if found is None:  # no class gains
                break
            member = found
            counts = counts.mixed(count(member), harmonic(t))
        member = _plug_in(metric, counts.with_prior(share)) or member
        return FittedRule(name=self.name, mixture=Mixture.of([member], [1.0]))


def _plug_in(metric: CountSlopesMetric, counts: Counts) -> PlugIn | None:
    """Return the plug-in rule of the derivatives at these counts; None if all are 0."""
    gains, losses = count_slopes_of(metric, counts.hits, counts.true, counts.predicted)
    if not gains.any():
        return None
    is_diagonal = metric.weighting == DIAGONAL.name
    alpha = gains if is_diagonal else np.concatenate([gains, losses])
    scale = np.abs(gains).max()
    return PlugIn(weighting=DIAGONAL if is_diagonal else COLUMNS, alpha=alpha[None] / scale, n_classes=len(gains))


def _counter(rows: Rows, source: Source) -> Callable[[PlugIn], Counts]:
    """Return the function that counts a plug-in rule's hits and predictions on these rows."""
    weights = rows.row_weights / rows.row_weights.sum()
    labels = rows.labels
    true = rows.mean_eta() if source == "eta" or labels is None else _summed(labels, weights, rows.n_classes)

    def count(member: PlugIn) -> Counts:
        found, probabilities = _labelled(rows, member)
        hit = probabilities if source == "eta" else found == labels
        return Counts(
            hits=_summed(found, weights * hit, rows.n_classes),
            true=true,
            predicted=_summed(found, weights, rows.n_classes),
        )

    return count


def _labelled(rows: Rows, member: PlugIn) -> tuple[IntArray, FloatArray]:
    """Return the labels of a plug-in rule, and their probabilities."""
    if rows.is_sparse:
        return member.sparse_labels(rows.eta)
    labels = member.labels(rows.eta, np.ones((rows.n_rows, 1)))
    return labels, rows.eta[np.arange(rows.n_rows), labels]


def _summed(labels: IntArray, weights: FloatArray, n_classes: int) -> FloatArray:
    """Return the weight (m,) of the rows of each label."""
    return np.bincount(labels, weights=weights, minlength=n_classes).astype(np.float64, copy=False)

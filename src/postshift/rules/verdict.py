"""Is a rule better than the base? Scores, gain, noise, intervals and the verdict, all from one computation.

The rows are counted in the cells of a table: category r (the true class, or group and class), label i of the rule,
label j of the base. The shares of the cells are unknown; given the counts, they are drawn from a Dirichlet
distribution, and the metric is computed for every draw. This is the Bayesian bootstrap, with a few prior rows: without
them, a rule that differs from the base on three rows, all in its favour, would be better with certainty. If there are
many categories with few rows each, rows are drawn with replacement instead (``_resampled_scores``).

Notation
--------
===========  ==========  ============================================================================
symbol       shape       meaning
===========  ==========  ============================================================================
categories   (n,)        r, row of the confusion matrix
labels       (n,)        i, the rule's labels, chosen without the true labels of these rows
base         (n,)        j, the base's labels
shapes       (cells,)    parameter of each cell's Gamma variable: its rows, and its prior rows
masses       (B, cells)  draws; divided by their sums they are the shares
===========  ==========  ============================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from postshift._validation import FloatArray, IntArray
from postshift.core.queries import without_queries
from postshift.rules.problem import Problem

Kind = Literal["worth it", "may be noise", "not worth it"]
DRAWS = 400
FEWEST_DRAWS = 100
MANY, FEW_EACH = 100, 10  # with more categories, and fewer rows of each on average, rows are drawn, not shares
_DRAWN_MASSES = 2_000_000  # of rows of very many classes; with more than 5,000 rows, there are fewer draws
LEVEL = 0.95  # of the intervals
PRIOR_DISAGREEMENT = 1.0  # prior rows on which the rule is right and the base wrong, and as many the other way round
PRIOR_ROWS = 1.0  # prior rows of a category (for a metric of recalls), or of all rows, on which both agree
REFIT = 1.1  # intervals are wider by this factor: the scores are those of refits to parts of the rows
_DRAWN_CELLS = 1 << 22  # of confusion matrices in memory at once


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """Intervals of 95 %: of the score, of the base's score, and of the gain, which is None if the base was kept."""

    score: tuple[float, float]
    base: tuple[float, float]
    gain: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A rule against the base on the same rows.

    Attributes
    ----------
    score, base_score : float
        The metric of the labels.
    noise : float
        The standard error of the gain.
    chance : float
        The probability that the rule is better than the base.
    intervals : Intervals
        The intervals, including that of the gain.
    """

    score: float
    base_score: float
    noise: float
    chance: float
    intervals: Intervals

    @property
    def gain(self) -> float:
        """The score minus the base's score."""
        return self.score - self.base_score

    @property
    def kind(self) -> Kind:
        """The verdict: the interval of the gain decides."""
        assert self.intervals.gain is not None  # noqa: S101
        return verdict_of(self.intervals.gain)


def verdict_of(gain: tuple[float, float]) -> Kind:
    """Return the verdict of an interval of the gain."""
    if gain[0] > 0:
        return "worth it"
    return "not worth it" if gain[1] < 0 else "may be noise"


def compare(
    problem: Problem,
    labels: IntArray,
    base: IntArray,
    *,
    clusters: Any = None,
    refitted: bool = False,
    same: bool = False,
    seed: int = 0,
) -> Comparison:
    """Compare a rule's labels with the base's on the validation rows of a problem.

    Parameters
    ----------
    problem : Problem
        The rows and the metric of the confusion matrix.
    labels, base : int array (n,)
        Labels that were chosen without the true labels of these rows.
    clusters : array (n,), optional
        Rows with the same value are not independent of each other.
    refitted : bool
        Whether the rule is a refit of those that labelled the rows.
    same : bool
        Whether the rule is the base itself. (Rules that label these rows alike may differ on others.)
    seed : int
        Seed of the draws.
    """
    score, base_score = without_queries(problem.label_scores([labels, base]))
    n_present = np.count_nonzero(problem.counts)
    many = n_present > MANY and len(labels) < FEW_EACH * n_present
    draw = _resampled_scores if many else _drawn_scores
    drawn = draw(problem, labels, base, clusters=clusters, rng=np.random.default_rng([seed, 2]))
    if many:
        drawn += np.array([score, base_score]) - drawn.mean(axis=0)
    if same:
        drawn[:, 0] = drawn[:, 1]
    return summary(score, base_score, drawn, widened=REFIT if refitted else 1.0)


def summary(score: float, base_score: float, drawn: FloatArray, *, widened: float = 1.0) -> Comparison:
    """Return the comparison from draws (B, 2) of the score and of the base's."""
    gains = drawn[:, 0] - drawn[:, 1]
    return Comparison(
        score=score,
        base_score=base_score,
        noise=float(widened * gains.std()),
        chance=float(np.mean(gains > 0) + np.mean(gains == 0) / 2),
        intervals=Intervals(
            score=_interval(drawn[:, 0], score, widened),
            base=_interval(drawn[:, 1], base_score, 1.0),
            gain=_interval(gains, score - base_score, widened),
        ),
    )


def _interval(drawn: FloatArray, value: float, widened: float) -> tuple[float, float]:
    """Return the quantiles that enclose 95 % of the draws, widened about their mean, and extended to the value."""
    middle = drawn.mean()
    low, high = middle + widened * (np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) - middle)
    return float(min(low, value)), float(max(high, value))


def _drawn_scores(
    problem: Problem, labels: IntArray, base: IntArray, *, clusters: Any, rng: np.random.Generator
) -> FloatArray:
    """Return the metric (B, 2) of the rule and of the base for draws of the shares of the cells."""
    cells = _Cells.of(problem, labels, base, clusters=clusters)
    n_cells = len(cells.shapes) if problem.val.is_sparse else problem.n_categories * problem.n_classes
    at_once = max(1, _DRAWN_CELLS // n_cells)
    found = []
    for done in range(0, DRAWS, at_once):
        masses = cells.draw(min(at_once, DRAWS - done), rng)
        shares = masses / masses.sum(axis=1, keepdims=True)
        pair = [problem.label_values(shares, cells.categories, each) for each in (cells.labels, cells.base)]
        found.append(np.stack(pair, axis=1))
    return np.concatenate(found)


def _resampled_scores(
    problem: Problem, labels: IntArray, base: IntArray, *, clusters: Any, rng: np.random.Generator
) -> FloatArray:
    """Return the metric (B, 2) of the rule and of the base for rows, or clusters, that count a random number of times.

    It is for very many classes. Most have a row or two, and the score of a class of one row does not depend on the
    share of the row: only rows that may be missing show how much the score depends on them.
    """
    categories, shares = problem.confusion_rows(slice(None))
    of_cluster = np.arange(len(labels)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    n_draws = max(FEWEST_DRAWS, min(DRAWS, _DRAWN_MASSES // len(labels)))
    counted = np.ones(of_cluster.max() + 1)
    counted[of_cluster] = problem.fractions
    found = []
    for _ in range(n_draws):
        weights = shares * (rng.poisson(counted) / counted)[of_cluster]
        kept = np.flatnonzero(weights)
        given = weights[None, kept] / weights[kept].sum()
        found.append([problem.label_values(given, categories[kept], each[kept])[0] for each in (labels, base)])
    return np.array(found)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cells:
    """The cells that have rows, followed by the cells of the prior rows."""

    categories: IntArray
    labels: IntArray
    base: IntArray
    rows: Any  # (cells with rows, clusters), the weight of a cluster's rows in a cell; or None: rows are independent
    clusters: FloatArray | None  # of how many rows' weight each cluster is: 1, or less for a borrowed row
    shapes: FloatArray
    scales: FloatArray

    @classmethod
    def of(cls, problem: Problem, labels: IntArray, base: IntArray, *, clusters: Any) -> _Cells:
        """Count the rows in their cells, and add the prior rows."""
        categories, shares = problem.confusion_rows(slice(None))
        weights = shares * len(labels)
        n_classes = problem.n_classes
        found, place = _in_order_of_rows((categories * n_classes + labels) * n_classes + base)
        counted = problem.fractions
        sums, squares = (np.bincount(place, weights=each) for each in (weights, weights**2 / counted))
        prior = _prior(problem, labels, base)
        rows = of_one = None
        if clusters is not None:
            of_cluster = np.unique(np.asarray(clusters), return_inverse=True)[1]
            of_one = np.ones(of_cluster.max() + 1)
            of_one[of_cluster] = counted
            rows = sparse.csr_array((weights / counted, (place, of_cluster)), shape=(len(found), len(of_one)))
        return cls(
            categories=np.append(found // n_classes**2, prior[0]),
            labels=np.append(found // n_classes % n_classes, prior[1]),
            base=np.append(found % n_classes, prior[2]),
            rows=rows,
            clusters=of_one,
            shapes=np.append(np.divide(sums**2, squares, out=np.zeros_like(sums), where=squares > 0), prior[3]),
            scales=np.append(np.divide(squares, sums, out=np.zeros_like(sums), where=sums > 0), np.ones(len(prior[3]))),
        )

    def draw(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Return masses (n_draws, cells): sums of exponential weights, one per row, or one per cluster."""
        if self.rows is None or self.clusters is None:
            return np.asarray(rng.standard_gamma(self.shapes, size=(n_draws, len(self.shapes))) * self.scales)
        n_cells, n_clusters = self.rows.shape
        of_rows = (self.rows @ rng.standard_gamma(self.clusters[:, None], size=(n_clusters, n_draws))).T
        prior = rng.standard_gamma(self.shapes[n_cells:], size=(n_draws, len(self.shapes) - n_cells))
        return np.hstack([of_rows, prior])


def _in_order_of_rows(codes: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct codes in the order of the rows, not of the class numbers, and the position of each row."""
    n_rows, n_codes = len(codes), int(codes.max(initial=-1)) + 1
    if n_codes > n_rows:
        found, first, place = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return found[order], np.argsort(order)[place]
    first = np.full(n_codes, n_rows)  # tables of codes take less time than sorting the rows
    first[codes[::-1]] = np.arange(n_rows)[::-1]  # the last value stays: that of the first row
    found = np.argsort(first, kind="stable")[: np.count_nonzero(first < n_rows)]
    numbers = np.empty(n_codes, dtype=np.intp)
    numbers[found] = np.arange(len(found))
    return found, numbers[codes]


def _prior(problem: Problem, labels: IntArray, base: IntArray) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Return the cells of the prior rows of a problem, and their numbers of rows."""
    categories, shares = problem.confusion_rows(slice(None))
    borrowers = None if problem.counted is None else np.unique(categories[problem.counted < 1])
    return prior_cells(
        categories,
        labels,
        base,
        shares=shares,
        predicted=np.bincount(np.append(labels, base), minlength=problem.n_classes),
        of_recalls=problem.scoring_metric.weighting == "diagonal",
        without=borrowers,
    )


def prior_cells(
    categories: IntArray,
    labels: IntArray,
    base: IntArray,
    *,
    shares: FloatArray,
    predicted: FloatArray | IntArray,
    of_recalls: bool,
    without: IntArray | None = None,
) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Return the cells of the prior rows and their numbers of rows: four cells for each category that has rows.

    In two cells both labels are right or both are wrong, as often as on the rows. In the other two, only one of them is
    right, equally often. A wrong label is the class that is predicted most among the others. For a metric of recalls,
    every category has as many prior rows; for other metrics, they are proportional to its share of the rows.

    Parameters
    ----------
    categories, labels, base : int array (n,)
        Category, label of the rule and label of the base of each row.
    shares : array (n,)
        The share of each row.
    predicted : array (m,)
        How often each class is predicted.
    of_recalls : bool
        Whether the metric is one of recalls.
    without : int array, optional
        Categories that have borrowed rows in place of the prior rows on which both agree.
    """
    n_classes = len(predicted)
    present, place = _in_order_of_rows(categories)
    own = present % n_classes
    most = np.argsort(-predicted, kind="stable")
    wrong = np.where(own == most[0], most[1], most[0])
    share = np.bincount(place, weights=shares)
    agreeing = PRIOR_ROWS * (np.ones(len(present)) if of_recalls else share)
    if without is not None:
        agreeing = np.where(np.isin(present, without), 0.0, agreeing)
    truth = categories % n_classes
    right = float((shares * ((labels == truth) + (base == truth))).sum() / 2)
    apart = PRIOR_DISAGREEMENT * share
    return (
        np.tile(present, 4),
        np.concatenate([own, wrong, own, wrong]),
        np.concatenate([own, wrong, wrong, own]),
        np.concatenate([agreeing * right, agreeing * (1 - right), apart, apart]),
    )

r"""Fit with one answer: how many rows of each category are in each cell of a partition of the validation rows.

The validation rows are divided by their basis functions and by eta. The answer, counts that may have noise, says how
the categories are spread over the cells. From then on nothing is asked: a model of the categories is fitted to the
counts (:class:`SharesOracle`), and it answers the queries of any rule.

=========================  ===========  =============================================================================
symbol                     shape        meaning
=========================  ===========  =============================================================================
n, K, R                                 validation rows, cells, categories: classes, or (group, class) pairs
N                          (K, R)       the counts
p                          (n, R)       the probability of each category of each row
=========================  ===========  =============================================================================

The model is :math:`p_r(x) \propto \eta_{y(r)}(x) \exp(z(x)^T \theta_r)`, with features z of the basis functions and of
log eta: without any counts, it says what eta says, and all groups are equally likely. It minimises
:math:`\sum_{kr} (N_{kr} - \sum_{i \in k} p_r(x_i))^2 / v_{kr} + \lambda |\theta|^2`, where v is the variance of the
noise and of the categories of the rows. What the model cannot say is read from the counts, cell by cell, as far as the
counts of all cells show more than noise there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import softmax

from postshift._validation import FloatArray, IntArray
from postshift.core.queries import Fit, KindName, Query, answered, kind_named
from postshift.core.rows import Rows
from postshift.rules.choice import Choice, Chosen
from postshift.rules.problem import Problem

MOST_CELLS = 200
LEAST_ROWS = 8  # in a cell, on average
ROWS_OF_NOISE = 10  # a cell has this many times more rows than the standard deviation of the noise
MOST_PATTERNS = 20  # different rows of the basis functions; with more, the largest function counts
PENALTY = 3.0
MOST_ENTRIES = 2_000_000  # rows times categories that the model is fitted to
_FLOOR = 1e-6  # of eta, before its logarithm
_PASSES = 2  # the variances of the second pass are those of the first fit


def fit_from_table(choice: Choice, problem: Problem, *, noise: float, most_cells: int = MOST_CELLS) -> Fit[Chosen]:
    """Ask for the counts of a partition, then fit and choose with what they say; ``noise`` is that of a count."""
    cells = partition(problem.val, noise=noise, most_cells=min(most_cells, MOST_CELLS))
    shape = int(cells.max()) + 1, problem.n_categories
    text = f"the categories of the rows in {shape[0]} cells"
    query = Query(key="table", kind="table", text=text, n_rows=problem.val.n_rows, shape=shape, _predict=lambda: cells)
    (counts,) = yield [query]
    found = shares_of(problem.val, cells, counts, noise=noise)
    home = replace(problem, kind=kind_named("confusion"))
    return (yield from answered(replace(choice, budget=None).fit(home), SharesOracle(found)))


class SharesOracle:
    """An oracle of confusion matrices that knows the probabilities (n, R) of the categories of each row."""

    kind: KindName = "confusion"
    takes_subsets = False

    def __init__(self, probabilities: FloatArray) -> None:
        self._probabilities = probabilities

    def answer(self, query: Query) -> FloatArray:
        """Return the expected confusion matrices (1 + L, R, m) of the predictions."""
        assert query.columns is not None  # noqa: S101
        weighted = (column[:, None] * self._probabilities for column in query.columns.T)
        return np.stack([each.T @ query.predictions for each in weighted]) / query.n_rows


def partition(rows: Rows, *, noise: float, most_cells: int = MOST_CELLS) -> IntArray:
    """Return the cell of each row: by its basis functions, its likeliest class, and how likely that is.

    Cells are large enough that the noise of their counts is small. If there would be more than ``most_cells``, basis
    functions or likeliest classes are merged.
    """
    kinds = _kinds(rows, most=max(1, most_cells // 2))
    counts = np.bincount(kinds)
    size = max(LEAST_ROWS, ROWS_OF_NOISE * noise, 2 * rows.n_rows / most_cells)
    n_bins = np.maximum(1, np.floor(counts / size)).astype(np.intp)
    first = np.cumsum(n_bins) - n_bins
    order = np.lexsort((rows.eta.max(axis=1), kinds))
    kind = kinds[order]
    place = np.arange(rows.n_rows) - (np.cumsum(counts) - counts)[kind]  # of a row among its kind
    cells = np.empty(rows.n_rows, dtype=np.intp)
    cells[order] = first[kind] + place * n_bins[kind] // counts[kind]
    return cells


def _kinds(rows: Rows, *, most: int) -> IntArray:
    """Return a number ``0, 1, ...`` for each row: of its basis functions and likeliest class, if these are few."""
    likeliest, patterns = np.argmax(rows.eta, axis=1), _patterns(rows.phi)
    for told_apart in ((patterns, likeliest), (likeliest,), (patterns,)):
        found, numbers = np.unique(np.column_stack(told_apart), axis=0, return_inverse=True)
        if len(found) <= most:
            return np.asarray(numbers.reshape(-1))
    return np.zeros(rows.n_rows, dtype=np.intp)


def _patterns(phi: FloatArray) -> IntArray:
    """Return a number for each row of basis functions: of its values if they are few, else of its largest function."""
    found, numbers = np.unique(phi, axis=0, return_inverse=True)
    if len(found) <= MOST_PATTERNS:
        return np.asarray(numbers.reshape(-1))
    varied = np.flatnonzero(np.ptp(phi, axis=0) > 0)[:MOST_PATTERNS]
    return np.asarray(np.argmax(phi[:, varied], axis=1))


def shares_of(rows: Rows, cells: IntArray, counts: FloatArray, *, noise: float) -> FloatArray:
    """Return the probabilities (n, R) of the categories of each row, from the counts (K, R) of its cells."""
    n_rows, n_categories = rows.n_rows, counts.shape[1]
    prior = np.log(np.maximum(rows.eta, _FLOOR))[:, np.arange(n_categories) % rows.n_classes]
    model = _Model(features=_features(rows), prior=prior)
    few = _few(n_rows, most=max(counts.shape[0], MOST_ENTRIES // n_categories))
    within = _within(cells[few], n_cells=len(counts))
    in_cell = np.bincount(cells, minlength=len(counts)).astype(np.float64)[:, None]
    variance = noise**2 + in_cell / n_categories
    theta = np.zeros((model.features.shape[1], n_categories))
    for _ in range(_PASSES):
        theta = model.taking(few).fitted(theta, counts / in_cell, within, variance / in_cell**2)
        mean = _within(cells, n_cells=len(counts)) @ model.probabilities(theta)
        variance = noise**2 + in_cell * mean * (1 - mean)
    factor = _corrections(counts / in_cell, mean, variance / in_cell**2)
    found = model.probabilities(theta) * factor[cells]
    return np.asarray(found / found.sum(axis=1, keepdims=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Model:
    """Categories given features (n, Q), and the logarithm (n, R) of what is thought of them before."""

    features: FloatArray
    prior: FloatArray

    def taking(self, rows: IntArray) -> _Model:
        """Return the model of some rows."""
        return _Model(features=self.features[rows], prior=self.prior[rows])

    def probabilities(self, theta: FloatArray) -> FloatArray:
        """Return the probabilities (n, R) of the categories."""
        return np.asarray(softmax(self.prior + self.features @ theta, axis=1))

    def fitted(self, start: FloatArray, shares: FloatArray, within: Any, variance: FloatArray) -> FloatArray:
        """Return the coefficients (Q, R) with which the means in the cells are nearest to shares (K, R)."""

        def loss(flat: FloatArray) -> tuple[float, FloatArray]:
            theta = flat.reshape(start.shape)
            found = self.probabilities(theta)
            missed = (within @ found - shares) / variance
            slopes = 2 * (within.T @ missed)
            pulled = found * (slopes - (found * slopes).sum(axis=1, keepdims=True))
            value = (missed**2 * variance).sum() + PENALTY * (theta**2).sum()
            return float(value), (self.features.T @ pulled + 2 * PENALTY * theta).reshape(-1)

        found = minimize(loss, start.reshape(-1), jac=True, method="L-BFGS-B", options={"maxiter": 200})
        return np.asarray(found.x.reshape(start.shape))


def _features(rows: Rows) -> FloatArray:
    """Return ones, the basis functions and the relative log eta of each row (n, Q), divided by their spread."""
    log_eta = np.log(np.maximum(rows.eta, _FLOOR))
    relative = (log_eta - log_eta.mean(axis=1, keepdims=True))[:, :-1]
    varied = np.column_stack([rows.phi, relative])
    spread = varied.std(axis=0)
    return np.column_stack([np.ones(rows.n_rows), varied[:, spread > 0] / spread[spread > 0]])


def _few(n_rows: int, *, most: int) -> IntArray:
    """Return the rows that the model is fitted to: all, or every k-th in a random order with a fixed seed."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, size=most, replace=False))


def _within(cells: IntArray, *, n_cells: int) -> Any:
    """Return the matrix (K, n) that takes means over the rows in each cell."""
    sizes = np.maximum(np.bincount(cells, minlength=n_cells), 1)
    entries = (1 / sizes[cells], (cells, np.arange(len(cells))))
    return sparse.csr_array(entries, shape=(n_cells, len(cells)))


def _corrections(shares: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the factors (K, R) by which the cells differ from the model, as far as this is more than noise.

    The variance of the true differences, relative to that of a share, is estimated from all cells.
    """
    missed, spread = shares - mean, mean * (1 - mean)
    weight = spread / variance**2
    true = max(0.0, float((weight * (missed**2 - variance)).sum() / (weight * spread).sum()))
    kept = true * spread / (true * spread + variance)
    return np.asarray(np.maximum(mean + kept * missed, _FLOOR * mean) / mean)

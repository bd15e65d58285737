"""Plug-in search: the weights of ``argmax w_i eta_i`` by coordinate-wise line search over the distinct ratios.

With all weights but one fixed, the prediction of a row changes exactly once, when the class overtakes the best of the
others. So the metric, as a function of that weight, takes at most n + 1 values, one between each two neighbouring
ratios. Of up to ``ALL_CUTS`` rows all values are computed. Of more rows, the values on an even grid are computed first,
which needs no sorting, then all values near the best ones.

The result does not depend on how the classes are numbered: the most common class is searched first, and values that
differ by rounding only count as equal.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from postshift._validation import FloatArray, IntArray
from postshift.core.psi import CountMetric, depends_on_counts, value_of_counts
from postshift.core.queries import Fit
from postshift.rules.fitted import FittedRule, plug_in_rule
from postshift.rules.problem import Problem

_SAME = 1e-9
_TIED = 1e-12  # values of a metric that differ by less, relative to the largest, are equal
_ROUNDING = 1e-13
MAX_LOG = 300.0  # of a class weight
_CHUNK = 1 << 22  # numbers held at once when the cuts' confusion matrices are built
ALL_CUTS = 1000  # of more rows, ``_GRID`` weights are tried first, then all near the ``_PEAKS`` best
_GRID, _PEAKS = 512, 3


@dataclass(frozen=True, slots=True)
class PluginSearch:
    """Coordinate-wise search of the class weights on the metric of the deterministic labels.

    Parameters
    ----------
    max_sweeps : int
        Maximum number of rounds over the classes; the search stops after a round without gain.
    max_cuts : int
        If the metric only returns scores: the maximum number of cuts per class. Two thirds of them are spread evenly
        over the distinct ratios, the others about the best of these.
    """

    name: str = "plug-in search"
    max_sweeps: int = 3
    max_cuts: int = 15

    def usable(self, problem: Problem) -> bool:  # noqa: ARG002
        """Return True."""
        return True

    def bound(self, problem: Problem) -> int:
        """Return the maximum number of queries: one for the start and one for each cut of all sweeps."""
        return 0 if problem.is_labelled else self.max_sweeps * problem.n_classes * self.max_cuts + 1

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Search from equal weights."""
        weights, eta = np.ones(problem.n_classes), problem.val.eta
        columns = np.ascontiguousarray(eta.T)
        (best,) = yield from problem.label_scores([np.argmax(weights * eta, axis=1)])
        for _ in range(self.max_sweeps):
            before = best
            for label in in_turn(problem):
                if problem.is_labelled:
                    cuts, values = _searched(problem, columns, weights, label)
                else:
                    cuts, values = yield from _asked(problem, weights, label, self.max_cuts)
                place = better_place(values, best)
                if place is not None:
                    best, weights[label] = float(values[place]), cuts[place]
            if best <= before:
                break
        return plug_in_rule(self.name, weights, problem=problem)


def in_turn(problem: Problem) -> list[int]:
    """Return the classes in the order of their mean probability on the validation rows, the largest first."""
    return [int(label) for label in np.argsort(-(problem.row_weights @ problem.val.eta), kind="stable")]


def better_place(values: Any, best: float) -> int | None:
    """Return the first place of the largest value, or None if it is not above ``best`` by more than rounding."""
    found = np.asarray(values)
    tied = _TIED * max(float(np.abs(found).max()), abs(best))
    return int(np.argmax(found >= found.max() - tied)) if found.max() > best + tied else None


def distinct_cuts(weights: FloatArray, eta: FloatArray, label: int) -> FloatArray:
    """Return one weight between each two neighbouring ratios at which ``label`` overtakes the others."""
    logs = _log_ratios(_best_others(weights, eta.T, label)[1], eta[:, label])
    return np.exp(_between(np.sort(logs))[0]) if _reachable(logs).any() else np.array([weights[label]])


def overtaking(weights: FloatArray, eta: FloatArray, label: int) -> FloatArray:
    """Return the weight of ``label`` at which each row would change to it."""
    others = _best_others(weights, eta.T, label)[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(eta[:, label] > 0, others / eta[:, label], np.inf))


def _best_others(weights: FloatArray, columns: FloatArray, label: int) -> tuple[IntArray, FloatArray]:
    """Return the best class of each row but ``label``, and its weighted probability; ``columns`` is eta' (m, n)."""
    scores = weights[:, None] * columns
    scores[label] = -1.0
    top = np.maximum.reduce(scores)
    best = np.zeros(len(top), dtype=np.min_scalar_type(len(scores)))
    ahead = np.ones(len(top), dtype=bool)
    for row in scores[:-1]:  # the first of those that are equal, as argmax along rows: along columns it is slow
        ahead &= row != top
        best += ahead
    return best.astype(np.intp), top


def _log_ratios(others: FloatArray, own: FloatArray) -> FloatArray:
    """Return the logarithm of the weight at which each row changes; infinite if no weight is large or small enough."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(own > 0, np.log(others / own), np.inf))


def _reachable(logs: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which logarithms are those of weights that are used."""
    return np.abs(logs) < MAX_LOG


def _between(logs: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the logarithms of the cuts between ascending ones, and how many rows have changed at each cut."""
    first, stop = np.searchsorted(logs, [-MAX_LOG, MAX_LOG])
    logs = logs[first:stop]
    apart = np.flatnonzero(np.diff(logs) > _SAME)  # closer ones differ by rounding only
    cuts = np.concatenate([[logs[0] - 1], (logs[apart + 1] + logs[apart]) / 2, [logs[-1] + 1]])
    return cuts, np.concatenate([[first], first + 1 + apart, [stop]])


def _asked(problem: Problem, weights: FloatArray, label: int, max_cuts: int) -> Fit[tuple[FloatArray, FloatArray]]:
    """Return at most ``max_cuts`` cuts and the metric at them, by one query per cut.

    Most of them are spread evenly. The others are spread between the neighbours of the best one.
    """
    cuts = distinct_cuts(weights, problem.val.eta, label)
    coarse = np.unique(np.linspace(0, len(cuts) - 1, max_cuts - max_cuts // 3).astype(int))
    values = yield from _at_cuts(problem, weights, label, cuts[coarse])
    best = int(np.argmax(values))
    first, last = coarse[max(best - 1, 0)], coarse[min(best + 1, len(coarse) - 1)]
    fine = np.setdiff1d(np.linspace(first, last, max_cuts // 3 + 2)[1:-1].astype(int), coarse)
    if len(fine) == 0:
        return cuts[coarse], values
    found = yield from _at_cuts(problem, weights, label, cuts[fine])
    return np.append(cuts[coarse], cuts[fine]), np.append(values, found)


def _at_cuts(problem: Problem, weights: FloatArray, label: int, cuts: FloatArray) -> Fit[FloatArray]:
    """Return the metric with each cut as the weight of one class."""
    tried = np.tile(weights, (len(cuts), 1))
    tried[:, label] = cuts
    labels = [np.argmax(row * problem.val.eta, axis=1) for row in tried]
    return np.array((yield from problem.label_scores(labels)))


def _searched(problem: Problem, columns: FloatArray, weights: FloatArray, label: int) -> tuple[FloatArray, FloatArray]:
    """Return cuts and the metric at them: all cuts, or those near the best of a grid; ``columns`` is eta'."""
    best, others = _best_others(weights, columns, label)
    logs = _log_ratios(others, columns[label])
    line = Line(problem, best, label)
    usable = logs[_reachable(logs)]
    if len(usable) == 0:
        return weights[[label]], line.values(np.argsort(logs), np.array([np.count_nonzero(logs < 0)]))
    every = np.arange(len(logs))
    found = [_near(line, logs, every)] if len(logs) <= ALL_CUTS else _near_the_peaks(line, logs, usable)
    cuts, values = (np.concatenate(each) for each in zip(*found, strict=True))
    return np.exp(cuts), values


def _near_the_peaks(line: Line, logs: FloatArray, usable: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Return the cuts near the best values of a grid, and the metric at them."""
    some = np.sort(usable[:: max(1, len(usable) // _GRID)])
    edge = len(some) // 100  # a few far rows must not make the grid coarse
    low, step = some[edge], max(some[-1 - edge] - some[edge], _SAME) / _GRID
    bins = np.clip((logs - low) / step + 1, 0, _GRID + 1).astype(np.intp)
    tables = line.tables(bins, _GRID + 2)
    values = line.value(tables)
    ends = np.append(low + step * np.arange(_GRID + 1), max(usable.max(), low + step * _GRID) + 1)  # of the bins
    peaks = np.argsort(-values, kind="stable")[:_PEAKS]
    found = [(ends[peaks], values[peaks])]
    for peak in np.maximum(peaks, 1):
        inside = np.flatnonzero(((bins == peak) | (bins == peak + 1)) & _reachable(logs))
        if len(inside) > 1:
            cuts, around = _near(line.after(tables[peak - 1]), logs, inside)
            found.append((cuts[1:-1], around[1:-1]))  # beyond the first and the last there are other rows
    return found


def _near(line: Line, logs: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the cuts between some rows, and the metric at them; all rows before these have changed."""
    order = rows[np.argsort(logs[rows])]
    cuts, places = _between(logs[order])
    return cuts, line.values(order, places)


class Line:
    """The metric along one class weight, as rows change from their best other class to ``label``.

    If the metric depends on counts, the hits and the predictions of each class are followed: 2 m numbers in place of
    the confusion matrix. A table is either.
    """

    def __init__(self, problem: Problem, best: IntArray, label: int) -> None:
        metric, n_classes = problem.scoring_metric, problem.n_classes
        truth, mass = problem.confusion_rows(slice(None))
        start = problem.label_confusion(best)
        new = np.full(len(best), label)
        if depends_on_counts(metric) and problem.n_categories == n_classes:
            self._value: Callable[[FloatArray], FloatArray] = partial(_of_counts, metric, start.sum(axis=1))
            self.start = np.stack([np.diagonal(start), start.sum(axis=0)])
            hits = (best, -mass * (truth == best)), (new, mass * (truth == label))
            self._moves = [*hits, (n_classes + best, -mass), (n_classes + new, mass)]
        else:
            self._value, self.start = problem.metric_of, start
            self._moves = [(truth * n_classes + best, -mass), (truth * n_classes + new, mass)]

    def after(self, table: FloatArray) -> Line:
        """Return the line whose first table is ``table``."""
        line = copy(self)
        line.start = table
        return line

    def value(self, tables: FloatArray) -> FloatArray:
        """Return the metric of a stack of tables. An emptied entry must be 0: a G-mean takes its root."""
        return self._value(np.where(tables < _ROUNDING, 0.0, tables))

    def tables(self, steps: IntArray, n_steps: int, rows: IntArray | slice = slice(None)) -> FloatArray:
        """Return the table after each step; ``steps`` are the numbers of the steps at which the rows change."""
        size = self.start.size
        total = np.zeros(n_steps * size)
        for places, mass in self._moves:
            total += np.bincount(steps * size + places[rows], weights=mass[rows], minlength=len(total))
        return np.asarray(self.start + np.cumsum(total.reshape(n_steps, *self.start.shape), axis=0))

    def values(self, order: IntArray, places: IntArray) -> FloatArray:
        """Return the metric after the first ``place`` rows of ``order`` have changed, for ascending places."""
        size, found = max(1, _CHUNK // self.start.size), []
        line, done = self, 0
        for first in range(0, len(places), size):
            stops = places[first : first + size]
            steps = np.repeat(np.arange(len(stops)), np.diff(stops, prepend=done))
            tables = line.tables(steps, len(stops), order[done : int(stops[-1])])
            found.append(self.value(tables))
            line, done = self.after(tables[-1]), int(stops[-1])
        return np.concatenate(found)


def _of_counts(metric: CountMetric, true: FloatArray, tables: FloatArray) -> FloatArray:
    """Return the metric of hits and predictions (n, 2, m), for row sums ``true``."""
    hits, predicted = tables[:, 0], tables[:, 1]
    return value_of_counts(metric, hits, np.broadcast_to(true, hits.shape), predicted)

"""Plug-in search: the weights of ``argmax w_i eta_i`` by coordinate-wise line search, exact over the distinct ratios.

With all weights but one fixed, the prediction of a row changes exactly once, when the class overtakes the best of the
others. So the metric, as a function of that weight, takes at most n + 1 values, and all of them are computed.

The result does not depend on how the classes are numbered: the most common class is searched first, and values that
differ by rounding only count as equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.core.plugin import onehot
from postshift.core.queries import Fit
from postshift.rules.fitted import FittedRule, plug_in_rule
from postshift.rules.problem import Problem

_SAME = 1e-9
_TIED = 1e-12  # values of a metric that differ by less, relative to the largest, are equal
_ROUNDING = 1e-13
MAX_LOG = 300.0  # of a class weight
_CHUNK = 1 << 22  # numbers held at once when all cuts' confusion matrices are built


@dataclass(frozen=True, slots=True)
class PluginSearch:
    """Coordinate-wise search of the class weights on the metric of the deterministic labels.

    Parameters
    ----------
    max_sweeps : int
        Maximum number of rounds over the classes; the search stops after a round without gain.
    max_cuts : int
        If the metric only returns scores: the maximum number of cuts per class, spread evenly over the distinct ratios.
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
        (best,) = yield from problem.label_scores([np.argmax(weights * eta, axis=1)])
        for _ in range(self.max_sweeps):
            before = best
            for label in in_turn(problem):
                cuts = distinct_cuts(weights, eta, label)
                if not problem.is_labelled:
                    cuts = cuts[np.unique(np.linspace(0, len(cuts) - 1, self.max_cuts).astype(int))]
                values = yield from _values_at(problem, weights, label, cuts)
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
    ratios = overtaking(weights, eta, label)
    logs = np.unique(np.log(ratios[np.isfinite(ratios) & (ratios > 0)]))
    logs = logs[np.abs(logs) < MAX_LOG]
    if len(logs) == 0:
        return np.array([weights[label]])
    apart = np.diff(logs) > _SAME  # closer ones differ by rounding only
    return np.asarray(np.exp(np.concatenate([[logs[0] - 1], ((logs[1:] + logs[:-1]) / 2)[apart], [logs[-1] + 1]])))


def overtaking(weights: FloatArray, eta: FloatArray, label: int) -> FloatArray:
    """Return the weight of ``label`` at which each row would change to it."""
    others = np.delete(weights * eta, label, axis=1).max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(eta[:, label] > 0, others / eta[:, label], np.inf))


def _values_at(problem: Problem, weights: FloatArray, label: int, cuts: FloatArray) -> Fit[FloatArray]:
    """Return the metric at every cut: from running confusion matrices, or by one query per cut."""
    eta = problem.val.eta
    if not problem.is_labelled:
        tried = np.tile(weights, (len(cuts), 1))
        tried[:, label] = cuts
        return np.array((yield from problem.label_scores([np.argmax(row * eta, axis=1) for row in tried])))
    without = np.where(np.arange(problem.n_classes) == label, -1.0, weights * eta)
    current = np.argmax(without, axis=1)  # the prediction of each row until label overtakes
    ratios = overtaking(weights, eta, label)
    return np.concatenate(list(_running(problem, current, ratios, label, cuts)))


def _running(problem: Problem, current: IntArray, ratios: FloatArray, label: int, cuts: FloatArray) -> list[FloatArray]:
    """Return the metric at ascending cuts, in chunks: rows change to ``label`` in the order of their ratios."""
    confusion = problem.confusion(onehot(current, n_classes=problem.n_classes))
    order = np.argsort(ratios, kind="stable")
    place = np.searchsorted(ratios[order], cuts, side="left")  # rows with a smaller ratio have changed
    categories, mass = problem.confusion_rows(order)
    found, size = [], max(1, _CHUNK // confusion.size)
    running, done = confusion.copy(), 0
    for first in range(0, len(cuts), size):
        stops = place[first : first + size]
        part = slice(done, int(stops[-1]))
        moves = np.zeros((part.stop - part.start + 1, *confusion.shape))  # moves[0]: nothing has moved yet
        rows = np.arange(1, len(moves))
        moves[rows, categories[part], current[order][part]] -= mass[part]
        moves[rows, categories[part], label] += mass[part]
        table = running + np.cumsum(moves, axis=0)
        table[table < _ROUNDING] = 0  # an emptied entry must be 0: a G-mean takes its root
        found.append(problem.metric_of(table[stops - done]))
        running, done = table[-1], part.stop
    return found

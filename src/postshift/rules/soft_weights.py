"""Rules that search class weights with a softened argmax: the smoothed plug-in and expected utility.

``h_j(x)`` proportional to ``(w_j p_j(x))^(1/T)`` is a plug-in whose argmax is softened by a temperature T. A metric of
it is a smooth function of ``theta = log w``. Weights found by its gradients overfit few rows less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import approx_fprime, minimize

from postshift._validation import FloatArray
from postshift.core.psi import DifferentiableMetric, gradient_of, value_of
from postshift.core.queries import Fit
from postshift.rules.fitted import FittedRule, plug_in_rule
from postshift.rules.posterior import FLOOR
from postshift.rules.problem import Problem
from postshift.rules.search import MAX_LOG, better_place, in_turn
from postshift.rules.simple import mean_prior

TEMPERATURE = 0.2
ENOUGH_ROWS = 100_000  # of each sample; more are not needed for m weights
_GRID = np.log([0.25, 0.5, 0.8, 1.25, 2.0, 4.0])  # factors that are tried if the metric only returns scores
_SWEEPS = 2
_DIFFERENCE = 1e-5


@dataclass(frozen=True, slots=True)
class SmoothedPlugin:
    """Class weights that maximise the metric of the softened argmax on the validation rows."""

    name: str = "smoothed plug-in"

    def usable(self, problem: Problem) -> bool:
        """Return whether soft predictions can be scored."""
        return problem.kind.soft

    def bound(self, problem: Problem) -> int:
        """Return the number of queries of a coordinate search over a grid."""
        return 0 if problem.is_labelled else 2 + _SWEEPS * problem.n_classes * len(_GRID)

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Ascend from equal weights and from the inverse prior, and keep the better."""
        problem = problem.few_rows(ENOUGH_ROWS)
        starts = [np.zeros(problem.n_classes), -np.log(np.maximum(mean_prior(problem), FLOOR))]
        if problem.is_labelled:
            objective = _labelled_objective(problem)
            theta = max((_ascend(objective, start) for start in starts), key=lambda found: found[1])[0]
        else:
            theta = yield from _coordinate_search(problem, starts)
        return plug_in_rule(self.name, _weights(theta), problem=problem)


@dataclass(frozen=True, slots=True)
class ExpectedUtility:
    """Class weights that maximise psi of the *expected* confusion matrix, each row's label drawn from its posterior.

    Half of the weight is on the training rows, half on the validation rows. It needs a posterior that can be
    trusted: the stack.
    """

    name: str = "expected utility"

    def usable(self, problem: Problem) -> bool:
        """Return whether psi is known and is not over groups, which have no posterior."""
        return problem.is_labelled and problem.n_categories == problem.n_classes

    def bound(self, problem: Problem) -> int:  # noqa: ARG002
        """Return 0."""
        return 0

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Ascend from equal weights and from the inverse prior, and keep the better."""
        yield from ()
        problem = problem.few_rows(ENOUGH_ROWS)
        objective = _expected_objective(problem)
        starts = [np.zeros(problem.n_classes), -np.log(np.maximum(mean_prior(problem), FLOOR))]
        theta = max((_ascend(objective, start) for start in starts), key=lambda found: found[1])[0]
        return plug_in_rule(self.name, _weights(theta), problem=problem)


Objective = Callable[[FloatArray], tuple[float, FloatArray]]


def softened(eta: FloatArray, theta: FloatArray) -> FloatArray:
    """Return the softened argmax of ``exp(theta_j) eta_j``."""
    return softened_columns(log_columns(eta), theta).T


def log_columns(eta: FloatArray) -> FloatArray:
    """Return the logarithms of the probabilities, none below a floor, class by class (m, n): sums are faster there."""
    return np.log(np.clip(np.ascontiguousarray(eta.T), FLOOR, 1))


def softened_columns(logs: FloatArray, theta: FloatArray) -> FloatArray:
    """Return the softened argmax (m, n), from logarithms (m, n)."""
    scores = (logs + theta[:, None]) / TEMPERATURE
    raised = np.exp(scores - np.maximum.reduce(scores))
    return np.asarray(raised / np.add.reduce(raised))


def _labelled_objective(problem: Problem) -> Objective:
    """Return value and gradient in theta of the metric of the softened argmax; the rows are sorted by category."""
    metric = problem.fitting_metric
    categories, _ = problem.confusion_rows(slice(None))
    order = np.argsort(categories, kind="stable")
    categories, shares = problem.confusion_rows(order)
    logs = log_columns(problem.val.eta[order])
    present, first, counts = np.unique(categories, return_index=True, return_counts=True)

    def confusion_of(table: FloatArray) -> FloatArray:
        found = np.zeros((problem.n_categories, problem.n_classes))
        found[present] = np.add.reduceat(table * shares, first, axis=1).T
        return found

    if not isinstance(metric, DifferentiableMetric):
        return _by_differences(lambda theta: float(value_of(metric, confusion_of(softened_columns(logs, theta)))))

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        table = softened_columns(logs, theta)
        confusion = confusion_of(table)
        slopes = gradient_of(metric, confusion)[present].T
        return float(value_of(metric, confusion)), _chain(table, shares * np.repeat(slopes, counts, axis=1))

    return objective


def _expected_objective(problem: Problem) -> Objective:
    """Return value and gradient in theta of psi of the expected confusion matrix."""
    metric = problem.fitting_metric
    tables = [part for part in (problem.train, problem.val) if part is not None]
    eta = np.concatenate([part.eta for part in tables])
    shares = np.concatenate([_unit(part.weights, part.n_rows) / len(tables) for part in tables])
    weighted, logs = np.ascontiguousarray((eta * shares[:, None]).T), log_columns(eta)
    if not isinstance(metric, DifferentiableMetric):
        return _by_differences(lambda theta: float(value_of(metric, weighted @ softened_columns(logs, theta).T)))

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        table = softened_columns(logs, theta)
        confusion = weighted @ table.T
        return float(value_of(metric, confusion)), _chain(table, gradient_of(metric, confusion).T @ weighted)

    return objective


def _by_differences(value: Callable[[FloatArray], float]) -> Objective:
    """Return value and gradient of a metric without a gradient, by finite differences."""
    return lambda theta: (value(theta), approx_fprime(theta, value, _DIFFERENCE))


def _chain(table: FloatArray, pull: FloatArray) -> FloatArray:
    """Return the gradient in theta from the gradient in the softened predictions, both (m, n)."""
    mean = np.add.reduce(pull * table)
    return np.asarray((table * (pull - mean)).sum(axis=1) / TEMPERATURE)


def _ascend(objective: Objective, start: FloatArray) -> tuple[FloatArray, float]:
    """Return the theta that a quasi-Newton ascent finds, and its value."""

    def descent(theta: FloatArray) -> tuple[float, FloatArray]:
        value, slope = objective(theta)
        return -value, -slope

    found = minimize(descent, start, jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return found.x, -float(found.fun)


def _coordinate_search(problem: Problem, starts: list[FloatArray]) -> Fit[FloatArray]:
    """Return theta by a coordinate search over a grid, with one query per softened prediction."""
    values = yield from problem.scores([softened(problem.val.eta, theta) for theta in starts])
    best, theta = max(values), starts[int(np.argmax(values))].copy()
    for _ in range(_SWEEPS):
        for label in in_turn(problem):
            tried = np.tile(theta, (len(_GRID), 1))
            tried[:, label] += _GRID
            values = yield from problem.scores([softened(problem.val.eta, row) for row in tried])
            place = better_place(values, best)
            if place is not None:
                best, theta = values[place], tried[place]
    return theta


def _weights(theta: FloatArray) -> FloatArray:
    """Return exp(theta), scaled to a geometric mean of 1; clipped, because the search may diverge on a flat metric."""
    return np.asarray(np.exp(np.clip(theta - theta.mean(), -MAX_LOG, MAX_LOG)))


def _unit(weights: FloatArray | None, n_rows: int) -> FloatArray:
    """Return weights that sum to 1."""
    return np.full(n_rows, 1 / n_rows) if weights is None else np.asarray(weights / weights.sum())

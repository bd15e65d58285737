"""Maximise a metric subject to constraints where some of them are functions that only return scores.

Such a function is replaced by its tangent at the current rule, which probes give. The tangent is a row of the rate
program, or its objective. The solution is a new rule, and the functions themselves are measured on the way to it, on
the labelled rows. The best rule that meets all constraints is the next one, until nothing improves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.constraints.functions import BoundedFunction
from postshift.constraints.pieces import BoundedMetric
from postshift.core.plugin import PlugIn, inverse_prior
from postshift.core.queries import Fit, Query, kind_named
from postshift.core.rows import CONSTANT
from postshift.core.weighting import DIAGONAL, FULL
from postshift.exceptions import InfeasibleError
from postshift.rules.constrained import Constrained, FittedPosterior, fit_posterior
from postshift.rules.constrained_program import ConstrainedProgram, RateLimit
from postshift.rules.fitted import FittedRule
from postshift.rules.probed import Probed, Prober
from postshift.rules.problem import Problem

STEPS = np.arange(1, 9) / 8  # on the way from one rule to the next
CLOSER = np.arange(-7, 8) / 8  # around the best of them, in units of the last step
N_CLOSER = 2  # how often the search goes closer
N_STARTS = 2  # the solution for the known constraints, and the model as it is
FEW_DRAWS = 30  # of rows, for the standard error of a function in a margin
FEASIBLE = 1e-9  # a constraint that is missed by less holds
SETTLED = 1e-5  # of the scale of the metric: a smaller gain ends the search


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstrainedByProbes:
    """A rule that maximises the problem's metric subject to constraints, some of which only return scores.

    Parameters
    ----------
    constraints : tuple of BoundedMetric
        The constraints on metrics that are known.
    functions : tuple of BoundedFunction
        The constraints on functions, for all validation rows of the problem.
    basis : str
        The name of a basis of the rows.
    max_iter : int
        How often tangents are taken.
    """

    constraints: tuple[BoundedMetric, ...] = ()
    functions: tuple[BoundedFunction, ...] = ()
    basis: str = CONSTANT
    max_iter: int = 8

    @property
    def name(self) -> str:
        """The name of the rule."""
        return f"constrained, probed [{self.basis}]"

    @property
    def known(self) -> Constrained:
        """The rule for the constraints on known metrics alone."""
        return Constrained(constraints=self.constraints, basis=self.basis)

    def usable(self, problem: Problem) -> bool:
        """Return whether the rows are counted by group and class, and have this basis."""
        return problem.categories is not None and self.basis in problem.val.bases

    def bound(self, problem: Problem) -> int:
        """Return the maximum number of queries: those of the probes, and of rules on the way, in each round."""
        if problem.is_labelled:
            return 0
        n_probes = 1 + problem.val.functions(self.basis).shape[1] * FULL.probes.n_probes(problem.n_classes)
        n_between = len(STEPS) + N_CLOSER * len(CLOSER)
        return int(N_STARTS + n_between + self.max_iter * (n_probes + n_between))

    def check(self, problem: Problem) -> None:
        """Raise ``InfeasibleError`` if no classifier meets the constraints on known metrics."""
        self.known.check(problem)

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Replace functions by tangents, solve, measure, and repeat; the best rule that was measured is returned."""
        fitted = fit_posterior(problem)
        search = _Search.of(self, problem, fitted)
        here = yield from search.start()
        for _ in range(self.max_iter):
            target = yield from search.target(here)
            found = here if target is None else (yield from search.best_between(here, target))
            if not found.is_better(here, by=SETTLED * problem.scale):
                break
            here = found
        note = "" if here.excess <= FEASIBLE else "no rule that was tried meets the constraints on these rows"
        return replace(self.known.fitted(here.rule, fitted.posterior, note), name=self.name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Measured:
    """A rule, its objective, and by how much it misses the worst constraint (0 if it meets all)."""

    rule: PlugIn
    rates: FloatArray
    value: float
    excess: float

    def is_better(self, other: _Measured, *, by: float = 0.0) -> bool:
        """Return whether this rule misses less or, if both meet the constraints, has a larger objective."""
        if max(self.excess, other.excess) > FEASIBLE:
            return self.excess < other.excess - FEASIBLE
        return self.value > other.value + by


@dataclass(frozen=True, kw_only=True, eq=False)
class _Search:
    """The program, the prober and the measurements of one fit."""

    problem: Problem
    program: ConstrainedProgram
    prober: Prober
    functions: tuple[BoundedFunction, ...]
    first: PlugIn  # the solution for the known constraints alone
    shifts: FloatArray  # of the bounds of their pieces

    @classmethod
    def of(cls, rule: ConstrainedByProbes, problem: Problem, fitted: FittedPosterior) -> _Search:
        """Solve the program of the known constraints, and prepare the probes."""
        program = rule.known.program(problem, fitted)
        try:
            found, shifts = rule.known.corrected(problem, program)
            first = found.rule
        except InfeasibleError as error:  # on the rows of a fold
            first, shifts = error.nearest.rule, np.zeros(len(program.pieces(program.start)))
        rows = program.expectation.rows
        prober = Prober(rows, problem.val.labels, problem.about)
        return cls(
            problem=problem, program=program, prober=prober, functions=rule.functions, first=first, shifts=shifts
        )

    def start(self) -> Fit[_Measured]:
        """Return the best rule on the way from the best that is known to the inverse prior.

        The known ones are the solution for the known constraints and the model as it is. Where these predict one class
        only, probes show little.
        """
        rows = self.program.expectation.rows
        prior = np.average(rows.eta, axis=0, weights=rows.row_weights)
        as_is = PlugIn(weighting=DIAGONAL, alpha=np.ones((rows.n_bases, rows.n_classes)), n_classes=rows.n_classes)
        here = _best((yield from self._measured([self.first, as_is])))
        return (yield from self.best_between(here, inverse_prior(prior, n_bases=rows.n_bases)))

    def target(self, here: _Measured) -> Fit[PlugIn | None]:
        """Return the solution of the program with tangents at a rule; None if no probe changed anything."""
        goal = None
        if not self.problem.is_labelled:
            probed = yield from self.prober.probe(here.rule, self.problem.kind)
            if probed.is_flat:
                return None
            goal = probed.slopes / np.abs(probed.slopes).max()
        limits = [limit for each in self.functions if (limit := self._tangent(each, here)) is not None]
        try:
            return self.program.with_limits(limits, goal=goal).solve(self.shifts).rule
        except InfeasibleError as error:
            nearest: PlugIn = error.nearest.rule
            return nearest

    def best_between(self, here: _Measured, target: PlugIn) -> Fit[_Measured]:
        """Return the best rule on the way from one rule to another: weights are averaged, functions are measured."""
        low, high = _centred(here.rule), _centred(target)
        best, places, width = here, STEPS, STEPS[0]
        for _ in range(1 + N_CLOSER):
            weights = [(1 - step) * low + step * high for step in places]
            found = yield from self._measured([_plug_in(each) for each in weights])
            top = _best(found)
            if not top.is_better(best):
                break
            best, places, width = top, places[found.index(top)] + width * CLOSER, width / 8
        return best

    def _tangent(self, function: BoundedFunction, here: _Measured) -> RateLimit | None:
        """Return the tangent of a function's constraint at a rule, as a limit on expected rates; None if it is flat."""
        kind = kind_named("soft" if function.function.takes_weights else "hard")
        probed: Probed = _answered(self.prober.probe(here.rule, kind), function.answer)
        if probed.is_flat:
            return None
        sign, size = function.constraint.sign, float(np.abs(probed.slopes).max())
        room = -function.miss(probed.score) - self._safety(function, self._labels(here.rule))
        slopes = sign * probed.slopes / size
        return RateLimit(
            name=str(function.constraint.term),
            coefficients=slopes,
            bound=float(np.sum(slopes * here.rates)) + room / size,
        )

    def _measured(self, rules: list[PlugIn]) -> Fit[list[_Measured]]:
        """Measure rules: functions on the labelled rows, known metrics in expectation."""
        rates = [self.program.rates(rule) for rule in rules]
        labels = [self._labels(rule) for rule in rules]
        if self.problem.is_labelled:
            values = [self.program.value(each) for each in rates]
        else:
            values = yield from self.problem.label_scores(labels)
        return [
            _Measured(rule=rule, rates=each, value=value, excess=self._excess(each, shown))
            for rule, each, value, shown in zip(rules, rates, values, labels, strict=True)
        ]

    def _excess(self, rates: FloatArray, labels: IntArray) -> float:
        """Return by how much the worst constraint is missed, in units of its scale; 0 if none is."""
        missed = [
            (each.miss(each.value(labels, self.problem.rows)) + self._safety(each, labels)) / each.function.scale
            for each in self.functions
        ]
        return max(0.0, self.program.excess(self.shifts, rates), *missed)

    def _safety(self, function: BoundedFunction, labels: IntArray) -> float:
        """Return the margin of a function's constraint."""
        margin = function.constraint.margin
        return margin * function.standard_error(labels, self.problem.rows, n_draws=FEW_DRAWS) if margin > 0 else 0.0

    def _labels(self, rule: PlugIn) -> IntArray:
        """Return the labels of a rule on the validation rows."""
        rows = self.program.expectation.rows
        return rule.labels(rows.eta, rows.phi)


def _plug_in(weights: FloatArray) -> PlugIn:
    """Return the rule of weights (L, m, m) on (true, predicted) entries."""
    return PlugIn(weighting=FULL, alpha=weights.reshape(len(weights), -1), n_classes=weights.shape[-1])


def _best(found: list[_Measured]) -> _Measured:
    """Return the best of some measured rules, the first of equals."""
    best = found[0]
    for each in found[1:]:
        best = each if each.is_better(best) else best
    return best


def _centred(rule: PlugIn) -> FloatArray:
    """Return the weights (L, m, m) of a rule, without what does not change labels: a constant per row, and the size."""
    weights = rule.weight_matrices()
    weights = weights - weights.mean(axis=2, keepdims=True)
    size = float(np.linalg.norm(weights))
    return np.asarray(weights / size if size > 0 else weights)


def _answered(fit: Fit[Probed], answer: Callable[[Query], float]) -> Probed:
    """Return the result of a fit whose queries are answered here."""
    answers = None
    try:
        while True:
            asked = fit.send(answers)
            assert isinstance(asked, list)  # noqa: S101
            answers = [answer(query) for query in asked]
    except StopIteration as done:
        found: Probed = done.value
        return found

"""The frontier: the best metric for each bound of one constraint, the other constraints held.

Without a confidence, the rule of each bound is the one that :class:`~postshift.rules.constrained.Constrained` would
give. All bounds share one rate program, so a bound begins with the rules that the others found.

With a confidence, the rule of each bound keeps a distance from the bound, so that its test is expected to succeed. The
rules, and the order of the bounds, are made without the rows that test. The bounds are tested in this order until the
first test fails: a fixed sequence. With this confidence, all bounds that are marked as certified hold together, so a
reader may choose any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from postshift._validation import FloatArray
from postshift.constraints.p_values import rows_needed
from postshift.constraints.pieces import BoundedMetric, Piece
from postshift.constraints.terms import Sense
from postshift.core.rows import CONSTANT
from postshift.exceptions import InfeasibleError
from postshift.metrics.gaps import GapMetric
from postshift.rules.certified import (
    Candidate,
    SplitRows,
    Unlabelled,
    caution_of,
    check_certifiable,
    split_rows,
)
from postshift.rules.constrained import Constrained, fit_posterior
from postshift.rules.constrained_program import SHIFTS, ConstrainedProgram, ConstrainedSolution, RateObjective
from postshift.rules.fitted import FittedRule
from postshift.rules.problem import Problem

LIKELY = 0.95  # the chance to be accepted that a rule of a certified frontier aims at
N_HALVINGS = 8  # of the range in which the strictest bound is searched
DECIMALS = 4  # of the bounds, unless their range is narrow
_SAFE_SHIFTS = tuple(sorted(shift for shift in SHIFTS if shift >= 0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrontierPoint:
    """The rule for one bound.

    Attributes
    ----------
    bound : float
        The bound of the constraint.
    metric, constraint : float
        The metric and the constrained quantity on labelled rows: with a confidence, the rows that tested; otherwise the
        validation rows, which also made the rules.
    expected_metric, expected_constraint : float
        The same in expectation, without the labels.
    certified : bool or None
        Whether the bound, and the other constraints, are certified; None without a confidence.
    p_value : float or None
        The p-value of "some constraint is violated"; None without a confidence.
    rows_needed : int or None
        About how many labelled rows certify this rule with probability 0.8; None if no number is enough.
    n_changed : int
        How many of the labelled rows get another label than by the model as it is.
    confusion : array of shape (R, m)
        The number of labelled rows in each cell, or the sum of their relative weights. With groups, it has a row for
        each (group, class) pair.
    rule : FittedRule
        The rule.
    """

    bound: float
    metric: float
    constraint: float
    expected_metric: float
    expected_constraint: float
    certified: bool | None
    p_value: float | None
    rows_needed: int | None
    n_changed: int
    confusion: FloatArray
    rule: FittedRule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frontier:
    """The best metric for each bound of one constraint.

    Attributes
    ----------
    metric : str
        The name of the metric; greater is better.
    constraint : str
        What is bounded, such as ``"recall[fraud]"``.
    sense : {">=", "<="}
        Whether the bound is a minimum or a maximum.
    others : tuple of str
        The constraints that are held.
    points : tuple of FrontierPoint
        The points, from the loosest bound to the strictest.
    classes : tuple
        The classes.
    n_rows : int
        Number of labelled rows that the points are measured on.
    confidence : float or None
        The probability, at least, that all bounds that are marked as certified hold together.
    """

    metric: str
    constraint: str
    sense: Sense
    others: tuple[str, ...]
    points: tuple[FrontierPoint, ...]
    classes: tuple[Any, ...]
    n_rows: int
    confidence: float | None = None

    def at(self, bound: float) -> FrontierPoint:
        """Return the loosest point that is at least as strict as a bound; the strictest if there is none.

        Parameters
        ----------
        bound : float
            The bound.
        """
        sign = 1 if self.sense == ">=" else -1
        strict = [point for point in self.points if sign * (point.bound - bound) >= -1e-12]
        return strict[0] if strict else self.points[-1]

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per point, without confusion matrices and rules."""
        import pandas as pd

        names = [name for name in FrontierPoint.__dataclass_fields__ if name not in ("confusion", "rule")]
        return pd.DataFrame([[getattr(point, name) for name in names] for point in self.points], columns=names)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tracer:
    """What a frontier is traced for: labelled rows, a metric, and constraints of which the first one moves.

    Attributes
    ----------
    problem : Problem
        The labelled rows and the metric.
    constraints : tuple of BoundedMetric
        The constraints, for the categories of the problem.
    basis : str
        The name of a basis of the rows.
    n_groups : int
        Number of groups; the categories of the problem are (group, class) pairs.
    """

    problem: Problem
    constraints: tuple[BoundedMetric, ...]
    basis: str = CONSTANT
    n_groups: int = 1

    def points(self, bounds: int | FloatArray) -> tuple[FrontierPoint, ...]:
        """Return the points of bounds, or of a number of bounds over the range that can be reached."""
        fitted = fit_posterior(self.problem)
        program = self._rule.program(self.problem, fitted)
        found = []
        for moved in self._moved(program, bounds):
            rule = replace(self._rule, constraints=moved)
            try:
                solution = rule.solve(self.problem, program.with_constraints(moved))
            except InfeasibleError:
                continue
            if _is_empty(solution):
                continue
            candidate = Candidate(
                rule=rule.fitted(solution.rule, fitted.posterior), confusion=solution.confusion, caution=(0.0, 0.0)
            )
            labels = candidate.rule.labels(self.problem.val)
            confusion = self.problem.label_confusion(labels)
            metric = float(self.problem.metric_of(confusion))
            seen = replace(candidate, confusion=confusion, value=metric)
            found.append(_point(seen, solution.value, solution.confusion, moved, self.problem))
        return tuple(found)

    def certified_points(
        self, bounds: int | FloatArray, *, confidence: float, unlabelled: Unlabelled | None = None, seed: int = 0
    ) -> tuple[tuple[FrontierPoint, ...], int]:
        """Return the points with the certified ones marked, and the number of labelled rows that tested."""
        check_certifiable(self.problem, self.constraints)
        split = split_rows(self.problem, unlabelled, n_groups=self.n_groups, seed=seed)
        delta, evidence = 1 - confidence, split.evidence
        made = list(self._cautious(split, bounds, delta=delta))
        order = sorted(range(len(made)), key=lambda place: (-made[place].candidate.caution[0], place))
        found: list[FrontierPoint | None] = [None] * len(made)
        walking = True
        for place in order:
            one = made[place]
            tested = evidence.tested(one.candidate, one.constraints)
            walking = walking and tested.p_value <= delta
            point = _point(tested, one.value, one.candidate.confusion, one.constraints, evidence.problem)
            needed = enough_rows(_pieces(one.constraints, tested.confusion), tested.confusion, delta=delta)
            found[place] = replace(point, certified=walking, p_value=tested.p_value, rows_needed=needed)
        return tuple(point for point in found if point is not None), evidence.problem.val.n_rows

    def _cautious(self, split: SplitRows, bounds: int | FloatArray, *, delta: float) -> Iterator[_Cautious]:
        """Yield a rule for each bound: the best of those that are likely to be accepted, or else the likeliest."""
        objective = RateObjective.of(self.problem.scoring_metric)
        expectation = split.expectation(self.basis, n_groups=self.n_groups)
        program = ConstrainedProgram(expectation, objective, self.constraints)
        caution = partial(_caution, n_rows=split.evidence.problem.val.n_rows, delta=delta)
        every = list(self._moved(program, bounds))
        known = [found for moved in every for found in _from_bold(program.with_constraints(moved), caution)]
        for moved in every if known else ():
            own = program.with_constraints(moved)
            cautions = [caution(own, solution) for solution in known]
            best = max(range(len(known)), key=lambda place: _rank(cautions[place], known[place].value))
            rule = replace(self._rule.fitted(known[best].rule, split.posterior), name=f"certified [{self.basis}]")
            candidate = Candidate(rule=rule, confusion=known[best].confusion, caution=cautions[best])
            yield _Cautious(candidate=candidate, constraints=moved, value=known[best].value)

    def _moved(self, program: ConstrainedProgram, bounds: int | FloatArray) -> Iterator[tuple[BoundedMetric, ...]]:
        """Yield the constraints for each bound, the loosest first."""
        first, *others = self.constraints
        grid = reachable_bounds(program, bounds) if isinstance(bounds, int) else np.asarray(bounds, dtype=np.float64)
        for bound in sorted(set(grid.tolist()), reverse=first.constraint.sense == "<="):
            yield (at_bound(first, bound), *others)

    @property
    def _rule(self) -> Constrained:
        """The rule of the menu with these constraints."""
        return Constrained(constraints=self.constraints, basis=self.basis)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cautious:
    """A rule that was made for a bound, before it is tested, and its expected metric."""

    candidate: Candidate
    constraints: tuple[BoundedMetric, ...]
    value: float


def at_bound(constraint: BoundedMetric, bound: float) -> BoundedMetric:
    """Return a constraint with another bound."""
    return replace(constraint, constraint=replace(constraint.constraint, bound=bound))


def reachable_bounds(program: ConstrainedProgram, n_points: int) -> FloatArray:
    """Return bounds from the one that costs nothing to the strictest, and the one that was asked for."""
    first, *others = program.constraints
    free = program.with_constraints(others).solve()
    loose = first.value(free.confusion)
    strict = _strictest(program, loose)
    grid = np.linspace(loose, strict, n_points)
    if abs(strict - loose) > n_points * 10.0**-DECIMALS:  # round towards the loose end
        scale, inward = 10.0**DECIMALS, np.floor if first.constraint.sense == ">=" else np.ceil
        grid = inward(grid * scale) / scale
    asked = first.constraint.bound
    inside = min(loose, strict) <= asked <= max(loose, strict)
    if inside:
        grid[np.argmin(np.abs(grid - asked))] = asked
    return grid if inside else np.append(grid, asked)


def enough_rows(pieces: Sequence[Piece], confusion: FloatArray, *, delta: float) -> int | None:
    """Return about how many rows certify all pieces; None if no number is enough."""
    needed = [rows_needed(piece, confusion, delta=delta) for piece in pieces]
    found = [each for each in needed if each is not None]
    return max(found) if len(found) == len(needed) else None


def _strictest(program: ConstrainedProgram, loose: float) -> float:
    """Return the strictest bound of the first constraint that can be met, up to the accuracy of the search."""
    first, *others = program.constraints
    aim = 0.0 if isinstance(first.metric, GapMetric) else program.reach(first)

    def is_met(bound: float) -> bool:
        own = program.with_constraints((at_bound(first, bound), *others))
        return _solved(own, 0.0) is not None

    if is_met(aim):
        return aim
    met, missed = loose, aim
    for _ in range(N_HALVINGS):
        middle = (met + missed) / 2
        met, missed = (middle, missed) if is_met(middle) else (met, middle)
    return met


def _solved(program: ConstrainedProgram, shift: float) -> ConstrainedSolution | None:
    """Return the solution with all bounds moved to the safe side by ``shift``; None if there is none."""
    shifts = np.array([-piece.sign * shift for piece in program.pieces(program.start)])
    try:
        found = program.solve(shifts)
    except InfeasibleError:
        return None
    return None if _is_empty(found) else found


def _is_empty(solution: ConstrainedSolution) -> bool:
    """Return whether a ratio has no rows: a class that is never predicted meets any bound of its precision."""
    return any(float(np.sum(piece.below * solution.confusion)) <= 0 for piece in solution.pieces)


def _from_bold(program: ConstrainedProgram, caution: Any) -> Iterator[ConstrainedSolution]:
    """Yield solutions from the search for the smallest safe shift that is likely to be accepted."""
    low, high = 0, len(_SAFE_SHIFTS)
    while low < high:
        middle = (low + high) // 2
        found = _solved(program, _SAFE_SHIFTS[middle])
        if found is not None:
            yield found
        if found is None or caution(program, found)[0] >= LIKELY:  # None: no classifier is that safe
            high = middle
        else:
            low = middle + 1


def _rank(caution: tuple[float, float], value: float) -> tuple[float, float]:
    """Return how good a rule is for a bound: likely rules by their metric, others by their caution."""
    return (1.0, value) if caution[0] >= LIKELY else caution


def _caution(
    program: ConstrainedProgram, solution: ConstrainedSolution, *, n_rows: int, delta: float
) -> tuple[float, float]:
    """Return the expected chance that a solution is accepted, and its smallest room in standard errors."""
    return caution_of(program.pieces(solution.confusion), solution.confusion, n_rows, delta)


def _pieces(constraints: Sequence[BoundedMetric], confusion: FloatArray) -> list[Piece]:
    """Return the pieces of all constraints."""
    return [piece for constraint in constraints for piece in constraint.pieces(confusion)]


def _point(
    seen: Candidate, expected_value: float, expected: FloatArray, constraints: Sequence[BoundedMetric], problem: Problem
) -> FrontierPoint:
    """Return the point of a rule that was measured on labelled rows."""
    first = constraints[0]
    changed = seen.rule.labels(problem.val) != np.argmax(problem.val.eta, axis=1)
    counts = seen.confusion * problem.val.n_rows
    return FrontierPoint(
        bound=first.constraint.bound,
        metric=seen.value,
        constraint=first.value(seen.confusion),
        expected_metric=expected_value,
        expected_constraint=first.value(expected),
        certified=None,
        p_value=None,
        rows_needed=None,
        n_changed=int(np.count_nonzero(changed)),
        confusion=np.rint(counts) if problem.val.weights is None else counts,
        rule=seen.rule,
    )

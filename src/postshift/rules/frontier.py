"""The frontier: the best metric for each bound of one constraint, the other constraints held.

Without a confidence, the rule of each bound is the one that :class:`~postshift.rules.constrained.Constrained` would
give. All bounds share one rate program, so a bound begins with the rules that the others found.

With a confidence, each bound has a path of rules as a fit has one (:mod:`postshift.rules.certified`), from cautious to
bold; rules that were made for another bound serve too. All pairs of a bound and a rule are tested in one sequence until
the first test fails, and a bound is certified if one of its rules is accepted. The sequence is fixed without the rows
that test. So with this confidence, all bounds that are marked as certified hold together, and a reader may choose any
of them. A fit tests the rules of one bound only: what is marked is certified by a fit too, and a fit may certify more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from postshift._validation import FloatArray
from postshift.constraints.p_values import rows_needed
from postshift.constraints.pieces import BoundedMetric
from postshift.constraints.terms import Sense
from postshift.core.rows import CONSTANT
from postshift.exceptions import InfeasibleError
from postshift.metrics.gaps import GapMetric
from postshift.rules.certified import (
    CAUTIONS,
    PathRule,
    SplitRows,
    Unlabelled,
    cautious_solutions,
    check_certifiable,
    in_order,
    split_rows,
    walk,
)
from postshift.rules.constrained import Constrained, fit_posterior
from postshift.rules.constrained_program import ConstrainedProgram, ConstrainedSolution, RateObjective
from postshift.rules.fitted import FittedRule
from postshift.rules.problem import Problem

LIKELY = 0.95  # rules with a lower chance to be accepted are tested after the first rules of all bounds
SPARSE = 4  # with several bounds, one caution in so many is tried at each, because neighbours share their rules
N_HALVINGS = 8  # of the range in which the strictest bound is searched
DECIMALS = 4  # of the bounds, unless their range is narrow


@dataclass(frozen=True, kw_only=True)
class PointValues:
    """The numbers of a point of a frontier; :class:`FrontierPoint` says what they are."""

    bound: float
    metric: float
    constraint: float
    expected_metric: float
    expected_constraint: float
    certified: bool | None
    p_value: float | None
    rows_needed: int | None
    n_changed: int


@dataclass(frozen=True, kw_only=True, eq=False)
class FrontierPoint(PointValues):
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

        names = [field.name for field in fields(PointValues)]
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
            made = PathRule(
                rule=rule.fitted(solution.rule, fitted.posterior),
                confusion=solution.confusion,
                value=solution.value,
                caution=(0.0, 0.0),
            )
            confusion = self.problem.label_confusion(made.rule.labels(self.problem.val))
            seen = replace(made, confusion=confusion, value=float(self.problem.metric_of(confusion)))
            found.append(_point(made, seen, moved, self.problem))
        return tuple(found)

    def certified_points(
        self, bounds: int | FloatArray, *, confidence: float, unlabelled: Unlabelled | None = None, seed: int = 0
    ) -> tuple[tuple[FrontierPoint, ...], int]:
        """Return the points with the certified ones marked, and the number of labelled rows that tested."""
        check_certifiable(self.problem, self.constraints)
        split = split_rows(self.problem, unlabelled, n_groups=self.n_groups, seed=seed)
        delta, evidence = 1 - confidence, split.evidence
        paths = self._paths(split, bounds, delta=delta)
        sequence = _sequence([path for _, path in paths])
        tested = walk(((candidate, paths[place][0]) for place, candidate in sequence), evidence, delta=delta)
        found = []
        for place, (moved, path) in enumerate(paths):
            accepted = [
                (made, seen)
                for (where, made), seen in zip(sequence, tested, strict=False)
                if where == place and seen.p_value <= delta
            ]
            likely = _likely(path)[-1]
            made, seen = max(accepted or [(likely, evidence.tested(likely, moved))], key=lambda pair: pair[1].value)
            found.append(
                replace(
                    _point(made, seen, moved, evidence.problem),
                    certified=bool(accepted),
                    p_value=seen.p_value,
                    rows_needed=rows_needed(evidence.pieces(moved), seen.confusion, delta=delta),
                )
            )
        return tuple(found), evidence.problem.val.n_rows

    def _paths(
        self, split: SplitRows, bounds: int | FloatArray, *, delta: float
    ) -> list[tuple[tuple[BoundedMetric, ...], list[PathRule]]]:
        """Return the constraints and the path for each bound; the rules that were made for one serve the others too."""
        objective = RateObjective.of(self.problem.scoring_metric)
        expectation = split.expectation(self.basis, n_groups=self.n_groups)
        program = ConstrainedProgram(expectation, objective, self.constraints)
        n_rows = split.evidence.problem.val.n_rows
        every = list(self._moved(program, bounds))
        some = CAUTIONS[:: min(len(every), SPARSE)]
        known = [each for moved in every for each in cautious_solutions(program.with_constraints(moved), n_rows, some)]
        how: Any = {"basis": self.basis, "posterior": split.posterior, "n_rows": n_rows, "delta": delta}
        return [(moved, in_order(known, moved, **how)) for moved in every if known]

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


def _likely(path: Sequence[PathRule]) -> Sequence[PathRule]:
    """Return the part of a path that is likely to be accepted, at least its first rule."""
    return path[: max(1, sum(candidate.caution[0] >= LIKELY for candidate in path))]


def _sequence(paths: Sequence[Sequence[PathRule]]) -> list[tuple[int, PathRule]]:
    """Return all rules of all bounds, with the place of the bound, in the order of the tests.

    The likely rules of all bounds come first, then the others; both from cautious to bold.
    """
    keys = [
        ((step >= len(_likely(path)), -candidate.caution[0], place, step), candidate)
        for place, path in enumerate(paths)
        for step, candidate in enumerate(path)
    ]
    return [(key[2], candidate) for key, candidate in sorted(keys, key=lambda pair: pair[0])]


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


def _strictest(program: ConstrainedProgram, loose: float) -> float:
    """Return the strictest bound of the first constraint that can be met, up to the accuracy of the search."""
    first, *others = program.constraints
    aim = 0.0 if isinstance(first.metric, GapMetric) else program.reach(first)

    def is_met(bound: float) -> bool:
        try:
            found = program.with_constraints((at_bound(first, bound), *others)).solve()
        except InfeasibleError:
            return False
        return not _is_empty(found)

    if is_met(aim):
        return aim
    met, missed = loose, aim
    for _ in range(N_HALVINGS):
        middle = (met + missed) / 2
        met, missed = (middle, missed) if is_met(middle) else (met, middle)
    return met


def _is_empty(solution: ConstrainedSolution) -> bool:
    """Return whether a ratio has no rows: the precision of a class that is never predicted is 0, whatever the bound."""
    return not all(piece.has_rows(solution.confusion) for piece in solution.pieces)


def _point(made: PathRule, seen: PathRule, constraints: Sequence[BoundedMetric], problem: Problem) -> FrontierPoint:
    """Return the point of a rule as it was made, in expectation, and as it was seen on labelled rows."""
    first = constraints[0]
    changed = seen.rule.labels(problem.val) != np.argmax(problem.val.eta, axis=1)
    counts = seen.confusion * problem.val.n_rows
    return FrontierPoint(
        bound=first.constraint.bound,
        metric=seen.value,
        constraint=first.value(seen.confusion),
        expected_metric=made.value,
        expected_constraint=first.value(made.confusion),
        certified=None,
        p_value=None,
        rows_needed=None,
        n_changed=int(np.count_nonzero(changed)),
        confusion=np.rint(counts) if problem.val.weights is None else counts,
        rule=seen.rule,
    )

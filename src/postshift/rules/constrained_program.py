"""The rate program of a metric and constraints, on expected confusion matrices.

Notation: C (R, m) is the expected confusion matrix, T (L, m, m) are the rates of the rate program. Groups are read
through the basis: ``C_(g,i),j = sum_l B_gil T_lij``, where ``sum_l B_gil phi_l`` is the best linear estimate of "group
g" among the rows of class i. If the basis has the groups, this is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.constraints.pieces import BoundedMetric, Piece, slopes_of
from postshift.constraints.terms import Constraint, Term
from postshift.core.plugin import PlugIn
from postshift.core.rate_program import Limits, RateProgram, RateSolution, expected_rates
from postshift.core.rows import Rows
from postshift.engines.memory import MemoryEngine
from postshift.exceptions import InfeasibleError
from postshift.metrics.over_groups import PooledMetric
from postshift.metrics.penalised import Penalised

N_TANGENTS = 8  # how often a constraint that is not linear is replaced by its tangent
N_BISECTIONS = 12  # of the way back to a solution that meets the constraints
TOL = 1e-4


@dataclass(frozen=True, kw_only=True, eq=False)
class Expectation:
    """Rows with a posterior in place of labels: the expected confusion matrix of any classifier.

    Attributes
    ----------
    rows : Rows
        The rows, with eta replaced by the posterior and one basis.
    shares : array of shape (G, m, L)
        B, the share of each group in the basis functions, by class.
    """

    rows: Rows
    shares: FloatArray

    @classmethod
    def of(cls, rows: Rows, groups: IntArray | None, *, n_groups: int = 1) -> Expectation:
        """Return the expectation over rows; groups (n,) are estimated from the basis, class by class."""
        n_bases, n_classes = rows.n_bases, rows.n_classes
        if groups is None:
            return cls(rows=rows, shares=np.ones((1, n_classes, n_bases)))
        member = np.eye(n_groups)[groups]
        shares = np.empty((member.shape[1], n_classes, n_bases))
        for label in range(n_classes):
            weights = (rows.row_weights * rows.eta[:, label])[:, None]
            shares[:, label] = np.linalg.lstsq(
                (rows.phi * weights).T @ rows.phi, (rows.phi * weights).T @ member, rcond=None
            )[0].T
        return cls(rows=rows, shares=shares)

    @cached_property
    def engine(self) -> MemoryEngine:
        """The engine of the rows."""
        return MemoryEngine(replace(self.rows, labels=np.zeros(self.rows.n_rows, dtype=np.intp)), n_categories=1)

    def confusion(self, rates: FloatArray) -> FloatArray:
        """Return C (R, m) of rates T."""
        table = np.einsum("gil,lij->gij", self.shares, rates)
        return np.asarray(table.reshape(-1, rates.shape[-1]))

    def on_rates(self, coefficients: FloatArray) -> FloatArray:
        """Return coefficients (R, m) of C as coefficients (L, m, m) of T."""
        n_groups, n_classes, _ = self.shares.shape
        by_group = coefficients.reshape(n_groups, n_classes, n_classes)
        return np.asarray(np.einsum("gil,gij->lij", self.shares, by_group))

    def chances(self) -> FloatArray:
        """Return the estimated chance (n, R) of each category in each row."""
        chances = np.einsum("nl,gil,ni->ngi", self.rows.phi, self.shares, self.rows.eta)
        return np.asarray(chances.reshape(self.rows.n_rows, -1))


@dataclass(frozen=True, kw_only=True, eq=False)
class RateObjective:
    """What a program maximises: a metric of C that has slopes and, if there is one, a gap with a cost.

    ``metric - strength * gap`` has a kink where two groups change places. There the gap becomes pieces with a slack.
    """

    metric: Any
    gap: BoundedMetric | None = None
    cost: float = 0.0

    @classmethod
    def of(cls, metric: Any) -> RateObjective:
        """Return the objective of a metric for which greater is better."""
        if not isinstance(metric, Penalised):
            return cls(metric=metric)
        groups: Any = {"n_classes": metric.n_classes, "n_groups": metric.n_groups}
        nothing = Constraint(term=Term(metric.gap), sense="<=", bound=0.0)
        gap = BoundedMetric(constraint=nothing, metric=metric.gap_metric, **groups)
        return cls(metric=PooledMetric(inner=metric.inner, **groups), gap=gap, cost=metric.strength)

    def value(self, confusion: FloatArray) -> float:
        """Return the metric, less the cost of the gap."""
        cost = 0.0 if self.gap is None else self.cost * self.gap.value(confusion)
        return float(self.metric.value(confusion)) - cost

    def slopes(self, confusion: FloatArray) -> FloatArray:
        """Return the slopes of the metric; those of the gap are in its pieces."""
        return slopes_of(self.metric, confusion)

    def pieces(self, confusion: FloatArray) -> list[Piece]:
        """Return the pieces of the gap."""
        return [] if self.gap is None else self.gap.pieces(confusion)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RateLimit:
    """A limit ``<coefficients, T> <= bound`` on rates, such as the tangent of a function that is known by its scores.

    Attributes
    ----------
    name : str
        What is limited.
    coefficients : array of shape (L, m, m)
        The coefficients of T.
    bound : float
        The upper bound.
    """

    name: str
    coefficients: FloatArray
    bound: float


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstrainedSolution:
    """A single rule that meets the constraints, and the randomised one that the rate program found.

    Attributes
    ----------
    rule : PlugIn
        The single rule, which gives deterministic labels.
    confusion : array of shape (R, m)
        Its expected confusion matrix.
    value : float
        Its objective, in expectation.
    pieces : tuple of Piece
        The pieces of the constraints.
    randomised : RateSolution
        The randomised rule; ``randomised.prices`` are the prices of the pieces.
    kept : float
        The share of a correction of the bounds that was kept; below 1 if no classifier meets all of it.
    """

    rule: PlugIn
    confusion: FloatArray
    value: float
    pieces: tuple[Piece, ...]
    randomised: RateSolution
    kept: float = 1.0


class ConstrainedProgram:
    """The rate program of an objective and constraints on expected confusion matrices.

    Parameters
    ----------
    expectation : Expectation
        The rows, with a posterior in place of labels.
    objective : RateObjective
        The objective.
    constraints : sequence of BoundedMetric
        The constraints.
    """

    goal: FloatArray | None = None  # coefficients (L, m, m) of T that take the place of the objective
    limits: tuple[RateLimit, ...] = ()  # limits beside the constraints

    def __init__(
        self, expectation: Expectation, objective: RateObjective, constraints: Sequence[BoundedMetric]
    ) -> None:
        self.expectation, self.objective, self.constraints = expectation, objective, tuple(constraints)
        rows = expectation.rows
        size = {"n_bases": rows.n_bases, "n_classes": rows.n_classes}
        nothing = Limits(coefficients=np.empty((0, rows.n_bases, rows.n_classes, rows.n_classes)), bounds=np.empty(0))
        self._program = RateProgram(expected_rates(expectation.engine), limits=nothing, tol=TOL, **size)
        self.start = expectation.confusion(self._program.columns[0])

    def with_constraints(self, constraints: Sequence[BoundedMetric]) -> ConstrainedProgram:
        """Return the program with other constraints; both share the rules that they know."""
        other = copy(self)
        other.constraints = tuple(constraints)
        return other

    def with_limits(self, limits: Sequence[RateLimit], *, goal: FloatArray | None = None) -> ConstrainedProgram:
        """Return the program with limits beside the constraints and, if given, a linear objective in place of its own.

        Both share the rules that they know.
        """
        other = copy(self)
        other.limits, other.goal = tuple(limits), goal
        return other

    def pieces(self, confusion: FloatArray) -> tuple[Piece, ...]:
        """Return the pieces at a confusion matrix: those of the constraints, then those of the objective's gap."""
        return (*self.strict_pieces(confusion), *self.objective.pieces(confusion))

    def strict_pieces(self, confusion: FloatArray) -> tuple[Piece, ...]:
        """Return the pieces of the constraints at a confusion matrix."""
        return tuple(piece for constraint in self.constraints for piece in constraint.pieces(confusion))

    def solve(self, shifts: FloatArray | None = None) -> ConstrainedSolution:
        """Return the best single rule; ``shifts`` move the bound of each piece.

        Raise ``InfeasibleError`` if no classifier meets the constraints, with what each of them can reach.
        """
        try:
            return self._solved(shifts)
        except InfeasibleError as error:
            if shifts is not None:
                raise
            raise InfeasibleError(self._conflict(error), conflict=error.conflict, nearest=error.nearest) from None

    def _solved(self, shifts: FloatArray | None) -> ConstrainedSolution:
        """Return the best single rule; constraints that are not linear are replaced by their tangents.

        If the tangents cannot be met where they are taken first, they are taken where the constraints hold, and
        solutions that leave the constraints are moved back.
        """
        at, safe, excess = self.start, None, partial(self.excess, shifts)
        for attempt in range(N_TANGENTS):
            pieces = self.pieces(at)
            is_exact = all(piece.kind != "tangent" for piece in pieces)
            program = self._program.with_limits(self._limits(pieces, shifts))
            value = partial(self._value, program.limits)
            try:
                found = program.ascend(value, self._gradient)
            except InfeasibleError as error:
                if is_exact or attempt == N_TANGENTS - 1:
                    raise
                found = self._elsewhere(error, excess, value) if attempt == 0 else error.nearest
                safe = found if excess(found.rates) <= TOL else safe
            else:
                if is_exact or (safe is None and excess(found.rates) <= TOL):
                    break
                if safe is not None:
                    last, found = safe, self._moved_back(found, safe, excess, value)
                    if found.value <= value(last.rates) + TOL:
                        break
                    safe = found
            at = self.expectation.confusion(found.rates)
        rule, rates = program.single_rule(found, value, excess=None if is_exact else excess)
        confusion = self.expectation.confusion(rates)
        return ConstrainedSolution(
            rule=rule, confusion=confusion, value=self.value(rates), pieces=pieces, randomised=found
        )

    def _elsewhere(
        self, error: InfeasibleError, excess: Callable[[FloatArray], float], value: Callable[[FloatArray], float]
    ) -> RateSolution:
        """Return where to take tangents next, after those of one place could not be met.

        It is on the way from the nearest place to the one where the constraint that is missed most is best.
        """
        nearest: RateSolution = error.nearest
        confusion = self.expectation.confusion(nearest.rates)
        best = self._best_of(max(self.constraints, key=lambda each: each.miss(confusion)))
        return self._moved_back(nearest, best, excess, value) if excess(best.rates) <= TOL else best

    def _moved_back(
        self,
        found: RateSolution,
        safe: RateSolution,
        excess: Callable[[FloatArray], float],
        value: Callable[[FloatArray], float],
    ) -> RateSolution:
        """Return the mixture of a solution and one that meets the constraints which is closest to the first."""
        low, high = 0.0, 1.0
        for _ in range(N_BISECTIONS if excess(found.rates) > TOL else 0):
            middle = (low + high) / 2
            meets = excess((1 - middle) * safe.rates + middle * found.rates) <= TOL
            low, high = (middle, high) if meets else (low, middle)
        step = 1.0 if excess(found.rates) <= TOL else low
        return self._program.mixed(safe, found, step, value)

    def reach(self, constraint: BoundedMetric) -> float:
        """Return the best value that a constraint's metric can have, whatever the other constraints say."""
        return constraint.value(self.expectation.confusion(self._best_of(constraint).rates))

    def _best_of(self, constraint: BoundedMetric) -> RateSolution:
        """Return the solution that is best for a constraint's metric alone."""
        sign = -constraint.constraint.sign
        return self._program.ascend(
            lambda rates: sign * constraint.value(self.expectation.confusion(rates)),
            lambda rates: sign * self.expectation.on_rates(constraint.slopes(self.expectation.confusion(rates))),
        )

    def _conflict(self, error: InfeasibleError) -> str:
        """Return the message that the constraints exclude each other, with what each can reach on these rows."""
        nearest = self.expectation.confusion(error.nearest.rates)
        missed = [each for each in self.constraints if each.miss(nearest) > -TOL]
        compromise = ", {:.3f} in the nearest compromise" if len(self.constraints) > 1 else ""
        alone = " alone" if len(self.constraints) > 1 else ""
        facts = [
            f"{each.constraint.term} reaches {self.reach(each):.3f} at best{alone}"
            f"{compromise.format(each.value(nearest))} ({each.constraint.sense} {each.constraint.bound:g} is asked)"
            for each in missed or self.constraints
        ]
        together = "constraints" if len(missed) != 1 else "constraint"
        return f"no classifier meets the {together} on these rows, in expectation: {'; '.join(facts)}. Relax a bound"

    def _limits(self, pieces: Sequence[Piece], shifts: FloatArray | None) -> Limits:
        """Return the limits of pieces; those of the gap share a slack."""
        moved = np.zeros(len(pieces)) if shifts is None else shifts
        spaces = [piece.half_space(piece.bound + shift, self.start) for piece, shift in zip(pieces, moved, strict=True)]
        n_soft = len(self.objective.pieces(self.start))
        rows = [self.expectation.on_rates(space) for space in spaces] + [each.coefficients for each in self.limits]
        n_strict, n_beside = len(pieces) - n_soft, len(self.limits)
        return Limits(
            coefficients=np.array(rows).reshape(-1, *self._program.columns[0].shape),
            bounds=np.array([0.0] * len(pieces) + [each.bound for each in self.limits]),
            names=(*(piece.name for piece in pieces), *(each.name for each in self.limits)),
            slacks=np.array([-1] * n_strict + [0] * n_soft + [-1] * n_beside, dtype=np.intp),
            costs=np.array([self.objective.cost] if n_soft else []),
        )

    def value(self, rates: FloatArray) -> float:
        """Return the objective of rates."""
        if self.goal is not None:
            return float(np.sum(self.goal * rates))
        return self.objective.value(self.expectation.confusion(rates))

    def rates(self, rule: PlugIn) -> FloatArray:
        """Return the expected rates T of a rule."""
        return self._program.rates(rule)

    def _value(self, limits: Limits, rates: FloatArray) -> float:
        """Return the metric of rates, less the cost of the slack that they need."""
        if self.goal is not None:
            return self.value(rates)
        return float(self.objective.metric.value(self.expectation.confusion(rates))) - limits.penalty(rates)

    def _gradient(self, rates: FloatArray) -> FloatArray:
        """Return the gradient of the smooth part of the objective."""
        if self.goal is not None:
            return self.goal
        return self.expectation.on_rates(self.objective.slopes(self.expectation.confusion(rates)))

    def excess(self, shifts: FloatArray | None, rates: FloatArray) -> float:
        """Return by how much rates miss the shifted bound of the worst constraint, or a limit beside; 0 if none."""
        confusion = self.expectation.confusion(rates)
        strict = self.strict_pieces(confusion)
        moved = np.zeros(len(strict)) if shifts is None else shifts
        misses = [piece.miss(confusion) - piece.sign * move for piece, move in zip(strict, moved, strict=False)]
        beside = [float(np.sum(each.coefficients * rates)) - each.bound for each in self.limits]
        return float(max([*misses, *beside], default=0.0))

"""Maximise a metric subject to constraints: the rate program on expected confusion matrices.

The constraints are imposed on the expected confusion matrix under a posterior p(x), not on the labelled rows: with few
labelled rows, a rule that just meets a constraint on them is overfitted to them. The labels correct the expectation:
the difference between the labelled and the expected value of each constraint, shrunk by its own noise, shifts the
bound, and the program is solved again.

Notation: C (R, m) is the expected confusion matrix, T (L, m, m) are the rates of the rate program. Groups are read
through the basis: ``C_(g,i),j = sum_l B_gil T_lij``, where ``sum_l B_gil phi_l`` is the best linear estimate of "group
g" among the rows of class i. If the basis has the groups, this is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.constraints.pieces import BoundedMetric, Piece, slopes_of
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.core.queries import Fit
from postshift.core.rate_program import Limits, RateProgram, RateSolution, expected_rates
from postshift.core.rows import CONSTANT, Rows
from postshift.engines.memory import MemoryEngine
from postshift.exceptions import InfeasibleError
from postshift.metrics.penalised import Penalised
from postshift.rules.fitted import FittedRule
from postshift.rules.posterior import Identity, Posterior, fit_stack
from postshift.rules.problem import Problem

N_ROUNDS = 4  # of the correction by labels
N_TANGENTS = 8  # how often a constraint that is not linear is replaced by its tangent
N_HALVINGS = 6
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
    def of(cls, rows: Rows, groups: IntArray | None) -> Expectation:
        """Return the expectation over rows; groups (n,) are estimated from the basis, class by class."""
        n_bases, n_classes = rows.n_bases, rows.n_classes
        if groups is None:
            return cls(rows=rows, shares=np.ones((1, n_classes, n_bases)))
        member = np.eye(int(groups.max()) + 1)[groups]
        shares = np.empty((member.shape[1], n_classes, n_bases))
        for label in range(n_classes):
            weights = (rows.row_weights * rows.eta[:, label])[:, None]
            shares[:, label] = np.linalg.lstsq((rows.phi * weights).T @ rows.phi, (rows.phi * weights).T @ member)[0].T
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
class Goal:
    """The objective of a rate program: a smooth metric, and pieces whose excess costs something.

    ``metric - strength * gap`` has a kink where the gap changes its sign: the gap becomes pieces with a slack.
    """

    metric: Any
    n_groups: int
    gap: BoundedMetric | None = None
    cost: float = 0.0

    def value(self, confusion: FloatArray) -> float:
        """Return the metric, less the cost of the gap."""
        found = float(self.metric.value(confusion))
        return found - (0.0 if self.gap is None else self.cost * self.gap.value(confusion))

    def slopes(self, confusion: FloatArray) -> FloatArray:
        """Return the gradient of the smooth part."""
        return slopes_of(self.metric, confusion)

    def pieces(self, confusion: FloatArray) -> list[Piece]:
        """Return the pieces that may be exceeded at a cost."""
        return [] if self.gap is None else self.gap.pieces(confusion)


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
    """

    rule: PlugIn
    confusion: FloatArray
    value: float
    pieces: tuple[Piece, ...]
    randomised: RateSolution


class ConstrainedProgram:
    """The rate program of a goal and constraints on expected confusion matrices.

    Parameters
    ----------
    expectation : Expectation
        The rows, with a posterior in place of labels.
    goal : Goal
        The objective.
    constraints : sequence of BoundedMetric
        The constraints.
    """

    def __init__(self, expectation: Expectation, goal: Goal, constraints: Sequence[BoundedMetric]) -> None:
        self.expectation, self.goal, self.constraints = expectation, goal, tuple(constraints)
        rows = expectation.rows
        size = {"n_bases": rows.n_bases, "n_classes": rows.n_classes}
        nothing = Limits(coefficients=np.empty((0, rows.n_bases, rows.n_classes, rows.n_classes)), bounds=np.empty(0))
        self._program = RateProgram(expected_rates(expectation.engine), limits=nothing, tol=TOL, **size)
        self._start = expectation.confusion(self._program.columns[0])

    def pieces(self, confusion: FloatArray) -> tuple[Piece, ...]:
        """Return the pieces of all constraints at a confusion matrix."""
        return tuple(piece for constraint in self.constraints for piece in constraint.pieces(confusion))

    def solve(self, shifts: FloatArray | None = None) -> ConstrainedSolution:
        """Return the best single rule; ``shifts`` move the bound of each piece."""
        at = self._start
        for _ in range(N_TANGENTS):
            pieces = self.pieces(at)
            program = self._program.with_limits(self._limits(pieces, self.goal.pieces(at), shifts))
            found = program.ascend(self._value, self._gradient)
            at = self.expectation.confusion(found.rates)
            if all(piece.kind != "tangent" for piece in pieces) or self._excess(at, shifts) <= TOL:
                break
        rule, rates = program.single_rule(found, self._value)
        confusion = self.expectation.confusion(rates)
        return ConstrainedSolution(
            rule=rule, confusion=confusion, value=self.goal.value(confusion), pieces=pieces, randomised=found
        )

    def reach(self, constraint: BoundedMetric) -> float:
        """Return the best value that a constraint's metric can have, whatever the other constraints say."""
        sign = -constraint.constraint.sign
        found = self._program.ascend(
            lambda rates: sign * constraint.value(self.expectation.confusion(rates)),
            lambda rates: sign * self.expectation.on_rates(constraint.slopes(self.expectation.confusion(rates))),
        )
        return sign * found.value

    def _limits(self, pieces: Sequence[Piece], soft: Sequence[Piece], shifts: FloatArray | None) -> Limits:
        """Return the limits of pieces, the soft ones with a shared slack."""
        moved = np.zeros(len(pieces)) if shifts is None else shifts
        spaces = [
            piece.half_space(piece.bound + shift, self._start) for piece, shift in zip(pieces, moved, strict=True)
        ]
        spaces += [piece.half_space(0.0, self._start) for piece in soft]
        shape = (len(spaces), *self._program.columns[0].shape)
        return Limits(
            coefficients=np.array([self.expectation.on_rates(space) for space in spaces]).reshape(shape),
            bounds=np.zeros(len(spaces)),
            names=tuple(piece.name for piece in (*pieces, *soft)),
            slacks=np.array([-1] * len(pieces) + [0] * len(soft), dtype=np.intp),
            costs=np.array([self.goal.cost] if soft else []),
        )

    def _value(self, rates: FloatArray) -> float:
        """Return the objective of rates."""
        return self.goal.value(self.expectation.confusion(rates))

    def _gradient(self, rates: FloatArray) -> FloatArray:
        """Return the gradient of the smooth part of the objective."""
        return self.expectation.on_rates(self.goal.slopes(self.expectation.confusion(rates)))

    def _excess(self, confusion: FloatArray, shifts: FloatArray | None) -> float:
        """Return by how much the worst piece misses its shifted bound."""
        pieces = self.pieces(confusion)
        moved = np.zeros(len(pieces)) if shifts is None else shifts
        return max(piece.miss(confusion) - piece.sign * move for piece, move in zip(pieces, moved, strict=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class Constrained:
    """A rule that maximises the problem's metric subject to constraints.

    Parameters
    ----------
    constraints : tuple of BoundedMetric
        The constraints, for the categories of the problem.
    basis : str
        The name of a basis of the rows.
    n_groups : int
        Number of groups; the categories of the problem are (group, class) pairs.
    """

    constraints: tuple[BoundedMetric, ...]
    basis: str = CONSTANT
    n_groups: int = 1

    @property
    def name(self) -> str:
        """The name of the rule."""
        return f"constrained [{self.basis}]"

    def usable(self, problem: Problem) -> bool:
        """Return whether there are labels and this basis."""
        return problem.is_labelled and self.basis in problem.val.bases

    def bound(self, problem: Problem) -> int:  # noqa: ARG002
        """Return 0."""
        return 0

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Solve the program, and correct its bounds by the labels."""
        yield from ()
        posterior = best_posterior(problem)
        rows = problem.val.through(posterior).over(self.basis)
        categories, _ = problem.confusion_rows(slice(None))
        groups = categories // problem.n_classes if self.n_groups > 1 else None
        program = ConstrainedProgram(Expectation.of(rows, groups), self._goal(problem), self.constraints)
        shifts = None
        for _ in range(N_ROUNDS):
            found = self._feasible(program, shifts)
            shifts = self._shifts(problem, program, found)
        found = self._feasible(program, shifts)
        mixture = Mixture.of([found.rule], [1.0])
        return FittedRule(name=self.name, mixture=mixture, posterior=posterior, basis=self.basis)

    def _goal(self, problem: Problem) -> Goal:
        """Return the objective of the problem."""
        return Goal(metric=problem.scoring_metric, n_groups=self.n_groups)

    def _feasible(self, program: ConstrainedProgram, shifts: FloatArray | None) -> ConstrainedSolution:
        """Return the solution; shifts that no classifier can meet are halved."""
        for _ in range(N_HALVINGS):
            try:
                return program.solve(shifts)
            except InfeasibleError:
                if shifts is None:
                    raise
                shifts = shifts / 2
        return program.solve()

    def _shifts(self, problem: Problem, program: ConstrainedProgram, found: ConstrainedSolution) -> FloatArray:
        """Return how the labels move the bounds: the shrunk difference of labelled and expected values, and margins."""
        rows = program.expectation.rows
        labels = found.rule.labels(rows.eta, rows.phi)
        labelled = problem.label_confusion(labels)
        categories, weights = problem.confusion_rows(slice(None))
        chances, n_rows = program.expectation.chances(), 1 / float(np.sum(weights**2))
        margins = [c.constraint.margin for c in self.constraints for _ in c.pieces(found.confusion)]
        shifts = []
        for piece, seen, margin in zip(found.pieces, program.pieces(labelled), margins, strict=True):
            influence = piece.influence(found.confusion)
            apart = influence[categories, labels] - np.einsum("nr,rn->n", chances, influence[:, labels])
            noise = float(np.sqrt(np.sum((weights * apart) ** 2)))
            gap = seen.value(labelled) - piece.value(found.confusion)
            kept = max(0.0, 1 - (noise / gap) ** 2) if gap else 0.0
            error = float(np.sqrt(np.sum(found.confusion * influence**2) / n_rows))
            shifts.append(-kept * gap - piece.sign * margin * error)
        return np.array(shifts)


def best_posterior(problem: Problem) -> Posterior:
    """Return the model's own probabilities, or the stack if it has the lower log-loss out of fold."""
    eta, labels, weights = problem.val.eta, problem.val.labels, problem.val.row_weights
    assert labels is not None
    fold = np.arange(len(labels)) % 5
    order = np.random.default_rng(0).permutation(len(labels))
    fold = fold[np.argsort(order)]
    loss_eta = loss_stack = 0.0
    for k in range(5):
        held = fold == k
        stack = fit_stack(eta[~held], labels[~held], None if problem.val.weights is None else weights[~held])
        for table, name in ((eta[held], "eta"), (stack(eta[held]), "stack")):
            loss = -np.sum(weights[held] * np.log(np.maximum(table[np.arange(held.sum()), labels[held]], 1e-6)))
            loss_eta, loss_stack = (loss_eta + loss, loss_stack) if name == "eta" else (loss_eta, loss_stack + loss)
    if loss_eta <= loss_stack:
        return Identity()
    return fit_stack(eta, labels, problem.val.weights)

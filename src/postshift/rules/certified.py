"""A rule with a guarantee: Pareto testing (Learn then Test, with a path of rules from cautious to bold).

1. The path. Rules that maximise the metric under bounds that are stricter or looser than those asked for. They are made
   without the rows that test, and ordered by their expected chance to be accepted.
2. The walk. From the most cautious rule on, the hypothesis "some constraint is violated" is tested at level
   ``1 - confidence`` on the rows that test. The walk stops at the first rule for which it is not rejected.
3. The result is the best of the accepted rules by the metric. The chance that a rule which violates a constraint is
   accepted is at most ``1 - confidence``, whatever the model: a fixed sequence needs no further correction.

Constraints that do not depend on labels (how often a class is predicted, also by group) are tested on rows without
labels, if there are any that did not make the path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.constraints.p_values import (
    TestResult,
    chance_to_certify,
    has_test,
    rows_needed,
    test_piece,
    without_test,
)
from postshift.constraints.pieces import BoundedMetric, Piece
from postshift.core.mixture import Mixture
from postshift.core.queries import Fit
from postshift.core.rows import Posterior, Rows
from postshift.exceptions import InfeasibleError, MetricError, NotCertifiedError, WeightError
from postshift.rules.constrained import fit_posterior
from postshift.rules.constrained_program import ConstrainedProgram, ConstrainedSolution, Expectation, RateObjective
from postshift.rules.fitted import FittedRule
from postshift.rules.posterior import Identity
from postshift.rules.problem import Problem
from postshift.rules.record import Certificate

# How much stricter the bounds of the rules of the path are, in standard errors; below 0, they are looser.
CAUTIONS = (16, 12, 9, 7, 6, 5, 4.5, 4, 3.5, 3, 2.5, 2, 1.5, 1, 0.5, 0, -1, -2, -4, -8)
# How much stricter, as shares of the way to the strictest bound: for models that are badly wrong.
SHARES = (0.992, 0.984, 0.969, 0.938, 0.875, 0.75, 0.5)
OTHERS = (1.5, 3)  # caution of the other constraints while one is moved
PATH_ROWS = 20_000  # of rows without labels; the rest of them test
PATH_SHARE = 0.2  # of the validation rows, if there are no other rows


@dataclass(frozen=True, kw_only=True, eq=False)
class PathRule:
    """A rule of the path, with its confusion matrix, its metric, how cautious it is, and its tests.

    Before it is tested, its confusion matrix and its metric are expected ones. ``caution`` is its expected chance to be
    accepted, and its smallest room in standard errors.
    """

    rule: FittedRule
    confusion: FloatArray
    value: float
    caution: tuple[float, float]
    tests: tuple[TestResult, ...] = ()

    @property
    def p_value(self) -> float:
        """The largest p-value of its tests."""
        return max(test.p_value for test in self.tests)


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """A rule of the menu that is already fitted."""

    rule: FittedRule

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self.rule.name

    def usable(self, problem: Problem) -> bool:  # noqa: ARG002
        """Return True."""
        return True

    def bound(self, problem: Problem) -> int:  # noqa: ARG002
        """Return 0."""
        return 0

    def fit(self, problem: Problem) -> Fit[FittedRule]:  # noqa: ARG002
        """Return the rule."""
        yield from ()
        return self.rule


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """The rows that test: labelled rows and, for constraints that need no labels, rows without labels.

    Attributes
    ----------
    problem : Problem
        The labelled rows.
    unlabelled : Rows, optional
        Rows without labels that did not make the path.
    groups : array of shape (n,), optional
        Their groups, as positions.
    """

    problem: Problem
    unlabelled: Rows | None = None
    groups: IntArray | None = None

    def tested(self, candidate: PathRule, constraints: Sequence[BoundedMetric]) -> PathRule:
        """Return a candidate with its tests and its metric on the labelled rows."""
        labels = candidate.rule.labels(self.problem.val)
        confusion = self.problem.label_confusion(labels)
        counts = confusion * self.problem.val.n_rows
        pieces = self.pieces(constraints)
        return replace(
            candidate,
            tests=tuple(test_piece(piece, self._counts(piece, candidate.rule, counts)) for piece in pieces),
            value=float(self.problem.metric_of(confusion)),
            confusion=confusion,
        )

    def pieces(self, constraints: Sequence[BoundedMetric]) -> list[Piece]:
        """Return every piece of the constraints, also of classes and groups without rows: they cannot be certified."""
        shape = (self.problem.n_categories, self.problem.n_classes)
        everywhere = np.full(shape, 1 / np.prod(shape))
        return [piece for constraint in constraints for piece in constraint.pieces(everywhere)]

    def uses_unlabelled(self, piece: Piece) -> bool:
        """Return whether a piece is tested with rows without labels: it needs none, and there are more of them."""
        rows = self.unlabelled
        if rows is None or piece.needs_labels or rows.n_rows <= self.problem.val.n_rows:
            return False
        return self.groups is not None or len(piece.above) == rows.n_classes

    def _counts(self, piece: Piece, rule: FittedRule, labelled: FloatArray) -> FloatArray:
        """Return the counts that a piece is tested with."""
        rows = self.unlabelled
        if rows is None or not self.uses_unlabelled(piece):
            return labelled
        n_classes = rows.n_classes
        places = rule.labels(rows) + (0 if self.groups is None else self.groups * n_classes**2)
        # Any true class will do: the cells of the piece do not depend on it.
        return np.bincount(places, minlength=labelled.size).reshape(labelled.shape).astype(np.float64)


def certify(
    path: Sequence[PathRule], evidence: Evidence, constraints: Sequence[BoundedMetric], *, confidence: float
) -> tuple[FittedRule, Certificate]:
    """Walk a path from cautious to bold; return the best accepted rule with its certificate.

    Raise ``NotCertifiedError`` if not even the most cautious rule is accepted.
    """
    delta = 1 - confidence
    tested = walk(((each, constraints) for each in path), evidence, delta=delta)
    accepted = [each for each in tested if each.p_value <= delta]
    if not accepted:
        raise _not_certified([evidence.tested(each, constraints) for each in path], evidence, constraints, delta)
    best = max(accepted, key=lambda each: each.value)
    on_unlabelled = any(evidence.uses_unlabelled(piece) for piece in evidence.pieces(constraints))
    return best.rule, Certificate(
        confidence=confidence,
        constraints=tuple(str(each.constraint) for each in constraints),
        tests=best.tests,
        p_value=best.p_value,
        is_exact=all(test.is_exact for test in best.tests),
        n_rows=evidence.problem.val.n_rows,
        n_unlabelled=evidence.unlabelled.n_rows if evidence.unlabelled is not None and on_unlabelled else 0,
        n_tested=len(tested),
        n_accepted=len(accepted),
        n_path=len(path),
    )


def walk(
    path: Iterable[tuple[PathRule, Sequence[BoundedMetric]]], evidence: Evidence, *, delta: float
) -> list[PathRule]:
    """Test rules, each for its constraints, up to the first that is not accepted: a fixed sequence."""
    found = []
    for candidate, constraints in path:
        found.append(evidence.tested(candidate, constraints))
        if found[-1].p_value > delta:
            break
    return found


def make_path(
    program: ConstrainedProgram, *, basis: str, posterior: Posterior, n_rows: int, delta: float
) -> list[PathRule]:
    """Return rules from cautious to bold, for tests with ``n_rows`` rows at level ``delta``."""
    how: Any = {"basis": basis, "posterior": posterior, "n_rows": n_rows, "delta": delta}
    return in_order(cautious_solutions(program, n_rows), program.constraints, **how)


def in_order(
    solutions: Iterable[ConstrainedSolution],
    constraints: Sequence[BoundedMetric],
    *,
    basis: str,
    posterior: Posterior,
    n_rows: int,
    delta: float,
) -> list[PathRule]:
    """Return solutions as a path from cautious to bold: each is the best of those that are at least as cautious."""
    different = {solution.rule.alpha.tobytes(): solution for solution in solutions}
    candidates = [
        PathRule(
            rule=FittedRule(
                name=f"certified [{basis}]",
                mixture=Mixture.of([solution.rule], [1.0]),
                posterior=posterior,
                basis=basis,
            ),
            confusion=solution.confusion,
            value=solution.value,
            caution=caution_of(constraints, solution.confusion, n_rows, delta),
        )
        for solution in different.values()
    ]
    path: list[PathRule] = []
    for candidate in sorted(candidates, key=lambda each: (each.caution, each.value), reverse=True):
        if not path or candidate.value > path[-1].value:
            path.append(candidate)
    return path


def cautious_solutions(
    program: ConstrainedProgram, n_rows: int, cautions: Sequence[float] = CAUTIONS
) -> list[ConstrainedSolution]:
    """Return the best rules under stricter bounds, for ``n_rows`` rows."""
    found = []
    for shifts in _stricter_bounds(program, n_rows, cautions):
        with suppress(InfeasibleError):
            found.append(program.solve(shifts))
    return found


def _stricter_bounds(program: ConstrainedProgram, n_rows: int, cautions: Sequence[float]) -> Iterator[FloatArray]:
    """Yield how to move the bounds of all pieces: in standard errors of each for ``n_rows`` rows, then far.

    All constraints are moved together and then, if there are several, each alone beside the others: a model may be
    wrong about one of them. A model that is badly wrong may call every rule within a few standard errors cautious.
    """
    try:
        at = program.solve(np.zeros(len(program.pieces(program.start)))).confusion
    except InfeasibleError:
        at = program.start
    pieces = program.pieces(at)
    errors = np.array([max(_standard_error(piece, at, n_rows), 1 / n_rows) for piece in pieces])
    owners = np.array([k for k, each in enumerate(program.constraints) for _ in each.pieces(at)], dtype=np.intp)
    n_constraints = len(program.constraints)
    moves = [np.full(n_constraints, caution) for caution in cautions]
    if n_constraints > 1:
        moves += [
            np.where(np.arange(n_constraints) == one, caution, others)
            for one in range(n_constraints)
            for caution in cautions[::2]
            for others in OTHERS
        ]
    signs, of_gap = np.array([piece.sign for piece in pieces]), np.zeros(len(pieces) - len(owners))
    ways = np.array([_way(piece) for piece in pieces])
    for move in moves:
        yield -signs * errors * np.append(move[owners], of_gap)
    for share in SHARES:
        yield -signs * ways * np.append(np.full(len(owners), share), of_gap)


def _way(piece: Piece) -> float:
    """Return how far a bound is from the strictest one that makes sense."""
    low, high = (float(piece.above.min()), float(piece.above.max())) if piece.kind == "mean" else (0.0, 1.0)
    return piece.sign * piece.bound - min(piece.sign * low, piece.sign * high)


def _standard_error(piece: Piece, confusion: FloatArray, n_rows: int) -> float:
    """Return the standard error of a piece's ratio on so many rows, to first order."""
    return float(np.sqrt(np.sum(confusion * piece.influence(confusion) ** 2) / n_rows))


def check_certifiable(problem: Problem, constraints: Sequence[BoundedMetric]) -> None:
    """Raise if a constraint has no test, or if the rows have weights."""
    check_tests(constraints, problem.label_confusion(np.argmax(problem.val.eta, axis=1)))
    if problem.val.weights is not None:
        raise WeightError(
            "a guarantee needs validation rows without weights: the tests count rows. Leave the weights out, or "
            "confidence=..."
        )


def check_tests(constraints: Sequence[BoundedMetric], confusion: FloatArray) -> None:
    """Raise if a constraint has no test; ``confusion`` is any matrix with rows in every cell."""
    for constraint in constraints:
        if not all(has_test(piece) for piece in constraint.pieces(confusion)):
            raise MetricError(without_test(constraint.constraint))


def caution_of(
    constraints: Sequence[BoundedMetric], confusion: FloatArray, n_rows: int, delta: float
) -> tuple[float, float]:
    """Return the smallest chance of a piece to be accepted, in steps of a percent, and the smallest room."""
    pieces = [piece for constraint in constraints for piece in constraint.pieces(confusion)]
    chances = [chance_to_certify(piece, confusion, n_rows, delta=delta) for piece in pieces]
    errors = [_standard_error(piece, confusion, n_rows) for piece in pieces]
    rooms = [-piece.miss(confusion) / max(error, 1 / n_rows) for piece, error in zip(pieces, errors, strict=True)]
    return round(min(chances), 2), float(min(rooms))


def _not_certified(
    tested: Sequence[PathRule], evidence: Evidence, constraints: Sequence[BoundedMetric], delta: float
) -> NotCertifiedError:
    """Return the error that no rule is certified, with the closest rule and the rows that it would need."""
    if not tested:
        return NotCertifiedError("no classifier is expected to meet the constraints: relax one of them")
    closest = min(tested, key=lambda each: each.p_value)
    worst = max(closest.tests, key=lambda test: test.p_value)
    enough = rows_needed(evidence.pieces(constraints), closest.confusion, delta=delta)
    if worst.n_rows == 0:
        advice = "there are no rows to test it with: give such rows, or relax the bound"
    elif enough is None:
        advice = "it has no room to spare, so more rows would not help: relax a bound"
    else:
        advice = f"with about {enough:,} labelled rows it could be"
    return NotCertifiedError(
        f"nothing can be certified at confidence {1 - delta:g} with {evidence.problem.val.n_rows} labelled rows. The "
        f"closest rule has {worst.name} {worst.value:.3f} on {worst.n_rows} rows, bound {worst.bound:.3g} "
        f"(p = {worst.p_value:.3f}); {advice}",
        rule=closest.rule,
        p_value=closest.p_value,
        rows_needed=enough,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Unlabelled:
    """Rows without labels, over the same bases, and their groups as positions.

    ``may_test`` is false for rows that come from another source than the validation rows: they only make the path.
    """

    rows: Rows
    groups: IntArray | None = None
    may_test: bool = True

    def take(self, places: IntArray) -> Unlabelled:
        """Return some of the rows."""
        groups = None if self.groups is None else self.groups[places]
        return replace(self, rows=self.rows.take(places), groups=groups)


def certified_rule(
    problem: Problem,
    constraints: Sequence[BoundedMetric],
    *,
    basis: str,
    confidence: float,
    unlabelled: Unlabelled | None = None,
    n_groups: int = 1,
    seed: int = 0,
) -> tuple[FittedRule, Certificate]:
    """Return a rule that meets the constraints with this confidence, and its certificate.

    The path is made from rows without labels. If there are none, a fifth of the validation rows makes it, and the
    others test.
    """
    check_certifiable(problem, constraints)
    split = split_rows(problem, unlabelled, n_groups=n_groups, seed=seed)
    problem = split.evidence.problem
    objective = RateObjective.of(problem.scoring_metric)
    program = ConstrainedProgram(split.expectation(basis, n_groups=n_groups), objective, constraints)
    n_rows, delta = problem.val.n_rows, 1 - confidence
    path = make_path(program, basis=basis, posterior=split.posterior, n_rows=n_rows, delta=delta)
    return certify(path, split.evidence, constraints, confidence=confidence)


@dataclass(frozen=True, kw_only=True, eq=False)
class SplitRows:
    """The rows that make the rules, with their posterior, and the rows that test them; no row does both."""

    making: Unlabelled
    posterior: Posterior
    evidence: Evidence

    def expectation(self, basis: str, *, n_groups: int) -> Expectation:
        """Return the rows that make the rules, with the posterior in place of labels."""
        rows = self.making.rows.through(self.posterior).over(basis)
        return Expectation.of(rows, self.making.groups if n_groups > 1 else None, n_groups=n_groups)


def split_rows(problem: Problem, unlabelled: Unlabelled | None, *, n_groups: int, seed: int) -> SplitRows:
    """Return which rows make rules and which rows test them.

    Rows without labels make them. If there are none, a fifth of the validation rows does, and the others test.
    """
    rng = np.random.default_rng(seed)
    if unlabelled is None or (n_groups > 1 and unlabelled.groups is None):
        order = rng.permutation(problem.val.n_rows)
        n_making = max(2, round(PATH_SHARE * len(order)))
        some, others = problem.take(np.sort(order[:n_making])), problem.take(np.sort(order[n_making:]))
        groups = some.confusion_rows(slice(None))[0] // some.n_classes
        making = Unlabelled(rows=some.val, groups=groups)
        return SplitRows(making=making, posterior=fit_posterior(some).posterior, evidence=Evidence(problem=others))
    order = rng.permutation(unlabelled.rows.n_rows)
    n_making = min(PATH_ROWS, len(order) // 2 if unlabelled.may_test else len(order))
    making, rest = unlabelled.take(np.sort(order[:n_making])), unlabelled.take(np.sort(order[n_making:]))
    evidence = Evidence(problem=problem)
    if unlabelled.may_test:
        evidence = Evidence(problem=problem, unlabelled=rest.rows, groups=rest.groups)
    return SplitRows(making=making, posterior=Identity(), evidence=evidence)

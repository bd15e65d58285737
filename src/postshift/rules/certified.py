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

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.constraints.p_values import TestResult, chance_to_certify, has_test, rows_needed, test_piece
from postshift.constraints.pieces import BoundedMetric, Piece
from postshift.core.mixture import Mixture
from postshift.core.queries import Fit
from postshift.core.rows import Posterior, Rows
from postshift.exceptions import InfeasibleError, MetricError, NotCertifiedError, WeightError
from postshift.rules.constrained import best_posterior
from postshift.rules.constrained_program import ConstrainedProgram, Expectation, RateObjective
from postshift.rules.fitted import FittedRule
from postshift.rules.posterior import Identity
from postshift.rules.problem import Problem

SHIFTS = (
    0.4,
    0.3,
    0.2,
    0.15,
    0.12,
    0.1,
    0.08,
    0.06,
    0.05,
    0.04,
    0.03,
    0.02,
    0.01,
    0.0,
    -0.01,
    -0.03,
    -0.06,
    -0.1,
    -0.2,
)
PATH_ROWS = 20_000  # of rows without labels; the rest of them test
PATH_SHARE = 0.2  # of the validation rows, if there are no other rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Which constraints were certified, at which confidence, by which tests.

    Attributes
    ----------
    confidence : float
        The probability, at least, that every constraint holds for new rows of the same kind.
    constraints : tuple of str
        The constraints.
    tests : tuple of TestResult
        The test of each piece of the constraints.
    p_value : float
        The largest of their p-values.
    is_exact : bool
        Whether every test is exact; a test of a gap between groups is asymptotic.
    n_rows : int
        Number of labelled rows that tested.
    n_unlabelled : int
        Number of rows without labels that tested.
    n_tested, n_accepted, n_path : int
        Number of rules that were tested, that were accepted, and on the path.
    """

    confidence: float
    constraints: tuple[str, ...]
    tests: tuple[TestResult, ...]
    p_value: float
    is_exact: bool
    n_rows: int
    n_unlabelled: int
    n_tested: int
    n_accepted: int
    n_path: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A rule of the path, with its confusion matrix, how cautious it is, and its tests.

    ``caution`` is its expected chance to be accepted, and its smallest room in standard errors.
    """

    rule: FittedRule
    confusion: FloatArray
    caution: tuple[float, float]
    tests: tuple[TestResult, ...] = ()
    value: float = float("nan")

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

    def tested(self, candidate: Candidate, constraints: Sequence[BoundedMetric]) -> Candidate:
        """Return a candidate with its tests and its metric on the labelled rows."""
        labels = candidate.rule.labels(self.problem.val)
        confusion = self.problem.label_confusion(labels)
        counts = confusion * self.problem.val.n_rows
        pieces = [piece for constraint in constraints for piece in constraint.pieces(confusion)]
        return replace(
            candidate,
            tests=tuple(test_piece(piece, self._counts(piece, candidate.rule, counts)) for piece in pieces),
            value=float(self.problem.metric_of(confusion)),
            confusion=confusion,
        )

    def _counts(self, piece: Piece, rule: FittedRule, labelled: FloatArray) -> FloatArray:
        """Return the counts that a piece is tested with: rows without labels if it needs none and has more of them."""
        rows = self.unlabelled
        if rows is None or piece.needs_labels or rows.n_rows <= self.problem.val.n_rows:
            return labelled
        n_classes = rows.n_classes
        if len(labelled) > n_classes and self.groups is None:
            return labelled
        places = rule.labels(rows) + (0 if self.groups is None else self.groups * n_classes**2)
        # Any true class will do: the cells of the piece do not depend on it.
        return np.bincount(places, minlength=labelled.size).reshape(labelled.shape).astype(np.float64)


def certify(
    path: Sequence[Candidate], evidence: Evidence, constraints: Sequence[BoundedMetric], *, confidence: float
) -> tuple[FittedRule, Certificate]:
    """Walk a path from cautious to bold; return the best accepted rule with its certificate.

    Raise ``NotCertifiedError`` if not even the most cautious rule is accepted.
    """
    delta = 1 - confidence
    accepted: list[Candidate] = []
    n_tested = 0
    for candidate in path:
        n_tested += 1
        found = evidence.tested(candidate, constraints)
        if found.p_value > delta:
            break
        accepted.append(found)
    if not accepted:
        raise _not_certified([evidence.tested(each, constraints) for each in path], evidence, constraints, delta)
    best = max(accepted, key=lambda each: each.value)
    return best.rule, Certificate(
        confidence=confidence,
        constraints=tuple(str(each.constraint) for each in constraints),
        tests=best.tests,
        p_value=best.p_value,
        is_exact=all(test.is_exact for test in best.tests),
        n_rows=evidence.problem.val.n_rows,
        n_unlabelled=0 if evidence.unlabelled is None else evidence.unlabelled.n_rows,
        n_tested=n_tested,
        n_accepted=len(accepted),
        n_path=len(path),
    )


def make_path(
    program: ConstrainedProgram, *, basis: str, posterior: Posterior, n_rows: int, delta: float
) -> list[Candidate]:
    """Return rules from cautious to bold, for tests with ``n_rows`` rows at level ``delta``.

    Each rule is the best of those that are at least as cautious.
    """
    found: dict[bytes, tuple[Candidate, float]] = {}
    for shift in SHIFTS:
        shifts = np.array([-piece.sign * shift for piece in program.pieces(program.start)])
        try:
            solution = program.solve(shifts)
        except InfeasibleError:
            continue
        mixture = Mixture.of([solution.rule], [1.0])
        rule = FittedRule(name=f"certified [{basis}]", mixture=mixture, posterior=posterior, basis=basis)
        caution = caution_of(program.pieces(solution.confusion), solution.confusion, n_rows, delta)
        candidate = Candidate(rule=rule, confusion=solution.confusion, caution=caution)
        found[solution.rule.alpha.tobytes()] = candidate, solution.value
    path: list[Candidate] = []
    best = -np.inf
    for candidate, value in sorted(found.values(), key=lambda each: (each[0].caution, each[1]), reverse=True):
        if value > best:
            path.append(candidate)
            best = value
    return path


def check_certifiable(problem: Problem, constraints: Sequence[BoundedMetric]) -> None:
    """Raise if a constraint has no test, or if the rows have weights."""
    confusion = problem.label_confusion(np.argmax(problem.val.eta, axis=1))
    for constraint in constraints:
        if not all(has_test(piece) for piece in constraint.pieces(confusion)):
            raise MetricError(
                f"{str(constraint.constraint)!r} has no test and cannot be certified: leave confidence out, or bound "
                "one of recall, precision, f1, jaccard, rate, accuracy, min_recall, worst_group_accuracy, "
                "demographic_parity, equal_opportunity, equalized_odds, ExpectedCost"
            )
    if problem.val.weights is not None:
        raise WeightError(
            "confidence needs validation rows without weights: the tests count rows. Leave one of them out"
        )


def caution_of(pieces: Sequence[Piece], confusion: FloatArray, n_rows: int, delta: float) -> tuple[float, float]:
    """Return the smallest chance of a piece to be accepted, in steps of a percent, and the smallest room."""
    chances = [chance_to_certify(piece, confusion, n_rows, delta=delta) for piece in pieces]
    errors = [np.sqrt(np.sum(confusion * piece.influence(confusion) ** 2) / n_rows) for piece in pieces]
    rooms = [-piece.miss(confusion) / max(error, 1 / n_rows) for piece, error in zip(pieces, errors, strict=True)]
    return round(min(chances), 2), float(min(rooms))


def _not_certified(
    tested: Sequence[Candidate], evidence: Evidence, constraints: Sequence[BoundedMetric], delta: float
) -> NotCertifiedError:
    """Return the error that no rule is certified, with the closest rule and the rows that it would need."""
    if not tested:
        return NotCertifiedError("no classifier is expected to meet the constraints: relax one of them")
    closest = min(tested, key=lambda each: each.p_value)
    pieces = [piece for constraint in constraints for piece in constraint.pieces(closest.confusion)]
    needed = [rows_needed(piece, closest.confusion, delta=delta) for piece in pieces]
    enough = None if any(each is None for each in needed) else max(each for each in needed if each is not None)
    worst = max(closest.tests, key=lambda test: test.p_value)
    advice = (
        "it has no room to spare, so more rows would not help: relax a bound"
        if enough is None
        else f"with about {enough:,} labelled rows it could be"
    )
    return NotCertifiedError(
        f"nothing can be certified at confidence {1 - delta:g} with {evidence.problem.val.n_rows} labelled rows. The "
        f"closest rule has {worst.name} {worst.value:.3f} on {worst.n_rows} rows, bound {worst.bound:.3g} "
        f"(p = {worst.p_value:.3f}); {advice}. if_uncertified='closest' returns it",
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
        return SplitRows(making=making, posterior=best_posterior(some), evidence=Evidence(problem=others))
    order = rng.permutation(unlabelled.rows.n_rows)
    n_making = min(PATH_ROWS, len(order) // 2 if unlabelled.may_test else len(order))
    making, rest = unlabelled.take(np.sort(order[:n_making])), unlabelled.take(np.sort(order[n_making:]))
    evidence = Evidence(problem=problem)
    if unlabelled.may_test:
        evidence = Evidence(problem=problem, unlabelled=rest.rows, groups=rest.groups)
    return SplitRows(making=making, posterior=Identity(), evidence=evidence)

"""Maximise a metric subject to constraints, as a rule of the menu.

The constraints are imposed on the expected confusion matrix under a posterior p(x), not on the labelled rows: with few
labelled rows, a rule that just meets a constraint on them is overfitted to them. The labels correct the expectation:
the difference between the labelled and the expected value of each constraint, shrunk by its noise, shifts the bound,
and the program is solved again. With a margin, a difference that makes the rule more cautious is not shrunk: what
shrinking leaves out would use up the margin. A posterior that is fitted to the labels is read out of fold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from postshift._validation import FloatArray
from postshift.constraints.pieces import BoundedMetric, Piece
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.core.queries import Fit
from postshift.core.rows import CONSTANT, Posterior
from postshift.exceptions import InfeasibleError
from postshift.metrics.confusion import Accuracy
from postshift.metrics.over_groups import PooledMetric
from postshift.rules.constrained_program import ConstrainedProgram, ConstrainedSolution, Expectation, RateObjective
from postshift.rules.fitted import FittedRule
from postshift.rules.posterior import FLOOR, Identity, fit_stack
from postshift.rules.problem import Problem

N_ROUNDS = 4  # of the correction by labels
N_HALVINGS = 6  # of shifts that no classifier can meet
N_FOLDS = 5
SHOWN = 1e-3  # the smallest gain of the randomised rule that a note mentions
OUT_OF_REACH = "no classifier is expected to meet the bounds, corrected by the labels and the margin"


@dataclass(frozen=True, kw_only=True, eq=False)
class Constrained:
    """A rule that maximises the problem's metric subject to constraints.

    Parameters
    ----------
    constraints : tuple of BoundedMetric
        The constraints, for the categories of the problem.
    basis : str
        The name of a basis of the rows.
    """

    constraints: tuple[BoundedMetric, ...] = ()
    basis: str = CONSTANT

    @property
    def name(self) -> str:
        """The name of the rule."""
        return f"{'constrained' if self.constraints else 'rate program'} [{self.basis}]"

    def usable(self, problem: Problem) -> bool:
        """Return whether there are labels and this basis."""
        return problem.is_labelled and self.basis in problem.val.bases

    def bound(self, problem: Problem) -> int:  # noqa: ARG002
        """Return 0."""
        return 0

    def check(self, problem: Problem) -> None:
        """Raise ``InfeasibleError`` if no classifier meets the constraints on all rows."""
        self.program(problem, fit_posterior(problem)).solve()

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Solve the program, and correct its bounds by the labels.

        If no classifier meets the constraints on these rows, which may be a fold, the nearest one is returned.
        """
        yield from ()
        fitted = fit_posterior(problem)
        program = self.program(problem, fitted)
        try:
            found = self.solve(problem, program)
        except InfeasibleError as error:
            return self.fitted(error.nearest.rule, fitted.posterior, "the constraints cannot be met on these rows")
        gain = found.randomised.value - found.value
        notes = [f"the randomised rule would gain {gain:.3f}, in expectation"] if gain >= SHOWN else []
        if found.kept < 1:
            notes.append(
                f"{OUT_OF_REACH}: {found.kept:.0%} of the correction is kept. Relax a bound, or give more rows"
            )
        return self.fitted(found.rule, fitted.posterior, "; ".join(notes))

    def solve(self, problem: Problem, program: ConstrainedProgram) -> ConstrainedSolution:
        """Return the solution of a program whose bounds are corrected by the labels of a problem.

        Raise ``InfeasibleError`` if no classifier meets the constraints.
        """
        return self.corrected(problem, program)[0]

    def corrected(self, problem: Problem, program: ConstrainedProgram) -> tuple[ConstrainedSolution, FloatArray]:
        """Return the solution, and the shifts of the bounds of its pieces."""
        found = program.solve()
        shifts = self._shifts(problem, program, found)
        for done in range(1, N_ROUNDS):
            found, _ = self._feasible(program, shifts)
            shifts += (self._shifts(problem, program, found) - shifts) / (done + 1)  # their mean so far
        return self._feasible(program, shifts)

    def program(self, problem: Problem, fitted: FittedPosterior) -> ConstrainedProgram:
        """Return the program on the validation rows."""
        rows = replace(problem.val, eta=fitted.held_out).over(self.basis)
        categories, _ = problem.confusion_rows(slice(None))
        n_groups = problem.n_categories // problem.n_classes
        groups = categories // problem.n_classes if n_groups > 1 else None
        expectation = Expectation.of(rows, groups, n_groups=n_groups)
        return ConstrainedProgram(expectation, self._objective(problem, n_groups), self.constraints)

    @staticmethod
    def _objective(problem: Problem, n_groups: int) -> RateObjective:
        """Return the problem's metric; if it only returns scores, the accuracy, for which the probes take the place."""
        if problem.is_labelled:
            return RateObjective.of(problem.scoring_metric)
        return RateObjective(metric=PooledMetric(inner=Accuracy(), n_groups=n_groups, n_classes=problem.n_classes))

    def fitted(self, rule: PlugIn, posterior: Posterior, note: str = "") -> FittedRule:
        """Return a single plug-in rule as a fitted rule."""
        mixture = Mixture.of([rule], [1.0])
        return FittedRule(name=self.name, mixture=mixture, posterior=posterior, basis=self.basis, note=note)

    @staticmethod
    def _feasible(program: ConstrainedProgram, shifts: FloatArray) -> tuple[ConstrainedSolution, FloatArray]:
        """Return the solution for shifts (2, P), by labels and by margins, and the shifts that it takes.

        If no classifier can meet them, or only one that never predicts a class whose precision is bounded, the margins
        are halved, and at last the shifts by labels.
        """
        by_labels, by_margins = shifts
        wanted = np.abs(by_labels + by_margins).sum()
        halves = 0.5 ** np.arange(N_HALVINGS)
        with_margins = [by_labels + half * by_margins for half in halves] if by_margins.any() else []
        for moved in [*with_margins, *(half * by_labels for half in halves)]:
            try:
                found = program.solve(moved)
            except InfeasibleError:
                continue
            if all(piece.has_rows(found.confusion) for piece in found.pieces):
                return replace(found, kept=float(np.abs(moved).sum() / wanted) if wanted else 1.0), moved
        return replace(program.solve(), kept=0.0 if wanted else 1.0), np.zeros_like(by_labels)

    def _shifts(self, problem: Problem, program: ConstrainedProgram, found: ConstrainedSolution) -> FloatArray:
        """Return how the bounds move (2, P): by the shrunk difference of labelled and expected values, and by margins.

        With a margin of 1 or more, differences to the cautious side are not shrunk.
        """
        rows = program.expectation.rows
        labels = found.rule.labels(rows.eta, rows.phi)
        labelled = problem.label_confusion(labels)
        categories, weights = problem.confusion_rows(slice(None))
        chances, n_rows = program.expectation.chances(), 1 / float(np.sum(weights**2))
        bounded = (*self.constraints, *([] if program.objective.gap is None else [program.objective.gap]))
        owners = [owner for owner in bounded for _ in owner.pieces(found.confusion)]
        shifts = []
        for piece, owner in zip(found.pieces, owners, strict=True):
            is_tangent = piece.kind == "tangent"  # it touches the metric elsewhere
            influence = (owner if is_tangent else piece).influence(found.confusion)
            apart = influence[categories, labels] - np.einsum("nr,rn->n", chances, influence[:, labels])
            noise = float(np.sqrt(np.sum((weights * apart) ** 2)))
            gap = 0.0
            if piece.has_rows(labelled):
                gap = _seen(piece, owner, labelled) - _seen(piece, owner, found.confusion)
            kept = max(0.0, 1 - (noise / gap) ** 2) if gap else 0.0
            margin = owner.constraint.margin
            if piece.sign * gap > 0:
                kept += min(margin, 1.0) * (1 - kept)
            error = float(np.sqrt(np.sum(found.confusion * influence**2) / n_rows))
            shifts.append([-kept * gap, -piece.sign * margin * error])
        return np.array(shifts).reshape(-1, 2).T


def _seen(piece: Piece, owner: BoundedMetric, confusion: FloatArray) -> float:
    """Return the value of a piece; for a tangent, that of the metric itself."""
    return owner.value(confusion) if piece.kind == "tangent" else piece.value(confusion)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedPosterior:
    """A posterior, and the probabilities (n, m) of the validation rows by fits that did not read their labels."""

    posterior: Posterior
    held_out: FloatArray


def fit_posterior(problem: Problem) -> FittedPosterior:
    """Return the model's own probabilities, or the stack if there are labels and its log-loss out of fold is lower."""
    from sklearn.model_selection import KFold

    eta, labels, weights = problem.val.eta, problem.val.labels, problem.val.weights
    if labels is None:
        return FittedPosterior(posterior=Identity(), held_out=eta)
    stacked = np.empty_like(eta)
    for kept, left in KFold(min(N_FOLDS, len(eta)), shuffle=True, random_state=0).split(eta):
        stack = fit_stack(eta[kept], labels[kept], None if weights is None else weights[kept])
        stacked[left] = stack(eta[left])
    rows = np.arange(len(labels))
    losses = [-np.log(np.maximum(table[rows, labels], FLOOR)) @ problem.row_weights for table in (eta, stacked)]
    if losses[0] <= losses[1]:
        return FittedPosterior(posterior=Identity(), held_out=eta)
    return FittedPosterior(posterior=fit_stack(eta, labels, weights), held_out=stacked)

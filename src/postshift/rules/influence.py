"""Influence regression as a rule of the menu."""

from __future__ import annotations

from dataclasses import dataclass

from postshift.core.influence import InfluenceSettings, influence_fit
from postshift.core.queries import Fit
from postshift.core.rows import CONSTANT
from postshift.rules.fitted import LABELLING_QUERIES, FittedRule, loop_rule
from postshift.rules.problem import Problem, engine_over


@dataclass(frozen=True, slots=True)
class Influence:
    """Influence regression over one basis (:mod:`postshift.core.influence`), with full weights.

    Parameters
    ----------
    basis : str
        The name of a basis of the rows.
    max_iter : int
        Frank-Wolfe iterations.
    """

    basis: str = CONSTANT
    max_iter: int = 30

    @property
    def name(self) -> str:
        """The name of the rule."""
        return f"influence [{self.basis}]"

    def usable(self, problem: Problem) -> bool:
        """Return whether the rows have this basis."""
        return self.basis in problem.val.bases

    def bound(self, problem: Problem) -> int:
        """Return the maximum number of queries: one per probe and iteration, and a few for the labels."""
        if problem.is_labelled:
            return 0
        n_features: int = problem.val.functions(self.basis).shape[1] * problem.n_classes
        return self.max_iter * (1 + n_features * problem.n_classes) + 1 + LABELLING_QUERIES

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Run the loop, then choose the way to deterministic labels."""
        run = influence_fit(
            None if problem.train is None else engine_over(problem.train, self.basis),
            problem.val.over(self.basis),
            kind=problem.kind,
            metric=problem.fitting_metric if problem.is_labelled else None,
            settings=InfluenceSettings(max_iter=self.max_iter),
            held=problem.held(self.basis),
        )
        return (yield from loop_rule(self.name, run, problem, basis=self.basis))

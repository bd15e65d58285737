"""Influence regression as an entry of the menu."""

from __future__ import annotations

from dataclasses import dataclass

from postshift.core.influence import InfluenceRegression, InfluenceSettings
from postshift.rules.conversation import Fit
from postshift.rules.fitted import LABELLING_QUERIES, FittedRule, with_best_labels
from postshift.rules.problem import Problem
from postshift.rules.table import CONSTANT


@dataclass(frozen=True, slots=True)
class Influence:
    """Influence regression over one basis (:mod:`postshift.core.influence`), its diagonal part and its rest together.

    Parameters
    ----------
    basis : str
        The name of a basis of the tables.
    max_iter : int
        Frank-Wolfe iterations.
    """

    basis: str = CONSTANT
    max_iter: int = 30

    @property
    def name(self) -> str:
        """What the entry is called."""
        return f"influence [{self.basis}]"

    def usable(self, problem: Problem) -> bool:
        """Return whether the basis is there."""
        return self.basis in problem.val.bases

    def bound(self, problem: Problem) -> int:
        """Return one query per probe and iteration, and a few for the labels."""
        if problem.is_labelled:
            return 0
        n_features: int = problem.val.phi(self.basis).shape[1] * problem.n_classes
        return self.max_iter * (1 + n_features * problem.n_classes) + 1 + LABELLING_QUERIES

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Run the loop, then choose the way to deterministic labels."""
        run = InfluenceRegression(
            None if problem.train is None else problem.train.engine(self.basis),
            problem.val.sample(self.basis),
            kind=problem.kind,
            metric=problem.fitting_metric if problem.is_labelled else None,
            settings=InfluenceSettings(max_iter=self.max_iter),
            held=problem.held(self.basis),
        )
        found = yield from problem.fitted(run)
        rule = FittedRule(name=self.name, mixture=found.mixture, basis=self.basis, trace=found.trace)
        return (yield from with_best_labels(rule, problem))

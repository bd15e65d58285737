"""The stack: a softmax regression of the clean labels on the model's log-probabilities, and any rule on top of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from postshift.core.queries import Fit
from postshift.rules.fitted import FittedRule, Rule
from postshift.rules.problem import Problem
from postshift.rules.simple import Base


@dataclass(frozen=True, slots=True)
class Stacked:
    """A rule fitted to the stacked posterior in place of eta; by default, the posterior's argmax."""

    inner: Rule = field(default_factory=Base)

    @property
    def name(self) -> str:
        """The name of the rule."""
        return "stack" if isinstance(self.inner, Base) else f"stack + {self.inner.name}"

    def usable(self, problem: Problem) -> bool:
        """Return whether there are validation labels and the inner rule can be used."""
        return problem.val.labels is not None and self.inner.usable(problem)

    def bound(self, problem: Problem) -> int:
        """Return the inner rule's bound."""
        return self.inner.bound(problem)

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Fit the stack to the validation labels, then the inner rule to the posterior."""
        stack, stacked = problem.stacked
        as_rule = partial(FittedRule.through, posterior=stack, name=self.name)
        found = yield from problem.asking(self.inner.fit(stacked), as_rule=as_rule)
        return as_rule(found)

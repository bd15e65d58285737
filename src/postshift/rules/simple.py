"""The rules that need no search: the model as it is, the inverse prior, and the stack.

The stack can be used alone, or as the posterior that another rule reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from postshift._validation import FloatArray
from postshift.core.plugin import inverse_prior
from postshift.core.queries import Fit
from postshift.core.rows import CONSTANT
from postshift.rules.fitted import FittedRule, Rule, plug_in_rule
from postshift.rules.problem import Problem, engine_over


@dataclass(frozen=True, slots=True)
class Base:
    """``argmax eta``: the model as it is."""

    name: str = "base"

    def usable(self, problem: Problem) -> bool:  # noqa: ARG002
        """Return True."""
        return True

    def bound(self, problem: Problem) -> int:  # noqa: ARG002
        """Return 0."""
        return 0

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Return the rule with equal weights."""
        yield from ()
        return plug_in_rule(self.name, np.ones(problem.n_classes), problem=problem)


@dataclass(frozen=True, slots=True)
class InversePrior:
    """``argmax eta_i / prior_i``; the prior is the mean of eta over the training rows (without them, validation)."""

    name: str = "inverse prior"

    def usable(self, problem: Problem) -> bool:  # noqa: ARG002
        """Return True."""
        return True

    def bound(self, problem: Problem) -> int:  # noqa: ARG002
        """Return 0."""
        return 0

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Return the rule with weights 1 / prior."""
        yield from ()
        weights = inverse_prior(mean_prior(problem), n_bases=1).alpha[0]
        return plug_in_rule(self.name, weights, problem=problem)


def mean_prior(problem: Problem) -> FloatArray:
    """Return the mean of eta over the training rows, or over the validation rows if there are none."""
    rows = problem.train_or_val
    if rows.whole is not None:
        sums = engine_over(rows, CONSTANT).gram_sums()
        return np.asarray(sums.cross.sum(axis=0) / sums.total)
    return rows.mean_eta()


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

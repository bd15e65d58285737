"""A fitted rule: a posterior, a mixture of plug-ins on it, and how labels are taken from the mixture.

A mixture of plug-ins predicts at random. Three ways to deterministic labels are scored, and the best is kept: the
likeliest class (``votes``), the class with the highest average of the members' scores, each member's scores divided by
their spread (``scores``), and the best single member. A mixture may score .50 where its likeliest class scores 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from scipy.special import softmax

from postshift._validation import FloatArray, IntArray
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.core.records import Iteration
from postshift.core.weighting import DIAGONAL
from postshift.engines.prediction import mixture_table
from postshift.rules.conversation import Fit
from postshift.rules.posterior import Identity, Posterior
from postshift.rules.problem import CONSTANT, Problem, Table

Labelling = Literal["votes", "scores"]
LABELLING_QUESTIONS = 4  # what with_best_labels asks at the most
LABELLING_ROWS = 20_000  # so many rows, where their labels are at hand, tell the ways to labels apart


class Rule(Protocol):
    """One entry of the menu: a way to a fitted rule."""

    @property
    def name(self) -> str:
        """What the entry is called."""

    def usable(self, problem: Problem) -> bool:
        """Return whether the problem has what the rule needs."""

    def bound(self, problem: Problem) -> int:
        """Return the most questions that a fit asks."""

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Fit, asking through ``yield`` where the labels are not at hand."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedRule:
    """A classifier of rows of a :class:`~postshift.rules.problem.Table`; ``trace`` is its loop's, if it had one."""

    name: str
    mixture: Mixture
    posterior: Posterior = field(default_factory=Identity)
    basis: str = CONSTANT
    labelling: Labelling = "votes"
    scales: FloatArray | None = None
    note: str = ""
    trace: tuple[Iteration, ...] = ()

    def labels(self, table: Table) -> IntArray:
        """Return the deterministic label of every row."""
        eta, phi = self._read(table)
        if self.labelling == "scores":
            return np.asarray(np.argmax(self._averaged(eta, phi), axis=1))
        return np.asarray(np.argmax(mixture_table(self.mixture, eta, phi), axis=1))

    def distribution(self, table: Table) -> FloatArray:
        """Return the randomised classifier: where a minimum is to be maximised, it may be better than any labels."""
        return mixture_table(self.mixture, *self._read(table))

    def scores(self, table: Table) -> FloatArray:
        """Return scores (n, m) whose rows sum to 1, comparable between rules."""
        eta, phi = self._read(table)
        if self._weighs_odds:
            raised = self.mixture.members[0].scores(eta, phi)
            sums = raised.sum(axis=1, keepdims=True)
            even = np.full_like(raised, 1 / raised.shape[1])
            return np.asarray(np.divide(raised, sums, out=even, where=sums > 0))
        if self.labelling == "scores":
            return np.asarray(softmax(self._averaged(eta, phi), axis=1))
        return mixture_table(self.mixture, eta, phi)

    @property
    def _weighs_odds(self) -> bool:
        """Whether it is one plug-in with weights per class; weights of either sign are no odds."""
        (member, *others) = self.mixture.members
        return not others and member.weighting.name == DIAGONAL.name and not (member.alpha < 0).any()

    def through(self, posterior: Posterior, name: str) -> FittedRule:
        """Return the rule that reads another posterior first."""
        return replace(self, posterior=posterior, name=name)

    def _read(self, table: Table) -> tuple[FloatArray, FloatArray]:
        """Return what the plug-ins read."""
        return self.posterior(table.eta), table.phi(self.basis)

    def _averaged(self, eta: FloatArray, phi: FloatArray) -> FloatArray:
        """Return the members' scores, each divided by its spread, averaged by their shares."""
        scales = np.ones(len(self.mixture.members)) if self.scales is None else self.scales
        parts = zip(self.mixture.members, self.mixture.shares, scales, strict=True)
        return np.asarray(sum(share / scale * _centred(member, eta, phi) for member, share, scale in parts))


def plug_in_rule(name: str, weights: FloatArray, *, problem: Problem) -> FittedRule:
    """Return the rule ``argmax_i w_i eta_i``."""
    member = PlugIn(weighting=DIAGONAL, alpha=np.asarray(weights)[None], n_classes=problem.n_classes)
    return FittedRule(name=name, mixture=Mixture.of([member], [1.0]))


def with_best_labels(rule: FittedRule, problem: Problem) -> Fit[FittedRule]:
    """Return the rule with the way to deterministic labels that scores best on the validation rows.

    The likeliest class (for a minimum: the averaged scores) stands unless another way beats it by more than the noise
    of the rows on which they differ: the best of thirty members on few rows is mostly luck. Where even the best labels
    stay as far behind the randomised classifier, the rule says so.
    """
    problem = problem.few_rows(LABELLING_ROWS)
    eta, phi = problem.val.eta, problem.val.bases[rule.basis]
    scales = np.array([_centred(member, eta, phi).std() for member in rule.mixture.members])
    spread = replace(rule, labelling="scores", scales=np.where(scales > 0, scales, 1.0))
    order = np.argsort(-rule.mixture.shares, kind="stable")
    kept = order if problem.is_labelled else order[:1]  # where every question costs, only the largest member
    singles = [replace(rule, mixture=Mixture.of([rule.mixture.members[k]], [1.0])) for k in kept]
    # A minimum sits where two recalls meet, and there votes are a matter of chance: averaged scores come first.
    usual = [spread, rule] if hasattr(problem.metric, "smoothed") else [rule, spread]
    options = [*usual, *singles]
    # Seen from inside the posterior: the problem's eta is what the plug-ins read.
    labels = [replace(option, posterior=Identity()).labels(problem.val) for option in options]
    values = np.array((yield from problem.label_values(labels)))
    best = int(np.argmax(values - [problem.scale * paired_noise(each, labels[0]) for each in labels]))
    if problem.kind == "hard":
        return options[best]
    (mixed,) = yield from problem.values([rule.mixture.distribution(eta, phi)])
    noise = problem.scale * paired_noise(labels[best], drawn=rule.mixture.distribution(eta, phi))
    if mixed - values[best] <= noise:
        return options[best]
    note = f"only the randomised classifier reaches {mixed:.3f} (labels: {values[best]:.3f}): draw from `distribution`"
    return replace(options[best], note=note)


def paired_noise(labels: IntArray, others: IntArray | None = None, *, drawn: FloatArray | None = None) -> float:
    """Return the standard error of a difference of shares of rows, from the rows on which two predictions differ."""
    same = labels == others if drawn is None else drawn[np.arange(len(labels)), labels]
    apart = max(0.0, 1 - float(np.mean(same)))
    return float(np.sqrt(apart / len(labels)))


def _centred(member: Any, eta: FloatArray, phi: FloatArray) -> FloatArray:
    """Return a member's scores less their row means, which do not matter."""
    scores = member.scores(eta, phi)
    return np.asarray(scores - scores.mean(axis=1, keepdims=True))

"""A fitted rule: a posterior, a mixture of plug-ins on it, and how it gives deterministic labels.

A mixture of plug-ins predicts at random. Three ways to deterministic labels are scored, and the best is kept: the
most probable class (``votes``), the class with the highest average of the members' scores, each divided by its spread
(``scores``), and the best single member. A mixture may score 0.50 while its most probable class scores 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np
from scipy.special import softmax

from postshift._validation import FloatArray, IntArray
from postshift.core.frank_wolfe import Iteration
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.core.queries import Fit
from postshift.core.rows import CONSTANT, Posterior, Rows
from postshift.core.weighting import DIAGONAL
from postshift.engines.memory.kernel_rows import row_slices
from postshift.engines.memory.mixture_votes import class_columns, member_scores, mixture_table
from postshift.engines.memory.numpy_kernels import first_largest
from postshift.rules.posterior import Identity
from postshift.rules.problem import Problem

Labelling = Literal["votes", "scores"]
LABELLING_QUERIES = 4  # the maximum number of queries of with_best_labels
_BLOCK_CELLS = 1 << 16  # of a table of scores, 512 KB; much larger tables are allocated anew each time
SHOWN = 1e-3  # the smallest lead of the randomised classifier that three decimals show
LABELLING_ROWS = 20_000  # with labels, this many rows are enough to compare the ways to labels


class Rule(Protocol):
    """One rule of the menu, before it is fitted."""

    @property
    def name(self) -> str:
        """The name of the rule."""

    def usable(self, problem: Problem) -> bool:
        """Return whether the problem has what the rule needs."""

    def bound(self, problem: Problem) -> int:
        """Return the maximum number of queries of a fit."""

    def fit(self, problem: Problem) -> Fit[FittedRule]:
        """Fit; if the labels are not available, ask through ``yield``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedRule:
    """A classifier of :class:`~postshift.core.rows.Rows`; ``trace`` is that of its Frank-Wolfe loop, if it has one."""

    name: str
    mixture: Mixture
    posterior: Posterior = field(default_factory=Identity)
    basis: str = CONSTANT
    labelling: Labelling = "votes"
    scales: FloatArray | None = None
    note: str = ""
    trace: tuple[Iteration, ...] = ()

    def labels(self, rows: Rows) -> IntArray:
        """Return the deterministic label of every row."""
        if rows.is_sparse:
            return self.mixture.members[0].sparse_labels(rows.eta)[0]
        eta, phi = self._read(rows)
        if self.labelling == "scores":
            return np.asarray(np.argmax(self.averaged(eta, phi), axis=1))
        return np.asarray(np.argmax(mixture_table(self.mixture, eta, phi), axis=1))

    def distribution(self, rows: Rows) -> FloatArray:
        """Return the randomised classifier; if the metric is a minimum, it may score higher than any labels."""
        return mixture_table(self.mixture, *self._read(rows))

    def scores(self, rows: Rows) -> FloatArray:
        """Return scores (n, m) whose rows sum to 1, comparable between rules."""
        eta, phi = self._read(rows)
        if self._weighs_odds:
            return _in_shares(self.mixture.members[0].scores(eta, phi))
        if self.labelling == "scores":
            return np.asarray(softmax(self.averaged(eta, phi), axis=1))
        return mixture_table(self.mixture, eta, phi)

    def graded(self, rows: Rows) -> FloatArray:
        """Return how much the plug-ins raise each class, as shares (n, m); votes would only show the winner."""
        eta, phi = self._read(rows)
        members = zip(self.mixture.members, self.mixture.shares, strict=True)
        return np.asarray(sum(share * _in_shares(np.maximum(member.scores(eta, phi), 0)) for member, share in members))

    @property
    def reads_sparse(self) -> bool:
        """Whether it can label rows with sparse eta: a single plug-in on eta itself, with weights of the classes."""
        (member, *others) = self.mixture.members
        return not others and member.reads_sparse and isinstance(self.posterior, Identity)

    @property
    def _weighs_odds(self) -> bool:
        """Whether the mixture is one plug-in with weights per class, none of them negative."""
        (member, *others) = self.mixture.members
        return not others and member.weighting.name == DIAGONAL.name and not (member.alpha < 0).any()

    def through(self, posterior: Posterior, name: str) -> FittedRule:
        """Return a copy of the rule with another posterior and name."""
        return replace(self, posterior=posterior, name=name)

    def _read(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities and basis functions that the plug-ins read."""
        return self.posterior(rows.eta), rows.functions(self.basis)

    def averaged(self, eta: FloatArray, phi: FloatArray) -> FloatArray:
        """Return the members' scores, each divided by its spread, averaged by shares; eta is the posterior's output.

        Scores are linear in the coefficients, so members with the same weighting are scored together.
        """
        scales = np.ones(len(self.mixture.members)) if self.scales is None else self.scales
        merged: dict[str, PlugIn] = {}
        for member, factor in zip(self.mixture.members, self.mixture.shares / scales, strict=True):
            name, alpha = member.weighting.name, factor * member.alpha
            before = merged.get(name)
            merged[name] = replace(member, alpha=alpha if before is None else before.alpha + alpha)
        return np.asarray(sum(member.scores(eta, phi) for member in merged.values()))


def _in_shares(raised: FloatArray) -> FloatArray:
    """Return rows that sum to 1; rows of zeros get equal shares."""
    sums = raised.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(raised, sums, out=np.full_like(raised, 1 / raised.shape[1]), where=sums > 0))


def plug_in_rule(name: str, weights: FloatArray, *, problem: Problem) -> FittedRule:
    """Return the rule ``argmax_i w_i eta_i``."""
    member = PlugIn(weighting=DIAGONAL, alpha=np.asarray(weights)[None], n_classes=problem.n_classes)
    return FittedRule(name=name, mixture=Mixture.of([member], [1.0]))


def with_best_labels(rule: FittedRule, problem: Problem) -> Fit[FittedRule]:
    """Return the rule with the way to deterministic labels that scores best on the validation rows.

    The most probable class (for a minimum: the averaged scores) is kept unless another way beats it by more than the
    noise of the rows on which they differ: on few rows, the best of thirty members is mostly luck. If the randomised
    classifier beats even the best labels by more than the noise, the rule gets a note.
    """
    problem = problem.few_rows(LABELLING_ROWS)
    members = _Members.of(rule, problem.val)
    votes = rule, np.argmax(members.distribution, axis=1)
    spread = replace(rule, labelling="scores", scales=members.scales)
    averaged = np.argmax(spread.averaged(problem.val.eta, problem.val.functions(rule.basis)), axis=1)
    order = np.argsort(-rule.mixture.shares, kind="stable")
    kept = order if problem.is_labelled else order[:1]  # with queries, only the largest member
    singles = [(_single(rule, k), members.labels[k]) for k in kept]
    # The best minimum is where two recalls are equal, and there votes are mostly chance: averaged scores come first.
    usual = [(spread, averaged), votes] if hasattr(problem.metric, "smoothed") else [votes, (spread, averaged)]
    options, labels = [option for option, _ in (*usual, *singles)], [found for _, found in (*usual, *singles)]
    values = np.array((yield from problem.label_scores(labels)))
    best = int(np.argmax(values - [problem.scale * paired_noise(each, labels[0]) for each in labels]))
    if not problem.kind.soft:
        return options[best]
    (mixed,) = yield from problem.scores([members.distribution])
    noise = problem.scale * max(SHOWN, paired_noise(labels[best], drawn=members.distribution))
    if mixed - values[best] <= noise:
        return options[best]
    note = (
        f"only the randomised classifier reaches {mixed:.3f} (labels: {values[best]:.3f}): draw labels from its "
        "distribution (predict_distribution)"
    )
    return replace(options[best], note=note)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Members:
    """The labels, spreads and distribution of the members of a mixture, each scored once.

    The eta of the rows is the output of the rule's posterior: what the plug-ins read.
    """

    labels: IntArray  # of each member (T, n)
    scales: FloatArray  # the spread of each member's scores in a row
    distribution: FloatArray

    @classmethod
    def of(cls, rule: FittedRule, rows: Rows) -> _Members:
        """Score the rows by every member."""
        mixture, phi = rule.mixture, rows.functions(rule.basis)
        labels = np.empty((len(mixture.members), rows.n_rows), dtype=np.intp)
        squares, votes = np.zeros(len(labels)), np.zeros(rows.eta.shape)
        for some in row_slices(0, rows.n_rows, max(_BLOCK_CELLS // rows.n_classes, 64)):
            places, columns = np.arange(some.start, some.stop), class_columns(rows.eta[some], phi[some])
            for k, (member, share) in enumerate(zip(mixture.members, mixture.shares, strict=True)):
                scores = member_scores(member, *columns)
                labels[k, some] = first_largest(scores)
                votes[places, labels[k, some]] += share
                squares[k] += np.square(scores - scores.mean(axis=0)).sum()
        scales = np.sqrt(squares / rows.eta.size)
        return cls(labels=labels, scales=np.where(scales > 0, scales, 1.0), distribution=votes)


def _single(rule: FittedRule, member: int) -> FittedRule:
    """Return the rule with one member only."""
    return replace(rule, mixture=Mixture.of([rule.mixture.members[member]], [1.0]))


def paired_noise(labels: IntArray, others: IntArray | None = None, *, drawn: FloatArray | None = None) -> float:
    """Return the standard error of a difference of shares of rows, from the rows on which predictions differ."""
    same = labels == others if drawn is None else drawn[np.arange(len(labels)), labels]
    apart = max(0.0, 1 - float(np.mean(same)))
    return float(np.sqrt(apart / len(labels)))

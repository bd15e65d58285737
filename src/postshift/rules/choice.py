"""Choose a rule from the menu, or average the rules, by cross-validation of their deterministic labels.

With labels, every rule is refitted in every fold. Its score is the metric of its pooled out-of-fold labels. Classes
with few rows borrow some (``rules/borrowing.py``): without that, a rule that never predicts such a class would lose
nothing by it. The selection (``rules/scoring.py``) averages the rules or takes the best one. The result is compared
with the base (``rules/verdict.py``) on labels that were not used for the selection. The base is kept unless the
probability that the result is better is high enough. If the metric only returns scores, there are no folds: each rule
is scored once, and must beat the base by more than the noise of the rows on which their labels differ.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

import numpy as np

from postshift._validation import FloatArray, IntArray
from postshift.core.plugin import onehot
from postshift.core.queries import Fit, ScoredRule, asking, without_queries
from postshift.core.rows import Rows
from postshift.exceptions import BudgetError, PostshiftWarning, SettingError
from postshift.rules.black_box import ConstrainedByProbes
from postshift.rules.borrowing import Borrowing, borrow, nothing_borrowed
from postshift.rules.few_rows import FewRows, few_rows
from postshift.rules.fitted import FittedRule, Rule, paired_noise
from postshift.rules.loops import Influence, Paper
from postshift.rules.menu import menu
from postshift.rules.problem import Problem
from postshift.rules.record import NEGLIGIBLE, Entry, Record, lines, notes_of, queried_reason, reason_of
from postshift.rules.scoring import (
    HeldOut,
    How,
    Selection,
    Selector,
    all_folds,
    in_parts,
    limited,
    make_folds,
    out_of_fold,
)
from postshift.rules.verdict import Comparison, Intervals, compare

Progress = Callable[[str], None]  # called with the name of the next rule
AVERAGED_ROWS = 200_000  # of each sample; with more rows, an average hardly changes
ADOPTED_FROM = 0.6  # a rule is adopted if the chance that it is better than the base is above this
# On few rows, the lowest of several rates is below its true value. This bias is largest if the rates are equal, as they
# are for the best rule: a rule needs a clearer lead.
MINIMUM_ADOPTED_FROM = 0.8
FAR_ABOVE = 10  # answers above this many times the scale suggest another scale


@dataclass(frozen=True, kw_only=True, eq=False)
class AveragedRule:
    """A weighted average of fitted rules: of their scores or, if ``votes``, of their labels (a weighted vote)."""

    rules: tuple[FittedRule, ...]
    weights: FloatArray
    votes: bool = False
    name: str = "average"

    def scores(self, rows: Rows) -> FloatArray:
        """Return the averaged scores (n, m), or the votes."""
        parts = (self._part(rule, rows) for rule in self.rules)
        return np.asarray(sum(w * part for w, part in zip(self.weights, parts, strict=True)))

    def graded(self, rows: Rows) -> FloatArray:
        """Return how much each class is raised, as shares (n, m) of each row, even if labels are found by votes."""
        parts = zip(self.weights, self.rules, strict=True)
        return np.asarray(sum(weight * rule.graded(rows) for weight, rule in parts))

    def _part(self, rule: FittedRule, rows: Rows) -> FloatArray:
        """Return what a rule adds to the average: its scores, or its votes; a single rule adds its scores."""
        if self.votes and len(self.rules) > 1:
            return onehot(rule.labels(rows), n_classes=rows.n_classes)
        return rule.scores(rows)

    def labels(self, rows: Rows) -> IntArray:
        """Return the deterministic label of every row; a single rule keeps its own labels."""
        if len(self.rules) == 1:
            return self.rules[0].labels(rows)
        return np.asarray(np.argmax(self.scores(rows), axis=1))

    @property
    def reads_sparse(self) -> bool:
        """Whether it can label rows with sparse eta: one plug-in rule on eta itself, with weights of the classes."""
        return len(self.rules) == 1 and self.rules[0].reads_sparse

    def distribution(self, rows: Rows) -> FloatArray:
        """Return the randomised classifier: the average of the rules' distributions, by weight."""
        return np.asarray(sum(w * rule.distribution(rows) for w, rule in zip(self.weights, self.rules, strict=True)))


def alone(rule: FittedRule) -> AveragedRule:
    """Return one rule as an average of one."""
    return AveragedRule(rules=(rule,), weights=np.ones(1))


@dataclass(frozen=True, kw_only=True, eq=False)
class Chosen:
    """The result of the choice, with the labels of the rows on which it was judged."""

    rule: AveragedRule
    record: Record
    held_out: HeldOut


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """The selected rules, compared with the base on labels that were not used for the selection."""

    selection: Selection
    values: FloatArray  # the score of every rule
    comparison: Comparison
    few_rows: FewRows | None
    held_out: HeldOut
    needed: float  # adopted if the chance to be better than the base is above this

    @property
    def kept_out(self) -> bool:
        """Whether the base is kept instead."""
        weights = self.selection.weights
        return len(weights) > 1 and bool(weights[0] == 1 or self.comparison.chance <= self.needed)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Choose from the menu, or average it.

    Parameters
    ----------
    how : {"average", "best", "only"}
        With labels: average the rules (one 5-fold pass), take the best one (two passes), or take the last one
        whatever it scores (no guard). If the metric only returns scores: take the best one, or the last one.
    entries : tuple of rules, optional
        The rules to choose from; by default the problem's menu. The first is the base.
    query_folds : int
        If the metric only returns scores, but also scores subsets of the rows: the number of folds, each with its own
        queries. 0 scores each rule once on all rows.
    budget : int, optional
        If the metric only returns scores: the maximum number of queries.
    random_state : int
        Seed of the folds and reweightings.
    n_jobs : int, optional
        With labels: the number of processes for the folds. None means 1.
    """

    how: How = "average"
    entries: tuple[Rule, ...] | None = None
    n_folds: int = 5
    query_folds: int = 0
    budget: int | None = None
    random_state: int = 0
    n_jobs: int | None = None

    def fit(self, problem: Problem, *, fold_groups: Any = None, progress: Progress | None = None) -> Fit[Chosen]:
        """Fit and choose. Rows with the same ``fold_groups`` stay in one fold; ``progress`` is called for each fit."""
        entries = self.entries or menu(problem)
        if self.how not in get_args(How):
            raise SettingError(f"how must be one of {get_args(How)}. Got {self.how!r} instead")
        if problem.is_labelled:
            return self._by_folds(problem, entries, fold_groups, progress)
        return (yield from self._by_queries(problem, self.affordable(problem), fold_groups))

    def bound(self, problem: Problem) -> int:
        """Return the maximum number of queries of a fit; it is known in advance and never above the budget."""
        if problem.is_labelled:
            return 0
        entries = self.affordable(problem)
        return sum(self._cost(rule, problem) for rule in entries) + len(entries)

    def _cost(self, rule: Rule, problem: Problem) -> int:
        """Return the maximum number of queries for one rule: one fit per fold, and one on all rows."""
        return rule.bound(problem) * (self.query_folds + 1)

    # -- with labels ------------------------------------------------------------------------------------

    def _by_folds(
        self, problem: Problem, entries: tuple[Rule, ...], fold_groups: Any, progress: Progress | None
    ) -> Chosen:
        """Score every rule out of fold, select, compare with the base, and refit the rules that have weight."""
        borrowing = self.borrowing(problem)
        candidate = self.candidate(borrowing, entries, fold_groups, progress)
        fallback = self.how != "only" and candidate.kept_out
        selection = _base_alone(len(entries)) if fallback else candidate.selection
        rule = refitted(borrowing.problem, entries, selection)
        found, base = candidate.comparison, candidate.held_out.base_labels
        record = Record(
            how=self.how,
            entries=lines(entries, candidate.values, selection.weights),
            score=found.base_score if fallback else found.score,
            base_score=found.base_score,
            noise=found.noise,
            fallback=fallback,
            reason=reason_of(
                entries,
                selection.weights,
                found,
                needed=candidate.needed,
                fallback=fallback,
                asked=self.how == "only",
            ),
            intervals=Intervals(score=found.intervals.base, base=found.intervals.base, gain=None)
            if fallback
            else found.intervals,
            candidate=found,
            few_rows=candidate.few_rows,
            notes=notes_of(rule.rules),
        )
        held_out = replace(candidate.held_out, labels=base) if fallback else candidate.held_out
        return Chosen(rule=rule, record=record, held_out=held_out)

    def borrowing(self, problem: Problem) -> Borrowing:
        """Return the problem with rows for classes that have few; a rule that was asked for gets only its own rows."""
        if self.how == "only":
            return nothing_borrowed(problem)
        return borrow(problem, seed=self.random_state)

    def candidate(
        self, borrowing: Borrowing, entries: tuple[Rule, ...], fold_groups: Any = None, progress: Progress | None = None
    ) -> Candidate:
        """Select from the menu and compare the selection with the base, before the decision to keep it."""
        problem = borrowing.problem
        small, groups, places = limited(problem, borrowing.groups(fold_groups), seed=self.random_state)
        how: Any = {"progress": progress or _silent, "n_jobs": self.n_jobs, "with_scores": self.how == "average"}
        folds = make_folds(small, groups, n_folds=self.n_folds, seed=self.random_state)
        first = out_of_fold(small, entries, folds, **how)
        first = in_parts(first, groups, n_parts=self.n_folds, seed=self.random_state)
        passes = [first]
        if self.how == "best" and len(folds) > 1:
            others = make_folds(small, groups, n_folds=self.n_folds, seed=self.random_state + 1)
            passes.append(out_of_fold(small, entries, others, **how))
        selector = Selector(how=self.how, passes=passes, seed=self.random_state)
        labels, base = selector.labels_by_others(), first.labels[0]
        clusters = None if groups is None else np.asarray(groups)[first.rows]
        own = np.flatnonzero(places[first.rows] < borrowing.n_own)
        return Candidate(
            selection=selector.selected(),
            values=np.array(without_queries(first.problem.label_scores(list(first.labels)))),
            comparison=compare(first.problem, labels, base, clusters=clusters, refitted=True, seed=self.random_state),
            few_rows=few_rows(borrowing, first.problem.take(own), labels[own], base[own]),
            held_out=HeldOut(rows=places[first.rows[own]], labels=labels[own], base_labels=base[own]),
            needed=MINIMUM_ADOPTED_FROM if hasattr(problem.metric, "smoothed") else ADOPTED_FROM,
        )

    # -- by queries -------------------------------------------------------------------------------------

    def affordable(self, problem: Problem) -> tuple[Rule, ...]:
        """Return the rules that the budget allows; expensive ones get fewer iterations or are left out."""
        entries = self.entries or menu(problem)
        if self.budget is None:
            return entries
        left = self.budget - len(entries)
        chosen = []
        for rule in entries:
            fitting = _within(rule, problem, left // (self.query_folds + 1))
            if fitting is not None:
                chosen.append(fitting)
                left -= self._cost(fitting, problem)
        if left < 0 or len(chosen) < 2:
            raise BudgetError(
                f"a budget of {self.budget} queries is too small to compare the base with any other of the "
                f"{len(entries)} rules: raise it"
            )
        return tuple(chosen)

    def _by_queries(self, problem: Problem, entries: tuple[Rule, ...], fold_groups: Any) -> Fit[Chosen]:
        """Score each rule's labels once on all rows; the base is kept unless it is beaten by more than the noise.

        With folds, the labels are out of fold, and any lead over the base is enough.
        """
        labels: list[IntArray] = []
        rules: list[AveragedRule] = []
        scores: list[float] = []
        for entry in entries:
            found = yield from asking(entry.fit(problem), as_rule=alone)
            rules.append(alone(found))
            labels.append((yield from self._queried_labels(problem, entry, found, fold_groups)))
            scores += yield from problem.label_scores(labels[-1:])
            yield ScoredRule(score=scores[-1], make=partial(list.__getitem__, rules, len(rules) - 1))
        values = np.array(scores)
        noise = np.array([problem.scale * paired_noise(each, labels[0]) for each in labels])
        margins = 0 * noise if self.query_folds else noise
        best = len(entries) - 1 if self.how == "only" else int(np.argmax(values - margins))
        fallback = best == 0 and len(entries) > 1
        rival = 1 + int(np.argmax(values[1:])) if fallback else best
        weights = np.eye(len(entries))[best]
        record = Record(
            how="queries",
            entries=lines(entries, values, weights),
            score=float(values[best]),
            base_score=float(values[0]),
            noise=float(noise[rival]),
            fallback=fallback,
            reason=queried_reason(
                entries, values, rival, float(noise[rival]), fallback=fallback, asked=self.how == "only"
            ),
            notes=notes_of(rules[best].rules) + _doubts(values, labels, None if self.query_folds else problem.scale),
        )
        held_out = HeldOut(
            rows=np.arange(problem.val.n_rows),
            labels=labels[best],
            base_labels=labels[0],
            in_fit=self.query_folds == 0,
        )
        return Chosen(rule=rules[best], record=record, held_out=held_out)

    def _queried_labels(self, problem: Problem, rule: Rule, found: FittedRule, fold_groups: Any) -> Fit[IntArray]:
        """Return a rule's labels on all rows; with folds, they are out of fold."""
        if self.query_folds == 0:
            return found.labels(problem.val)
        labels = np.empty(problem.val.n_rows, dtype=np.intp)
        for kept, left in all_folds(problem, fold_groups, n_folds=self.query_folds, seed=self.random_state):
            fold = yield from rule.fit(problem.take(kept))
            labels[left] = fold.labels(problem.val.take(left))
        return labels


def unfinished(problem: Problem, found: ScoredRule, *, base_score: float, why: str) -> Chosen:
    """Return the best rule so far as the choice, if a fit by queries ends before it is finished; ``why`` says so."""
    rule: AveragedRule = found.rule
    labels, base = rule.labels(problem.val), np.argmax(problem.val.eta, axis=1)
    noise, name = problem.scale * paired_noise(labels, base), rule.rules[0].name
    record = Record(
        how="queries",
        entries=(Entry(name=name, score=found.score, weight=1.0),),
        score=found.score,
        base_score=base_score,
        noise=noise,
        fallback=bool((labels == base).all()),
        reason=f"{why}: {name!r} scores best so far, {found.score:.3f} (base {base_score:.3f}, noise {noise:.3f})",
        notes=notes_of(rule.rules),
    )
    held_out = HeldOut(rows=np.arange(problem.val.n_rows), labels=labels, base_labels=base, in_fit=True)
    return Chosen(rule=rule, record=record, held_out=held_out)


def _silent(*_: Any) -> None:
    """Do nothing."""


def _base_alone(n_entries: int) -> Selection:
    """Return the selection of the base."""
    return Selection(weights=np.asarray(np.eye(n_entries)[0]))


def refitted(problem: Problem, entries: tuple[Rule, ...], selection: Selection) -> AveragedRule:
    """Refit the rules that have weight to all rows; several rules are fitted to ``AVERAGED_ROWS`` rows at most."""
    weights = selection.weights
    kept = [k for k in range(len(entries)) if weights[k] > NEGLIGIBLE]
    if len(kept) > 1:
        problem = problem.few_rows(AVERAGED_ROWS)
    rules = tuple(without_queries(entries[k].fit(problem)) for k in kept)
    return AveragedRule(rules=rules, weights=weights[kept] / weights[kept].sum(), votes=selection.votes)


def _within(rule: Rule, problem: Problem, left: int) -> Rule | None:
    """Return the rule if the budget allows it, with fewer iterations if necessary."""
    if rule.bound(problem) <= left:
        return rule
    if isinstance(rule, Influence | Paper | ConstrainedByProbes):
        for n_iter in range(rule.max_iter - 1, 0, -1):
            shorter = replace(rule, max_iter=n_iter)
            if shorter.bound(problem) <= left:
                return shorter
    return None


def _doubts(values: FloatArray, labels: list[IntArray], scale: float | None) -> tuple[str, ...]:
    """Return warnings about the answers, and show them: they do not depend on the labels, or have another scale.

    Two rules may score the same by chance.

    With folds, the scale does not matter and is None.
    """
    found = []
    if len(values) > 2 and np.ptp(values) == 0 and any((each != labels[0]).any() for each in labels):
        found.append(
            f"all {len(values)} rules scored the same, {values[0]:.3f}, although their labels differ: does the metric "
            "read the labels? If the classes have names, pass them (classes=...)"
        )
    if scale is not None and np.abs(values).max() > FAR_ABOVE * scale:
        found.append(
            f"scores are as large as {np.abs(values).max():.6g}, but the noise is computed for a metric with a range "
            f"of about {scale:g}: set the width of the range of your metric (scale=... in Python, postshift fit "
            "--metric-scale, or a new session by postshift run start --metric-scale)"
        )
    for text in found:
        warnings.warn(text, PostshiftWarning, stacklevel=2)
    return tuple(found)

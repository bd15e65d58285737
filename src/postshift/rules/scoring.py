"""How the rules of the menu are scored and selected: folds, out-of-fold labels, and weights.

*Averaging* weighs rule c by ``exp((M_c - M_best) / (2 sigma))``, where M is the score on rows not used for the fit, and
sigma is the noise of the differences under exponential reweightings of the rows. If the average scores below its best
rule by more than 2 sigma, that rule is taken alone: a metric with a jump may lose more by a small weight of a bad rule
than noise explains. *Choosing* takes the best rule. The weights and the votes are chosen by labels, so a score on the
same labels is too optimistic: each part of the rows is labelled by the selection of the other parts. Nothing is
refitted for that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from postshift._validation import FloatArray, IntArray, check_count
from postshift.core.plugin import onehot
from postshift.core.queries import without_queries
from postshift.core.sums import occurring_counts
from postshift.exceptions import SettingError
from postshift.rules.fitted import Rule
from postshift.rules.problem import Problem

How = Literal["average", "best", "only"]
SHRINKAGE = 1.0
MAX_TRAIN = 100_000
MAX_VAL = 20_000
REWEIGHTINGS = 40
MANY_CLASSES = 1000  # with more, folds are not stratified: it takes long, and most classes have few rows
VOTES_FROM = 2000  # validation rows; with fewer, averaged scores are safer than votes
ALONE_FROM = 2.0  # sigma: if the average scores lower than its best rule by more, that rule is taken alone


@dataclass(frozen=True, kw_only=True, eq=False)
class OutOfFold:
    """Every rule's labels (K, n) and scores (K, n, m) on rows that were not used for its fit.

    ``problem`` holds these rows. ``rows`` are their numbers among the rows of the problem that was split into folds.
    ``parts`` are the numbers of the parts that they belong to: a selection by some parts is judged on the other parts.
    """

    problem: Problem
    rows: IntArray
    parts: IntArray
    labels: IntArray
    scores: FloatArray | None  # only an average needs them

    def take(self, rows: IntArray) -> OutOfFold:
        """Return some of the rows."""
        return OutOfFold(
            problem=self.problem.take(rows),
            rows=self.rows[rows],
            parts=self.parts[rows],
            labels=self.labels[:, rows],
            scores=None if self.scores is None else self.scores[:, rows],
        )

    def averaged(self, weights: FloatArray, *, votes: bool = False) -> IntArray:
        """Return the labels of the weighted average of scores or of votes; a single rule keeps its own."""
        if weights.max() == 1:
            return np.asarray(self.labels[int(np.argmax(weights))])
        n_classes = self.problem.n_classes
        parts = [onehot(each, n_classes=n_classes) for each in self.labels] if votes else self.scores
        assert parts is not None  # noqa: S101 -- without scores, a single rule is selected
        return np.asarray(np.argmax(sum(w * q for w, q in zip(weights, parts, strict=True)), axis=1))

    def values(self) -> FloatArray:
        """Return the score (K,) of every rule."""
        return np.array([score_of(self.problem, labels) for labels in self.labels])


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOut:
    """Labels, as positions, of validation rows that were not used for the fit, by the result and by the base.

    ``rows`` are the numbers of the rows. If the metric only returns scores, these are all rows, and ``in_fit`` says
    whether they were used for the fit.
    """

    rows: IntArray
    labels: IntArray
    base_labels: IntArray
    in_fit: bool = False


def make_folds(problem: Problem, groups: Any, *, n_folds: int, seed: int) -> list[tuple[IntArray, IntArray]]:
    """Return (fit rows, held-out rows) pairs, stratified by category; groups stay together.

    Above the row limit there is one hold-out, a quarter of the rows. Rare classes may be missing in some folds.
    """
    large = problem.val.n_rows >= MAX_VAL
    folds = all_folds(problem, groups, n_folds=4 if large else n_folds, seed=seed)
    return folds[:1] if large else folds


def all_folds(problem: Problem, groups: Any, *, n_folds: int, seed: int) -> list[tuple[IntArray, IntArray]]:
    """Return (fit rows, held-out rows) pairs that hold out every row once, stratified by category or label."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    wanted = check_count(n_folds, name="n_folds", low=2)
    rows = np.arange(problem.val.n_rows)
    categories = problem.strata
    sizes = np.bincount(categories)
    commonest = int(sizes.max()) if np.count_nonzero(sizes) <= MANY_CLASSES else 0
    if groups is None:
        kind, n_splits = (StratifiedKFold, wanted) if commonest >= wanted else (KFold, min(wanted, len(rows)))
        splitter = kind(n_splits, shuffle=True, random_state=seed)
    else:
        groups = np.asarray(groups)
        n_groups = len(np.unique(groups))
        if groups.shape != rows.shape or n_groups < 2:
            raise SettingError(
                "rows of a group stay together when rules are scored, so there must be at least two groups, and one "
                f"value for each of the {len(rows)} rows. Got {n_groups} group(s), shape {groups.shape}: hold out more "
                "groups"
            )
        n_splits = min(wanted, n_groups)
        stratified = commonest >= n_splits
        splitter = (StratifiedGroupKFold if stratified else GroupKFold)(n_splits, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some folds lack rare classes: that is fine
        return list(splitter.split(rows, categories, groups))


def out_of_fold(
    problem: Problem,
    entries: tuple[Rule, ...],
    folds: list[tuple[IntArray, IntArray]],
    *,
    progress: Callable[[str], None],
    n_jobs: int | None = None,
    with_scores: bool = True,
) -> OutOfFold:
    """Refit every rule in every fold, in ``n_jobs`` processes; ``progress`` is called for every fit."""
    held = np.concatenate([left for _, left in folds])
    parts = np.concatenate([np.full(len(left), place) for place, (_, left) in enumerate(folds)])
    labels = np.empty((len(entries), len(held)), dtype=np.intp)
    scores = np.empty((len(entries), len(held), problem.n_classes)) if with_scores else None
    if n_jobs in (None, 1):
        found = map(partial(_on_fold, problem, entries, progress, with_scores), folds)
    else:
        from sklearn.utils.parallel import Parallel, delayed

        run = Parallel(n_jobs=n_jobs, return_as="generator")
        found = run(delayed(_on_fold)(problem, entries, None, with_scores, fold) for fold in folds)
    for place, (fold_labels, fold_scores) in enumerate(found):
        if n_jobs not in (None, 1):
            for rule in entries:
                progress(rule.name)
        labels[:, parts == place] = fold_labels
        if scores is not None:
            scores[:, parts == place] = fold_scores
    order = np.argsort(held)
    left = held[order]
    return OutOfFold(
        problem=problem.take(left),
        rows=left,
        parts=parts[order],
        labels=labels[:, order],
        scores=None if scores is None else scores[:, order],
    )


def _on_fold(
    problem: Problem,
    entries: tuple[Rule, ...],
    progress: Callable[[str], None] | None,
    with_scores: bool,  # noqa: FBT001
    fold: tuple[IntArray, IntArray],
) -> tuple[IntArray, FloatArray]:
    """Fit every rule to one part, and return labels (K, n) and scores (K, n, m), or none, of the rows left out.

    What the rules share (a stack, sorted rows) is computed once.
    """
    kept, left = fold
    part, rows = problem.take(kept), problem.val.take(left)
    labels, scores = [], []
    for rule in entries:
        if progress is not None:
            progress(rule.name)
        found = without_queries(rule.fit(part))
        labels.append(found.labels(rows))
        if with_scores:
            scores.append(found.scores(rows))
    return np.array(labels), np.array(scores)


def in_parts(scored: OutOfFold, groups: Any, *, n_parts: int, seed: int) -> OutOfFold:
    """Return the rows in several parts: a single hold-out is split into parts, groups stay together."""
    if len(np.unique(scored.parts)) > 1:
        return scored
    parts = np.empty(len(scored.rows), dtype=np.intp)
    held = None if groups is None else np.asarray(groups)[scored.rows]
    for place, (_, left) in enumerate(all_folds(scored.problem, held, n_folds=n_parts, seed=seed)):
        parts[left] = place
    return replace(scored, parts=parts)


def score_of(problem: Problem, labels: IntArray) -> float:
    """Return the metric of labels; with sparse rows, recalls are shrunk."""
    if problem.val.is_sparse:
        return float(_shrunk_by_counts(problem, labels))
    return float(problem.metric_of(problem.label_confusion(labels)))


def reweighted_values(problem: Problem, labels: IntArray, reweightings: FloatArray) -> FloatArray:
    """Return the metric (B, K) of K sets of labels under reweightings (B, n) of the rows."""
    weights = reweightings * problem.row_weights
    weights /= weights.sum(axis=1, keepdims=True)
    return np.stack([problem.metric_of(problem.label_confusions(weights, each)) for each in labels], axis=1)


def _shrunk_by_counts(problem: Problem, labels: IntArray) -> FloatArray:
    """Return the metric by the counts of the classes; each recall is ``(d + s r) / (n + s)``, r their mean, s = 1."""
    categories, shares = problem.confusion_rows(slice(None))
    classes, (hits, true, predicted) = occurring_counts(shares[None], categories, labels)
    if problem.scoring_metric.weighting == "diagonal":
        counts = problem.counts[classes]
        recalls = np.divide(hits, true, out=np.zeros_like(hits), where=true > 0)
        mean = recalls.mean(axis=-1, where=counts > 0)
        share = counts / (counts + SHRINKAGE)
        hits = true * (share * recalls + (1 - share) * mean)
    return np.asarray(problem.metric_of_counts(hits, true, predicted)[0])


def limited(problem: Problem, groups: Any, *, seed: int) -> tuple[Problem, Any, IntArray]:
    """Return the problem on ``MAX_TRAIN`` and ``MAX_VAL`` rows at most, its groups, and its validation row numbers."""
    rng = np.random.default_rng([seed, 0])
    if problem.train is not None:
        train = problem.train.in_memory()
        if train.n_rows > MAX_TRAIN:
            train = train.take(np.sort(rng.choice(train.n_rows, size=MAX_TRAIN, replace=False)))
        problem = problem if train is problem.train else replace(problem, train=train)
    if problem.val.n_rows > MAX_VAL:
        rows = np.sort(rng.choice(problem.val.n_rows, size=MAX_VAL, replace=False))
        return problem.take(rows), None if groups is None else np.asarray(groups)[rows], rows
    return problem, groups, np.arange(problem.val.n_rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class Selection:
    """The weight of every rule, and whether labels are voted instead of averaging scores."""

    weights: FloatArray
    votes: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Selector:
    """Selects rules by the rows it is given.

    ``passes`` hold the same rows, labelled with different folds. The parts are those of the first pass.
    """

    how: How
    passes: Sequence[OutOfFold]
    seed: int

    def selected(self) -> Selection:
        """Return the selection by all rows."""
        return self._by(np.arange(len(self.passes[0].rows)))

    def labels_by_others(self) -> IntArray:
        """Return labels (n,) of all rows: each part is labelled by the selection of the other parts."""
        first = self.passes[0]
        if self.how == "only":
            return np.asarray(first.labels[-1])
        labels = np.empty(len(first.rows), dtype=np.intp)
        for part in np.unique(first.parts):
            here = np.flatnonzero(first.parts == part)
            chosen = self._by(np.flatnonzero(first.parts != part))
            labels[here] = first.take(here).averaged(chosen.weights, votes=chosen.votes)
        return labels

    def _by(self, rows: IntArray) -> Selection:
        """Return the selection by some rows."""
        n_entries = len(self.passes[0].labels)
        if self.how == "only":
            return Selection(weights=np.eye(n_entries)[-1])
        passes = [each.take(rows) for each in self.passes]
        values = np.mean([each.values() for each in passes], axis=0)
        if self.how == "best":
            return Selection(weights=np.eye(n_entries)[int(np.argmax(values))])
        best = int(np.argmax(values))
        noise = self._noise(passes[0], rows, best=best)
        averaged, score = self._averaged(passes[0], average_weights(values, noise))
        return averaged if score >= values[best] - ALONE_FROM * noise else Selection(weights=np.eye(n_entries)[best])

    def _averaged(self, scored: OutOfFold, weights: FloatArray) -> tuple[Selection, float]:
        """Return the average and its score; with many rows, labels are voted if this scores higher."""
        ways = (False, True) if len(self.passes[0].rows) >= VOTES_FROM else (False,)
        scores = [score_of(scored.problem, scored.averaged(weights, votes=votes)) for votes in ways]
        place = int(np.argmax(scores))
        return Selection(weights=weights, votes=ways[place]), scores[place]

    def _noise(self, scored: OutOfFold, rows: IntArray, *, best: int) -> float:
        """Return the median over rules of the spread of ``M_best - M_c`` under reweightings of the rows."""
        table = reweighted_values(scored.problem, scored.labels, self._reweightings[:, rows])
        spread = (table[:, [best]] - table).std(axis=0)
        return float(np.median(np.delete(spread, best))) if len(spread) > 1 else 0.0

    @cached_property
    def _reweightings(self) -> FloatArray:
        """Random weights (B, n) of mean 1, the same for every selection: exponential, wider for borrowed rows."""
        rng = np.random.default_rng([self.seed, 1])
        counted = self.passes[0].problem.fractions
        return np.asarray(rng.standard_gamma(counted, size=(REWEIGHTINGS, len(counted))) / counted)


def average_weights(values: FloatArray, noise: float) -> FloatArray:
    """Return ``exp((M_c - M_best) / (2 sigma))``, normalised."""
    gaps = values - values.max()
    raw = np.exp(gaps / (2 * noise)) if noise > 0 else (gaps == 0).astype(np.float64)
    return np.asarray(raw / raw.sum())

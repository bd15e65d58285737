"""How the rules of the menu are scored: folds, out-of-fold labels, shrunk recalls, and reweighted rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray, check_count
from postshift.core.plugin import onehot
from postshift.core.queries import without_queries
from postshift.exceptions import SettingError
from postshift.rules.fitted import Rule
from postshift.rules.problem import Problem

SHRINKAGE = 1.0
MAX_TRAIN = 100_000
MAX_VAL = 20_000


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
    scores: FloatArray

    def take(self, rows: IntArray) -> OutOfFold:
        """Return some of the rows."""
        return OutOfFold(
            problem=self.problem.take(rows),
            rows=self.rows[rows],
            parts=self.parts[rows],
            labels=self.labels[:, rows],
            scores=self.scores[:, rows],
        )

    def averaged(self, weights: FloatArray, *, votes: bool = False) -> IntArray:
        """Return the labels of the weighted average of scores or of votes; a single rule keeps its own."""
        if weights.max() == 1:
            return np.asarray(self.labels[int(np.argmax(weights))])
        n_classes = self.problem.n_classes
        parts = [onehot(each, n_classes=n_classes) for each in self.labels] if votes else self.scores
        return np.asarray(np.argmax(sum(w * q for w, q in zip(weights, parts, strict=True)), axis=1))

    def values(self) -> FloatArray:
        """Return the score (K,) of every rule, with shrunk recalls."""
        return np.array([shrunk_value(self.problem, labels) for labels in self.labels])


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
    commonest = int(np.bincount(categories).max())
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
) -> OutOfFold:
    """Refit every rule in every fold, in ``n_jobs`` processes; ``progress`` is called for every fit."""
    held = np.concatenate([left for _, left in folds])
    parts = np.concatenate([np.full(len(left), place) for place, (_, left) in enumerate(folds)])
    labels = np.empty((len(entries), len(held)), dtype=np.intp)
    scores = np.empty((len(entries), len(held), problem.n_classes))
    if n_jobs in (None, 1):
        found = map(partial(_on_fold, problem, entries, progress), folds)
    else:
        from sklearn.utils.parallel import Parallel, delayed

        run = Parallel(n_jobs=n_jobs, return_as="generator")
        found = run(delayed(_on_fold)(problem, entries, None, fold) for fold in folds)
    for place, (fold_labels, fold_scores) in enumerate(found):
        if n_jobs not in (None, 1):
            for rule in entries:
                progress(rule.name)
        labels[:, parts == place], scores[:, parts == place] = fold_labels, fold_scores
    order = np.argsort(held)
    left = held[order]
    return OutOfFold(
        problem=problem.take(left), rows=left, parts=parts[order], labels=labels[:, order], scores=scores[:, order]
    )


def _on_fold(
    problem: Problem,
    entries: tuple[Rule, ...],
    progress: Callable[[str], None] | None,
    fold: tuple[IntArray, IntArray],
) -> tuple[IntArray, FloatArray]:
    """Fit every rule to one part, and return labels (K, n) and scores (K, n, m) of the rows left out.

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


def shrunk_confusion(confusion: FloatArray, counts: FloatArray, *, n_classes: int) -> FloatArray:
    """Return matrices (..., R, m) with every recall shrunk to ``(d + s r) / (n + s)``, r the mean recall, s = 1."""
    place = np.arange(confusion.shape[-2])
    own = place % n_classes
    sums = confusion.sum(axis=-1, keepdims=True)
    rows = np.divide(confusion, sums, out=np.full_like(confusion, 1 / n_classes), where=sums > 0)
    recalls = rows[..., place, own]
    mean = recalls.mean(axis=-1, where=counts > 0)[..., None]
    pseudo = np.broadcast_to(((1 - mean) / (n_classes - 1))[..., None], rows.shape).copy()
    pseudo[..., place, own] = mean
    share = (counts / (counts + SHRINKAGE))[..., None]
    return np.asarray(sums * (share * rows + (1 - share) * pseudo))


def shrunk_value(problem: Problem, labels: IntArray) -> float:
    """Return the metric of labels; a metric of recalls gets shrunk recalls.

    Other metrics also depend on the predicted-class rates, and pseudo-rows would invent predictions.
    """
    confusion = problem.label_confusion(labels)
    return float(_shrunk_metric(problem, confusion, problem.counts))


def reweighted_values(problem: Problem, labels: IntArray, reweightings: FloatArray) -> FloatArray:
    """Return the metric (B, K) of K sets of labels under reweightings (B, n) of the rows.

    Recalls are shrunk by the reweighted number of rows; sample weights do not change it.
    """
    weights = _in_shares(reweightings * problem.row_weights)
    times = weights if problem.val.weights is None else _in_shares(reweightings)
    columns = []
    for each in labels:
        confusions = problem.label_confusions(weights, each)
        counted = confusions if times is weights else problem.label_confusions(times, each)
        columns.append(_shrunk_metric(problem, confusions, len(each) * counted.sum(axis=-1)))
    return np.stack(columns, axis=1)


def _in_shares(weights: FloatArray) -> FloatArray:
    """Return rows that sum to 1."""
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _shrunk_metric(problem: Problem, confusion: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the metric of confusion matrices (..., R, m) with ``counts`` rows in each category."""
    if problem.scoring_metric.weighting == "diagonal":
        confusion = shrunk_confusion(confusion, counts, n_classes=problem.n_classes)
    return problem.metric_of(confusion)


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

"""Classes with few validation rows borrow rows: from the training sample, or by the model's own probabilities.

The recall of a class with one to three validation rows is mostly chance, and a class without rows has none. A rule that
never predicts such a class would lose nothing by it. The training sample often has many rows of the class. So each
category with fewer than ``FEWEST`` validation rows borrows training rows of its class. Together they count as a few
rows, however many they are: as one row, or as more if the recalls of the other classes are the same in training and
validation rows. Without training labels, the category borrows validation rows of any class, by their probability of the
class: silence about a class that the model expects is then no longer free.

Borrowed rows take part in everything that follows: rules are fitted to them, scored on them, and compared on them. The
total weight of a category stays that of its own rows; a category without rows gets the weight of half a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import stats

from postshift._validation import FloatArray, IntArray
from postshift.core.rows import Rows
from postshift.rules.problem import Problem

Lender = Literal["training rows", "probabilities", "nothing"]
FEWEST = 5  # categories with fewer rows borrow
MOST_OF_A_ROW = 0.9  # a borrowed row counts as at most this part of a row
STRENGTHS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)  # borrowed rows of a category count as one of these numbers of rows
MISSING = 0.5  # the weight of a category without rows, in rows
MOST_OF_ONE = 50  # borrowed rows of a category at most
MOST = 2000  # borrowed rows in all, as long as each category gets FEWEST


@dataclass(frozen=True, kw_only=True, eq=False)
class Borrowing:
    """A problem with borrowed rows after its own; who lends to each category, and how many rows that counts as."""

    problem: Problem
    n_own: int
    lenders: dict[int, Lender]
    lent: dict[int, float]

    def groups(self, fold_groups: Any) -> Any:
        """Return the groups of the folds; every borrowed row is a group of its own."""
        n_borrowed = self.problem.val.n_rows - self.n_own
        if fold_groups is None or n_borrowed == 0:
            return fold_groups
        codes = np.unique(np.asarray(fold_groups), return_inverse=True)[1]
        return np.append(codes, codes.max() + 1 + np.arange(n_borrowed))


def borrow(problem: Problem, *, seed: int) -> Borrowing:
    """Return the problem with rows for the categories that have few; without such categories, it is unchanged."""
    own = nothing_borrowed(problem)
    few = _few(problem)
    if len(few) == 0 or problem.val.is_sparse:
        return own
    rng = np.random.default_rng([seed, 3])
    size = int(np.clip(MOST // len(few), FEWEST, MOST_OF_ONE))
    strength = _strength(problem)
    lenders: dict[int, Lender] = {}
    parts, categories, fractions = [], [], []
    for category in few.tolist():
        rows, lenders[category] = _lent(problem, category % problem.n_classes, size, rng)
        if rows is not None:
            parts.append(rows)
            categories.append(np.full(rows.n_rows, category))
            fractions.append(np.full(rows.n_rows, min(strength / rows.n_rows, MOST_OF_A_ROW)))
    if not parts:
        return replace(own, lenders=lenders)
    extended = _extended(problem, parts, np.concatenate(categories), np.concatenate(fractions))
    lent = {int(each[0]): float(part.sum()) for each, part in zip(categories, fractions, strict=True)}
    return Borrowing(problem=extended, n_own=problem.val.n_rows, lenders=lenders, lent=lent)


def nothing_borrowed(problem: Problem) -> Borrowing:
    """Return the problem as it is."""
    return Borrowing(problem=problem, n_own=problem.val.n_rows, lenders={}, lent={})


def _few(problem: Problem) -> IntArray:
    """Return the categories with few rows. In a metric over groups, a group without any row is left out."""
    counts = problem.counts
    of_group = counts.reshape(-1, problem.n_classes).sum(axis=1)
    there = np.repeat(of_group > 0, problem.n_classes)
    return np.flatnonzero(there & (counts < FEWEST))


def _labelled_train(problem: Problem) -> Rows | None:
    """Return the training rows that are in memory, or None if there are none or they have no labels."""
    train = problem.train
    return None if train is None or train.labels is None else train.in_memory()


def _strength(problem: Problem) -> float:
    """Return the number of rows that borrowed rows of a category count as, by the classes that have enough rows.

    The recalls of one rule, the inverse prior, are compared: a class's validation recall is taken as drawn from a beta
    distribution about its training recall, and the most likely concentration is the strength.
    """
    train, val = _labelled_train(problem), problem.val
    if train is None:
        return STRENGTHS[0]
    of_class = [np.bincount(np.asarray(rows.labels), minlength=problem.n_classes) for rows in (train, val)]
    enough = (of_class[0] >= FEWEST) & (of_class[1] >= FEWEST)
    priors = np.maximum(train.eta.mean(axis=0), 1e-12)
    hits = []
    for rows in (train, val):
        labels = np.asarray(rows.labels)
        right = labels == np.argmax(rows.eta / priors, axis=1)
        hits.append(np.bincount(labels, weights=right, minlength=problem.n_classes)[enough])
    recalls = (hits[0] + 0.5) / (of_class[0][enough] + 1)
    chances = [
        stats.betabinom.logpmf(hits[1], of_class[1][enough], s * recalls, s * (1 - recalls)).sum() for s in STRENGTHS
    ]
    return STRENGTHS[int(np.argmax(chances))]


def _lent(problem: Problem, own: int, size: int, rng: np.random.Generator) -> tuple[Rows | None, Lender]:
    """Return at most ``size`` rows of a class, and who lends them."""
    train = _labelled_train(problem)
    if train is not None:
        places = np.flatnonzero((train.labels == own) & (train.row_weights > 0))
        if len(places) == 0:
            return None, "nothing"
        return _relabelled(train.take(np.sort(rng.permutation(places)[:size])), own), "training rows"
    chances = problem.val.eta[:, own] * problem.val.row_weights
    if chances.sum() < MISSING:  # the model expects no row of the class
        return None, "nothing"
    drawn = rng.choice(problem.val.n_rows, size=size, p=chances / chances.sum())
    return _relabelled(problem.val.take(np.sort(drawn)), own), "probabilities"


def _relabelled(rows: Rows, label: int) -> Rows:
    """Return rows with one label and without weights."""
    return replace(rows, labels=np.full(rows.n_rows, label, dtype=np.intp), weights=None)


def _extended(problem: Problem, parts: list[Rows], categories: IntArray, lent: FloatArray) -> Problem:
    """Return the problem with borrowed rows appended; each category keeps its total weight."""
    val, (own_categories, shares) = problem.val, problem.confusion_rows(slice(None))
    n_own = val.n_rows
    total = n_own * np.bincount(own_categories, weights=shares, minlength=problem.n_categories)
    counts = problem.counts
    borrowed = np.bincount(categories, weights=lent, minlength=problem.n_categories)
    kept = np.divide(counts, counts + borrowed, out=np.ones_like(counts), where=counts + borrowed > 0)
    of_category = np.where(counts > 0, total * (1 - kept), MISSING)
    weights = np.append(n_own * shares * kept[own_categories], lent / borrowed[categories] * of_category[categories])
    names = list(val.bases)
    every = [val, *parts]
    rows = Rows(
        eta=np.concatenate([each.eta for each in every]),
        bases={name: np.concatenate([each.bases[name] for each in every]) for name in names},
        labels=np.concatenate([np.asarray(each.labels) for each in every]),
        weights=weights,
    )
    counted = np.append(np.ones(n_own) if problem.counted is None else problem.counted, lent)
    return replace(problem, val=rows.relative(), categories=np.append(own_categories, categories), counted=counted)

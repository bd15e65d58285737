"""Categories with few validation rows: their scores, and means over them, are mostly chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from postshift._validation import IntArray
from postshift.core.queries import without_queries
from postshift.rules.problem import Problem

FEWEST = 5  # categories with fewer rows are named


@dataclass(frozen=True, kw_only=True)
class FewRows:
    """Categories with few rows, how many rows they have, and the scores without them.

    A category is the position of a class or, for a metric over groups, ``group * n_classes + class``. The scores are
    None if at most one class is left.
    """

    categories: tuple[int, ...]
    counts: tuple[int, ...]
    score: float | None
    base_score: float | None


def few_rows(problem: Problem, labels: IntArray, base: IntArray) -> FewRows | None:
    """Return the categories with few rows, or None if there are none."""
    categories = problem.confusion_rows(slice(None))[0]
    counts = np.bincount(categories, minlength=problem.n_categories)
    few = np.flatnonzero((counts > 0) & (counts < FEWEST))
    if len(few) == 0:
        return None
    kept = np.flatnonzero(~np.isin(categories, few))
    rest = problem.take(kept)
    several = len(np.unique(categories[kept] % problem.n_classes)) > 1
    scores = [_without(rest, each[kept], len(few)) if several else None for each in (labels, base)]
    return FewRows(
        categories=tuple(map(int, few)),
        counts=tuple(map(int, counts[few])),
        score=scores[0],
        base_score=scores[1],
    )


def _without(rest: Problem, labels: IntArray, n_few: int) -> float:
    """Return the metric of the other rows; a mean over classes is over the remaining classes."""
    (value,) = without_queries(rest.label_scores([labels]))
    averaged = getattr(rest.metric, "average", None) == "macro"  # a macro average counts 0 for a class without rows
    return value * rest.n_classes / (rest.n_classes - n_few) if averaged else value

"""Categories with few validation rows: their scores, and means over them, are mostly chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from postshift._validation import IntArray
from postshift.core.queries import without_queries
from postshift.rules.borrowing import FEWEST, Borrowing, Lender
from postshift.rules.problem import Problem


@dataclass(frozen=True, kw_only=True)
class FewRows:
    """Categories with few rows, how many rows they have, and the scores without them.

    A category is the position of a class or, for a metric over groups, ``group * n_classes + class``. ``lenders`` are
    what else their part of the score leans on, and ``lent`` is how many rows this counts as. The scores are None if at
    most one class is left.
    """

    categories: tuple[int, ...]
    counts: tuple[int, ...]
    score: float | None
    base_score: float | None
    lenders: tuple[Lender, ...]
    lent: tuple[float, ...]


def few_rows(borrowing: Borrowing, problem: Problem, labels: IntArray, base: IntArray) -> FewRows | None:
    """Return the categories with few own rows, or None if there are none; ``problem`` holds the rows with labels.

    A category without rows counts if it has borrowed some.
    """
    categories = problem.confusion_rows(slice(None))[0]
    counts = np.bincount(categories, minlength=problem.n_categories)
    lent = np.array([borrowing.lenders.get(each, "nothing") for each in range(problem.n_categories)])
    few = np.flatnonzero((counts < FEWEST) & ((counts > 0) | (lent != "nothing")))
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
        lenders=tuple(borrowing.lenders.get(int(each), "nothing") for each in few),
        lent=tuple(borrowing.lent.get(int(each), 0.0) for each in few),
    )


def _without(rest: Problem, labels: IntArray, n_few: int) -> float:
    """Return the metric of the other rows; a mean over classes is over the remaining classes."""
    (value,) = without_queries(rest.label_scores([labels]))
    averaged = getattr(rest.metric, "average", None) == "macro"  # a macro average counts 0 for a class without rows
    return value * rest.n_classes / (rest.n_classes - n_few) if averaged else value

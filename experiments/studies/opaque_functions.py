"""Three opaque metrics: plain functions of labels without ``sample_weight``, with jumps, floors and caps.

A method may only call them. They are about class 1 of two classes, and more is better.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[Any]

RECALL_FLOOR = 0.9
BUDGET = 0.1  # share of the rows that can be visited
CAPACITY = 0.2  # share of the rows that can be called without overtime
GAIN, OVERTIME, FIXED, CEILING = 4.0, 2.0, 0.03, 0.6  # in costs of one call, a row


def precision_above_recall_floor(y_true: Labels, y_pred: Labels) -> float:
    """Return the precision if the recall is at least 0.9, else the recall minus 1.

    Examples
    --------
    >>> truth = np.array([1, 1, 0, 0])
    >>> precision_above_recall_floor(truth, np.array([1, 1, 1, 1]))
    0.5
    >>> precision_above_recall_floor(truth, np.array([1, 0, 0, 0]))
    -0.5
    """
    true, marked = np.asarray(y_true) == 1, np.asarray(y_pred) == 1
    hits = int((true & marked).sum())
    recall = hits / max(int(true.sum()), 1)
    return hits / max(int(marked.sum()), 1) if recall >= RECALL_FLOOR else recall - 1


def capped_profit(y_true: Labels, y_pred: Labels) -> float:
    """Return the profit of calls, a row: gains up to a ceiling, minus calls, overtime and the cost of having any.

    Examples
    --------
    >>> truth = np.array([1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    >>> round(capped_profit(truth, truth), 4), capped_profit(truth, 0 * truth)
    (0.27, 0.0)
    """
    true, called = np.asarray(y_true) == 1, np.asarray(y_pred) == 1
    calls = float(called.mean())
    gains = min(GAIN * float((true & called).mean()), CEILING)
    return gains - calls - OVERTIME * max(calls - CAPACITY, 0) - FIXED * (calls > 0)


def hit_rate_of_budget(y_true: Labels, y_pred: Labels) -> float:
    """Return the hits per visit that the budget allows; if more rows are marked than it allows, a lot decides.

    Visits that are not used bring nothing. The result is the mean over all lots.

    Examples
    --------
    >>> truth = np.array([1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    >>> hit_rate_of_budget(truth, truth), hit_rate_of_budget(truth, 0 * truth + 1)
    (1.0, 0.1)
    """
    true, marked = np.asarray(y_true) == 1, np.asarray(y_pred) == 1
    visits = max(int(BUDGET * len(true)), 1)
    n_marked = int(marked.sum())
    return int((true & marked).sum()) * min(1, visits / max(n_marked, 1)) / visits


FUNCTIONS: dict[str, Callable[[Labels, Labels], float]] = {
    "precision_above_recall_floor": precision_above_recall_floor,
    "capped_profit": capped_profit,
    "hit_rate_of_budget": hit_rate_of_budget,
}

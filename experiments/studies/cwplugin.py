"""CWPlugin: class weights by line searches over pairs of classes, written anew.

The method is that of Devic, Choudhary, Srinivasan, Genc, Kveton and Hiranandani (2025), "An Efficient Plugin Method
for Metric Optimization of Black-Box Models" (arXiv 2503.02119). Only its abstract and summaries were at hand, not the
text nor code. They say: the rule is ``argmax_k w_k eta_k`` with w in [0, 1]^m; the weights come from line searches over
classifiers that are restricted to a pair of classes; they are consistent for metrics that are linear in the diagonal;
a quasi-concave metric allows a faster search; the pairs are independent of each other.

What is filled in here:

* One class is in all pairs: the most frequent one of the validation rows.
* The classifier of a pair says the other class i where ``a eta_i > (1 - a) eta_fixed``. So the weight of class i
  relative to the fixed class is ``a / (1 - a)``; at the end the weights are divided by the largest.
* It is scored on the rows of the two classes. For metrics that are linear in the diagonal the other rows add a
  constant; for others, such as the G-mean, no pair scores above 0 on all rows. ``all_rows=True`` scores on all rows.
* The line search tries 99 values of a. Of equal values, the one next to 1/2 wins, which is the model as it is.
* The fast search is that of the golden section to the same step; it also compares its result with a = 1/2.
* The pairs are searched one after the other: the result is the same, and the machine has few cores.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.studies.rival_value import Floats, Ints, Labeller, Value, weighted

STEP = 0.01  # of the share a
GOLDEN = (np.sqrt(5) - 1) / 2
_MIDDLE = 0.5


def cwplugin(value: Value, *, fast: bool = False, all_rows: bool = False) -> Labeller:
    """Search the weights and return the rule.

    Parameters
    ----------
    value : Value
        The metric on the validation rows.
    fast : bool
        Search by the golden section, for quasi-concave metrics.
    all_rows : bool
        Score the classifier of a pair on all rows, not on those of its two classes.
    """
    return weighted(pair_weights(value, fast=fast, all_rows=all_rows))


def pair_weights(value: Value, *, fast: bool, all_rows: bool) -> Floats:
    """Return the weights, the largest being 1; a class without rows gets that of the fixed class."""
    counts = np.bincount(value.y, minlength=value.n_classes)
    fixed = int(counts.argmax())
    search = golden_section if fast else grid_search
    weights = np.ones(value.n_classes)
    for other in np.flatnonzero(counts):
        if other != fixed:
            part = value if all_rows else value.take(np.flatnonzero((value.y == other) | (value.y == fixed)))
            share = search(_of_share(part, int(other), fixed))
            weights[other] = share / (1 - share)
    return np.asarray(weights / weights.max())


def _of_share(value: Value, other: int, fixed: int) -> Callable[[float], float]:
    """Return the metric of the classifier of a pair as a function of the share a."""
    pair: Ints = np.array([fixed, other], dtype=np.intp)
    eta = value.eta[:, pair]

    def score(share: float) -> float:
        return value(pair[(share * eta[:, 1] > (1 - share) * eta[:, 0]).astype(np.intp)])

    return score


def grid_search(score: Callable[[float], float]) -> float:
    """Return the share of the best value on a grid; of equal ones, that next to the middle."""
    shares = np.arange(1, round(1 / STEP)) * STEP
    return _best({float(share): score(float(share)) for share in shares})


def golden_section(score: Callable[[float], float]) -> float:
    """Return the share that the golden section finds; exact up to the step if the values rise, then fall."""
    low, high = STEP, 1 - STEP
    places = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
    seen = {_MIDDLE: score(_MIDDLE), **{place: score(place) for place in places}}
    while high - low > STEP:
        left, right = places
        to_left = seen[left] > seen[right] if seen[left] != seen[right] else _apart(left) < _apart(right)
        low, high = (low, right) if to_left else (left, high)
        new = high - GOLDEN * (high - low) if to_left else low + GOLDEN * (high - low)
        places = [new, left] if to_left else [right, new]
        seen[new] = score(new)
    return _best(seen)


def _best(seen: dict[float, float]) -> float:
    """Return the share of the best value; of equal ones, that next to the middle."""
    return max(seen, key=lambda share: (seen[share], -_apart(share)))


def _apart(share: float) -> float:
    """Return how far a share is from the middle."""
    return abs(share - _MIDDLE)

"""Tests that certify a constraint: p-values of "the constraint is violated", from counts of labelled rows.

============  =========================================================  ============
piece         test                                                       validity
============  =========================================================  ============
proportion    binomial, given the rows in the denominator                exact
mean          Hoeffding and Bentkus, for numbers in a known range        exact
difference    score test of two proportions (Farrington and Manning)     asymptotic
tangent       none                                                       --
============  =========================================================  ============

A constraint of several pieces, and several constraints together, are violated if one piece is: their p-value is the
largest one (an intersection-union test, so no correction for their number is needed).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import rel_entr

from postshift._validation import FloatArray, IntArray
from postshift.constraints.pieces import Kind, Piece
from postshift.constraints.terms import Constraint

TESTS: dict[Kind, str] = {
    "proportion": "binomial test, exact",
    "mean": "Hoeffding-Bentkus test, exact",
    "difference": "score test of two proportions, asymptotic",
}
_BISECTIONS = 20
_N_SIZES = 25  # numbers of rows in a denominator over which a chance is averaged
_MOST_ROWS = 10**9  # a bound that needs more rows cannot be certified


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """The test of one piece: its p-value, and the rows that count in it."""

    __test__ = False  # not a class of pytest

    name: str
    test: str
    is_exact: bool
    value: float
    bound: float
    n_rows: int
    p_value: float


def has_test(piece: Piece) -> bool:
    """Return whether a piece can be certified."""
    return piece.kind in TESTS


def without_test(constraint: Constraint) -> str:
    """Return the message that a constraint has no test."""
    return (
        f"{str(constraint)!r} has no test and cannot be certified: leave confidence=... out, or bound one of recall, "
        "precision, f1, jaccard, rate, accuracy, min_recall, worst_group_accuracy, demographic_parity, "
        "equal_opportunity, equalized_odds, ExpectedCost"
    )


def test_piece(piece: Piece, counts: FloatArray) -> TestResult:
    """Test "the bound is violated", given the number of rows (R, m) of each category and predicted class."""
    if piece.kind == "difference":
        sizes, hits = _of_parts(piece, counts)
        n_rows, value = int(sizes.min()), _difference(hits, sizes)
        p_value = difference_p_value(hits, sizes, bound=piece.bound)
    else:
        n_rows, value = round(float(np.sum(piece.below * counts))), piece.value(counts)
        p_value = _mean_p_value(piece, counts) if piece.kind == "mean" else _proportion_p_value(piece, counts)
    return TestResult(
        name=piece.name,
        test=TESTS[piece.kind],
        is_exact=piece.kind != "difference",
        value=value,
        bound=piece.bound,
        n_rows=n_rows,
        p_value=p_value,
    )


def proportion_p_value(hits: int, n_rows: int, *, bound: float, at_least: bool) -> float:
    """Return the exact p-value of "the proportion is below the bound" (above it, unless ``at_least``).

    Examples
    --------
    >>> round(proportion_p_value(29, 29, bound=0.9, at_least=True), 4)
    0.0471
    """
    if n_rows == 0:
        return 1.0
    if at_least:
        return float(stats.binom.sf(hits - 1, n_rows, bound))
    return float(stats.binom.cdf(hits, n_rows, bound))


def difference_p_value(hits: IntArray, sizes: IntArray, *, bound: float) -> float:
    """Return the p-value of "the first proportion exceeds the second by ``bound`` or more" by the score test.

    The variance is that of the two proportions which are most likely if their difference is the bound.

    Examples
    --------
    >>> round(difference_p_value(np.array([50, 48]), np.array([500, 500]), bound=0.05), 4)
    0.0082
    """
    if (sizes == 0).any():
        return 1.0
    high, low = (float(value) for value in hits / sizes)
    first, second = _restricted(high, low, sizes, bound)
    variance = first * (1 - first) / sizes[0] + second * (1 - second) / sizes[1]
    excess = high - low - bound
    if variance <= 0:
        return 1.0 if excess >= 0 else 0.0
    return float(stats.norm.cdf(excess / np.sqrt(variance)))


def mean_p_value(mean: float, n_rows: int, *, bound: float) -> float:
    """Return the p-value of "the mean of numbers in [0, 1] is above the bound" by Hoeffding and Bentkus.

    Examples
    --------
    >>> round(mean_p_value(0.1, 100, bound=0.2), 4)
    0.0155
    """
    if n_rows == 0 or bound <= 0 or mean >= bound:
        return 1.0
    if bound >= 1:
        return 0.0
    hoeffding = float(np.exp(-n_rows * (rel_entr(mean, bound) + rel_entr(1 - mean, 1 - bound))))
    bentkus = float(np.e * stats.binom.cdf(np.ceil(n_rows * mean - 1e-9), n_rows, bound))
    return min(hoeffding, bentkus, 1.0)


def rows_needed(pieces: Sequence[Piece], confusion: FloatArray, *, delta: float, power: float = 0.8) -> int | None:
    """Return about how many rows it takes to certify all pieces with this chance; None if no number is enough.

    ``confusion`` has the expected shares of rows; each piece must have room under it.
    """
    if any(piece.miss(confusion) >= 0 for piece in pieces):
        return None
    return fewest_rows(lambda n_rows: chance_of_all(pieces, confusion, n_rows, delta=delta), power)


def fewest_rows(chance: Callable[[int], float], wanted: float) -> int | None:
    """Return the smallest number of rows with this chance, up to a half per cent; None if no number is enough."""
    low, high = 1, 2
    while chance(high) < wanted:
        low, high = high, 2 * high
        if high > _MOST_ROWS:
            return None
    while high - low > max(1, high // 200):
        middle = (low + high) // 2
        low, high = (middle, high) if chance(middle) < wanted else (low, middle)
    return high


def chance_of_all(pieces: Sequence[Piece], confusion: FloatArray, n_rows: int, *, delta: float) -> float:
    """Return the chance that ``n_rows`` new rows certify all pieces, at least: the chances to fail are added."""
    return max(0.0, 1 - sum(1 - chance_to_certify(piece, confusion, n_rows, delta=delta) for piece in pieces))


def chance_to_certify(piece: Piece, confusion: FloatArray, n_rows: int, *, delta: float) -> float:
    """Return the chance that ``n_rows`` new rows certify a piece, if their shares are those of ``confusion``.

    The number of rows in the denominator of a proportion is random: the chance is averaged over it. Means and
    differences are taken as normal.
    """
    if piece.kind == "proportion":
        return _proportion_chance(piece, confusion, n_rows, delta=delta)
    error = float(np.sqrt(np.sum(confusion * piece.influence(confusion) ** 2) / n_rows))
    if piece.kind == "difference":
        allowed = _largest_difference(piece, confusion, n_rows, delta=delta)
    else:
        allowed = _largest_mean(piece, n_rows, delta=delta)
    room = allowed - piece.sign * piece.value(confusion)
    if error == 0:
        return float(room >= 0)
    return float(stats.norm.cdf(room / error))


def _proportion_chance(piece: Piece, confusion: FloatArray, n_rows: int, *, delta: float) -> float:
    """Return the chance that the binomial test certifies a proportion."""
    value, share = piece.value(confusion), min(float(np.sum(piece.below * confusion)), 1.0)
    middles = (np.arange(_N_SIZES) + 0.5) / _N_SIZES
    sizes, repeats = np.unique(stats.binom.ppf(middles, n_rows, share).astype(np.intp), return_counts=True)
    at_least = piece.sense == ">="
    chances = _binomial_power(value, sizes, bound=piece.bound, at_least=at_least, delta=delta)
    return float(np.average(chances, weights=repeats))


def _largest_difference(piece: Piece, confusion: FloatArray, n_rows: int, *, delta: float) -> float:
    """Return about the largest difference that the score test accepts."""
    shares = np.array([float(np.sum(part.below * confusion)) for part in piece.parts])
    if (shares <= 0).any():
        return -np.inf
    high, low = (part.value(confusion) for part in piece.parts)
    first, second = _restricted(high, low, shares, piece.bound)
    error = np.sqrt((first * (1 - first) / shares[0] + second * (1 - second) / shares[1]) / n_rows)
    return float(piece.bound - stats.norm.ppf(1 - delta) * error)


def _largest_mean(piece: Piece, n_rows: int, *, delta: float) -> float:
    """Return the largest mean that the test of a mean accepts; a mean that must be large has a minus sign."""
    matrix = piece.sign * piece.above
    low, high = float(matrix.min()), float(matrix.max())
    bound = piece.sign * piece.bound
    if high == low:
        return low if low <= bound else -np.inf
    bound = (bound - low) / (high - low)
    if mean_p_value(0.0, n_rows, bound=bound) > delta:
        return -np.inf
    accepted, refused = 0.0, min(bound, 1.0)
    for _ in range(_BISECTIONS):
        middle = (accepted + refused) / 2
        if mean_p_value(middle, n_rows, bound=bound) <= delta:
            accepted = middle
        else:
            refused = middle
    return low + accepted * (high - low)


def _binomial_power(value: float, sizes: IntArray, *, bound: float, at_least: bool, delta: float) -> FloatArray:
    """Return the chance that the binomial test rejects, for each number of rows; no rows never reject."""
    if at_least:  # reject if hits >= needed
        needed = stats.binom.isf(delta, sizes, bound) + 1
        chances = stats.binom.sf(needed - 1, sizes, value)
    else:
        allowed = stats.binom.ppf(delta, sizes, bound)
        allowed = allowed - (stats.binom.cdf(allowed, sizes, bound) > delta)
        chances = stats.binom.cdf(allowed, sizes, value)
    return np.where(sizes > 0, chances, 0.0)


def _of_parts(piece: Piece, counts: FloatArray) -> tuple[IntArray, IntArray]:
    """Return sizes and hits of the two proportions of a difference."""
    sizes = np.array([round(float(np.sum(part.below * counts))) for part in piece.parts])
    hits = np.array([round(float(np.sum(part.above * counts))) for part in piece.parts])
    return sizes, hits


def _difference(hits: IntArray, sizes: IntArray) -> float:
    """Return the difference of two proportions; 0 / 0 is 0."""
    high, low = hits / np.maximum(sizes, 1)
    return float(high - low)


def _proportion_p_value(piece: Piece, counts: FloatArray) -> float:
    """Return the p-value of a proportion."""
    hits, n_rows = (round(float(np.sum(table * counts))) for table in (piece.above, piece.below))
    return proportion_p_value(hits, n_rows, bound=piece.bound, at_least=piece.sense == ">=")


def _mean_p_value(piece: Piece, counts: FloatArray) -> float:
    """Return the p-value of a mean, moved to numbers in [0, 1] of which less is better."""
    low, high = float(piece.above.min()), float(piece.above.max())
    n_rows = round(float(counts.sum()))
    if high == low:
        return 1.0 if piece.sign * (low - piece.bound) > 0 else 0.0
    mean = (float(np.sum(piece.above * counts)) / max(n_rows, 1) - low) / (high - low)
    bound = (piece.bound - low) / (high - low)
    if piece.sense == ">=":
        mean, bound = 1 - mean, 1 - bound
    return mean_p_value(mean, n_rows, bound=bound)


def _restricted(high: float, low: float, sizes: IntArray | FloatArray, bound: float) -> tuple[float, float]:
    """Return the most likely two proportions whose difference is the bound (a root of a cubic)."""
    theta = float(sizes[1] / sizes[0])
    a = 1 + theta
    b = -(1 + theta + high + theta * low + bound * (theta + 2))
    c = bound**2 + bound * (2 * high + theta + 1) + high + theta * low
    d = -high * bound * (1 + bound)
    v = (b / (3 * a)) ** 3 - b * c / (6 * a**2) + d / (2 * a)
    u = np.copysign(np.sqrt(max((b / (3 * a)) ** 2 - c / (3 * a), 0.0)), v)
    w = (np.pi + np.arccos(np.clip(v / u**3 if u != 0 else 0.0, -1, 1))) / 3
    first = float(np.clip(2 * u * np.cos(w) - b / (3 * a), max(bound, 0.0), min(1.0, 1 + bound)))
    return first, first - bound

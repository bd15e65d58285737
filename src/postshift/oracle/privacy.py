r"""What an answer costs in privacy, and the noise that it gets: zCDP and the exact discrete Gaussian.

========================  ==================================================================================
symbol                    meaning
========================  ==================================================================================
rho                       the cost of zero-concentrated differential privacy; costs add up (zCDP)
micro-rho                 a millionth of a rho: the whole unit of every charge and budget
:math:`\sigma^2`          variance parameter of the discrete Gaussian, P(x) proportional to exp(-x^2 / (2 sigma^2))
sensitivity2              square of the distance that one row can move the counts
========================  ==================================================================================

The sampler and the conversion to (epsilon, delta) are those of Canonne, Kamath and Steinke, "The Discrete Gaussian for
Differential Privacy", 2020. The sampler calculates with whole numbers only: floats would give away which counts are
behind an output.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from postshift._validation import IntArray, check_count, check_in_range
from postshift.exceptions import SettingError
from postshift.oracle.wire import MICRO

_BITS_AT_ONCE = 8192
_LARGEST_VARIANCE = 2**100  # draws fit into 64 bits


def micro(rho: float) -> int:
    """Return rho in micro-rho, rounded up, so that no cost is charged too low.

    Examples
    --------
    >>> micro(0.1), micro(1e-9)
    (100000, 1)
    """
    low = check_in_range(rho, name="rho", low=0, high=1e9)
    return math.ceil(Decimal(repr(low)) * MICRO)


def epsilon_of(micro_rho: int, *, delta: float) -> float:
    """Return the epsilon for which this cost is (epsilon, delta)-differentially private.

    It is the smallest that holds for every mechanism of this cost, up to the accuracy of the minimisation: Proposition
    12 of Canonne, Kamath and Steinke holds for every alpha > 1, so it is never too small.

    Examples
    --------
    >>> round(epsilon_of(micro(0.1), delta=1e-5), 2)
    1.91
    """
    rho = check_count(micro_rho, name="micro_rho", low=0) / MICRO
    check_in_range(delta, name="delta", low=0, high=1, open_low=True, open_high=True)
    if rho == 0:
        return 0.0

    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)  # alpha - 1
        alpha = 1 + excess
        return rho * alpha + (-math.log(delta * alpha)) / excess - math.log1p(1 / excess)

    best = minimize_scalar(bound, bounds=(-25, 25), method="bounded", options={"xatol": 1e-10})
    return max(0.0, float(best.fun))


def attack_bound(micro_rho: int) -> float:
    """Return the largest chance to guess right which of two equally likely values a row has, after this cost.

    It is the bound for Gaussian noise, Phi(sqrt(2 rho) / 2), and holds for any number of queries. Up to rho 6, the
    service's answers stay below it: a row moves two counts, and equal evidence for both values is possible. Above, the
    noise is so small that a table is read with a chance up to 0.007 above it. A single count with discrete
    noise that spends all of rho would exceed it a little: by 0.0001 at rho 0.01, 0.001 at 0.1 and 0.008 at 0.5.

    Examples
    --------
    >>> round(attack_bound(micro(0.1)), 3)
    0.588
    """
    rho = check_count(micro_rho, name="micro_rho", low=0) / MICRO
    return float(ndtr(math.sqrt(2 * rho) / 2))


def variance_of(micro_rho: int, *, sensitivity2: Fraction) -> Fraction:
    """Return the variance of the noise with which counts of this squared sensitivity cost this much.

    Examples
    --------
    >>> variance_of(micro(0.1), sensitivity2=Fraction(1, 2))
    Fraction(5, 2)
    """
    cost = check_count(micro_rho, name="micro_rho", low=1)
    return Fraction(sensitivity2) * MICRO / (2 * cost)


def discrete_gaussian(variance: Fraction, *, size: int, bits: Callable[[int], int] = secrets.randbits) -> IntArray:
    """Draw from the discrete Gaussian, exactly.

    The time of a draw depends on what is drawn: a service must not let learners measure it.

    Parameters
    ----------
    variance : Fraction
        The parameter sigma^2; the variance of the numbers is a little smaller.
    size : int
        How many numbers.
    bits : callable, optional
        Returns a random integer of that many bits. Anything else than the default is for tests.
    """
    sigma2 = Fraction(variance)
    if not 0 < sigma2 <= _LARGEST_VARIANCE:
        raise SettingError(f"variance must be positive, and at most 2**100. Got {float(sigma2):g} instead")
    coins = _Coins(bits)
    count = check_count(size, name="size", low=0)
    return np.fromiter((_gaussian(sigma2.numerator, sigma2.denominator, coins) for _ in range(count)), np.intp, count)


class _Coins:
    """Random choices with rational probabilities, from bits that are drawn many at once."""

    def __init__(self, bits: Callable[[int], int]) -> None:
        self._bits = bits
        self._pool = self._left = 0

    def below(self, n: int) -> int:
        """Return a uniform integer of 0..n-1."""
        width = (n - 1).bit_length()
        while (drawn := self._take(width)) >= n:
            pass
        return drawn

    def decays(self, top: int, bottom: int) -> bool:
        """Return True with probability exp(-top / bottom) (Algorithm 1)."""
        while top > bottom:
            if not self._decays(1, 1):
                return False
            top -= bottom
        return self._decays(top, bottom)

    def _decays(self, top: int, bottom: int) -> bool:
        """Return True with probability exp(-top / bottom), top <= bottom."""
        k = 1
        while self.below(bottom * k) < top:
            k += 1
        return k % 2 == 1

    def _take(self, width: int) -> int:
        """Return the next bits of the pool as an integer."""
        if width > self._left:
            self._left = max(_BITS_AT_ONCE, width)
            self._pool = self._bits(self._left)
        self._left -= width
        drawn = self._pool & ((1 << width) - 1)
        self._pool >>= width
        return drawn


def _gaussian(n: int, d: int, coins: _Coins) -> int:
    """Draw from the discrete Gaussian with sigma^2 = n / d (Algorithm 3)."""
    scale = math.isqrt(n // d) + 1
    while True:
        drawn = _laplace(scale, coins)
        if coins.decays((abs(drawn) * scale * d - n) ** 2, 2 * n * d * scale * scale):
            return drawn


def _laplace(scale: int, coins: _Coins) -> int:
    """Draw from the discrete Laplace distribution, P(x) proportional to exp(-|x| / scale) (Algorithm 2)."""
    while True:
        rest = coins.below(scale)
        if not coins.decays(rest, scale):
            continue
        turns = 0
        while coins.decays(1, 1):
            turns += 1
        size = rest + scale * turns
        negative = coins.below(2) == 1
        if size or not negative:
            return -size if negative else size

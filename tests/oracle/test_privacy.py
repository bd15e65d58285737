"""zCDP arithmetic, and the exact discrete Gaussian: against its distribution and against OpenDP's sampler."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, chi2_contingency

from postshift.exceptions import SettingError
from postshift.oracle.privacy import attack_bound, discrete_gaussian, epsilon_of, micro, variance_of
from postshift.oracle.wire import MICRO

LEVEL, SIZE = 1e-4, 20_000  # level of each test of a distribution, which may be repeated once; draws in each
VARIANCES = [Fraction(1, 10), Fraction(1, 2), Fraction(5, 2), Fraction(250_000, 33_333), Fraction(25), Fraction(1000)]


def passes_once_in_two(p_value):
    """Whether a test with fresh random bits passes, or its one repeat does."""
    return p_value() >= LEVEL or p_value() >= LEVEL


def probabilities(variance, reach):
    """The exact distribution on -reach..reach, up to what floats lose."""
    mass = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * float(variance)))
    return mass / mass.sum()


def bins(variance, reach):
    """Bin numbers of -reach..reach, with at least 20 draws expected in each: the first and the last have the tails."""
    expected = SIZE * probabilities(variance, reach)
    inner = np.flatnonzero(expected >= 20)
    return np.clip(np.arange(2 * reach + 1), inner[0], inner[-1]) - inner[0]


def counted(draws, variance, reach):
    place = bins(variance, reach)
    return np.bincount(place[np.clip(draws, -reach, reach) + reach], minlength=place[-1] + 1)


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_the_sampler_has_the_exact_distribution(variance):
    reach = 12 * math.ceil(math.sqrt(variance)) + 3
    place, exact = bins(variance, reach), SIZE * probabilities(variance, reach)
    expected = np.bincount(place, weights=exact)

    def p_value():
        seen = counted(discrete_gaussian(variance, size=SIZE), variance, reach)
        return chi2.sf((((seen - expected) ** 2) / expected).sum(), len(expected) - 1)

    assert len(expected) >= 3
    assert expected.min() >= 20
    assert passes_once_in_two(p_value)


@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(5, 2), Fraction(25)], ids=str)
def test_the_sampler_agrees_with_that_of_opendp(variance):
    dp = pytest.importorskip("opendp.prelude", reason="OpenDP is installed by make test-oracle")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64")
    noise = dp.m.make_gaussian(*space, scale=math.sqrt(variance))
    reach = 12 * math.ceil(math.sqrt(variance)) + 3

    def p_value():
        ours, theirs = discrete_gaussian(variance, size=SIZE), np.array(noise([0] * SIZE))
        table = np.array([counted(each, variance, reach) for each in (ours, theirs)])
        return chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue

    assert passes_once_in_two(p_value)


def test_the_test_of_the_distribution_can_fail():
    variance, wrong = Fraction(5, 2), Fraction(27, 10)
    expected = np.bincount(bins(variance, 30), weights=SIZE * probabilities(variance, 30))
    seen = counted(discrete_gaussian(wrong, size=SIZE), variance, 30)
    assert chi2.sf((((seen - expected) ** 2) / expected).sum(), len(expected) - 1) < LEVEL


def test_the_noise_is_symmetric():
    def p_value():
        draws = discrete_gaussian(Fraction(5, 2), size=SIZE)
        above, below = (draws > 0).sum(), (draws < 0).sum()
        return chi2.sf((above - below) ** 2 / (above + below), 1)

    assert passes_once_in_two(p_value)


def test_the_noise_comes_from_the_bits_alone():
    coins = [random.Random(seed).getrandbits for seed in (1, 1, 2)]  # noqa: S311 -- they are to be the same
    drawn = [discrete_gaussian(Fraction(25), size=50, bits=bits) for bits in coins]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])
    assert not np.array_equal(*(discrete_gaussian(Fraction(25), size=50) for _ in range(2)))


def test_no_draws():
    drawn = discrete_gaussian(Fraction(1), size=0)
    assert (drawn.shape, drawn.dtype.kind) == ((0,), "i")


def test_large_variances_stay_whole_numbers():
    drawn = discrete_gaussian(Fraction(2**90), size=5)
    assert (np.abs(drawn) < 2**50).all()
    assert drawn.any()


@pytest.mark.parametrize("variance", [Fraction(0), Fraction(-1, 2), Fraction(2**100 + 1)])
def test_a_variance_that_cannot_be_used(variance):
    with pytest.raises(SettingError, match="variance must be positive"):
        discrete_gaussian(variance, size=1)


def test_a_size_that_cannot_be_used():
    with pytest.raises(SettingError, match="size must be a whole number >= 0"):
        discrete_gaussian(Fraction(1), size=-1)


def test_micro_is_exact_in_decimals_and_never_too_low():
    assert [micro(rho) for rho in (0.1, 0.0113, 0.5, 1, 0, 3)] == [100_000, 11_300, 500_000, MICRO, 0, 3 * MICRO]
    assert [micro(rho) for rho in (1e-7, 1.0000001)] == [1, MICRO + 1]
    for wrong in (-0.1, math.nan, math.inf, True, "0.1"):
        with pytest.raises(SettingError, match="rho must be a number"):
            micro(wrong)


def test_the_variance_of_a_cost():
    assert variance_of(MICRO // 2, sensitivity2=Fraction(1)) == 1
    assert variance_of(33_333, sensitivity2=Fraction(1, 2)) == Fraction(250_000, 33_333)
    with pytest.raises(SettingError, match="micro_rho must be a whole number >= 1"):
        variance_of(0, sensitivity2=Fraction(1))


def test_epsilon_of_a_cost():
    found = [epsilon_of(micro(rho), delta=1e-5) for rho in (0.01, 0.05, 0.1, 0.5, 1)]
    np.testing.assert_allclose(found, [0.5457, 1.3081, 1.9142, 4.7284, 7.0772], atol=1e-4)
    assert epsilon_of(0, delta=1e-5) == 0
    assert epsilon_of(1, delta=0.9) == 0


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.1, 2.0, 300.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_epsilon_is_the_smallest_over_all_alpha(rho, delta):
    excess = np.exp(np.linspace(-25, 25, 200_001))
    alpha = 1 + excess
    every = rho * alpha - np.log(delta * alpha) / excess - np.log1p(1 / excess)
    found = epsilon_of(micro(rho), delta=delta)
    assert found == pytest.approx(max(0.0, every.min()), rel=1e-6, abs=1e-9)
    assert found <= rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-12  # the usual conversion (Bun and Steinke)


@pytest.mark.parametrize("delta", [0, 1, math.nan])
def test_a_delta_that_cannot_be_used(delta):
    with pytest.raises(SettingError, match="delta must be a number"):
        epsilon_of(MICRO, delta=delta)


def test_the_bound_of_attacks():
    found = [attack_bound(micro(rho)) for rho in (0, 0.01, 0.05, 0.1, 0.5)]
    np.testing.assert_allclose(found, [0.5, 0.5282, 0.5628, 0.5885, 0.6915], atol=1e-4)


@pytest.mark.parametrize(("rho", "above"), [(0.01, 1e-4), (0.1, 1e-3), (0.5, 0.01)])
def test_how_far_a_single_count_exceeds_the_bound(rho, above):
    """The best guess from one count that spends everything: half the distance of the two distributions, and a half."""
    exact = probabilities(variance_of(micro(rho), sensitivity2=Fraction(1)), 200)
    best = 0.5 + np.abs(exact[1:] - exact[:-1]).sum() / 4
    assert 0 < best - attack_bound(micro(rho)) < above


@pytest.mark.parametrize("rho", [0.01, 0.1, 0.5, 1, 5])
def test_two_counts_of_a_table_stay_below_the_bound(rho):
    """A row moves two counts by one. The best guess reads their difference, which is 1 or -1, and noise."""
    one = probabilities(variance_of(micro(rho), sensitivity2=Fraction(2)), 300)
    noise = np.convolve(one, one)
    best = 0.5 + np.abs(noise[2:] - noise[:-2]).sum() / 4
    assert attack_bound(micro(rho)) - 0.02 < best <= attack_bound(micro(rho))

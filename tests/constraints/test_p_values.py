"""The tests that certify constraints, judged by sums over all outcomes, numerical optima and simulation."""

from __future__ import annotations

from math import comb, log

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

from postshift.constraints import Constraint, Value, p_values
from postshift.constraints.p_values import (
    TESTS,
    _restricted,
    chance_to_certify,
    difference_p_value,
    has_test,
    mean_p_value,
    proportion_p_value,
    rows_needed,
)
from postshift.constraints.pieces import resolve_constraint
from postshift.metrics import ExpectedCost, ExpectedReward

N_DRAWS = 2000
DELTA = 0.1
COSTS = np.array([[0.0, 1.0], [5.0, 0.5]])
TWO_GROUPS = np.array([[0.3, 0.1], [0.04, 0.16], [0.2, 0.05], [0.05, 0.1]])


def piece_of(constraint, confusion, *, n_groups=None):
    constraint = Constraint.read(constraint) if isinstance(constraint, str) else constraint
    return resolve_constraint(constraint, classes=[0, 1], n_groups=n_groups).pieces(confusion)[0]


def share_accepted(piece, confusion, n_rows, *, delta=DELTA, n_draws=N_DRAWS, seed=0):
    """How often rows drawn from a population with these shares certify a piece."""
    rng = np.random.default_rng(seed)
    draws = rng.multinomial(n_rows, confusion.reshape(-1) / confusion.sum(), size=n_draws)
    tables, times = np.unique(draws, axis=0, return_counts=True)
    accepted = [
        p_values.test_piece(piece, table.reshape(confusion.shape).astype(float)).p_value <= delta for table in tables
    ]
    return float(np.sum(times * accepted) / n_draws)


def above_chance(share, level, *, n_draws=N_DRAWS):
    """Whether a share of draws is above a level by more than chance (4 standard errors)."""
    return share > level + 4 * np.sqrt(level * (1 - level) / n_draws)


@pytest.mark.parametrize("n_rows", [1, 2, 7, 30])
@pytest.mark.parametrize("bound", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_proportions_are_sums_over_all_outcomes(n_rows, bound):
    masses = [comb(n_rows, k) * bound**k * (1 - bound) ** (n_rows - k) for k in range(n_rows + 1)]
    for hits in range(n_rows + 1):
        at_least = proportion_p_value(hits, n_rows, bound=bound, at_least=True)
        at_most = proportion_p_value(hits, n_rows, bound=bound, at_least=False)
        assert at_least == pytest.approx(sum(masses[hits:]), abs=1e-12)
        assert at_most == pytest.approx(sum(masses[: hits + 1]), abs=1e-12)


def test_the_smallest_number_of_rows_for_a_recall():
    """``ln delta / ln b`` rows, all of them found."""
    for bound, delta in [(0.8, 0.05), (0.9, 0.05), (0.9, 0.1)]:
        least = int(np.ceil(log(delta) / log(bound)))
        assert proportion_p_value(least, least, bound=bound, at_least=True) <= delta
        assert proportion_p_value(least - 1, least - 1, bound=bound, at_least=True) > delta


@pytest.mark.parametrize("at_least", [True, False])
def test_nothing_is_certified_without_rows(at_least):
    assert proportion_p_value(0, 0, bound=0.5, at_least=at_least) == 1
    assert difference_p_value(np.array([0, 3]), np.array([0, 9]), bound=0.5) == 1
    assert mean_p_value(0.0, 0, bound=0.5) == 1


@pytest.mark.parametrize("sizes", [(10, 10), (40, 7), (5, 300)])
@pytest.mark.parametrize("bound", [0.0, 0.05, 0.3, 0.9])
def test_the_restricted_proportions_are_the_most_likely_ones(sizes, bound):
    rng = np.random.default_rng(int(100 * bound) + sizes[0])
    sizes = np.array(sizes)
    for hits in [rng.integers(0, sizes + 1) for _ in range(12)] + [np.array([0, 0]), sizes, np.array([0, sizes[1]])]:

        def loss(first, hits=hits):
            shares = np.array([first, first - bound])
            return -np.sum(stats.binom.logpmf(hits, sizes, np.clip(shares, 1e-12, 1 - 1e-12)))

        first, second = _restricted(*(float(share) for share in hits / sizes), sizes, bound)
        numerical = minimize_scalar(loss, bounds=(bound, 1), method="bounded", options={"xatol": 1e-9})
        assert first - second == pytest.approx(bound)
        assert 0 <= second <= first <= 1
        assert loss(first) <= numerical.fun + 1e-6


def test_the_score_test_is_written_out():
    hits, sizes, bound = np.array([30, 18]), np.array([120, 90]), 0.15
    first, second = _restricted(30 / 120, 18 / 90, sizes, bound)
    error = np.sqrt(first * (1 - first) / 120 + second * (1 - second) / 90)
    assert difference_p_value(hits, sizes, bound=bound) == pytest.approx(stats.norm.cdf((0.25 - 0.2 - 0.15) / error))


@pytest.mark.parametrize("bound", [0.0, 0.05, 0.3, 1.0])
def test_the_score_test_at_the_edges(bound):
    for hits in ([0, 0], [20, 20], [20, 0], [0, 20]):
        p_value = difference_p_value(np.array(hits), np.array([20, 20]), bound=bound)
        assert 0 <= p_value <= 1
        if hits[0] / 20 - hits[1] / 20 >= bound:
            assert p_value >= 0.5


def test_p_values_fall_with_the_evidence():
    means = [mean_p_value(mean, 50, bound=0.3) for mean in np.linspace(0, 0.5, 60)]
    hits = [proportion_p_value(hits, 50, bound=0.3, at_least=True) for hits in range(51)]
    gaps = [difference_p_value(np.array([k, 10]), np.array([50, 50]), bound=0.3) for k in range(51)]
    assert (np.diff(means) >= -1e-12).all()
    assert (np.diff(hits) <= 1e-12).all()
    assert (np.diff(gaps) >= -1e-12).all()


@pytest.mark.parametrize("n_rows", [5, 30, 300])
@pytest.mark.parametrize("spread", ["two values", "beta", "three values"])
def test_hoeffding_and_bentkus_are_valid_at_the_boundary(n_rows, spread):
    rng = np.random.default_rng(n_rows)
    for bound in (0.05, 0.3, 0.8):
        if spread == "two values":
            drawn = rng.random((N_DRAWS, n_rows)) < bound
        elif spread == "beta":
            drawn = rng.beta(bound, 1 - bound, size=(N_DRAWS, n_rows))
        else:
            drawn = rng.choice([0.0, bound, 1.0], p=[0.5 * (1 - bound), 0.5, 0.5 * bound], size=(N_DRAWS, n_rows))
        found = np.array([mean_p_value(float(mean), n_rows, bound=bound) for mean in drawn.mean(axis=1)])
        for delta in (0.01, 0.05, 0.1, 0.3):
            assert not above_chance(np.mean(found <= delta), delta)


def at_the_boundary(piece, confusion):
    """A population near ``confusion`` where the piece just holds."""
    cells = piece.parts[0].above if piece.parts else np.where(piece.above > 0, piece.above, 0)
    low, high = -0.95, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        moved = confusion * (1 + middle * (cells > 0))
        moved /= moved.sum()
        grows = piece.value(moved) > piece.bound
        low, high = (low, middle) if grows else (middle, high)
    assert piece.value(moved) == pytest.approx(piece.bound, abs=1e-6)
    return moved


BOUNDED = {
    "recall >= 0.8": None,
    "precision >= 0.7": None,
    "f1 >= 0.7": None,
    "jaccard >= 0.5": None,
    "rate <= 0.5": None,
    "rate >= 0.5": None,
    "accuracy >= 0.75": None,
    "min_recall >= 0.7": None,
    "worst_group_accuracy >= 0.7": 2,
    "demographic_parity <= 0.1": 2,
    "equal_opportunity <= 0.2": 2,
    "equalized_odds <= 0.1": 2,
}


@pytest.mark.parametrize("text", BOUNDED)
@pytest.mark.parametrize("n_rows", [40, 400])
def test_the_size_of_every_test_at_the_boundary(text, n_rows):
    confusion = TWO_GROUPS if BOUNDED[text] else np.array([[0.4, 0.15], [0.1, 0.35]])
    piece = piece_of(text, confusion, n_groups=BOUNDED[text])
    population = at_the_boundary(piece, confusion)
    share = share_accepted(piece, population, n_rows)
    if piece.kind == "difference":  # asymptotic
        assert share <= DELTA + (0.05 if n_rows == 40 else 0.02)
    else:
        assert not above_chance(share, DELTA)
    assert share > 0.01  # it is not empty


@pytest.mark.parametrize("constraint", [Value(ExpectedCost(COSTS)) <= 0.7, Value(ExpectedReward(-COSTS)) >= -0.7])
def test_the_size_of_the_test_of_a_mean(constraint):
    population = np.array([[0.514, 0.14], [0.086, 0.26]])
    piece = piece_of(constraint, population)
    assert piece.miss(population) == pytest.approx(0, abs=1e-9)
    assert not above_chance(share_accepted(piece, population, 200), DELTA)
    better = population + np.array([[0.06, 0.0], [-0.06, 0.0]])
    assert share_accepted(piece, better, 400) > 0.5


def test_a_constant_cost():
    confusion = np.full((2, 2), 0.25)
    for bound, p_value in ((2.0, 0.0), (1.5, 0.0), (1.0, 1.0)):
        piece = piece_of(Value(ExpectedCost(np.full((2, 2), 1.5))) <= bound, confusion)
        assert p_values.test_piece(piece, 100 * confusion).p_value == p_value
        assert chance_to_certify(piece, confusion, 100, delta=0.1) == 1 - p_value


POWERED = [
    ("recall >= 0.8", np.array([[0.5, 0.1], [0.04, 0.36]]), None),
    ("precision >= 0.7", np.array([[0.5, 0.08], [0.1, 0.32]]), None),
    ("rate <= 0.5", np.array([[0.5, 0.08], [0.1, 0.32]]), None),
    ("accuracy >= 0.75", np.array([[0.5, 0.08], [0.1, 0.32]]), None),
    (Value(ExpectedCost(COSTS)) <= 1.2, np.array([[0.5, 0.08], [0.1, 0.32]]), None),
    (Value(ExpectedCost(np.array([[0.0, 1.0], [10.0, 1.0]]))) <= 1.2, np.array([[0.1, 0.5], [0.01, 0.39]]), None),
    (Value(ExpectedReward(-COSTS)) >= -1.2, np.array([[0.5, 0.08], [0.1, 0.32]]), None),
    ("demographic_parity <= 0.2", TWO_GROUPS, 2),
    ("equal_opportunity <= 0.3", TWO_GROUPS, 2),
    ("worst_group_accuracy >= 0.7", TWO_GROUPS, 2),
]
IDS = [str(constraint) for constraint, _, _ in POWERED]


@pytest.mark.parametrize(("constraint", "confusion", "n_groups"), POWERED, ids=IDS)
def test_the_chance_to_certify_is_that_of_a_simulation(constraint, confusion, n_groups):
    piece = piece_of(constraint, confusion, n_groups=n_groups)
    for n_rows in (100, 300):
        expected = chance_to_certify(piece, confusion, n_rows, delta=DELTA)
        assert expected == pytest.approx(share_accepted(piece, confusion, n_rows), abs=0.08)


@pytest.mark.parametrize(("constraint", "confusion", "n_groups"), POWERED, ids=IDS)
def test_the_rows_that_are_needed_are_enough_and_not_many_too_many(constraint, confusion, n_groups):
    piece = piece_of(constraint, confusion, n_groups=n_groups)
    needed = rows_needed([piece], confusion, delta=DELTA, power=0.8)
    assert share_accepted(piece, confusion, needed) == pytest.approx(0.8, abs=0.1)
    assert share_accepted(piece, confusion, needed // 2) < 0.8


def test_no_number_of_rows_is_enough_without_room():
    confusion = np.array([[0.5, 0.1], [0.1, 0.3]])
    assert rows_needed([piece_of("recall >= 0.75", confusion)], confusion, delta=0.1) is None
    assert rows_needed([piece_of("recall >= 0.8", confusion)], confusion, delta=0.1) is None
    gone = np.array([[1.0, 0.0], [0.0, 0.0]])
    assert rows_needed([piece_of("recall >= 0.5", gone)], gone, delta=0.1) is None
    assert rows_needed([piece_of("recall <= 0.5", gone)], gone, delta=0.1) is None


def test_which_pieces_have_a_test():
    confusion = np.array([[0.5, 0.1], [0.1, 0.3]])
    for text, n_groups in BOUNDED.items():
        assert has_test(piece_of(text, TWO_GROUPS if n_groups else confusion, n_groups=n_groups))
    for text in ("g_mean >= 0.5", "f1_macro >= 0.5", "matthews_corrcoef >= 0.1", "balanced_accuracy >= 0.5"):
        assert not has_test(piece_of(text, confusion))
    assert set(TESTS) == {"proportion", "mean", "difference"}


def test_the_result_of_a_test():
    counts = np.array([[50.0, 10.0], [4.0, 36.0]])
    found = p_values.test_piece(piece_of("recall >= 0.8", counts / 100), counts)
    assert (found.name, found.value, found.bound, found.n_rows, found.is_exact) == ("recall", 0.9, 0.8, 40, True)
    assert found.p_value == proportion_p_value(36, 40, bound=0.8, at_least=True)
    groups = np.array([[30.0, 10.0], [4.0, 16.0], [20.0, 5.0], [5.0, 10.0]])
    piece = piece_of("demographic_parity <= 0.2", groups / 100, n_groups=2)
    found = p_values.test_piece(piece, groups)
    assert (found.n_rows, found.is_exact) == (40, False)
    assert found.value == pytest.approx(26 / 60 - 15 / 40)
    assert found.p_value == difference_p_value(np.array([26, 15]), np.array([60, 40]), bound=0.2)
    cost = p_values.test_piece(piece_of(Value(ExpectedCost(COSTS)) <= 1, counts / 100), counts)
    assert (cost.n_rows, cost.value) == (100, pytest.approx(np.sum(COSTS * counts) / 100))
    assert cost.p_value == pytest.approx(mean_p_value(cost.value / 5, 100, bound=0.2))

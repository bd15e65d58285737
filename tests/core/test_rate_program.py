"""The rate program: against a linear program over all rows, for random limits, the infeasible included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from postshift import Rows
from postshift.core import rate_program
from postshift.core.plugin import PlugIn
from postshift.core.rate_program import Limits, RateProgram, expected_rates
from postshift.engines.blocks import ArraySource, BlockEngine
from postshift.engines.memory import MemoryEngine
from postshift.exceptions import InfeasibleError, SettingError

BASES = ("hard", "overlapping", "soft", "groups")
EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def nothing(goal) -> Limits:
    """No limits."""
    return Limits(coefficients=np.empty((0, *goal.shape)), bounds=np.empty(0))


def make_rows(rng, *, n_rows, n_classes, n_bases, basis) -> Rows:
    eta = rng.dirichlet(np.full(n_classes, 0.5), size=n_rows)
    if basis in ("hard", "groups"):
        phi = np.eye(n_bases)[rng.integers(n_bases, size=n_rows)]
    elif basis == "soft":
        phi = rng.dirichlet(np.ones(n_bases), size=n_rows)
    else:
        phi = (rng.random((n_rows, n_bases)) < 0.5).astype(float)
        phi[:, 0] = 1
    return Rows.of(eta, phi=phi, labels=np.zeros(n_rows, dtype=int))


def make_limits(rng, rates, goal, n_limits, *, room) -> Limits:
    """Random limits that lean towards the goal, so that some bind; room above 0 leaves the argmax feasible."""
    shape = goal.shape
    coefficients = goal + rng.normal(size=(n_limits, *shape))
    argmax = PlugIn(weighting="full", alpha=np.tile(np.eye(shape[1]).reshape(-1), (shape[0], 1)), n_classes=shape[1])
    levels = np.tensordot(coefficients, rates(argmax), axes=3)
    return Limits(
        coefficients=coefficients,
        bounds=levels + room * rng.random(n_limits) * 0.1,
        names=tuple(f"limit {k}" for k in range(n_limits)),
    )


def parity_limits(rows, goal, *, room) -> Limits:
    """Gaps between the first and the last group in the rate of each class; room below 0 asks for too much."""
    n_bases, n_classes, _ = goal.shape
    sizes = rows.phi.mean(axis=0)
    gaps = np.zeros((n_classes, n_bases, n_classes, n_classes))
    for label in range(n_classes):
        gaps[label, 0, :, label] += 1 / sizes[0]
        gaps[label, -1, :, label] -= 1 / sizes[-1]
    return Limits(
        coefficients=np.concatenate([gaps, -gaps]),
        bounds=np.full(2 * n_classes, 0.02 if room > 0 else -0.02),
        names=tuple(f"gap {k}" for k in range(2 * n_classes)),
    )


def on_rows(rows, table):
    """The coefficients of rates as coefficients of each row and class."""
    return np.einsum("nl,ni,lij->nj", rows.phi, rows.eta, table).reshape(-1) / len(rows.eta)


def whole_program(rows, goal, limits, *, elastic=False):
    """The same program with one variable per row and class; elastic: the smallest sum of excesses."""
    n_rows, n_classes = rows.eta.shape
    n_slacks = len(limits) if elastic else 0
    table = sparse.csr_array(np.stack([on_rows(rows, each) for each in limits.coefficients]))
    ones = sparse.kron(sparse.eye_array(n_rows), np.ones((1, n_classes)))
    return linprog(
        np.concatenate([np.zeros(n_rows * n_classes) if elastic else -on_rows(rows, goal), np.ones(n_slacks)]),
        A_ub=sparse.hstack([table, -sparse.eye_array(n_slacks)]) if elastic else table,
        b_ub=limits.bounds,
        A_eq=sparse.hstack([ones, sparse.csr_array((n_rows, n_slacks))]),
        b_eq=np.ones(n_rows),
        method="highs",
        options=EXACT,
    )


def price_ranges(rows, goal, limits, *, highest):
    """The smallest and largest value of each price among prices whose bound on the optimum is at most ``highest``.

    One variable per row stands for the largest score of its classes.
    """
    n_rows, n_classes = rows.eta.shape
    n_limits = len(limits)
    table = np.stack([on_rows(rows, each) for each in limits.coefficients], axis=1)
    picks = sparse.kron(sparse.eye_array(n_rows), np.ones((n_classes, 1)))
    total = np.concatenate([limits.bounds, np.ones(n_rows)])
    above = sparse.vstack([sparse.hstack([sparse.csr_array(-table), -picks]), sparse.csr_array(total[None])])
    found = []
    for sign in (1, -1):
        for place in range(n_limits):
            wanted = sign * np.eye(n_limits + n_rows)[place]
            bounds = [(0, None)] * n_limits + [(None, None)] * n_rows
            right = np.append(-on_rows(rows, goal), highest)
            found.append(sign * linprog(wanted, A_ub=above, b_ub=right, bounds=bounds, options=EXACT).fun)
    return np.array(found).reshape(2, n_limits)


def make_case(seed, *, basis="soft", n_rows=300, n_classes=3, n_bases=2, n_limits=3, room=1.0, tol=1e-9):
    rng = np.random.default_rng(seed)
    rows = make_rows(rng, n_rows=n_rows, n_classes=n_classes, n_bases=n_bases, basis=basis)
    rates = expected_rates(MemoryEngine(rows, n_categories=1))
    shape = (n_bases, n_classes, n_classes)
    goal = rng.normal(size=shape)
    grouped = basis == "groups" and n_bases > 1
    limits = parity_limits(rows, goal, room=room) if grouped else make_limits(rng, rates, goal, n_limits, room=room)
    program = RateProgram(rates, n_bases=n_bases, n_classes=n_classes, limits=limits, tol=tol)
    return rows, goal, limits, program


CASES = {
    "seed": st.integers(0, 10**6),
    "basis": st.sampled_from(BASES),
    "n_classes": st.integers(2, 4),
    "n_bases": st.integers(1, 3),
    "n_limits": st.integers(1, 5),
    "room": st.sampled_from([1.0, -3.0]),
}


def check_against_all_rows(**case):
    """The optimum, the gap and the prices of a program; if it is infeasible, the smallest sum of excesses."""
    rows, goal, limits, program = make_case(**case)
    whole = whole_program(rows, goal, limits)
    if whole.status != 0:
        with pytest.raises(InfeasibleError) as caught:
            program.maximise(goal)
        assert caught.value.conflict
        nearest = caught.value.nearest
        assert limits.excess(nearest.rates).max() > 0
        assert -nearest.value == pytest.approx(whole_program(rows, goal, limits, elastic=True).fun, abs=1e-7)
        return
    found = program.maximise(goal)
    assert found.value == pytest.approx(-whole.fun, abs=1e-7)
    assert found.gap <= 1e-7
    assert limits.excess(found.rates).max() <= 1e-7
    assert found.prices.min() >= 0
    bound = (
        found.prices @ limits.bounds
        + program.with_limits(nothing(goal)).maximise(limits.priced(goal, found.prices)).value
    )
    assert bound == pytest.approx(found.value, abs=1e-7)  # the prices are optimal
    size = {"n_bases": goal.shape[0], "n_classes": goal.shape[1]}
    default = RateProgram(program.rates, **size, limits=limits).maximise(goal)
    assert default.value == pytest.approx(-whole.fun, abs=1e-4)
    assert default.bound >= -whole.fun - 1e-9


@settings(max_examples=25)
@given(**CASES)
def test_the_optimum_is_that_of_the_program_over_all_rows(**case):
    check_against_all_rows(**case)


@pytest.mark.slow
@settings(max_examples=20)
@given(n_rows=st.integers(1000, 5000), **CASES)
def test_the_same_with_more_rows(**case):
    check_against_all_rows(**case)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize(("n_rows", "n_seeds"), [(100, 6), pytest.param(1000, 1, marks=pytest.mark.slow)])
def test_prices_where_they_are_unique(basis, n_rows, n_seeds):
    """Prices are compared where a gap of 1e-9 determines them; with 1,000 rows it leaves a range above 1e-6."""
    n_unique = 0
    for seed in range(n_seeds):
        rows, goal, limits, program = make_case(seed, basis=basis, n_rows=n_rows)
        whole = whole_program(rows, goal, limits)
        found = program.maximise(goal)
        low, high = price_ranges(rows, goal, limits, highest=-whole.fun + 1e-9)
        assert (found.prices >= low - 1e-6).all()
        assert (found.prices <= high + 1e-6).all()
        unique = high - low < 1e-6
        np.testing.assert_allclose(found.prices[unique], -whole.ineqlin.marginals[unique], atol=1e-6)
        n_unique += np.count_nonzero(unique & (found.prices > 0.01))
    assert n_unique or n_rows == 1000


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("n_rows", [1000, pytest.param(5000, marks=pytest.mark.slow)])
def test_prices_and_optimum_on_more_rows(basis, n_rows):
    rows, goal, limits, program = make_case(n_rows, basis=basis, n_rows=n_rows, n_classes=4, n_bases=3, n_limits=4)
    whole = whole_program(rows, goal, limits)
    found = program.maximise(goal)
    assert found.value == pytest.approx(-whole.fun, abs=1e-8)
    assert found.prices.max() > 0.01  # a limit binds
    nothing = Limits(coefficients=np.empty((0, *limits.coefficients.shape[1:])), bounds=np.empty(0))
    highest = program.with_limits(nothing).maximise(limits.priced(goal, found.prices)).value
    assert found.prices @ limits.bounds + highest == pytest.approx(found.value, abs=1e-8)  # the prices are optimal
    if basis != "groups":  # there, several prices are optimal; elsewhere they are unique up to the distance of two rows
        np.testing.assert_allclose(found.prices, -whole.ineqlin.marginals, atol=2e-5)
    loose = RateProgram(program.rates, n_bases=3, n_classes=4, limits=limits, tol=1e-4).maximise(goal)
    assert loose.value == pytest.approx(-whole.fun, abs=1e-4)


def test_with_many_limits_the_dual_function_is_lowered_first(monkeypatch):
    rows, goal, limits, program = make_case(1, n_rows=1000, n_classes=4, n_bases=3, n_limits=12, tol=1e-4)
    found = program.maximise(goal)
    monkeypatch.setattr(rate_program, "_MANY_LIMITS", 13)
    size = {"n_bases": 3, "n_classes": 4}
    without = RateProgram(program.rates, **size, limits=limits, tol=1e-4).maximise(goal)
    assert found.value == pytest.approx(-whole_program(rows, goal, limits).fun, abs=1e-4)
    assert found.n_passes < without.n_passes


def test_blocks_give_the_same_columns_where_sums_are_integers():
    rng = np.random.default_rng(3)
    eta = np.eye(3)[rng.integers(3, size=400)]
    rows = Rows.of(eta, phi=np.eye(2)[rng.integers(2, size=400)], labels=np.zeros(400, dtype=int))
    goal = rng.normal(size=(2, 3, 3))
    rates = expected_rates(MemoryEngine(rows, n_categories=1))
    limits = make_limits(rng, rates, goal, 3, room=1.0)
    size = {"n_bases": 2, "n_classes": 3, "limits": limits}
    one = RateProgram(rates, **size)
    other = RateProgram(
        expected_rates(
            BlockEngine(ArraySource(rows.eta, phi=rows.phi, labels=rows.labels), block_rows=37, n_categories=1)
        ),
        **size,
    )
    assert one.maximise(goal).value == other.maximise(goal).value
    assert len(one.columns) == len(other.columns)
    for left, right in zip(one.columns, other.columns, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("basis", BASES)
def test_blocks_reach_the_same_objective(basis):
    rows, goal, limits, program = make_case(4, basis=basis)
    source = ArraySource(rows.eta, phi=rows.phi, labels=rows.labels)
    rates = expected_rates(BlockEngine(source, block_rows=37, n_categories=1))
    other = RateProgram(rates, n_bases=2, n_classes=3, limits=limits, tol=1e-9)
    assert other.maximise(goal).value == pytest.approx(program.maximise(goal).value, abs=1e-9)


def test_a_ratio_is_maximised():
    rows, _, limits, program = make_case(5, n_limits=2, tol=1e-8)
    above, below = np.zeros((2, 3, 3)), np.zeros((2, 3, 3))
    above[:, 1, 1], below[:, :, 1] = 1, 1

    def value(rates):
        return float(np.sum(above * rates) / max(np.sum(below * rates), 1e-12))

    def gradient(rates):
        size = max(float(np.sum(below * rates)), 1e-12)
        return (above - value(rates) * below) / size

    found = program.ascend(value, gradient)
    # Dinkelbach's equation: no classifier has <above - value below, T> above 0.
    assert whole_program(rows, above - found.value * below, limits).fun == pytest.approx(0, abs=1e-6)


def test_a_concave_objective_reaches_its_bound():
    _, goal, _, program = make_case(6, tol=1e-5)

    def value(rates):
        return float(np.sum(goal * rates) - np.sum(rates**2))

    found = program.ascend(value, lambda rates: goal - 2 * rates, max_iter=500)
    assert found.bound - found.value < 1e-3
    assert program.limits.excess(found.rates).max() <= 1e-7


def test_limits_that_share_a_slack_cost_their_largest_excess():
    rng = np.random.default_rng(8)
    rows = make_rows(rng, n_rows=300, n_classes=2, n_bases=2, basis="hard")
    gap = np.zeros((2, 2, 2))
    gap[0, :, 1], gap[1, :, 1] = 2, -2  # about the difference in the rate of class 1 between two groups of equal size
    goal = np.tile(np.array([[1.0, 0.0], [0.0, 1.0]]), (2, 1, 1))
    limits = Limits(
        coefficients=np.stack([gap, -gap]),
        bounds=np.zeros(2),
        names=("above", "below"),
        slacks=np.zeros(2, dtype=int),
        costs=np.ones(1),
    )
    rates = expected_rates(MemoryEngine(rows, n_categories=1))
    program = RateProgram(rates, n_bases=2, n_classes=2, limits=limits, tol=1e-9)
    found = program.maximise(goal)
    assert found.value == pytest.approx(np.sum(goal * found.rates) - abs(np.sum(gap * found.rates)))
    grid = [
        PlugIn(weighting="full", alpha=(goal - price * gap).reshape(2, 4), n_classes=2)
        for price in np.linspace(-1, 1, 201)
    ]
    best = max(np.sum(goal * rates(rule)) - abs(np.sum(gap * rates(rule))) for rule in grid)
    assert found.value >= best - 1e-9


def test_a_single_rule_meets_the_limits_and_loses_little():
    _, goal, limits, program = make_case(11, n_rows=2000)
    found = program.maximise(goal)
    rule, rates = program.single_rule(found, lambda rates: float(np.sum(goal * rates)))
    assert limits.excess(rates).max() <= 1e-9
    assert found.value - np.sum(goal * rates) < 2e-3
    np.testing.assert_array_equal(program.rates(rule), rates)


def test_limits_of_different_lengths():
    with pytest.raises(SettingError, match="one entry per limit"):
        Limits(coefficients=np.zeros((2, 1, 2, 2)), bounds=np.zeros(2), names=("one",))


def test_a_mixture_of_two_solutions():
    rng = np.random.default_rng(0)
    rows = Rows.of(rng.dirichlet(np.ones(3), size=300), labels=np.zeros(300, dtype=np.intp))
    nothing = Limits(coefficients=np.empty((0, 1, 3, 3)), bounds=np.empty(0))
    rates_of = expected_rates(MemoryEngine(rows, n_categories=1))
    program = RateProgram(rates_of, n_bases=1, n_classes=3, limits=nothing)
    goals = rng.normal(size=(2, 1, 3, 3))
    first, second = (program.maximise(goal) for goal in goals)

    def value(rates):
        return float(np.sum(goals[1] * rates))

    found = program.mixed(first, second, 0.25, value)
    np.testing.assert_allclose(found.rates, 0.75 * first.rates + 0.25 * second.rates)
    np.testing.assert_allclose(
        np.tensordot(found.shares, np.stack(program.columns[: len(found.shares)]), 1), found.rates
    )
    np.testing.assert_allclose(program.rates(found.mixture), found.rates)
    assert found.value == pytest.approx(value(found.rates))
    # A single rule is chosen by the constraint itself, if limits are only its tangent.
    rule, rates = program.single_rule(second, value, excess=lambda rates: rates[0, :, 0].sum() - 0.2)
    assert rates[0, :, 0].sum() <= 0.2
    np.testing.assert_allclose(program.rates(rule), rates)

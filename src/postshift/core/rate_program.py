"""The rate program: maximise a function of rates subject to linear limits on rates, by column generation.

Notation, for a classifier h with distribution h(x), and probabilities p(x):

==========  ============  ==================================================================================
symbol      shape         meaning
==========  ============  ==================================================================================
rates       T (L, m, m)   mean of phi_l(x) p_i(x) h_j(x): how often class j is predicted in (l, i); linear in h
goal        (L, m, m)     coefficients of the objective <goal, T>
limits      (K, L, m, m)  coefficients of the limits <limit_k, T> <= bound_k + slack
prices      (K,)          dual values: what a unit more of bound_k would gain
==========  ============  ==================================================================================

The rates that classifiers can reach are a convex set, and a plug-in rule maximises any linear function of them. So the
program needs no table of rows: a small linear program (the master) mixes the rules that are known, its prices give
the next rule, and one pass over the rows gives the rates of that rule.

    shares, prices = master(rules)
    rule = plug-in of (goal - prices . limits), one pass
    stop if the rule gains no more than the tolerance; else add it to the rules

The bound of each pass, ``prices . bounds + <goal - prices . limits, T(rule)>``, is above the optimum. The gap is the
smallest bound minus the value of the master.

As a function of the prices, the bound is the dual function: convex and, with many rows, almost smooth. If there are
many limits, a quasi-Newton method lowers it first. The rules that it passes surround the optimum, so the master needs
few others: 52 passes instead of 225 for 200 limits, of which 30 bind.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy.optimize import linprog, minimize, minimize_scalar

from postshift._validation import FloatArray, IntArray
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.core.sums import Classifier, Engine
from postshift.core.weighting import FULL
from postshift.exceptions import InfeasibleError, SettingError, SolverError

Rates = Callable[[Classifier], FloatArray]
Status = Literal["optimal", "stopped"]

_FEASIBLE = 1e-9  # a limit that is exceeded by less holds
_IN_CONFLICT = 1e-6  # a limit with a lower price has no part in a conflict
_NO_SHARE = 1e-12  # a rule with a smaller share is left out of the mixture
_RAISES = (1e-3, 1e-2, 0.1, 1.0, 10.0)  # shares by which prices are raised for a single rule
_BISECTIONS = 6
_ROUNDING = 1e-13  # a rule that gains less is not better
_SMOOTHING = 0.5  # how far the prices of a pass stay at the best prices so far (Wentges' smoothing)
_MANY_LIMITS = 4  # with fewer limits, the master alone needs no more passes
_MAX_DESCENT = 40  # passes
_DESCENT_TOL = 1e-3  # the descent stops where an iteration gains less than this share of the tolerance


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Limits:
    """Linear limits ``<coefficients_k, T> <= bounds_k``, some of them with a price for exceeding them.

    Attributes
    ----------
    coefficients : array of shape (K, L, m, m)
        One tensor per limit.
    bounds : array of shape (K,)
        Upper bounds.
    slacks : array of shape (K,)
        The slack that each limit may use, as a position in ``costs``; -1 if the limit is strict. Limits that share a
        slack share its cost: the largest excess counts.
    costs : array of shape (Q,)
        What a unit of each slack costs in the objective.
    names : tuple of str
        What each limit is called in messages.
    """

    coefficients: FloatArray
    bounds: FloatArray
    names: tuple[str, ...] = ()
    slacks: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    costs: FloatArray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        """Raise if the shapes do not fit; without slacks, every limit is strict."""
        n_limits = len(self.bounds)
        if not len(self.slacks):
            object.__setattr__(self, "slacks", np.full(n_limits, -1, dtype=np.intp))
        if not len(self.coefficients) == n_limits == len(self.names) == len(self.slacks):
            raise SettingError(
                f"coefficients, bounds, names and slacks must have one entry per limit. Got {len(self.coefficients)}, "
                f"{n_limits}, {len(self.names)} and {len(self.slacks)} instead"
            )

    def __len__(self) -> int:
        """Return K."""
        return len(self.bounds)

    def elastic(self) -> Limits:
        """Return the limits with a slack of cost 1 for each strict one: they can always be met, at a cost."""
        strict = np.flatnonzero(self.slacks < 0)
        slacks = self.slacks.copy()
        slacks[strict] = len(self.costs) + np.arange(len(strict))
        costs = np.concatenate([np.zeros(len(self.costs)), np.ones(len(strict))])
        return replace(self, slacks=slacks, costs=costs)

    def priced(self, goal: FloatArray, prices: FloatArray) -> FloatArray:
        """Return the objective less the priced limits: ``goal - prices . limits``."""
        return np.asarray(goal - np.tensordot(prices, self.coefficients, axes=1))

    def penalty(self, rates: FloatArray) -> float:
        """Return what the slacks cost that rates (L, m, m) need."""
        excess = np.maximum(self.excess(rates), 0)
        return float(sum(cost * excess[self.slacks == slack].max(initial=0) for slack, cost in enumerate(self.costs)))

    def excess(self, rates: FloatArray) -> FloatArray:
        """Return by how much each limit is exceeded by rates (L, m, m); negative where there is room."""
        return np.asarray(np.tensordot(self.coefficients, rates, axes=3) - self.bounds)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RateSolution:
    """A solution of the rate program.

    Attributes
    ----------
    mixture : Mixture
        The randomised rule that reaches ``rates``.
    rule : PlugIn
        The plug-in rule of the final prices: deterministic labels that come close to the mixture.
    rates : array of shape (L, m, m)
        The rates of the mixture.
    shares : array
        The share of each rule of the program.
    value, bound : float
        The objective of the mixture, and an upper bound on that of any classifier.
    goal : array of shape (L, m, m)
        The coefficients of the objective; of one that is not linear, its gradient at the solution.
    prices : array of shape (K,)
        Dual values of the limits.
    n_passes : int
        Number of passes over the rows.
    status : {"optimal", "stopped"}
        "stopped" if the maximum number of passes was reached before the gap was closed.
    """

    mixture: Mixture
    rule: PlugIn
    rates: FloatArray
    shares: FloatArray
    value: float
    bound: float
    goal: FloatArray
    prices: FloatArray
    n_passes: int
    status: Status

    @property
    def gap(self) -> float:
        """How far the value may be below the optimum."""
        return max(self.bound - self.value, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Master:
    """The solution of the small linear program: its value, shares of the rules, and prices of the limits."""

    value: float
    shares: FloatArray
    prices: FloatArray
    level: float  # the price of "the shares sum to 1"


class _Dual:
    """The dual function: for any prices, a bound above the optimum. The lowest bound so far is kept."""

    def __init__(self, goal: FloatArray, limits: Limits, rates: Callable[[FloatArray], FloatArray]) -> None:
        self._goal, self._limits, self._rates = goal, limits, rates
        self.bound, self.prices = np.inf, np.zeros(len(limits))

    def __call__(self, prices: FloatArray) -> FloatArray:
        """Return the rates of the rule of these prices, in one pass."""
        return self._at(prices)[1]

    def descend(self, tol: float) -> None:
        """Lower the bound from the best prices so far, by L-BFGS-B. Each limit with a slack must have its own."""
        soft = self._limits.slacks >= 0
        highest = np.full(len(soft), np.inf)
        highest[soft] = self._limits.costs[self._limits.slacks[soft]]

        def bound(prices: FloatArray) -> tuple[float, FloatArray]:
            above, rates = self._at(prices.copy())
            return above, -self._limits.excess(rates)

        options = {"maxfun": _MAX_DESCENT, "maxls": 5, "maxcor": 20, "ftol": _DESCENT_TOL * tol, "gtol": 0.0}
        ranges = [(0.0, high) for high in highest]
        minimize(bound, self.prices, jac=True, method="L-BFGS-B", bounds=ranges, options=options)

    def _at(self, prices: FloatArray) -> tuple[float, FloatArray]:
        """Return the bound of these prices, and the rates of their rule."""
        direction = self._limits.priced(self._goal, prices)
        rates = self._rates(direction)
        above = float(prices @ self._limits.bounds + np.sum(direction * rates))
        if above < self.bound:
            self.bound, self.prices = above, prices
        return above, rates


def expected_rates(engine: Engine) -> Rates:
    """Return the function that gives the rates T of a classifier on the rows of an engine, in one pass.

    p takes the place of the labels, so the labels that the engine holds do not matter.
    """
    shape = (engine.n_bases, engine.n_classes, engine.n_classes)

    def rates(classifier: Classifier) -> FloatArray:
        look = engine.look(classifier, influence=True)
        return np.asarray(look[1:].sum(axis=1).reshape(shape) / look[0].sum())

    return rates


class RateProgram:
    """Rules whose rates are known, and the linear programs that mix them.

    The rules are kept: another objective, or other bounds, begin with the rules that are known.

    Parameters
    ----------
    rates : callable
        Returns the rates (L, m, m) of a classifier; see :func:`expected_rates`.
    n_bases, n_classes : int
        L and m.
    limits : Limits
        The limits.
    tol : float
        The gap at which the program stops.
    max_passes : int
        The maximum number of passes over the rows for one linear objective.
    """

    def __init__(
        self,
        rates: Rates,
        *,
        n_bases: int,
        n_classes: int,
        limits: Limits,
        tol: float = 1e-4,
        max_passes: int = 2000,
    ) -> None:
        self.rates, self._shape, self._tol, self._max_passes = rates, (n_bases, n_classes, n_classes), tol, max_passes
        self.limits = limits
        self.rules: list[PlugIn] = []
        self.columns: list[FloatArray] = []
        self._pass(np.broadcast_to(np.eye(n_classes), self._shape))
        for label in range(n_classes):
            self._pass(np.broadcast_to(np.eye(n_classes)[label], self._shape))

    def with_limits(self, limits: Limits, *, tol: float | None = None) -> RateProgram:
        """Return the program with other limits and, if given, another tolerance; both share their rules."""
        other = copy(self)
        other.limits = limits
        other._tol = self._tol if tol is None else tol  # noqa: SLF001
        return other

    def maximise(self, goal: FloatArray) -> RateSolution:
        """Return the solution for a linear objective; raise ``InfeasibleError`` if no classifier meets the limits."""
        dual = self._started(goal)
        self._make_feasible()
        return self._solve(dual, goal, self.limits, tol=self._tol)

    def ascend(
        self,
        value: Callable[[FloatArray], float],
        gradient: Callable[[FloatArray], FloatArray],
        *,
        max_iter: int = 100,
    ) -> RateSolution:
        """Return the solution for an objective of the rates that is not linear.

        In each iteration the gradient at the current rates is the objective of the linear program, and a line search
        goes towards its solution: Frank-Wolfe. The result is the optimum of a concave objective, and of a ratio of
        linear functions, for which this is Dinkelbach's method. For other objectives it is a local optimum.

        Parameters
        ----------
        value : callable
            The objective of rates (L, m, m), the costs of slacks subtracted.
        gradient : callable
            Its gradient, without the slacks: the linear programs have them.
        max_iter : int
            Maximum number of iterations.
        """
        found = self.maximise(gradient(self.columns[0]))
        rates, shares = found.rates, found.shares
        for _ in range(max_iter):
            found = self.maximise(gradient(rates))
            linear = float(np.sum(found.goal * rates)) - self.limits.penalty(rates)
            promise = max(found.value - linear, 0.0)
            step = _line_search(value, rates, found.rates) if promise > self._tol else 0.0
            if step == 0:
                break
            rates = rates + step * (found.rates - rates)
            shares = (1 - step) * np.pad(shares, (0, len(found.shares) - len(shares))) + step * found.shares
        here = value(rates)
        return replace(
            found,
            mixture=self._mixture(shares),
            rates=rates,
            shares=shares,
            value=here,
            bound=here + promise + found.gap,
            status=found.status if promise <= self._tol else "stopped",
        )

    def mixed(
        self, first: RateSolution, second: RateSolution, step: float, value: Callable[[FloatArray], float]
    ) -> RateSolution:
        """Return the second solution, moved towards the first: ``(1 - step) first + step second``."""
        size = max(len(first.shares), len(second.shares))
        padded = [np.pad(each.shares, (0, size - len(each.shares))) for each in (first, second)]
        shares = (1 - step) * padded[0] + step * padded[1]
        rates = (1 - step) * first.rates + step * second.rates
        here = value(rates)
        mixture = self._mixture(shares)
        return replace(second, mixture=mixture, rates=rates, shares=shares, value=here, bound=max(second.bound, here))

    def single_rule(
        self,
        found: RateSolution,
        value: Callable[[FloatArray], float],
        *,
        excess: Callable[[FloatArray], float] | None = None,
    ) -> tuple[PlugIn, FloatArray]:
        """Return a single rule, which gives deterministic labels, and its rates.

        It is the best of the known rules that meet the strict limits. If none does, it is the one that exceeds them
        least. First, the prices of the solution are raised until their rule meets the limits. If limits are tangents
        of constraints, ``excess`` gives by how much rates exceed the constraints themselves.
        """
        excess = excess or self._excess
        low, high = 0.0, 0.0
        for raised in (0.0, *_RAISES):
            low, high = high, raised
            if excess(self._priced(found, raised)) <= _FEASIBLE:
                break
        for _ in range(_BISECTIONS if high > 0 else 0):
            middle = (low + high) / 2
            meets = excess(self._priced(found, middle)) <= _FEASIBLE
            low, high = (low, middle) if meets else (middle, high)
        exceeded = np.array([max(excess(rates), 0.0) for rates in self.columns])
        meets_best = np.flatnonzero(exceeded <= max(_FEASIBLE, float(exceeded.min())))
        best = max(meets_best, key=lambda place: value(self.columns[place]))
        return self.rules[best], self.columns[best]

    def _priced(self, found: RateSolution, raised: float) -> FloatArray:
        """Return the rates of the rule of a solution's prices, raised by a share."""
        return self._pass(self.limits.priced(found.goal, (1 + raised) * found.prices))

    def _excess(self, rates: FloatArray) -> float:
        """Return the largest excess of a strict limit; 0 if none is exceeded."""
        strict = self.limits.slacks < 0
        return float(self.limits.excess(rates)[strict].max(initial=0.0))

    def _started(self, goal: FloatArray) -> _Dual:
        """Return the dual function; with many limits and no rules of an earlier program, its bound is lowered."""
        dual = _Dual(goal, self.limits, self._pass)
        is_new = len(self.rules) == 1 + self._shape[1]
        sharing = np.bincount(self.limits.slacks + 1)[1:].max(initial=0)
        if is_new and len(self.limits) >= _MANY_LIMITS and sharing <= 1:
            dual.descend(self._tol)
        return dual

    def _make_feasible(self) -> None:
        """Add rules until a mixture of them meets the strict limits; raise if none can."""
        if (self.limits.slacks >= 0).all():
            return
        goal, limits = np.zeros(self._shape), self.limits.elastic()
        found = self._solve(_Dual(goal, limits, self._pass), goal, limits, tol=_FEASIBLE, enough=-_FEASIBLE)
        if found.value < -_FEASIBLE:
            in_conflict = (self.limits.slacks < 0) & (found.prices > _IN_CONFLICT)
            names = tuple(name for name, priced in zip(self.limits.names, in_conflict, strict=True) if priced)
            excess = np.where(in_conflict, self.limits.excess(found.rates), 0.0)
            largest = int(np.argmax(excess))
            raise InfeasibleError(
                f"no classifier meets {' and '.join(repr(name) for name in names)} on these rows: the nearest one "
                f"misses {self.limits.names[largest]!r} by {excess[largest]:.4g}. Relax a bound",
                conflict=names,
                nearest=found,
            )

    def _solve(
        self, dual: _Dual, goal: FloatArray, limits: Limits, *, tol: float, enough: float = np.inf
    ) -> RateSolution:
        """Return the solution by column generation; stop where the gap is ``tol`` or the value is ``enough``."""
        smoothing, last = 0.0 if np.isinf(dual.bound) else _SMOOTHING, len(self.rules) + self._max_passes
        while True:
            master = self._master(goal, limits)
            if dual.bound - master.value <= tol or master.value >= enough or len(self.rules) >= last:
                break
            rates = dual(smoothing * dual.prices + (1 - smoothing) * master.prices)
            gained = float(np.sum(limits.priced(goal, master.prices) * rates)) - master.level
            if gained <= _ROUNDING and smoothing == 0:
                break  # no rule improves the master: it is optimal
            smoothing = _SMOOTHING if gained > _ROUNDING else 0.0
        return RateSolution(
            mixture=self._mixture(master.shares),
            rule=self._plug_in(limits.priced(goal, dual.prices)),
            rates=np.tensordot(master.shares, np.stack(self.columns[: len(master.shares)]), axes=1),
            shares=master.shares,
            value=master.value,
            bound=max(dual.bound, master.value),
            goal=goal,
            prices=master.prices,
            n_passes=len(self.rules),
            status="stopped" if len(self.rules) >= last else "optimal",
        )

    def _master(self, goal: FloatArray, limits: Limits) -> _Master:
        """Return the best mixture of the known rules."""
        columns = np.stack(self.columns).reshape(len(self.columns), -1)
        n_rules, n_slacks = len(columns), len(limits.costs)
        used = (limits.slacks[:, None] == np.arange(n_slacks)).astype(np.float64)
        found = linprog(
            np.concatenate([-columns @ goal.reshape(-1), limits.costs]),
            A_ub=np.hstack([limits.coefficients.reshape(len(limits), -1) @ columns.T, -used]) if len(limits) else None,
            b_ub=limits.bounds if len(limits) else None,
            A_eq=np.concatenate([np.ones(n_rules), np.zeros(n_slacks)])[None],
            b_eq=np.ones(1),
            method="highs",
            options={"primal_feasibility_tolerance": _FEASIBLE, "dual_feasibility_tolerance": _FEASIBLE},
        )
        if found.status != 0:
            raise SolverError(f"the linear program of {n_rules} rules and {len(limits)} limits failed: {found.message}")
        shares = np.maximum(found.x[:n_rules], 0)
        return _Master(
            value=-float(found.fun),
            shares=shares / shares.sum(),
            prices=np.maximum(-found.ineqlin.marginals, 0),
            level=-float(found.eqlin.marginals[0]),
        )

    def _pass(self, direction: FloatArray) -> FloatArray:
        """Return the rates of the rule that maximises ``<direction, T>``; keep both."""
        rule = self._plug_in(direction)
        self.rules.append(rule)
        self.columns.append(self.rates(rule))
        return self.columns[-1]

    def _plug_in(self, direction: FloatArray) -> PlugIn:
        """Return the rule that maximises ``<direction, T>``."""
        n_bases, n_classes, _ = self._shape
        return PlugIn(weighting=FULL, alpha=direction.reshape(n_bases, -1), n_classes=n_classes)

    def _mixture(self, shares: FloatArray) -> Mixture:
        """Return the mixture of the rules that have a share."""
        used = np.flatnonzero(shares > _NO_SHARE)
        return Mixture.of([self.rules[place] for place in used], shares[used] / shares[used].sum())


def _line_search(value: Callable[[FloatArray], float], start: FloatArray, end: FloatArray) -> float:
    """Return the step in [0, 1] from start towards end with the largest value; 0 if no step gains anything."""
    along = end - start
    inner = minimize_scalar(lambda step: -value(start + step * along), bounds=(0, 1), method="bounded")
    return max((0.0, 1.0, float(inner.x)), key=lambda step: value(start + step * along))

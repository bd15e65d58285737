"""The Frank-Wolfe loop (Algorithm 3), for any way to look at an iterate and to find the next vertex.

The loop is a generator of queries: it can be read beside the paper, and a :class:`~postshift.core.session.Session`
lets any oracle answer it. The ways to look are in :mod:`postshift.core.look`. FW-EG, with its settings, is in
:mod:`postshift.core.fw_eg`; influence regression is in :mod:`postshift.core.influence`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np

from postshift._validation import FloatArray, check_count, check_rows
from postshift.core.constrained import ConstrainedProbes
from postshift.core.elicit import Elicitation
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.core.queries import Fit, ScoredRule
from postshift.core.rows import Rows
from postshift.core.sums import Classifier, ClassifierSums, Engine
from postshift.core.weighting import Weighting
from postshift.exceptions import BudgetError, ShapeError

Status = Literal["finished", "settled", "drifted", "flat"]
_SETTLED_OVER = 5  # iterates
_DRIFT_OF_GAIN = 0.25  # a run drifts if its last iterates stay below the best by more than this part of the gain ...
_DRIFT_OF_SCORE = 0.01  # ... and by more than this part of the best score


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Newest:
    """The new part of iterate h^t: the start or a vertex, mixed into h^(t-1) with a step of this size."""

    iteration: int
    classifier: Classifier
    step: float
    last: bool  # only the score of h^t is needed


class Look(Protocol):
    """One way to look at an iterate."""

    asked: set[str]  # fingerprints of the queries of the run so far

    def n_queries(self, *, first: bool, last: bool) -> int:
        """Return the maximum number of queries of a look; known answers are not asked for again."""

    def at(self, newest: Newest, previous: Any) -> Fit[Any]:
        """Return the view of h^t from that of h^(t-1), asking through ``yield`` (lines 4 to 8 of Algorithm 3)."""

    def score(self, view: Any) -> float:
        """Return the metric of h^t."""

    def gains(self, view: Any) -> FloatArray:
        """Return the gain of every probe (L R,) per unit of reach."""

    def rounding(self, view: Any) -> float:
        """Return the size up to which gains are only rounding."""


class VertexFinder(Protocol):
    """Finds the coefficients of the next plug-in classifier from the gains of the probes."""

    weighting: Weighting
    n_classes: int

    def sums_of(self, classifier: Classifier) -> ClassifierSums:
        """Return the sums of a classifier that :meth:`find` needs; they are linear in the classifier."""

    def find(self, sums: ClassifierSums, gains: FloatArray) -> Elicitation:
        """Return the vertex's coefficients, from the sums of h^t and the gains of the probes around it."""


class Start(Classifier, Protocol):
    """The first iterate h^0."""

    def after(self, vertices: Sequence[PlugIn], steps: Sequence[float]) -> Mixture:
        """Return the iterate after a step towards each of these vertices."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The settings of any run: the number of iterations, a budget, a seed."""

    max_iter: int = 30
    budget: int | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        """Raise if a value is out of range; store plain numbers."""
        object.__setattr__(self, "max_iter", check_count(self.max_iter, name="max_iter", low=1))
        object.__setattr__(self, "random_state", check_count(self.random_state, name="random_state", low=0))
        if self.budget is not None:
            object.__setattr__(self, "budget", check_count(self.budget, name="budget", low=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """One line of the trace: the iterate's score and how its weights were determined.

    The last line of a finished run has only a score: no weights are elicited there.
    """

    index: int
    score: float
    n_queries: int
    step: float | None = None
    rank: int | None = None
    condition: float | None = None
    smallest: float | None = None
    largest: float | None = None
    residual: float | None = None

    def elicited(self, found: Elicitation, *, step: float) -> Iteration:
        """Return the line with the step to the next vertex, and how well its weights were determined."""
        return replace(
            self,
            step=step,
            rank=found.rank,
            condition=found.condition,
            smallest=found.smallest,
            largest=found.largest,
            residual=found.residual,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitResult:
    """The result of a run.

    ``status`` is "finished", "settled" if the score stopped changing, "drifted" if it fell and did not recover, or
    "flat" if no probe changed the metric. The result is the last iterate, or the best one if the run drifted or is
    flat. ``vertices`` are all plug-in classifiers of the run.
    """

    mixture: Mixture
    vertices: tuple[PlugIn, ...]
    iterate: int
    trace: tuple[Iteration, ...]
    status: Status
    n_queries: int
    max_queries: int
    probes: ConstrainedProbes | None = None

    @property
    def score(self) -> float:
        """The metric of the resulting mixture, on the validation rows of the elicitation."""
        return self.trace[self.iterate].score


def frank_wolfe(
    look: Look,
    finder: VertexFinder,
    start: Start,
    *,
    step: Callable[[int], float],
    max_iter: int,
    tol: float = 0.0,
    probes: ConstrainedProbes | None = None,
) -> Fit[FitResult]:
    """Run Algorithm 3: up to ``max_iter`` steps from the start, each of the size that the step rule gives.

    Parameters
    ----------
    look : Look
        How the score of an iterate and the gains of its probes are obtained.
    finder : VertexFinder
        How the next plug-in classifier is found from the gains.
    start : Start
        The first iterate h^0.
    step : callable
        The step rule.
    max_iter : int
        Number of iterations T.
    tol : float
        The run ends early if the last scores differ by less than this. With 0, it never does.
    probes : ConstrainedProbes, optional
        The constrained probes, for the result.
    """
    newest: Classifier = start
    size, sums, view = 1.0, finder.sums_of(start), None
    vertices: list[PlugIn] = []
    steps: list[float] = []
    trace: list[Iteration] = []
    for t in range(max_iter + 1):  # line 3
        last = t == max_iter
        view = yield from look.at(Newest(iteration=t, classifier=newest, step=size, last=last), view)  # lines 4 to 8
        trace.append(Iteration(index=t, score=look.score(view), n_queries=len(look.asked)))
        if look.asked:
            yield ScoredRule(score=trace[t].score, make=partial(start.after, tuple(vertices), tuple(steps)))
        drifted = _has_drifted(trace)
        settled = not drifted and (last or _are_settled(trace, tol))
        if drifted or settled or _are_flat(gains := look.gains(view), look.rounding(view)):
            break
        found = finder.find(sums, gains)  # line 9: Algorithm 1 ...
        newest = PlugIn(weighting=finder.weighting, alpha=found.alpha, n_classes=finder.n_classes)  # ... Algorithm 2
        size = step(t)  # line 11
        sums = sums.mixed(finder.sums_of(newest), size)  # lines 10 and 12
        vertices.append(newest)
        steps.append(size)
        trace[t] = trace[t].elicited(found, step=size)
    # Choosing the best of all on a small validation sample costs more than it gains. But an iterate that no probe
    # can improve may be a trap (a G-mean of 0 has gradient 0), and then an earlier one is better. So it is if the run
    # drifts: with full weights and few rows, the noise of the sums outweighs what is left to gain.
    iterate = t if settled else int(np.argmax([line.score for line in trace]))
    return FitResult(
        mixture=start.after(vertices[:iterate], steps[:iterate]),
        vertices=tuple(vertices),
        iterate=iterate,
        trace=tuple(trace),
        status="drifted" if drifted else "finished" if last else "settled" if settled else "flat",
        n_queries=len(look.asked),
        max_queries=max_queries(look, max_iter),
        probes=probes,
    )


def _are_settled(trace: Sequence[Iteration], tol: float) -> bool:
    """Return whether the last scores differ by less than ``tol``; the start, which has no share left, is not one."""
    scores = [line.score for line in trace[1:][-_SETTLED_OVER:]]
    return len(scores) == _SETTLED_OVER and max(scores) - min(scores) < tol


def _has_drifted(trace: Sequence[Iteration]) -> bool:
    """Return whether the last scores are all far below the best one: by a part of the gain, and of the score."""
    scores = [line.score for line in trace]
    best, lately = max(scores), scores[1:][-_SETTLED_OVER:]
    margin = max(_DRIFT_OF_GAIN * (best - scores[0]), _DRIFT_OF_SCORE * abs(best))
    return len(lately) == _SETTLED_OVER and max(lately) < best - margin


def _are_flat(gains: FloatArray, rounding: float) -> bool:
    """Return whether no probe changes the metric by more than its rounding error."""
    return not np.isfinite(gains).all() or bool(np.abs(gains).max() <= rounding)


def check_sides(train: Engine | None, val: Rows, start: Mixture | None = None) -> None:
    """Raise if training rows, validation rows and start differ in classes or basis functions."""
    check_rows(val.n_rows, name="validation")
    sides: dict[str, Engine | Mixture | None] = {"training rows": train, "start": start}
    for name, side in sides.items():
        if side is not None and (side.n_classes, side.n_bases) != (val.n_classes, val.n_bases):
            raise ShapeError(
                f"there are {val.n_classes} classes and {val.n_bases} basis functions in the validation rows, but "
                f"{side.n_classes} and {side.n_bases} in the {name}: both sides need the same model and the same basis"
            )


def max_queries(look: Look, n_iter: int) -> int:
    """Return the maximum number of queries of ``n_iter`` iterations; it is known in advance."""
    middle = (n_iter - 1) * look.n_queries(first=False, last=False)
    return look.n_queries(first=True, last=False) + middle + look.n_queries(first=False, last=True)


def affordable(look: Look, *, max_iter: int, budget: int | None) -> int:
    """Return the number of iterations within a budget of queries."""
    if budget is None:
        return max_iter
    least = max_queries(look, 1)
    if least > budget:
        raise BudgetError(
            f"a budget of {budget} queries is too small for one iteration, which asks up to {least}: raise the budget, "
            "or use fewer basis functions"
        )
    return min(max_iter, 1 + (budget - least) // look.n_queries(first=False, last=False))


def harmonic(iteration: int) -> float:
    """Return ``2 / (t + 2)`` for iteration t = 0, 1, ...

    Algorithm 3 prints ``2 / (t + 1)``, which is 2 at t = 0: not a classifier. The first step here is 1,
    so the start has no share in the result.

    Examples
    --------
    >>> [harmonic(t) for t in range(3)]
    [1.0, 0.6666666666666666, 0.5]
    """
    return 2 / (iteration + 2)


def cautious(iteration: int) -> float:
    """Return ``2 / (t + 3)``: the start keeps a share, so that no class loses all its recall in the first step.

    Examples
    --------
    >>> [cautious(t) for t in range(2)]
    [0.6666666666666666, 0.5]
    """
    return 2 / (iteration + 3)

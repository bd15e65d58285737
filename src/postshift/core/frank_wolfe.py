"""The Frank-Wolfe loop (Algorithm 3), for any way to look at an iterate and to find the next vertex.

The loop is a generator of queries: it can be read beside the paper, and a :class:`~postshift.core.session.Session`
lets any oracle answer it. FW-EG, with its settings, is in :mod:`postshift.core.fw_eg`; influence regression is in
:mod:`postshift.core.influence`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol

import numpy as np

from postshift._validation import FloatArray
from postshift.core.constrained import ConstrainedProbes
from postshift.core.elicit import Elicitation
from postshift.core.look import Look, Newest
from postshift.core.mixture import Mixture
from postshift.core.plugin import PlugIn
from postshift.core.queries import Fit, ScoredRule
from postshift.core.sums import Classifier, ClassifierSums
from postshift.core.weighting import Weighting
from postshift.exceptions import BudgetError

Status = Literal["finished", "flat"]


class VertexFinder(Protocol):
    """Finds the coefficients of the next plug-in classifier from the gains of the probes."""

    weighting: Weighting

    def sums_of(self, classifier: Classifier) -> ClassifierSums:
        """Return the sums of a classifier that :meth:`find` needs; they are linear in the classifier."""

    def find(self, sums: ClassifierSums, gains: FloatArray) -> Elicitation:
        """Return the vertex's coefficients, from the sums of h^t and the gains of the probes around it."""


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitResult:
    """The result of a run.

    ``status`` is "finished", or "flat" if no probe changed the metric any more. The result is the last iterate, or the
    best one if the run is flat. ``vertices`` are all plug-in classifiers of the run.
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
    start: Classifier,
    *,
    step: Callable[[int], float],
    max_iter: int,
    n_classes: int,
    mixed: Callable[[Sequence[PlugIn], Sequence[float]], Mixture],
    probes: ConstrainedProbes | None = None,
) -> Fit[FitResult]:
    """Run Algorithm 3.

    Parameters
    ----------
    look : Look
        How the score of an iterate and the gains of its probes are obtained.
    finder : VertexFinder
        How the next plug-in classifier is found from the gains.
    start : Classifier
        The first iterate h^0.
    step : callable
        The step rule.
    max_iter : int
        Number of iterations T.
    n_classes : int
        Number of classes m.
    mixed : callable
        Makes the mixture of an iterate from its vertices and their steps.
    probes : ConstrainedProbes, optional
        The constrained probes, for the result.
    """
    newest, size = start, 1.0
    sums, view = finder.sums_of(start), None
    vertices: list[PlugIn] = []
    trace: list[Iteration] = []
    status: Status = "finished"
    for t in range(max_iter + 1):  # line 3
        last = t == max_iter
        view = yield from look.at(Newest(iteration=t, classifier=newest, step=size, last=last), view)  # lines 4 to 8
        steps = [line.step for line in trace if line.step is not None]
        trace.append(Iteration(index=t, score=look.score(view), n_queries=len(look.asked)))
        if look.asked:
            yield ScoredRule(score=trace[-1].score, make=partial(mixed, tuple(vertices), steps))
        if last:
            break
        gains = look.gains(view)
        if not np.isfinite(gains).all() or np.abs(gains).max() <= look.rounding(view):
            status = "flat"
            break
        found = finder.find(sums, gains)  # line 9: Algorithm 1 ...
        newest = PlugIn(weighting=finder.weighting, alpha=found.alpha, n_classes=n_classes)  # ... and Algorithm 2
        size = step(t)  # line 11
        sums = sums.mixed(finder.sums_of(newest), size)  # lines 10 and 12
        vertices.append(newest)
        trace[-1] = replace(
            trace[-1],
            step=size,
            rank=found.rank,
            condition=found.condition,
            smallest=found.smallest,
            largest=found.largest,
            residual=found.residual,
        )
    # Choosing the best of all on a small validation sample costs more than it gains. But an iterate that no probe
    # can improve may be a trap (a G-mean of 0 has gradient 0), and then an earlier one is better.
    iterate = len(trace) - 1 if status == "finished" else int(np.argmax([line.score for line in trace]))
    steps = [line.step for line in trace[:iterate] if line.step is not None]
    return FitResult(
        mixture=mixed(vertices[:iterate], steps),
        vertices=tuple(vertices),
        iterate=iterate,
        trace=tuple(trace),
        status=status,
        n_queries=len(look.asked),
        max_queries=max_queries(look, max_iter),
        probes=probes,
    )


def shares_of(steps: Sequence[float]) -> FloatArray:
    """Return the shares of the start and of each vertex after these steps.

    Examples
    --------
    >>> shares_of([1.0, 0.5])
    array([0. , 0.5, 0.5])
    """
    shares = np.ones(1)
    for step in steps:
        shares = np.append((1 - step) * shares, step)
    return shares


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

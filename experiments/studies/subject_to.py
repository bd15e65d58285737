"""Maximise A subject to B: the objective, and how often a bound is missed, without a margin and with one.

``python -m experiments subject_to``. The tasks are in ``constraint_tasks``, the rivals in ``constraint_rivals``.
fairlearn and OxonFair are needed only to run it (``pip install -e '.[rivals]'``); ``--render`` does without, and a
run without them leaves their rows out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from experiments.harness.experiment import Experiment
from experiments.harness.figures import side_by_side
from experiments.harness.progress import say
from experiments.harness.runner import timed
from experiments.harness.store import Row
from experiments.studies.constraint_rivals import GRADIENT, NAIVE, RIVALS, Chances, quietly, tune_weights
from experiments.studies.constraint_tasks import SOURCES, TASKS, Draw, Sample, draw_task
from experiments.studies.subject_to_page import BASE, OURS, SAFE, draw_rates, make_page
from postshift import PostShifter, Rows
from postshift.constraints.pieces import BoundedMetric
from postshift.core.rows import CONSTANT
from postshift.exceptions import InfeasibleError
from postshift.rules import Problem
from postshift.rules.constrained import Constrained, fit_posterior

MARGINS = {OURS: 0.0, SAFE: 1.0}
BASIS = "groups"
N_GRADIENT = 10  # seeds of ExponentiatedGradient, which takes a second
N_TIMED = 2  # seeds on which a whole fit without a margin is timed, with its values out of fold
N_CONSTRAINTS = max(len(task.subject_to) for task in TASKS.values())
COLUMNS = (
    *("task", "size", "seed", "method", "objective"),
    *(f"{name}_{place}" for name in ("miss", "error") for place in range(1, N_CONSTRAINTS + 1)),
    *("price", "refused", "fit_seconds", "seconds"),
)


# -- one run ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Solved:
    """A constrained fit: its labels of rows, and what the randomised rule would gain."""

    labels: Callable[[Sample], np.ndarray]
    price: float


def solve(draw: Draw, margin: float) -> Solved:
    """Fit the rule of ``PostShifter(metric, subject_to=..., margin=...)``, without values out of fold."""

    def rows(sample: Sample, labels: np.ndarray | None = None) -> Rows:
        phi = draw.basis(sample)
        return Rows.of(sample.eta, bases={} if phi is None else {BASIS: phi}, labels=labels)

    problem = Problem.labelled(
        None, rows(draw.val, draw.val.y), draw.metric, groups=draw.val.groups if draw.is_grouped else None
    )
    basis = CONSTANT if draw.basis(draw.val) is None else BASIS
    rule = Constrained(constraints=tuple(_with_margin(each, margin) for each in draw.constraints), basis=basis)
    posterior = fit_posterior(problem)
    found = rule.solve(problem, rule.program(problem, posterior))
    fitted = rule.fitted(found.rule, posterior.posterior)
    return Solved(lambda sample: fitted.labels(rows(sample)), found.randomised.value - found.value)


def _with_margin(bounded: BoundedMetric, margin: float) -> BoundedMetric:
    """Return a constraint with a margin."""
    return replace(bounded, constraint=replace(bounded.constraint, margin=margin))


def fit_wholly(draw: Draw, margin: float) -> PostShifter:
    """Fit as a user does."""
    shifter = PostShifter(draw.task.metric, subject_to=list(draw.task.subject_to), margin=margin)
    groups = {"groups": draw.val.groups} if draw.is_grouped else {}
    return shifter.fit(draw.val.eta, draw.val.y, phi_val=draw.basis(draw.val), **groups)


def measure(name: str, size: int, seed: int, quick: bool) -> list[Row]:
    """Return what every method gives on one draw of a task."""
    draw = draw_task(name, size, seed)
    with warnings.catch_warnings(action="ignore"):  # few rows of rare classes are expected here
        found = {method: _ours(draw, margin, seed) for method, margin in MARGINS.items()}
    base = draw.judged(draw.confusion(draw.population, draw.population.eta.argmax(axis=1)))
    found[BASE] = Row(values=base, seconds=0.0)
    for method, fit in _others(draw, seed):
        chances, seconds = timed(quietly(fit), draw)
        judged = draw.judged(draw.expected_confusion(draw.population, chances(draw.population)))
        found[method] = Row(values=judged, seconds=seconds)
    return [replace(row, task=name, size=size, method=method) for method, row in found.items()]


def _ours(draw: Draw, margin: float, seed: int) -> Row:
    """Return what a constrained fit gives; constraints that no classifier can meet are refused."""
    try:
        solved, seconds = timed(solve, draw, margin)
    except InfeasibleError:
        return Row(values={"refused": 1.0}, seconds=0.0)
    confusion = draw.confusion(draw.population, solved.labels(draw.population))
    values = {**draw.judged(confusion), **errors(draw, confusion), "price": solved.price, "refused": 0.0}
    if seed < N_TIMED and margin == 0:
        values["fit_seconds"] = timed(fit_wholly, draw, margin)[1]
    return Row(values=values, seconds=seconds)


def errors(draw: Draw, confusion: Any) -> dict[str, float]:
    """Return the standard error of each constraint's value on as many rows as there are validation rows."""
    spreads = [np.sum(confusion * each.influence(confusion) ** 2) for each in draw.constraints]
    return {f"error_{place}": float(np.sqrt(each / len(draw.val.y))) for place, each in enumerate(spreads, start=1)}


def _others(draw: Draw, seed: int) -> Iterator[tuple[str, Callable[[Draw], Chances]]]:
    """Yield the rivals that have an entry for a task; those that are not installed are left out, with a message."""
    yield NAIVE, tune_weights
    for method, rival in RIVALS.items():
        if not rival.suits(draw) or (method == GRADIENT and seed >= N_GRADIENT):
            continue
        if rival.is_installed:
            yield method, rival.fit
        else:
            _say_missing(method, rival.package)


@cache
def _say_missing(method: str, package: str) -> None:
    """Say once that a package is missing."""
    say(f"{method} is left out: {package} is not installed (pip install -e '.[rivals]')")


EXPERIMENT = Experiment(
    name="subject_to",
    title="Maximise A subject to B",
    methods={
        f"{name}: {size}": partial(measure, name, size)
        for name, task in TASKS.items()
        for size in SOURCES[task.source].sizes
    },
    page=make_page,
    by=("task", "size"),
    columns=COLUMNS,
    seeds=50,
    figure=side_by_side(draw_rates, size=(10, 9.5)),
    picture="How often each constraint is violated, with and without a margin of one standard error",
    packages=("fairlearn", "oxonfair"),
    quick_methods=["digits: accuracy given recall[8] >= 0.95: 300"],
)

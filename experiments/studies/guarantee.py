"""Does the guarantee hold? How often certified rules violate a constraint on the population that rows are drawn from.

``python -m experiments guarantee``. The tasks are in ``guarantee_tasks``. A resample draws labelled rows with
replacement, walks the path of rules with the library's tests, and looks at the chosen rule on the whole population.
Beside it: tuning without a test, and MAPIE where it serves the task. A seed is 50 resamples of every cell of a task.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness.experiment import Experiment
from experiments.harness.figures import side_by_side
from experiments.harness.store import Row
from experiments.studies.guarantee_page import draw_rates, make_page
from experiments.studies.guarantee_rivals import (
    BY_THRESHOLD,
    CERTIFIED,
    ON_PATH,
    THRESHOLDS,
    controlled,
    controls,
    misses,
    tuned,
)
from experiments.studies.guarantee_tasks import DELTAS, N_UNLABELLED, SIZES, TASKS
from postshift import Rows
from postshift.constraints.pieces import BoundedMetric
from postshift.rules import Problem
from postshift.rules.certified import Evidence, PathRule, walk

N_RESAMPLES = 50  # of a seed
FINE = (1_000, 20_000)  # numbers of rows for which paths are made in search of the best rule
ROW = "row"  # the basis that has a row's number in the population
QUICK_TASKS = ("5 classes, recall", "digits, minimum")
Floats = NDArray[np.float64]


# -- rules whose labels are known ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KnownRule:
    """A rule that looks up its labels of the population."""

    known: NDArray[np.intp]

    def labels(self, rows: Rows) -> NDArray[np.intp]:
        """Return the labels of rows that were drawn from the population."""
        return self.known[rows.bases[ROW][:, 0].astype(np.intp)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rules:
    """Rules with their labels (K, N) of the population, their true metrics, and whether they violate a constraint."""

    labels: NDArray[np.intp]
    values: Floats
    violated: NDArray[np.bool_]
    path: tuple[PathRule, ...] = ()


@cache
def population(name: str) -> Problem:
    """Return the population of a task, with numbered rows."""
    task, sample = TASKS[name], TASKS[name].source().population
    rows = Rows(eta=sample.eta, bases={ROW: np.arange(sample.n_rows, dtype=np.float64)[:, None]}, labels=sample.labels)
    return Problem.labelled(None, rows, task.resolved, groups=sample.groups)


@cache
def constraints_of(name: str) -> tuple[BoundedMetric, ...]:
    """Return the constraints of a task."""
    return TASKS[name].limits.constraints


def rules_of(name: str, labels: Any, path: Iterable[PathRule] = ()) -> Rules:
    """Return rules with what is true of them."""
    whole, labels = population(name), np.asarray(labels)
    tables = confusions(whole, labels, np.arange(whole.val.n_rows))
    known = tuple(
        replace(each, rule=KnownRule(own))  # type: ignore[arg-type]
        for each, own in zip(path, labels, strict=False)
    )
    violated = misses(constraints_of(name), tables) > 0
    return Rules(labels=labels, values=whole.metric_of(tables), violated=violated, path=known)


@cache
def path_rules(name: str, size: int, delta: float) -> Rules:
    """Return the path for a number of labelled rows; it is made without labels, so all resamples share it."""
    source = TASKS[name].source()
    path = TASKS[name].path(source.making, n_rows=size, delta=delta)
    rows = source.population.rows()
    return rules_of(name, [each.rule.labels(rows) for each in path], path)


@cache
def threshold_rules(name: str) -> Rules:
    """Return the rules "class 1 from a threshold on"."""
    eta = TASKS[name].source().population.eta
    return rules_of(name, (eta[:, 1] >= THRESHOLDS[:, None]).astype(np.intp))


@cache
def optimum(name: str) -> float:
    """Return the best metric on the population among all known rules that meet the constraints there.

    Known are the rules of all paths of the task, of paths made from the population itself, and, with two classes, the
    thresholds.
    """
    task, sample = TASKS[name], TASKS[name].source().population
    own = [task.path(sample, n_rows=n_rows, delta=DELTAS[-1]) for n_rows in FINE]
    rows = sample.rows()
    known = [rules_of(name, [each.rule.labels(rows) for each in path]) for path in own if path]
    known += [path_rules(name, size, delta) for size in SIZES for delta in DELTAS]
    known += [threshold_rules(name)] if sample.n_classes == 2 else []
    return max(float(each.values[~each.violated].max(initial=-np.inf)) for each in known)


def confusions(problem: Problem, labels: NDArray[np.intp], places: NDArray[np.intp]) -> Floats:
    """Return the confusion matrices (K, R, m) of rules on some rows."""
    shape = len(labels), problem.n_categories, problem.n_classes
    categories = problem.confusion_rows(slice(None))[0][places]
    cells = (np.arange(len(labels))[:, None] * shape[1] + categories) * shape[2] + labels[:, places]
    counts = np.bincount(cells.ravel(), minlength=int(np.prod(shape)))
    return counts.reshape(shape) / len(places)


# -- resamples ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Draw:
    """Labelled rows of a resample, and rows without labels, as places in the population."""

    labelled: NDArray[np.intp]
    unlabelled: NDArray[np.intp]

    def evidence(self, name: str) -> Evidence:
        """Return the rows that test."""
        whole, groups = population(name), TASKS[name].source().population.groups
        evidence = Evidence(problem=whole.take(self.labelled))
        if all(piece.needs_labels for piece in evidence.pieces(constraints_of(name))):
            return evidence
        rows = replace(whole.val, labels=None).take(self.unlabelled)
        return replace(evidence, unlabelled=rows, groups=None if groups is None else groups[self.unlabelled])


def certified(name: str, draw: Draw, rules: Rules, *, delta: float) -> int | None:
    """Return the rule that the library certifies: the best of those that it accepts."""
    constraints = constraints_of(name)
    tested = walk(((each, constraints) for each in rules.path), draw.evidence(name), delta=delta)
    accepted = [each for each in tested if each.p_value <= delta]
    return int(np.argmax([each.value for each in accepted])) if accepted else None


def naive(name: str, draw: Draw, rules: Rules) -> int | None:
    """Return the rule that is best on the labelled rows among those that meet the constraints there."""
    tables = confusions(population(name), rules.labels, draw.labelled)
    return tuned(population(name).metric_of(tables), misses(constraints_of(name), tables))


def by_mapie(name: str, draw: Draw, control: str, *, delta: float) -> int | None:
    """Return the threshold that MAPIE chooses."""
    task, sample = TASKS[name], TASKS[name].source().population.take(draw.labelled)
    return controlled(control, task.rival, task.metric, eta=sample.eta, labels=sample.labels, delta=delta)


def drawn(name: str, size: int, seed: int, n_resamples: int) -> list[Draw]:
    """Return the resamples of a seed; both deltas share them."""
    rng, n_rows = np.random.default_rng([zlib.crc32(name.encode()), size, seed]), population(name).val.n_rows
    return [
        Draw(labelled=rng.integers(n_rows, size=size), unlabelled=rng.integers(n_rows, size=N_UNLABELLED))
        for _ in range(n_resamples)
    ]


def figures(name: str, rules: Rules, chosen: Sequence[int | None]) -> dict[str, float]:
    """Return how often nothing was chosen, or a rule that violates a constraint, and the mean metric of the others."""
    found = [each for each in chosen if each is not None]
    values = {"runs": len(chosen), "violated": int(rules.violated[found].sum()), "nothing": len(chosen) - len(found)}
    metric = {"objective": float(rules.values[found].mean())} if found else {}
    return {**values, **metric, "optimum": optimum(name)}


def measure(name: str, seed: int, quick: bool) -> list[Row]:
    """Return what every procedure chose in the resamples of one seed."""
    rows = []
    for size in SIZES[:1] if quick else SIZES:
        draws = drawn(name, size, seed, 10 if quick else N_RESAMPLES)
        by_threshold = thresholded(name, draws)
        for delta in DELTAS:
            found = {**on_path(name, draws, size=size, delta=delta), **by_threshold, **rivals(name, draws, delta=delta)}
            rows += [
                Row(task=name, method=f"{procedure}, {delta:g}", size=size, values={"delta": delta, **values})
                for procedure, values in found.items()
            ]
    return rows


def on_path(name: str, draws: Sequence[Draw], *, size: int, delta: float) -> dict[str, dict[str, float]]:
    """Return the figures of the rules of the path: certified, and tuned without a test."""
    path = path_rules(name, size, delta)
    return {
        CERTIFIED: figures(name, path, [certified(name, draw, path, delta=delta) for draw in draws]),
        ON_PATH: figures(name, path, [naive(name, draw, path) for draw in draws]),
    }


def thresholded(name: str, draws: Sequence[Draw]) -> dict[str, dict[str, float]]:
    """Return the figures of thresholds that are tuned without a test, which needs two classes and no delta."""
    if population(name).n_classes > 2:
        return {}
    rules = threshold_rules(name)
    return {BY_THRESHOLD: figures(name, rules, [naive(name, draw, rules) for draw in draws])}


def rivals(name: str, draws: Sequence[Draw], *, delta: float) -> dict[str, dict[str, float]]:
    """Return the figures of MAPIE, where it serves the task."""
    return {
        control: figures(name, threshold_rules(name), [by_mapie(name, draw, control, delta=delta) for draw in draws])
        for control in controls(TASKS[name].rival)
    }


EXPERIMENT = Experiment(
    name="guarantee",
    title="Does the guarantee hold?",
    methods={name: partial(measure, name) for name in TASKS},
    page=make_page,
    by=("task",),
    columns=("method", "task", "size", "seed", "delta", "runs", "violated", "nothing", "objective", "optimum"),
    digits=5,
    seeds=10,
    packages=("mapie",),
    figure=side_by_side(*(partial(draw_rates, delta=delta) for delta in DELTAS), size=(5.9, 8.5)),
    picture="Share of resamples in which a constraint is violated: certified rules, naive tuning and MAPIE",
    quick_methods=QUICK_TASKS,
)

"""From what a user calls a metric to a problem, and to whoever answers its questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray, unknown
from postshift.core.psi import ConfusionMetric
from postshift.core.questions import Driver, converse
from postshift.exceptions import LabelError, SettingError, ShapeError
from postshift.metrics import (
    CellMetric,
    LabelDriver,
    LabelFunction,
    PredictionDriver,
    PredictionFunction,
    resolve_metric,
)
from postshift.metrics.metadata import with_metadata
from postshift.rules.choice import Choice, Chosen
from postshift.rules.conversation import Interview, without_questions
from postshift.rules.menu import menu, rule_named, rule_names
from postshift.rules.problem import Problem, Table
from postshift.rules.simple import Base

Goal = ConfusionMetric | LabelFunction | PredictionFunction
_QUERY_FOLDS = 5  # where values cost nothing but time
_AUTOMATIC = {"auto": "average", "best": "best"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """A problem and whoever answers its questions: nobody, where labels and psi are at hand."""

    problem: Problem
    driver: Driver | None = None

    def solve(
        self,
        method: str,
        *,
        budget: int | None,
        seed: int,
        fold_groups: Any = None,
        step: Callable[[str], None],
    ) -> tuple[Chosen, int]:
        """Return what was chosen and the number of questions that were answered."""
        choice = self._choice(method, budget=budget, seed=seed)
        if self.driver is None:
            fit = choice.fit(self.problem, fold_groups=fold_groups, progress=lambda name, _: step(name))
            return without_questions(fit), 0
        interview = Interview(lambda: choice.fit(self.problem), budget=budget)
        converse(interview, self.driver, on_answer=lambda question, _: step(question.text))
        return interview.result(), interview.n_questions

    def n_steps(self, method: str, *, budget: int | None, seed: int) -> int | None:
        """Return how often ``step`` will be called, at the most."""
        choice = self._choice(method, budget=budget, seed=seed)
        if self.driver is not None:
            return choice.bound(self.problem)
        return len(choice.entries or menu(self.problem)) * (2 if choice.how == "best" else 1)

    def _choice(self, method: str, *, budget: int | None, seed: int) -> Choice:
        """Return the choice that a method's name stands for."""
        folds = _QUERY_FOLDS if self.problem.takes_subsets and budget is None else 0
        if method in _AUTOMATIC:
            how: Any = _AUTOMATIC[method]
            return Choice(how=how, query_folds=folds, budget=budget, random_state=seed)
        known = rule_names(self.problem)
        if method not in known:
            raise SettingError(unknown(method, [*_AUTOMATIC, *known], what="method"))
        rule = rule_named(method, self.problem)
        entries = (Base(),) if rule == Base() else (Base(), rule)
        return Choice(how="only", entries=entries, query_folds=0, budget=budget, random_state=seed)


def goal_of(metric: Any, *, classes: Any, metadata: Mapping[str, Any]) -> Goal:
    """Return the metric as the library reads it, greater being better."""
    n_groups = len(np.unique(metadata["groups"])) if "groups" in metadata else None
    return with_metadata(resolve_metric(metric, classes=classes, n_groups=n_groups), metadata)


def make_task(goal: Goal, *, train: Table | None, val: Table, classes: Any, metadata: Mapping[str, Any]) -> Task:
    """Return the task of a metric on these rows; ``metadata`` are arrays about the validation rows."""
    for name, values in metadata.items():
        if np.shape(values)[:1] != (val.n_rows,):
            raise ShapeError(
                f"{name} must have one value for each of the {val.n_rows} validation rows. Got {np.shape(values)}"
            )
    if isinstance(goal, PredictionFunction):
        driver = PredictionDriver(goal, classes=classes)
        problem = Problem.queried(train, val, kind=driver.kind, scale=goal.scale, reads_labels=True)
        return Task(problem=problem, driver=driver)
    if val.labels is None:
        raise LabelError(
            f"metric {goal.name!r} needs validation labels: give y_val, or wrap a function that keeps its labels to "
            "itself in postshift.metrics.from_predictions"
        )
    if isinstance(goal, CellMetric):
        goal = _of_cells(goal, val, classes)
    if isinstance(goal, LabelFunction):
        return _label_task(goal, train=train, val=val, classes=classes, metadata=metadata)
    return Task(problem=Problem.labelled(train, val, goal, groups=_group_codes(goal, metadata)))


def value_of(goal: Goal, *, labels: IntArray, val: Table, classes: Any, metadata: Mapping[str, Any]) -> float:
    """Return the metric of labels on rows with labels."""
    task = make_task(goal, train=None, val=val, classes=classes, metadata=metadata)
    asked = task.problem.label_values([labels])
    if task.driver is None:
        return without_questions(asked)[0]
    (question,) = next(asked)
    return float(task.driver.answer(question))


def _of_cells(metric: CellMetric, val: Table, classes: Any) -> CellMetric | LabelFunction:
    """Return the metric for so many rows; or the function itself, where it reads more than weights of cells."""
    weights: FloatArray = np.ones(val.n_rows) if val.weights is None else val.weights
    scaled = replace(metric, total=float(weights.sum()))
    true, predicted = classes[val.labels], classes[np.argmax(val.eta, axis=1)]
    return scaled if scaled.agrees(true, predicted, weights) else metric.function


def _label_task(
    goal: LabelFunction, *, train: Table | None, val: Table, classes: Any, metadata: Mapping[str, Any]
) -> Task:
    """Return the task of a function of labels that is no function of the confusion matrix."""
    driver = LabelDriver(goal, val.labels, classes=classes, weights=val.weights, metadata=metadata)
    problem = Problem.queried(train, val, kind=driver.kind, takes_subsets=True, scale=goal.scale, reads_labels=True)
    return Task(problem=problem, driver=driver)


def _group_codes(goal: ConfusionMetric, metadata: Mapping[str, Any]) -> IntArray | None:
    """Return the groups of the rows as numbers, for a metric over groups."""
    if not hasattr(goal, "n_groups") and not hasattr(goal, "n_categories"):
        return None
    if "groups" not in metadata:
        raise SettingError(f"metric {goal.name!r} is over groups: pass groups=..., one value for each validation row")
    return np.asarray(np.unique(metadata["groups"], return_inverse=True)[1])

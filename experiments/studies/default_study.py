"""The default against every rule of ours and every rival on 28 tasks, fourteen of them set aside.

``python -m experiments default_study``. The tasks are in ``menu_tasks`` and ``new_tasks``, the rivals in
``default_rivals``. The groups of tasks run one by one with ``--methods "old: "``, ``--methods "looked at: "`` and
``--methods "set aside: "``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from experiments.harness.experiment import Experiment
from experiments.harness.figures import stacked
from experiments.harness.runner import timed
from experiments.harness.store import Row
from experiments.studies import menu_tasks, new_tasks
from experiments.studies.default_rivals import RIVALS, Rival, labels_of
from experiments.studies.default_scores import (
    BASE,
    CHOICE,
    DEFAULT,
    ERROR,
    FAILED,
    FALLBACK,
    GROUPS,
    HIGH,
    LOW,
    SCORE,
    full_name,
    short_name,
)
from experiments.studies.default_study_page import make_page, panels
from experiments.studies.library_rivals import has
from experiments.studies.menu_study import METRICS, make_metric
from experiments.studies.menu_tasks import Floats, Ints, TaskData
from experiments.studies.opaque_functions import FUNCTIONS
from experiments.studies.rival_value import Value
from postshift import PostShifter
from postshift.basis import TreeBasis
from postshift.metrics import metric_named

OURS = {DEFAULT: "auto", CHOICE: "best"}  # the parameter ``method`` of what has another name here
BESIDE_THE_MENU = ("plug-in search", "FW-EG [constant]")
SEEDS, FEWER_SEEDS = 20, 10
MANY_CLASSES = ("adult_birthplace", "digit_pairs", "adult_jobs", "languages_of_texts")  # these have fewer splits
NEEDED = ("xcolumns", "oxonfair", "fairlearn")  # without a package, its rival would be left out silently
LONGEST = 200  # characters of a stored error


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """One split of a task, with what is made of it for all methods: the metric, and the bases by part and name."""

    data: TaskData
    metric: Any
    bases: Mapping[str, dict[str, Floats]]

    @classmethod
    def of(cls, data: TaskData) -> Split:
        """Return a split with its bases: the leaves of a tree, if there are training rows, and the user's."""
        parts = ("val", "test") if data.X_train is None else ("train", "val", "test")
        tree = None if data.X_train is None else TreeBasis().fit(data.X_train, data.y_train)
        bases: dict[str, dict[str, Floats]] = {}
        for part in parts:
            leaves = {} if tree is None else {"tree": tree.transform(getattr(data, f"X_{part}"))}
            user = getattr(data, f"user_phi_{part}")
            bases[part] = leaves if user is None else {**leaves, "user": user}
        return cls(data=data, metric=metric_of(data), bases=bases)

    @cached_property
    def on_test(self) -> Value:
        """The metric on the test rows."""
        data = self.data
        tested = replace(data, eta_val=data.eta_test, y_val=data.y_test, group_val=data.group_test)
        return Value.of(tested, self.metric)

    def fitted(self, method: str) -> PostShifter:
        """Return postshift, fitted with a method."""
        data = self.data
        groups = {"groups": data.group_val} if hasattr(self.metric, "n_categories") else {}
        training = (data.eta_train, data.y_train)
        shifter = PostShifter(self.metric, method=method)
        return shifter.fit(data.eta_val, data.y_val, *training, self.bases["val"], self.bases.get("train"), **groups)

    def ours(self, method: str) -> tuple[PostShifter, Ints]:
        """Return postshift, fitted with a method, and the labels of the test rows."""
        shifter = self.fitted(method)
        return shifter, shifter.predict(self.data.eta_test, self.bases["test"])


def metric_of(data: TaskData) -> Any:
    """Return the metric of a task: a metric of the confusion matrix, or an opaque function."""
    if data.metric in FUNCTIONS:
        return FUNCTIONS[data.metric]
    if data.metric in METRICS:
        return make_metric(data)
    return metric_named(data.metric, **data.metric_options)


def measure(task: str, seed: int, quick: bool) -> list[Row]:
    """Return every method's test metric on one split."""
    missing = [package for package in NEEDED if not (quick or has(package))]
    if missing:
        raise ImportError(f"the rivals need {' and '.join(missing)}: pip install -e '.[bench,rivals]'")
    name = short_name(task)
    module = menu_tasks if name in menu_tasks.TASKS else new_tasks
    return [replace(row, task=task) for row in measured(module.load_task(name, split=seed))]


def measured(data: TaskData) -> list[Row]:
    """Return every method's test metric on the data of a split."""
    with warnings.catch_warnings(action="ignore"):  # few rows of rare classes are expected here
        split = Split.of(data)
        return [*rows_of_ours(split), *(row_of(rival, split) for rival in RIVALS if rival.usable(data, split.metric))]


def rows_of_ours(split: Split) -> list[Row]:
    """Return the default, the choice and every single rule; an error of theirs is an error of the study."""
    shifter, default = _row_of_ours(split, DEFAULT)
    entries = [entry.name for entry in shifter.diagnostics_.choice.entries]
    others = dict.fromkeys([CHOICE, *entries, *BESIDE_THE_MENU])
    rows = [default, *(_row_of_ours(split, name)[1] for name in others)]
    return sorted(rows, key=lambda row: row.method != BASE)


def _row_of_ours(split: Split, name: str) -> tuple[PostShifter, Row]:
    """Return postshift, fitted with a method, and its row."""
    (shifter, labels), seconds = timed(split.ours, OURS.get(name, name))
    values = {"test": split.on_test(labels), FALLBACK: shifter.fallback_, **(said(shifter) if name == DEFAULT else {})}
    return shifter, Row(method=name, values=values, seconds=seconds, queries=shifter.n_queries_)


def said(shifter: PostShifter) -> dict[str, float]:
    """Return what a fit says of itself: its score and, if there is one, the interval."""
    intervals = shifter.diagnostics_.choice.intervals
    limits = {} if intervals is None else dict(zip((LOW, HIGH), intervals.score, strict=True))
    return {SCORE: shifter.score_, **limits}


def row_of(rival: Rival, split: Split) -> Row:
    """Return the row of a rival; its failure is a result too."""
    try:
        (labels, queries), seconds = timed(labels_of, rival, split.data, split.metric)
        value = split.on_test(labels)
        if not np.isfinite(value):
            raise ValueError("the test metric of its labels is not a number")  # noqa: TRY301
    except Exception as error:  # noqa: BLE001
        text = " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST]
        return Row(method=rival.name, values={FAILED: True}, config={ERROR: text})
    return Row(method=rival.name, values={"test": value}, seconds=seconds, queries=queries)


TASKS = [full_name(group, task) for group, tasks in GROUPS.items() for task in tasks]

EXPERIMENT = Experiment(
    name="default_study",
    title="The default beside everything else",
    methods={task: partial(measure, task) for task in TASKS},
    page=make_page,
    by=("task",),
    columns=("task", "seed", "method", "test", SCORE, LOW, HIGH, FALLBACK, FAILED, "queries", "seconds", "config"),
    seeds={task: FEWER_SEEDS if short_name(task) in MANY_CLASSES else SEEDS for task in TASKS},
    packages=NEEDED,
    figure=stacked(panels),
    picture="The default less the base on every task, and less every other method, mean and interval",
    quick_methods=["old: wine_two_laboratories"],
)

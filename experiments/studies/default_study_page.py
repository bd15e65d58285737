"""The page of the study of the default: the goals, a table for each group of tasks, paired differences, costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from experiments.harness.experiment import Results
from experiments.harness.figures import Panel
from experiments.harness.page import whole_page
from experiments.harness.tables import markdown, summary
from experiments.studies import menu_tasks, new_tasks
from experiments.studies.default_goals import FAR, counted, far_below, goals
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
    RIVAL_NAMES,
    SCORE,
    SET_ASIDE,
    Scores,
    short_name,
)

PARTIAL = "*"  # marks a mean of some of the splits

HOW = """*base*: the model as it is. *default*: `method="auto"`. *choice*: `method="best"`. Every rule of the menu,
plug-in search and the paper's method (FW-EG over the constant basis) are fitted by themselves with `method="NAME"`.
Rivals get the probabilities and labels of the validation rows, and the metric; they never get training rows. Labels of
xCOLUMNs and of ThresholdOptimizer are one draw of their randomised classifiers, all others are deterministic.
*hindsight*: the single rule (or rule or rival) that has the highest mean on the test rows of the task."""
EMPTY = """An empty cell: the method cannot be used there. Expected utility needs a known function of the confusion
matrix of the classes, xCOLUMNs a macro metric, OxonFair and ThresholdOptimizer a metric over groups and a basis, a
tuned threshold two classes, coordinate search and CWPlugin on all rows more classes, and the tree training rows. *mean*
and *rank* are over the tasks that a method serves. Means over different tasks cannot be compared; the paired
differences can."""
INTERVALS = """*difference*: the default less the method, as the mean of the task means of paired splits, over the tasks
that the method serves. The interval *over tasks* is a t interval of the task means. It speaks for other tasks of this
kind, and the goals use it: splits of one task share their rows, so they are no independent samples. The interval *over
splits* takes these tasks as given: the variance of each task's mean comes from its splits only, with the degrees of
freedom of Welch and Satterthwaite."""
ASIDE_ONCE = """The set-aside tasks were made and set aside before the default was changed. No method was run on them
until the default was final, and they were run once."""
SAID = """*score_* is computed from the validation rows, with the rows that rare classes borrow. *covered*: splits in
which the test value is in the 95 % interval of `score_`. The test value is that of the test rows, which vary too."""
QUERIES = """*CPU s*: processor time of the fit and of the labels of the test rows, mean of the task means, and of the
slowest task. A rule of ours is fitted as a user fits it, with the comparison with the base. *queries*: values of the
metric, mean of the task means. Rules of ours ask nothing if the metric is a known function of the confusion matrix, or
a function that only counts rows."""


def to_show(results: Results) -> Results:
    """Leave out the set-aside tasks until every split of theirs is stored: they are looked at once, all together."""
    if not any(method.startswith(SET_ASIDE) for method, _ in results.missing):
        return results
    return replace(results, rows=tuple(row for row in results.rows if not row.task.startswith(SET_ASIDE)))


def make_page(results: Results) -> str:
    """Return the page."""
    scores = Scores(to_show(results))
    return whole_page(
        scores.results,
        [
            splits_of(scores),
            HOW,
            EMPTY,
            ASIDE_ONCE if scores.tasks(SET_ASIDE) else "The set-aside tasks were not run yet.",
            "## What it must show",
            markdown(["goal", "found", "reached"], [goal.cells for goal in goals(scores)], n_texts=3),
            *(part for group in GROUPS if scores.tasks(group) for part in group_section(scores, group)),
            *differences_section(scores),
            "## The default and the base",
            base_table(scores),
            "## The default and hindsight",
            hindsight_table(scores),
            "## What the default says of itself",
            score_table(scores),
            SAID,
            "## Queries and time",
            cost_table(scores),
            QUERIES,
            *missing_section(scores),
            "## The tasks",
            "\n".join(f"* {described(task)}" for task in scores.tasks()),
        ],
        lead=lead_of(scores),
    )


def lead_of(scores: Scores) -> str:
    """Say in two sentences what came out; of the set-aside tasks as soon as they were run."""
    group = next(group for group in GROUPS if scores.tasks(group))
    tasks = scores.tasks(group)
    base, default = (scores.average(name, tasks) for name in (BASE, DEFAULT))
    best = default - scores.above_hindsight(tasks).mean
    above = scores.above(tasks)
    waits = "" if group == SET_ASIDE else " (the set-aside tasks are not measured yet)"
    return (
        f"On the {len(tasks)} {hyphened(group)} task{'s' * (len(tasks) > 1)}{waits}, the mean is {base:.3f} for the "
        f"model alone, {default:.3f} for the default and {best:.3f} for the best rule of each task in hindsight. There "
        f"the default is on average above {sum(above.values())} of {len(above)} single rules and rivals, and over all "
        f"tasks {counted(goals(scores))} measured goals are reached."
    )


def hyphened(group: str) -> str:
    """Return the name of a group as it stands before a noun."""
    return group.replace(" ", "-")


# -- tables -------------------------------------------------------------------------------------------------


def group_section(scores: Scores, group: str) -> list[str]:
    """Return the heading and the table of a group of tasks."""
    return [f"## The {hyphened(group)} tasks", means_table(scores, scores.tasks(group))]


def means_table(scores: Scores, tasks: Sequence[str]) -> str:
    """Return the mean test value of every method on every task, its mean and its mean rank."""
    lines = [
        [
            name,
            f"{len(scores.serves(name, tasks))}",
            f"{scores.average(name, tasks):.3f}",
            f"{scores.rank(name, tasks):.1f}",
            *(cell(scores, task, name) for task in tasks),
        ]
        for name in scores.methods
        if scores.serves(name, tasks)
    ]
    for name, with_rivals in (("*hindsight, rules*", False), ("*hindsight, rules and rivals*", True)):
        best = [scores.hindsight(task, with_rivals=with_rivals) for task in tasks]
        lines.append([name, f"{len(tasks)}", f"{np.mean(best):.3f}", "", *(f"{each:.3f}" for each in best)])
    return markdown(["method", "tasks", "mean", "rank", *map(short_name, tasks)], lines)


def cell(scores: Scores, task: str, method: str) -> str:
    """Return a mean, with a mark if some splits have no value; nothing if none has."""
    if method not in scores.by_seed[task]:
        return ""
    mark = PARTIAL * (len(scores.values(task, method)) < len(scores.values(task, DEFAULT)))
    return f"{scores.means[task][method]:.3f}{mark}"


def differences_section(scores: Scores) -> list[str]:
    """Return how far the default is above every other method on the set-aside tasks; nothing before they are run."""
    tasks = scores.tasks(SET_ASIDE)
    if not tasks:
        return []
    head = ["method", "tasks", "the default", "the method", "difference", "95 % over tasks", "95 % over splits"]
    lines = []
    for name in others(scores, tasks):
        served, lead = scores.serves(name, tasks), scores.lead(name, tasks)
        means = [f"{scores.average(each, served):.3f}" for each in (DEFAULT, name)]
        over_splits = lead.over_splits.difference()[1]
        lines.append([name, f"{len(served)}", *means, *lead.over_tasks.difference(), over_splits])
    return ["## The default and every other method, on the set-aside tasks", markdown(head, lines), INTERVALS]


def others(scores: Scores, tasks: Sequence[str]) -> list[str]:
    """Return the methods beside the default that serve some of the tasks."""
    return [name for name in scores.methods if name != DEFAULT and scores.serves(name, tasks)]


def base_table(scores: Scores) -> str:
    """Return the default's paired difference to the base on every task."""
    head = ["task", "base", "default", "difference", "95 % interval", f"splits below -{FAR}", "base kept"]
    lines = []
    for task in scores.tasks():
        apart = scores.differences(task, BASE)
        means = [f"{scores.means[task][name]:.3f}" for name in (BASE, DEFAULT)]
        kept = int(scores.results.values(DEFAULT, FALLBACK, task=task).sum())
        counts = [f"{number} of {len(apart)}" for number in (far_below(apart), kept)]
        lines.append([task, *means, *summary(apart).difference(), *counts])
    return markdown(head, lines)


def score_table(scores: Scores) -> str:
    """Return how far the default's score is from the test value, and how often its interval covers it."""
    lines = []
    for task in scores.tasks():
        rows = scores.results.of(DEFAULT, task=task)
        errors = np.array([row.values[SCORE] - row.values["test"] for row in rows])
        covered = [row.values[LOW] <= row.values["test"] <= row.values[HIGH] for row in rows if LOW in row.values]
        share = f"{sum(covered)} of {len(covered)}" if covered else ""
        lines.append([task, f"{errors.mean():+.3f}", f"{np.abs(errors).mean():.3f}", share])
    return markdown(["task", "mean of score_ less test", "mean distance", "covered"], lines)


def hindsight_table(scores: Scores) -> str:
    """Return how far the default is from hindsight, by group and over all tasks."""
    parts = {group: scores.tasks(group) for group in GROUPS}
    parts["all"] = scores.tasks()
    lines = []
    for group, tasks in parts.items():
        if tasks:
            means = [f"{scores.average(name, tasks):.4f}" for name in (DEFAULT, CHOICE)]
            leads = [scores.above_hindsight(tasks, with_rivals=with_rivals) for with_rivals in (False, True)]
            lines.append([group, f"{len(tasks)}", *means, *(text for lead in leads for text in lead.difference())])
    head = ["tasks", "number", "default", "choice", "default less the best rule", "95 % over tasks"]
    return markdown([*head, "default less the best rule or rival", "95 % over tasks"], lines)


def cost_table(scores: Scores) -> str:
    """Return the processor time and the queries of every method."""
    tasks = scores.tasks()
    opaque = [task for task in tasks if short_name(task) in new_tasks.OPAQUE]
    known = [task for task in tasks if task not in opaque]
    lines = []
    for name in scores.methods:
        seconds = [float(scores.costs(task, name)[0].mean()) for task in scores.serves(name, tasks)]
        asked = [queries_text(scores, name, part) for part in (known, opaque)]
        lines.append([name, f"{len(seconds)}", f"{np.mean(seconds):.2f}", f"{max(seconds):.1f}", *asked])
    head = ["method", "tasks", "CPU s", "slowest task", "queries, known formula", "queries, opaque function"]
    return markdown(head, lines)


def queries_text(scores: Scores, method: str, tasks: Sequence[str]) -> str:
    """Return the mean number of queries over the tasks that a method serves; nothing if it serves none."""
    found = [float(scores.costs(task, method)[1].mean()) for task in scores.serves(method, tasks)]
    return f"{np.mean(found):,.0f}" if found else ""


# -- what is missing, and how it was measured ---------------------------------------------------------------


def missing_section(scores: Scores) -> list[str]:
    """Return which rivals failed, why, and which have values on some splits only; nothing if all is there."""
    lines = [*failures_of(scores), *partly_usable(scores)]
    return ["## Missing values", "\n".join(f"* {line}" for line in lines)] if lines else []


def failures_of(scores: Scores) -> list[str]:
    """Return a line for each rival, task and reason of failure."""
    failed = [row for row in scores.results.rows if row.values.get(FAILED)]
    found = Counter((row.method, row.task, str(row.config[ERROR])) for row in failed)
    return [
        f"{method}, {short_name(task)}: failed on {number} of {len(scores.values(task, DEFAULT))} splits ({error})"
        for (method, task, error), number in found.items()
    ]


def partly_usable(scores: Scores) -> list[str]:
    """Return a line for each rival that can be used on some splits of a task only."""
    lines = []
    for task in scores.tasks():
        n_splits = len(scores.values(task, DEFAULT))
        for method in RIVAL_NAMES:
            n_unusable = n_splits - len(scores.results.of(method, task=task))
            if 0 < n_unusable < n_splits:
                lines.append(f"{method}, {short_name(task)}: cannot be used on {n_unusable} of {n_splits} splits")
    return lines


def splits_of(scores: Scores) -> str:
    """Say how many splits the tasks have, which marks there are, and which rivals serve no task."""
    sizes = {task: len(scores.values(task, DEFAULT)) for task in scores.tasks()}
    most = max(sizes.values())
    fewer = [f"{short_name(task)} ({size})" for task, size in sizes.items() if size < most]
    without = [name for name in RIVAL_NAMES if name not in scores.rivals]
    return (
        f"Mean test metric over {most} splits of each task; fewer of: {', '.join(fewer) or 'none'}. A mean with "
        f"{PARTIAL} is of some of the splits: see the missing values. Rivals that cannot be used on any of these "
        f"tasks: {', '.join(without) or 'none'}."
    )


def described(task: str) -> str:
    """Return the line of a task."""
    group, name = task.split(": ")
    module = menu_tasks if name in menu_tasks.TASKS else new_tasks
    return f"{group}: {module.describe(name)}"


# -- the picture --------------------------------------------------------------------------------------------


def panels(results: Results) -> list[Panel]:
    """Return the default less the base by task, and less every other method over the first group that was run."""
    scores = Scores(to_show(results))
    group = next(group for group in GROUPS if scores.tasks(group))
    tasks = scores.tasks(group)
    by_task = {task: scores.differences(task, BASE) for task in scores.tasks()}
    leads = {name: scores.lead(name, tasks).by_task.values() for name in others(scores, tasks)}
    over_tasks = {name: np.array([each.mean() for each in found]) for name, found in leads.items()}
    axis = "difference of the test metric"
    return [
        Panel("The default less the base, over splits", by_task, axis, zero=True),
        Panel(f"The default less every other method, over the {hyphened(group)} tasks", over_tasks, axis, zero=True),
    ]

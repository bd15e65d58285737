"""Every rule, the choice, the average and hindsight on twelve tasks, twenty splits each.

``python -m experiments menu_study``. The tasks are in ``menu_tasks``; nothing was tuned on them.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import Panel, stacked
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown, summary
from experiments.studies.menu_tasks import TASKS, TaskData, describe, load_task
from postshift import Rows, metrics
from postshift.basis import TreeBasis
from postshift.core.plugin import onehot
from postshift.core.psi import ConfusionMetric
from postshift.core.queries import kind_named, without_queries
from postshift.metrics import ConfusionOracle
from postshift.rules import Choice, Paper, PluginSearch, Problem, menu

TOLERANCE = 0.005
AVERAGE, BEST, BASE = "average (the default)", "choice", "base"
METRICS = {
    "accuracy": metrics.Accuracy,
    "g_mean": metrics.GMean,
    "f1_macro": metrics.MacroF1,
    "balanced_accuracy": metrics.BalancedAccuracy,
    "h_mean": metrics.HMean,
    "q_mean": metrics.QMean,
    "min_recall": metrics.MinRecall,
    "matthews_corrcoef": metrics.MatthewsCorrelation,
    "cohen_kappa": metrics.CohenKappa,
    "f1": metrics.BinaryF1,
    "worst_group": metrics.WorstGroup,
    "group_g_mean": metrics.GroupGMean,
    "expected_reward": metrics.ExpectedReward,
}


Means = dict[str, dict[str, np.ndarray]]  # test values (splits,) by task and method


def make_metric(data: TaskData) -> ConfusionMetric:
    """Return the task's metric."""
    metric: ConfusionMetric = METRICS[data.metric](**data.metric_options)
    return metric


def make_rows(data: TaskData, part: str, tree: TreeBasis) -> Rows:
    """Return one part of a split with its bases: the leaves of a tree and, if there is one, the user's."""
    bases = {"tree": tree.transform(getattr(data, f"X_{part}"))}
    user = getattr(data, f"user_phi_{part}")
    if user is not None:
        bases["user"] = user
    return Rows.of(getattr(data, f"eta_{part}"), bases=bases, labels=getattr(data, f"y_{part}"))


def measure(name: str, seed: int, quick: bool) -> list[Row]:
    """Return every method's test metric on one split."""
    with warnings.catch_warnings(action="ignore"):  # few rows of rare classes are expected here
        return _measured(load_task(name, split=seed))


def _measured(data: TaskData) -> list[Row]:
    """Return every method's test metric on the data of a split."""
    metric = make_metric(data)
    tree = TreeBasis().fit(data.X_train, data.y_train)
    train, val, test = (make_rows(data, part, tree) for part in ("train", "val", "test"))
    problem = Problem.labelled(train, val, metric, groups=data.group_val)
    oracle = ConfusionOracle(data.y_test, n_classes=data.n_classes, groups=data.group_test, metric=metric)
    scored = Problem(train=None, val=test, kind=kind_named("confusion"), metric=metric, categories=oracle.categories)

    def row(method: str, labels: Any, *, fallback: bool = False) -> Row:
        value = float(metric.value(scored.confusion(onehot(labels, n_classes=data.n_classes))))
        return Row(task=data.name, method=method, values={"test": value, "fallback": fallback})

    rules = (*menu(problem), PluginSearch(), Paper())
    rows = [row(rule.name, without_queries(rule.fit(problem)).labels(test)) for rule in rules]
    for method, how in ((AVERAGE, "average"), (BEST, "best")):
        chosen = without_queries(Choice(how=how).fit(problem))  # type: ignore[arg-type]
        rows.append(row(method, chosen.rule.labels(test), fallback=chosen.record.fallback))
    return rows


# -- the page -----------------------------------------------------------------------------------------------


def by_task(results: Results) -> Means:
    """Return the test values by task and method; methods that a task does not have are left out."""
    return {task: results.by_method(task) for task in results.tasks}


def hindsight(methods: dict[str, np.ndarray]) -> float:
    """Return the mean of the single rule that is best on the task's test rows."""
    return max(float(values.mean()) for name, values in methods.items() if name not in (AVERAGE, BEST))


def overall(table: Means) -> dict[str, float]:
    """Return the mean over tasks of each method that every task has, and of hindsight."""
    common = [name for name in next(iter(table.values())) if all(name in methods for methods in table.values())]
    means = {name: float(np.mean([methods[name].mean() for methods in table.values()])) for name in common}
    return {**means, "hindsight": float(np.mean([hindsight(methods) for methods in table.values()]))}


def means_table(results: Results, table: Means) -> str:
    """Return the mean test metric of every method on every task, and of hindsight."""
    means = overall(table)
    lines = [
        [
            name,
            f"{means[name]:.3f}" if name in means else "",
            *(f"{methods[name].mean():.3f}" if name in methods else "" for methods in table.values()),
        ]
        for name in results.methods
    ]
    best = ["*hindsight*", f"{means['hindsight']:.3f}", *(f"{hindsight(methods):.3f}" for methods in table.values())]
    return markdown(["method", "mean", *table], [*lines, best])


ABOUT = """splits of each task, with deterministic labels. *hindsight* is the single rule that is best on the task's
test rows. *mean* is over all tasks (empty for rules that cannot be used on every task)."""


def make_page(results: Results) -> str:
    """Return the page."""
    table = by_task(results)
    parts = [
        f"Mean test metric over {len(results.seeds)} {ABOUT}",
        means_table(results, table),
        "## Comparison with the base",
        against_base(table),
        verdict(table),
        "## The tasks",
        "\n".join(f"* {describe(name)}" for name in table),
    ]
    return whole_page(results, parts, lead=lead_of(table))


def lead_of(table: Means) -> str:
    """Say in two sentences what it is about, and what came out."""
    means = overall(table)
    return (
        f"Every rule of the menu on {len(table)} tasks with wrong labels, shift or hidden groups. The mean over the "
        f"tasks is {means[BASE]:.3f} for the model alone, {means[AVERAGE]:.3f} for the default, and "
        f"{means['hindsight']:.3f} for the best rule of each task in hindsight."
    )


def against_base(table: Means) -> str:
    """Return the default's paired difference to the base on every task."""
    lines = []
    for task, methods in table.items():
        apart = methods[AVERAGE] - methods[BASE]
        means = [f"{methods[name].mean():.3f}" for name in (BASE, AVERAGE)]
        below = f"{int((apart < -TOLERANCE).sum())} of {len(apart)}"
        lines.append([task, *means, *summary(apart).difference(3), below])
    head = ["task", "base", "default", "difference", "95 % interval", f"splits below -{TOLERANCE}"]
    return markdown(head, lines)


def verdict(table: Means) -> str:
    """Say what the study must show, with the figures."""
    means = overall(table)
    singles = {name: value for name, value in means.items() if name not in (AVERAGE, BEST, "hindsight")}
    best = max(singles, key=lambda name: singles[name])
    worse = [task for task, m in table.items() if summary(m[AVERAGE] - m[BASE]).high < -TOLERANCE]
    below = sum(int((m[AVERAGE] - m[BASE] < -TOLERANCE).sum()) for m in table.values())
    total = sum(len(m[BASE]) for m in table.values())
    return (
        f"Tasks whose whole interval is below -{TOLERANCE}: {', '.join(worse) or 'none'}. Single splits below "
        f"-{TOLERANCE}: {below} of {total}. The mean is {means[AVERAGE]:.4f} for the default, {means[BEST]:.4f} for "
        f"the choice and {means['hindsight']:.4f} in hindsight; the best single rule on average is {best!r} with "
        f"{singles[best]:.4f}."
    )


def panels(results: Results) -> list[Panel]:
    """Return the default less the base, a line for each task."""
    apart = {task: methods[AVERAGE] - methods[BASE] for task, methods in by_task(results).items()}
    return [Panel("The default less the base", apart, "difference of the test metric", zero=True)]


EXPERIMENT = Experiment(
    name="menu_study",
    title="The menu on twelve tasks",
    methods={name: partial(measure, name) for name in TASKS},
    page=make_page,
    by=("task",),
    columns=("task", "seed", "method", "test", "fallback"),
    seeds=20,
    figure=stacked(panels),
    picture="Gain of the default over the base on every task, mean and interval",
    quick_methods=["wine_two_laboratories"],
)

"""Every rule, the choice, the average and hindsight on twelve tasks, twenty splits each.

``python -m experiments.menu_study`` runs what is missing in ``docs/results/menu_study.csv`` (every finished split is
stored at once, so a stopped run goes on where it was) and writes ``docs/results/menu_study.md``. The tasks are in
``experiments/menu_tasks.py``; nothing was tuned on them.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from scipy import stats

from experiments.menu_tasks import TASKS, TaskData, describe, load_task
from experiments.opening import opened_text
from experiments.output import OUT, read_table, together, versions, write_table, write_text
from experiments.pool import each_finished
from postshift import Accuracy, ExpectedReward, MacroF1, metrics
from postshift.basis import TreeBasis
from postshift.core.plugin import onehot
from postshift.core.psi import ConfusionMetric
from postshift.metrics import ConfusionDriver
from postshift.rules import Choice, Paper, PluginSearch, Problem, Table, menu, without_questions

N_SPLITS = 20
TOLERANCE = 0.005
AVERAGE, BEST, BASE = "average (the default)", "choice", "base"
FIELDS = ("task", "split", "method", "test", "fallback")
METRICS = {
    "accuracy": Accuracy,
    "g_mean": metrics.GMean,
    "f1_macro": MacroF1,
    "balanced_accuracy": metrics.BalancedAccuracy,
    "h_mean": metrics.HMean,
    "q_mean": metrics.QMean,
    "min_recall": metrics.MinRecall,
    "matthews_corrcoef": metrics.MatthewsCorrelation,
    "cohen_kappa": metrics.CohenKappa,
    "f1": metrics.BinaryF1,
    "worst_group": metrics.WorstGroup,
    "group_g_mean": metrics.GroupGMean,
    "expected_reward": ExpectedReward,
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method on one split of one task."""

    task: str
    split: int
    method: str
    test: float
    fallback: bool = False


def make_metric(data: TaskData) -> ConfusionMetric:
    """Return the task's metric."""
    metric: ConfusionMetric = METRICS[data.metric](**data.metric_options)
    return metric


def make_table(data: TaskData, part: str, tree: TreeBasis) -> Table:
    """Return one part of a split with its bases: the leaves of a tree and, if there is one, the user's."""
    bases = {"tree": tree.transform(getattr(data, f"X_{part}"))}
    user = getattr(data, f"user_phi_{part}")
    if user is not None:
        bases["user"] = user
    return Table.of(getattr(data, f"eta_{part}"), bases=bases, labels=getattr(data, f"y_{part}"))


def run_split(name: str, split: int) -> list[Row]:
    """Return every method's test metric on one split."""
    data = load_task(name, split=split)
    metric = make_metric(data)
    tree = TreeBasis().fit(data.X_train, data.y_train)
    train, val, test = (make_table(data, part, tree) for part in ("train", "val", "test"))
    problem = Problem.labelled(train, val, metric, groups=data.group_val)
    driver = ConfusionDriver(data.y_test, n_classes=data.n_classes, groups=data.group_test, metric=metric)
    scored = Problem(train=None, val=test, kind="confusion", metric=metric, categories=driver.categories)

    def test_value(labels: Any) -> float:
        return float(metric.value(scored.confusion(onehot(labels, n_classes=data.n_classes))))

    rows = []
    for rule in (*menu(problem), PluginSearch(), Paper()):
        fitted = without_questions(rule.fit(problem))
        rows.append(Row(task=name, split=split, method=rule.name, test=test_value(fitted.labels(test))))
    for method, how in ((AVERAGE, "average"), (BEST, "best")):
        chosen = without_questions(Choice(how=how).fit(problem))  # type: ignore[arg-type]
        value = test_value(chosen.rule.labels(test))
        rows.append(Row(task=name, split=split, method=method, test=value, fallback=chosen.record.fallback))
    return rows


# -- storage ------------------------------------------------------------------------------------------------


def read_rows(path: Path) -> tuple[list[Row], str]:
    """Return the stored results and what they were made with."""
    lines, made_with = read_table(path)
    rows = [
        Row(
            task=line["task"],
            split=int(line["split"]),
            method=line["method"],
            test=float(line["test"]),
            fallback=line["fallback"] == "True",
        )
        for line in lines
    ]
    return rows, made_with


def write_rows(path: Path, rows: Iterable[Row], *, made_with: str) -> None:
    """Write all results, in order."""
    ordered = sorted(rows, key=lambda each: (TASKS.index(each.task), each.split))
    lines = ([row.task, row.split, row.method, f"{row.test:.6f}", row.fallback] for row in ordered)
    write_table(path, FIELDS, lines, made_with=made_with)


def run_missing(path: Path, *, splits: int, jobs: int) -> None:
    """Run every split that is not stored yet, and store each at once."""
    rows, made_with = read_rows(path)
    done = {(row.task, row.split) for row in rows}
    todo = [(name, split) for split in range(splits) for name in TASKS if (name, split) not in done]
    for found in each_finished(run_split, todo, jobs=jobs):
        rows.extend(found)
        write_rows(path, rows, made_with=together(made_with, versions()))


# -- the page -----------------------------------------------------------------------------------------------


def by_task(rows: Iterable[Row]) -> dict[str, dict[str, np.ndarray]]:
    """Return test values (splits,) by task and method; methods that a task does not have are left out."""
    found: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        found[row.task][row.method][row.split] = row.test
    return {
        task: {method: np.array([values[split] for split in sorted(values)]) for method, values in methods.items()}
        for task, methods in found.items()
    }


def interval(differences: np.ndarray) -> tuple[float, float]:
    """Return the paired 95 % interval of the mean difference."""
    half = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
    return float(differences.mean() - half), float(differences.mean() + half)


def hindsight(methods: dict[str, np.ndarray]) -> float:
    """Return the mean of the single rule that is best on the task's test rows."""
    return max(float(values.mean()) for name, values in methods.items() if name not in (AVERAGE, BEST))


def overall(table: dict[str, dict[str, np.ndarray]]) -> dict[str, float]:
    """Return the mean over tasks of each method that every task has, and of hindsight."""
    common = [name for name in next(iter(table.values())) if all(name in methods for methods in table.values())]
    means = {name: float(np.mean([methods[name].mean() for methods in table.values()])) for name in common}
    return {**means, "hindsight": float(np.mean([hindsight(methods) for methods in table.values()]))}


def render(rows: list[Row], made_with: str) -> str:
    """Return the page."""
    table = by_task(rows)
    splits = len({row.split for row in rows})
    means = overall(table)
    names = list(dict.fromkeys(row.method for row in rows))
    lines = ["| method | mean | " + " | ".join(table) + " |", "| --- | ---: |" + " ---: |" * len(table)]
    for name in names:
        cells = [f"{methods[name].mean():.3f}" if name in methods else "" for methods in table.values()]
        lines.append(f"| {name} | {f'{means[name]:.3f}' if name in means else ''} | " + " | ".join(cells) + " |")
    cells = [f"{hindsight(methods):.3f}" for methods in table.values()]
    lines.append(f"| *hindsight* | {means['hindsight']:.3f} | " + " | ".join(cells) + " |")
    page = f"""# The menu on twelve tasks

<!-- Made by `python -m experiments.menu_study` from menu_study.csv; do not edit. -->

Mean test metric over {splits} splits of each task, of the deterministic labels. *hindsight* is the single rule that is
best on the task's test rows. *mean* is over all tasks (rules that cannot serve every task have none).

{chr(10).join(lines)}

## Against the base

{against_base(table)}

{verdict(table)}

## The tasks

{chr(10).join(f"* {describe(name)}" for name in table)}

To repeat it: `python -m experiments.menu_study`, made with {made_with}.
"""
    picture = "![The default less the base on every task, mean and interval](menu_study.png)"
    return opened_text(page, picture=picture, lead=fill(lead_of(table), 120))


def lead_of(table: dict[str, dict[str, np.ndarray]]) -> str:
    """Say in two sentences what it is about, and what came out."""
    means = overall(table)
    return (
        f"Every rule of the menu on {len(table)} tasks with wrong labels, shift or hidden groups. The mean over the "
        f"tasks is {means[BASE]:.3f} for the model alone, {means[AVERAGE]:.3f} for the default, and "
        f"{means['hindsight']:.3f} for the best rule of each task in hindsight."
    )


def write_page() -> None:
    """Make page and picture from the stored results."""
    from experiments.pictures import Panel, write_panels

    rows, made_with = read_rows(OUT / "menu_study.csv")
    write_text(OUT / "menu_study.md", render(rows, made_with))
    apart = {task: methods[AVERAGE] - methods[BASE] for task, methods in by_task(rows).items()}
    title = "The default less the base"
    write_panels([Panel(title, apart, "difference of the test metric", zero=True)], OUT, "menu_study")


def against_base(table: dict[str, dict[str, np.ndarray]]) -> str:
    """Return the default's paired difference to the base on every task."""
    lines = ["| task | base | default | difference | 95 % interval | splits below by more than 0.005 |"]
    lines.append("| --- | ---: | ---: | ---: | --- | ---: |")
    for task, methods in table.items():
        apart = methods[AVERAGE] - methods[BASE]
        low, high = interval(apart)
        lines.append(
            f"| {task} | {methods[BASE].mean():.3f} | {methods[AVERAGE].mean():.3f} | {apart.mean():+.3f} | "
            f"{low:+.3f} to {high:+.3f} | {int((apart < -TOLERANCE).sum())} of {len(apart)} |"
        )
    return "\n".join(lines)


def verdict(table: dict[str, dict[str, np.ndarray]]) -> str:
    """Say what the study must show, with the figures."""
    means = overall(table)
    singles = {name: value for name, value in means.items() if name not in (AVERAGE, BEST, "hindsight")}
    best = max(singles, key=lambda name: singles[name])
    worse = [task for task, m in table.items() if interval(m[AVERAGE] - m[BASE])[1] < -TOLERANCE]
    below = sum(int((m[AVERAGE] - m[BASE] < -TOLERANCE).sum()) for m in table.values())
    total = sum(len(m[BASE]) for m in table.values())
    return (
        f"Tasks whose interval lies wholly below -{TOLERANCE}: {', '.join(worse) or 'none'}. Single splits below that: "
        f"{below} of {total}. The default's mean is {means[AVERAGE]:.4f}, the choice's {means[BEST]:.4f}, hindsight's "
        f"{means['hindsight']:.4f}; the best single rule on average is {best!r} with {singles[best]:.4f}."
    )


def main() -> None:
    """Run what is missing, and make the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--render", action="store_true", help="only rebuild the page from the stored CSV")
    parser.add_argument("--splits", type=int, default=N_SPLITS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    path = OUT / "menu_study.csv"
    if not args.render:
        run_missing(path, splits=args.splits, jobs=args.jobs)
    write_page()


if __name__ == "__main__":
    main()

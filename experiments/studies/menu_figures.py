"""The menu on the paper's two Adult tasks and on the demo's digits.

``python -m experiments menu_figures``: every rule, the choice and the average. Test rows are only scored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from examples import digits_demo
from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import task_panels
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import task_table
from experiments.paper.adult.splits import FAIRNESS, PROXY, Task, as_task, load_data
from postshift import Rows, Session
from postshift.basis import CoverBasis, TreeBasis
from postshift.core.queries import without_queries
from postshift.metrics import Accuracy, GMean, GroupGMean, SoftOracle
from postshift.rules import Choice, Influence, PluginSearch, Problem, menu, rule_named

DIGITS = "digits"
SEEDS = {PROXY: 5, FAIRNESS: 5, DIGITS: 10}
TITLES = {
    PROXY: "Adult, proxy labels: G-mean, 163 clean rows",
    FAIRNESS: "Adult, fairness: geometric mean of the recalls in both genders, 1,629 clean rows",
    DIGITS: "Digits as in the demo: accuracy, 300 clean rows",
}
CHOICE, AVERAGE = "choice", "average (the default)"
QUERIES = "influence regression by queries alone"
INDICATORS = {PROXY: ("private", "non_private"), FAIRNESS: ("wife", "husband")}


def rows_over_bases(task: Task, part: str, tree: TreeBasis, cover: CoverBasis) -> Rows:
    """Return one part of an Adult split with the leaves of a tree and the paper's indicators as bases."""
    data = getattr(task.split, part)
    bases = {"tree": tree.transform(data.X), "paper": cover.transform(indicators(task, part))}
    return Rows.of(task.eta[part], bases=bases, labels=data.y)


def indicators(task: Task, part: str) -> np.ndarray:
    """Return the paper's indicator functions of a task."""
    data = getattr(task.split, part)
    return np.column_stack([data.columns[name] for name in INDICATORS[task.task]])


def adult_rows(name: str, seed: int, quick: bool, *, thorough: bool = True) -> Iterator[Row]:
    """Yield the menu on one Adult split: every rule if ``thorough``, else what the project promises."""
    task = as_task(load_data(name, seed, quick=quick))
    tree = TreeBasis().fit(task.split.train.X, task.split.train.y)
    cover = CoverBasis().fit(indicators(task, "train"))
    train, val, test = (rows_over_bases(task, part, tree, cover) for part in ("train", "validation", "test"))
    if name == PROXY:
        problem = Problem.labelled(train, val, GMean())
    else:
        metric = GroupGMean(n_groups=2, n_classes=2)
        problem = Problem.labelled(train, val, metric, groups=task.split.validation.groups["sex"])
    rules = (*menu(problem), PluginSearch()) if thorough else (rule_named("stack + influence [tree]", problem),)
    averaged = thorough or name == FAIRNESS
    for method, labels in labels_of(problem, test, rules, averaged=averaged):
        yield Row(task=name, method=method, values={"test": task.score(labels)})


def labels_of(problem: Problem, test: Rows, rules: Any, *, averaged: bool = True) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the labels of the test rows by some rules, by the choice and by the average."""
    for rule in rules:
        yield rule.name, without_queries(rule.fit(problem)).labels(test)
    for method, how in ((CHOICE, "best"), *([(AVERAGE, "average")] if averaged else [])):
        yield method, without_queries(Choice(how=how).fit(problem)).rule.labels(test)  # type: ignore[arg-type]


def digits_rows(seed: int, quick: bool, *, thorough: bool = True) -> Iterator[Row]:
    """Yield the menu on one split of the demo's digits, and influence regression that asks for numbers only."""
    train, val, test = digits_demo.load(seed)

    def row(method: str, labels: np.ndarray, queries: int = 0) -> Row:
        right = float(np.mean(labels == test.labels))
        return Row(task=DIGITS, method=method, values={"test": right}, queries=queries)

    problem = Problem.labelled(train, val, Accuracy())
    for method, labels in labels_of(problem, test, (*menu(problem), PluginSearch()) if thorough else ()):
        yield row(method, labels)
    asked = Problem.queried(train, val, kind="soft")
    session = Session(lambda: Influence().fit(asked))
    found = session.run(SoftOracle(lambda table: table[np.arange(val.n_rows), val.labels].mean()))
    yield row(QUERIES, found.labels(test), session.n_queries)


METHODS = {PROXY: partial(adult_rows, PROXY), FAIRNESS: partial(adult_rows, FAIRNESS), DIGITS: digits_rows}


def lead_of(results: Results) -> str:
    """Say in two sentences what it is about, and what came out."""
    moves = [
        f"{results.values('base', task=task).mean():.3f} to {results.values(AVERAGE, task=task).mean():.3f} on {task}"
        for task in results.tasks
    ]
    what = "Every rule of the menu, on two tasks of Adult and on digits."
    return f"{what} From the base to the average: {', '.join(moves)}."


ABOUT = """The tables show the test metric of the deterministic labels. Adult uses the authors' protocol with 5 splits;
digits uses 10 splits. The *choice* takes the rule with the best metric of pooled out-of-fold labels. The *average*
weights all rules. Bases of influence regression are the constant, the leaves of a 4-leaf tree on the training labels,
and the paper's indicators (private or not; wife, husband, neither). *queries*: the largest number of queries in a
split, for rules that get only scores."""


def make_page(results: Results) -> str:
    """Return the page."""
    sections = [f"## {TITLES[task]}\n\n{task_table(results, task)}" for task in results.tasks]
    return whole_page(results, [ABOUT, *sections], lead=lead_of(results))


EXPERIMENT = Experiment(
    name="menu_figures",
    title="The menu on Adult and on digits",
    methods=METHODS,
    page=make_page,
    by=("task",),
    columns=("task", "method", "seed", "test", "queries"),
    seeds=SEEDS,
    figure=task_panels(TITLES, "test metric"),
    picture="Test metric of every rule on three tasks",
)

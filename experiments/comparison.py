"""What the comparisons of methods share: metrics, results stored split by split, tables, the command line.

A comparison is a :class:`Study`: tasks, a number of splits, a function that runs a split, and one that makes the page.
Metrics are computed by scikit-learn or by the few lines below, never by postshift.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    cohen_kappa_score,
    f1_score,
    jaccard_score,
    matthews_corrcoef,
    precision_score,
    recall_score,
)

from experiments.menu_study import interval
from experiments.output import OUT, read_table, together, versions, write_table, write_text
from experiments.pictures import Panel, write_panels
from experiments.pool import each_finished

FIELDS = ("task", "split", "metric", "method", "test")
BASE, OURS, SEARCH = "base", "ours", "plug-in search"

Cells = dict[tuple[str, str], dict[str, np.ndarray]]  # (task, metric): method: test values (splits,)


def g_mean(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """Return the geometric mean of the recalls."""
    recalls = recall_score(y_true, y_pred, average=None)
    return float(np.prod(recalls) ** (1 / len(recalls)))


def min_recall(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """Return the lowest recall."""
    return float(recall_score(y_true, y_pred, average=None).min())


METRICS: dict[str, Callable[[Any, Any], float]] = {
    "accuracy": accuracy_score,
    "balanced_accuracy": balanced_accuracy_score,
    "f1": f1_score,
    "f1_macro": partial(f1_score, average="macro", zero_division=0),
    "f1_weighted": partial(f1_score, average="weighted", zero_division=0),
    "precision_macro": partial(precision_score, average="macro", zero_division=0),
    "jaccard_macro": partial(jaccard_score, average="macro", zero_division=0),
    "matthews_corrcoef": matthews_corrcoef,
    "cohen_kappa": cohen_kappa_score,
    "g_mean": g_mean,
    "min_recall": min_recall,
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method with one metric on one split of one task."""

    task: str
    split: int
    metric: str
    method: str
    test: float


@dataclass(frozen=True, kw_only=True)
class Study:
    """A comparison: what to run, where it is stored, and what page it makes.

    ``run_split(task, split)`` returns rows; ``render(rows, made_with)`` the page; ``panels(cells)`` the picture's;
    ``packages`` are those beside postshift's own whose versions matter.
    """

    name: str
    tasks: Sequence[str]
    n_splits: int
    run_split: Callable[[str, int], list[Row]]
    render: Callable[[list[Row], str], str]
    panels: Callable[[Cells], list[Panel]]
    packages: tuple[str, ...] = ()
    out: Path = OUT

    @property
    def csv(self) -> Path:
        """The stored results."""
        return self.out / f"{self.name}.csv"

    @property
    def page(self) -> Path:
        """The page made of them."""
        return self.out / f"{self.name}.md"

    def read(self) -> tuple[list[Row], str]:
        """Return the stored results and what they were made with."""
        lines, made_with = read_table(self.csv)
        rows = [
            Row(
                task=line["task"],
                split=int(line["split"]),
                metric=line["metric"],
                method=line["method"],
                test=float(line["test"]),
            )
            for line in lines
        ]
        return rows, made_with

    def write(self, rows: Iterable[Row], *, made_with: str) -> None:
        """Store all results, in order."""
        ordered = sorted(rows, key=lambda each: (self.tasks.index(each.task), each.split))
        lines = ([row.task, row.split, row.metric, row.method, f"{row.test:.6f}"] for row in ordered)
        write_table(self.csv, FIELDS, lines, made_with=made_with)

    def run_missing(self, *, jobs: int) -> None:
        """Run every split that is not stored yet, and store each at once."""
        rows, made_with = self.read()
        done = {(row.task, row.split) for row in rows}
        wanted = [(task, split) for split in range(self.n_splits) for task in self.tasks]
        for found in each_finished(self.run_split, [each for each in wanted if each not in done], jobs=jobs):
            rows.extend(found)
            self.write(rows, made_with=together(made_with, versions(*self.packages)))

    def main(self, description: str) -> None:
        """Run what is missing, and make the page."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--render", action="store_true", help="only rebuild the page from the stored CSV")
        parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
        args = parser.parse_args()
        if not args.render:
            self.run_missing(jobs=args.jobs)
        self.write_page()

    def write_page(self) -> None:
        """Make page and picture from the stored results."""
        rows, made_with = self.read()
        write_text(self.page, self.render(rows, made_with))
        write_panels(self.panels(by_cell(rows)), self.out, self.name)


def by_cell(rows: Iterable[Row]) -> Cells:
    """Return the test values of every method by task and metric, in the order of the splits."""
    found: dict[tuple[str, str], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        found[row.task, row.metric][row.method][row.split] = row.test
    return {
        cell: {method: np.array([values[split] for split in sorted(values)]) for method, values in methods.items()}
        for cell, methods in found.items()
    }


def apart_text(differences: np.ndarray) -> list[str]:
    """Return the mean difference and its paired 95 % interval as two cells."""
    low, high = interval(differences)
    return [f"{differences.mean():+.4f}", f"{low:+.4f} to {high:+.4f}"]

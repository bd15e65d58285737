"""PostShiftClassifier on three data sets with wrong training labels, ten metrics, twenty splits.

``python -m experiments classifier_table``. Everything is a default; nothing was tuned on these tasks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import Panel, stacked
from experiments.harness.metrics import METRICS
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown, summary
from experiments.studies.comparison import BASE, COLUMNS, OURS, SEARCH, Cells, by_cell
from postshift import PostShiftClassifier

TOLERANCE = 0.005
TUNED = "tuned threshold"
RIVALS = (TUNED, SEARCH)
NAMES = (
    "accuracy", "balanced_accuracy", "f1_macro", "f1_weighted", "precision_macro", "jaccard_macro", "matthews_corrcoef",
    "cohen_kappa", "g_mean", "min_recall",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Task:
    """A data set, the wrong labels of its training rows, and the number of clean rows and of test rows."""

    load: Callable[..., tuple[np.ndarray, np.ndarray]]
    flips: Mapping[int, int]
    share: float
    n_val: int
    n_test: int
    trouble: str


TASKS = {
    "digits": Task(
        load=load_digits,
        flips={9: 1, 2: 0, 4: 7, 3: 5, 5: 3},
        share=0.6,
        n_val=300,
        n_test=500,
        trouble="60 % of the 9s are recorded as 1, of the 2s as 0, of the 4s as 7, of the 3s as 5 and of the 5s as 3",
    ),
    "wine": Task(
        load=load_wine,
        flips={1: 2},
        share=0.35,
        n_val=50,
        n_test=60,
        trouble="35 % of the second cultivar are recorded as the third",
    ),
    "breast_cancer": Task(
        load=load_breast_cancer,
        flips={0: 1},
        share=0.35,
        n_val=100,
        n_test=200,
        trouble="35 % of the malignant tumours are recorded as benign",
    ),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Training rows with wrong labels, few clean rows, test rows."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_val: np.ndarray
    y_val: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def spoil(labels: np.ndarray, task: Task, *, rng: np.random.Generator) -> np.ndarray:
    """Return the labels as they are recorded."""
    table = np.arange(labels.max() + 1)
    table[list(task.flips)] = list(task.flips.values())
    return np.where(rng.random(len(labels)) < task.share, table[labels], labels)


def load_split(name: str, split: int) -> Split:
    """Return one split; its number is the seed."""
    task = TASKS[name]
    X, y = task.load(return_X_y=True)
    rest, X_test, y_rest, y_test = train_test_split(X, y, test_size=task.n_test, stratify=y, random_state=split)
    X_train, X_val, y_train, y_val = train_test_split(
        rest, y_rest, test_size=task.n_val, stratify=y_rest, random_state=split
    )
    spoilt = spoil(y_train, task, rng=np.random.default_rng(split))
    return Split(X_train=X_train, y_train=spoilt, X_val=X_val, y_val=y_val, X_test=X_test, y_test=y_test)


def make_model() -> Any:
    """Return the base model."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))


def fit_methods(data: Split, base: Any, metric: str) -> dict[str, Any]:
    """Return every method, fitted for a metric; the search reads clean rows only, so that a frozen model will do."""
    frozen, everything = FrozenEstimator(base), (data.X_train, data.y_train, data.X_val, data.y_val)
    found = {
        BASE: base,
        SEARCH: PostShiftClassifier(frozen, metric=metric, method=SEARCH).fit(*everything),
        OURS: PostShiftClassifier(make_model(), metric=metric).fit(*everything),
    }
    if len(base.classes_) == 2:
        tuned = TunedThresholdClassifierCV(frozen, scoring=make_scorer(METRICS[metric]), cv="prefit", refit=False)
        found[TUNED] = tuned.fit(data.X_val, data.y_val)
    return found


def measure(name: str, seed: int, quick: bool, *, metrics: tuple[str, ...] = NAMES) -> list[Row]:
    """Return every method's test value of every metric on one split; a quick look has two metrics."""
    data = load_split(name, seed)
    base = make_model().fit(data.X_train, data.y_train)
    found: dict[str, dict[str, float]] = {}
    with warnings.catch_warnings(action="ignore"):  # few rows of rare classes are expected here
        for metric in metrics[:2] if quick else metrics:
            for method, model in fit_methods(data, base, metric).items():
                found.setdefault(method, {})[metric] = METRICS[metric](data.y_test, model.predict(data.X_test))
    return [Row(task=name, method=method, values=values) for method, values in found.items()]


# -- the page -----------------------------------------------------------------------------------------------


def worse_cells(cells: Cells) -> list[tuple[str, str]]:
    """Return the cells in which the interval of ours - base lies wholly below the tolerance."""
    return [cell for cell, m in cells.items() if summary(m[OURS] - m[BASE]).high < -TOLERANCE]


def n_below(methods: Mapping[str, np.ndarray]) -> int:
    """Return in how many splits ours is below the base by more than the tolerance."""
    return int((methods[OURS] - methods[BASE] < -TOLERANCE).sum())


def ahead(methods: Mapping[str, np.ndarray]) -> list[str]:
    """Say which simpler rivals have a higher mean than ours, and whether by more than the noise of the splits."""
    found = []
    for rival in RIVALS:
        if rival in methods and methods[rival].mean() > methods[OURS].mean():
            apart = methods[rival] - methods[OURS]
            found.append(f"{rival} by {apart.mean():.4f}{' (beyond noise)' if summary(apart).low > 0 else ''}")
    return found


def table(cells: Cells, name: str) -> str:
    """Return the table of one data set."""
    mine = {metric: methods for (task, metric), methods in cells.items() if task == name}
    columns = [method for method in (BASE, *RIVALS, OURS) if method in next(iter(mine.values()))]
    head = ["metric", *columns, "ours - base", "95 % interval", f"splits below -{TOLERANCE}", "simpler and better"]
    lines = [
        [
            metric,
            *(f"{methods[column].mean():.4f}" for column in columns),
            *summary(methods[OURS] - methods[BASE]).difference(),
            f"{n_below(methods)} of {len(methods[BASE])}",
            "; ".join(ahead(methods)),
        ]
        for metric, methods in mine.items()
    ]
    return markdown(head, lines)


def verdict(cells: Cells) -> str:
    """Say what the table must show, with the figures."""
    worse = [f"{metric} on {task}" for task, metric in worse_cells(cells)]
    beaten = [f"{metric} on {task}" for (task, metric), methods in cells.items() if ahead(methods)]
    beyond = [
        f"{metric} on {task}"
        for (task, metric), methods in cells.items()
        if any("beyond" in text for text in ahead(methods))
    ]
    below, total = sum(map(n_below, cells.values())), sum(len(m[BASE]) for m in cells.values())
    lowest = min(summary(m[OURS] - m[BASE]).low for m in cells.values())
    return (
        f"Cells whose whole interval of ours - base is below -{TOLERANCE}: {', '.join(worse) or 'none'} (of "
        f"{len(cells)}; the lowest end of an interval is {lowest:+.4f}). Single splits below -{TOLERANCE}: {below} of "
        f"{total}. Cells in which a simpler method has the higher mean: {', '.join(beaten) or 'none'}. Cells in which "
        f"the lead is larger than the noise of the splits: {', '.join(beyond) or 'none'}."
    )


def describe(name: str) -> str:
    """Return one line on a task."""
    task = TASKS[name]
    return f"{name}: {task.trouble}; {task.n_val} clean validation rows, {task.n_test} test rows, the rest for training"


ABOUT = """splits (seeds 0, 1, ...), with deterministic labels. The model is logistic regression on standardised
features, fitted to the wrong labels. *base* is that model; *tuned threshold* is scikit-learn's
`TunedThresholdClassifierCV` with the model frozen, on the clean rows (two classes only); *plug-in search* is
`PostShiftClassifier(method="plug-in search")`; *ours* is `PostShiftClassifier` with its defaults. The interval is the
paired 95 % t interval over the splits. *simpler and better* names the simpler methods with a higher mean than ours."""


def make_page(results: Results) -> str:
    """Return the page."""
    cells = by_cell(results)
    parts = [
        f"Mean test metric over {len(results.seeds)} {ABOUT}",
        *(f"## {name}\n\n{table(cells, name)}" for name in results.tasks),
        verdict(cells),
        "\n".join(f"* {describe(name)}" for name in TASKS),
    ]
    return whole_page(results, parts, lead=lead_of(cells))


def lead_of(cells: Cells) -> str:
    """Say in two sentences what it is about, and what came out."""
    found = [float((methods[OURS] - methods[BASE]).mean()) for methods in cells.values()]
    return (
        "`PostShiftClassifier` with its defaults, with wrong training labels and 50 to 300 clean rows. "
        f"Its gain over the model alone is {min(found):+.4f} to {max(found):+.4f} over {len(found)} pairs of task and "
        f"metric, {float(np.mean(found)):+.4f} on average."
    )


def panels(results: Results) -> list[Panel]:
    """Return ours less the base, a panel for each task."""
    return [
        Panel(
            name,
            {metric: found[OURS] - found[BASE] for (task, metric), found in by_cell(results).items() if task == name},
            "ours less the model alone",
            zero=True,
        )
        for name in results.tasks
    ]


EXPERIMENT = Experiment(
    name="classifier_table",
    title="PostShiftClassifier with wrong training labels",
    methods={name: partial(measure, name) for name in TASKS},
    page=make_page,
    by=("task",),
    columns=COLUMNS,
    seeds=20,
    quick_methods=["wine", "breast_cancer"],
    figure=stacked(panels),
    picture="Gain over the model alone for every metric, mean and interval",
)

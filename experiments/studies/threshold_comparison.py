"""PostShiftClassifier against scikit-learn's TunedThresholdClassifierCV: two classes, clean labels, no validation rows.

``python -m experiments threshold_comparison``. Both get the same training rows and the same model, cross-fit in five
folds, and are scored on other rows.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache, partial

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import Panel, stacked
from experiments.harness.metrics import METRICS
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown, summary
from experiments.studies.comparison import BASE, COLUMNS, OURS, Cells, by_cell
from postshift import PostShiftClassifier
from postshift.datasets import adult_fairness

TUNED = "TunedThresholdClassifierCV"
TOLERANCE = 0.002
NAMES = ("accuracy", "balanced_accuracy", "f1", "matthews_corrcoef", "cohen_kappa", "g_mean")
TITLES = {
    "adult": "Adult, income over 50K: 32,561 training rows, 16,281 test rows",
    "synthetic": "Synthetic, 10 % positive: 10,000 training rows, 10,000 test rows",
}
N_TRAIN = {"adult": 32_561, "synthetic": 10_000}
QUICK_TRAIN = 2_000


@cache
def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows of a data set."""
    if name == "adult":
        split = adult_fairness(seed=0)
        parts = (split.train, split.validation, split.test)
        return np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts])
    X, y = make_classification(
        20_000, n_features=20, n_informative=8, n_clusters_per_class=3, weights=[0.9], flip_y=0.03, random_state=0
    )
    return X, y


def measure(name: str, seed: int, quick: bool, *, metrics: tuple[str, ...] = NAMES) -> list[Row]:
    """Return the test value of every metric on one split; a quick look has few training rows and two metrics."""
    X, y = load(name)
    size = QUICK_TRAIN if quick else N_TRAIN[name]
    X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=size, stratify=y, random_state=seed)
    model = LogisticRegression(max_iter=2000)
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for metric in metrics[:2] if quick else metrics:
        ours = PostShiftClassifier(model, metric=metric).fit(X_train, y_train)
        scorer = make_scorer(METRICS[metric])
        tuned = TunedThresholdClassifierCV(model, scoring=scorer, thresholds=100, cv=5).fit(X_train, y_train)
        for method, fitted in {BASE: ours.estimator_, TUNED: tuned, OURS: ours}.items():
            found[method][metric] = METRICS[metric](y_test, fitted.predict(X_test))
    return [Row(task=name, method=method, values=values) for method, values in found.items()]


def gaps(cells: Cells) -> dict[tuple[str, str], float]:
    """Return the mean of ours less the rival's in every cell."""
    return {cell: float((methods[OURS] - methods[TUNED]).mean()) for cell, methods in cells.items()}


def table(cells: Cells, name: str) -> str:
    """Return the table of one data set."""
    lines = [
        [
            metric,
            *(f"{methods[each].mean():.4f}" for each in (BASE, TUNED, OURS)),
            *summary(methods[OURS] - methods[TUNED]).difference(),
        ]
        for (task, metric), methods in cells.items()
        if task == name
    ]
    return markdown(["metric", BASE, TUNED, OURS, "difference", "95 % interval"], lines)


def verdict(cells: Cells) -> str:
    """Say what the table must show, with the figures."""
    found = gaps(cells)
    short = [f"{metric} on {task} ({gap:+.4f})" for (task, metric), gap in found.items() if gap < -TOLERANCE]
    (task, metric), lowest = min(found.items(), key=lambda each: each[1])
    return (
        f"Cells in which ours is more than {TOLERANCE} below: {', '.join(short) or 'none'} (of {len(found)}; the "
        f"lowest difference is {lowest:+.4f}, {metric} on {task})."
    )


ABOUT = """random splits (seeds 0, 1, ...). Labels are clean and there are no validation rows:
`PostShiftClassifier(model, metric=...).fit(X, y)` is compared with `TunedThresholdClassifierCV(model, scoring=...,
thresholds=100, cv=5).fit(X, y)`. The model is logistic regression; *base* is the model alone. *difference* is ours
minus scikit-learn's, with its paired 95 % t interval over the splits."""


def make_page(results: Results) -> str:
    """Return the page."""
    cells = by_cell(results)
    parts = [
        f"Mean test metric over {len(results.seeds)} {ABOUT}",
        *(f"## {TITLES[name]}\n\n{table(cells, name)}" for name in results.tasks),
        verdict(cells),
    ]
    return whole_page(results, parts, lead=lead_of(cells))


def lead_of(cells: Cells) -> str:
    """Say in two sentences what it is about, and what came out."""
    found = gaps(cells).values()
    return (
        "`PostShiftClassifier` against scikit-learn's tuned threshold, on clean labels of two classes. The "
        f"difference is {min(found):+.4f} to {max(found):+.4f} over {len(found)} pairs of data set and metric."
    )


def panels(results: Results) -> list[Panel]:
    """Return ours less the rival, a panel for each data set."""
    return [
        Panel(
            TITLES[name],
            {metric: found[OURS] - found[TUNED] for (task, metric), found in by_cell(results).items() if task == name},
            "ours less TunedThresholdClassifierCV",
            zero=True,
        )
        for name in results.tasks
    ]


EXPERIMENT = Experiment(
    name="threshold_comparison",
    title="Two classes: comparison with TunedThresholdClassifierCV",
    methods={name: partial(measure, name) for name in TITLES},
    page=make_page,
    by=("task",),
    columns=COLUMNS,
    seeds=10,
    figure=stacked(panels),
    picture="Ours minus TunedThresholdClassifierCV for every metric, mean and interval",
)

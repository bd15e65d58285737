"""PostShiftClassifier against scikit-learn's TunedThresholdClassifierCV: two classes, clean labels, no validation rows.

``python -m experiments.threshold_comparison`` runs what is missing in ``docs/results/threshold_comparison.csv`` (every
finished split is stored at once) and writes ``docs/results/threshold_comparison.md``; ``--render`` only rebuilds the
page. Both get the same training rows and the same model, cross-fit in five folds, and are scored on other rows.
"""

from __future__ import annotations

from functools import cache
from textwrap import fill

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split

from experiments.comparison import BASE, METRICS, OURS, Cells, Row, Study, apart_text, by_cell
from experiments.opening import opened_text
from experiments.output import markdown
from experiments.pictures import Panel
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


def run_split(name: str, split: int, *, metrics: tuple[str, ...] = NAMES) -> list[Row]:
    """Return the test value of every metric on one split."""
    X, y = load(name)
    X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=N_TRAIN[name], stratify=y, random_state=split)
    model = LogisticRegression(max_iter=2000)
    rows = []
    for metric in metrics:
        ours = PostShiftClassifier(model, metric=metric).fit(X_train, y_train)
        scorer = make_scorer(METRICS[metric])
        tuned = TunedThresholdClassifierCV(model, scoring=scorer, thresholds=100, cv=5).fit(X_train, y_train)
        for method, fitted in {BASE: ours.estimator_, TUNED: tuned, OURS: ours}.items():
            test = float(METRICS[metric](y_test, fitted.predict(X_test)))
            rows.append(Row(task=name, split=split, metric=metric, method=method, test=test))
    return rows


def gaps(cells: Cells) -> dict[tuple[str, str], float]:
    """Return the mean of ours less the rival's in every cell."""
    return {cell: float((methods[OURS] - methods[TUNED]).mean()) for cell, methods in cells.items()}


def table(cells: Cells, name: str) -> str:
    """Return the table of one data set."""
    lines = [
        [
            metric,
            *(f"{methods[each].mean():.4f}" for each in (BASE, TUNED, OURS)),
            *apart_text(methods[OURS] - methods[TUNED]),
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


def render(rows: list[Row], made_with: str) -> str:
    """Return the page."""
    cells = by_cell(rows)
    parts = [f"## {TITLES[name]}\n\n{table(cells, name)}\n" for name in dict.fromkeys(task for task, _ in cells)]
    page = f"""# Two classes: against TunedThresholdClassifierCV

<!-- Made by `python -m experiments.threshold_comparison` from threshold_comparison.csv; do not edit. -->

Mean test metric over {len({row.split for row in rows})} random splits (seeds 0, 1, ...). Labels are clean and there is
no validation sample: `PostShiftClassifier(model, metric=...).fit(X, y)` against
`TunedThresholdClassifierCV(model, scoring=..., thresholds=100, cv=5).fit(X, y)`, the model being logistic regression;
*base* is the model alone. *difference* is ours less the rival's, with its paired 95 % t interval over the splits.

{chr(10).join(parts)}
{verdict(cells)}

To repeat it: `python -m experiments.threshold_comparison`, made with {made_with}.
"""
    picture = "![Ours less TunedThresholdClassifierCV for every metric, mean and interval](threshold_comparison.png)"
    return opened_text(page, picture=picture, lead=fill(lead_of(cells), 120))


def lead_of(cells: Cells) -> str:
    """Say in two sentences what it is about, and what came out."""
    found = gaps(cells).values()
    return (
        "`PostShiftClassifier` against scikit-learn's tuned threshold, on clean labels of two classes. Ours less the "
        f"rival's test metric is {min(found):+.4f} to {max(found):+.4f} over {len(found)} pairs of data and metric."
    )


def panels(cells: Cells) -> list[Panel]:
    """Return ours less the rival, a panel for each data set."""
    return [
        Panel(
            title,
            {metric: methods[OURS] - methods[TUNED] for (task, metric), methods in cells.items() if task == name},
            "ours less TunedThresholdClassifierCV",
            zero=True,
        )
        for name, title in TITLES.items()
    ]


STUDY = Study(
    name="threshold_comparison", tasks=tuple(TITLES), n_splits=10, run_split=run_split, render=render, panels=panels
)

if __name__ == "__main__":
    STUDY.main(str(__doc__))

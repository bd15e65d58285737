"""Macro-F1 of ten classes: postshift against the Frank-Wolfe method of xCOLUMNs, on the same validation rows.

``python -m experiments xcolumns_comparison``. xCOLUMNs is needed only to run it: ``pip install -e '.[bench]'`` (or
``pip install xcolumns``, which brings numba and autograd); ``--render`` does without.

Both get the probabilities and labels of the validation rows and nothing else, and label other rows (k = 1). What
xCOLUMNs finds is a randomised classifier: its value is the mean of several draws. The wrapper for macro-F1 of its
version 0.0.2 passes a function of the wrong arguments and fails, so the method itself is called with the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import train_test_split

from experiments.harness.experiment import Experiment, Results
from experiments.harness.figures import Panel, stacked
from experiments.harness.metrics import METRICS
from experiments.harness.page import whole_page
from experiments.harness.store import Row
from experiments.harness.tables import markdown, summary
from experiments.studies import classifier_table
from experiments.studies.comparison import BASE, COLUMNS, OURS, SEARCH, Cells, by_cell
from postshift import PostShifter

METRIC = "f1_macro"
TOLERANCE = 0.001
DRAWS = 10
VARIANTS: dict[str, dict[str, Any]] = {
    "xCOLUMNs (its defaults)": {},
    "xCOLUMNs, start from the model": {"init_classifier": "top"},
    "xCOLUMNs, start from the model, steps 2/(t + 1)": {"init_classifier": "top", "search_for_best_alpha": False},
}
TITLES = {
    "synthetic": "synthetic: 64 features, class shares fall by a quarter from class to class; 4,000 training rows, "
    "1,000 validation rows, 7,000 test rows",
    "digits": "digits: 997 training rows, 300 validation rows, 500 test rows",
    "digits_wrong_labels": "digits_wrong_labels: the same, with the wrong training labels of classifier_table",
}
Rival = Callable[["Probabilities", int], dict[str, float]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Probabilities:
    """The model's probabilities and the labels of validation and test rows."""

    eta_val: np.ndarray
    y_val: np.ndarray
    eta_test: np.ndarray
    y_test: np.ndarray

    def value(self, labels: np.ndarray) -> float:
        """Return the metric of labels of the test rows."""
        return float(METRICS[METRIC](self.y_test, labels))


def load_split(name: str, split: int) -> classifier_table.Split:
    """Return the rows of one split; its number is the seed."""
    if name == "digits_wrong_labels":
        return classifier_table.load_split("digits", split)
    (X, y), n_val, n_test = (
        (_synthetic(), 1000, 7000) if name == "synthetic" else (load_digits(return_X_y=True), 300, 500)
    )
    rest, X_test, y_rest, y_test = train_test_split(X, y, test_size=n_test, stratify=y, random_state=split)
    X_train, X_val, y_train, y_val = train_test_split(
        rest, y_rest, test_size=n_val, stratify=y_rest, random_state=split
    )
    return classifier_table.Split(
        X_train=X_train, y_train=y_train, X_val=X_val, y_val=y_val, X_test=X_test, y_test=y_test
    )


def _synthetic() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of ten classes, each three quarters as frequent as the one before it."""
    shares = 0.75 ** np.arange(10)
    X, y = make_classification(
        12_000,
        n_features=64,
        n_informative=16,
        n_classes=10,
        n_clusters_per_class=1,
        weights=shares / shares.sum(),
        class_sep=1.0,
        flip_y=0.02,
        random_state=0,
    )
    return X, y


def probabilities(data: classifier_table.Split) -> Probabilities:
    """Return what both methods get, and what they are scored on."""
    model = classifier_table.make_model().fit(data.X_train, data.y_train)
    return Probabilities(
        eta_val=model.predict_proba(data.X_val),
        y_val=data.y_val,
        eta_test=model.predict_proba(data.X_test),
        y_test=data.y_test,
    )


def run_xcolumns(data: Probabilities, seed: int) -> dict[str, float]:
    """Return the mean test value over draws of each variant of xCOLUMNs' Frank-Wolfe."""
    from xcolumns.frank_wolfe import find_classifier_using_fw
    from xcolumns.metrics import macro_f1_score_on_conf_matrix

    true = np.eye(data.eta_val.shape[1])[data.y_val]
    found = {}
    for name, options in VARIANTS.items():
        fitted = find_classifier_using_fw(
            true, data.eta_val, macro_f1_score_on_conf_matrix, 1, skip_tn=True, seed=seed, **options
        )
        drawn = [fitted.predict(data.eta_test, seed=draw).argmax(axis=1) for draw in range(DRAWS)]
        found[name] = float(np.mean([data.value(labels) for labels in drawn]))
    return found


def run_ours(data: Probabilities) -> dict[str, float]:
    """Return the test value of the model as it is, of plug-in search and of the default."""
    search = PostShifter(METRIC, method=SEARCH).fit(data.eta_val, data.y_val)
    default = PostShifter(METRIC).fit(data.eta_val, data.y_val)
    return {
        BASE: data.value(data.eta_test.argmax(axis=1)),
        SEARCH: data.value(search.predict(data.eta_test)),
        OURS: data.value(default.predict(data.eta_test)),
    }


def measure(name: str, seed: int, quick: bool, *, rival: Rival = run_xcolumns) -> list[Row]:
    """Return every method's test value on one split."""
    data = probabilities(load_split(name, seed))
    found = {**run_ours(data), **rival(data, seed)}
    return [Row(task=name, method=method, values={METRIC: test}) for method, test in found.items()]


# -- the page -----------------------------------------------------------------------------------------------


def best_rival(methods: Mapping[str, np.ndarray]) -> str:
    """Return the variant of xCOLUMNs with the highest mean."""
    return max(VARIANTS, key=lambda name: methods[name].mean())


def gaps(cells: Cells) -> dict[str, float]:
    """Return the mean of ours less that of the best variant, by task."""
    return {task: float((m[OURS] - m[best_rival(m)]).mean()) for (task, _), m in cells.items()}


def against(cells: Cells) -> str:
    """Return ours less each variant on every task."""
    lines = [
        [task, name, *summary(methods[OURS] - methods[name]).difference()]
        for (task, _), methods in cells.items()
        for name in VARIANTS
    ]
    return markdown(["task", "variant", "ours less it", "95 % interval"], lines)


def verdict(cells: Cells) -> str:
    """Say what the table must show, with the figures."""
    found = gaps(cells)
    short = [f"{task} ({gap:+.4f})" for task, gap in found.items() if gap < -TOLERANCE]
    texts = [f"{gap:+.4f} on {task}" for task, gap in found.items()]
    return (
        f"Ours minus the variant of xCOLUMNs that is best on the task's test rows: {', '.join(texts)}. Tasks on which "
        f"ours is more than {TOLERANCE} below: {', '.join(short) or 'none'}."
    )


ABOUT = f"""All methods are fitted only to the probabilities and labels of the same validation rows. The model is
logistic regression on standardised features. *ours* is `PostShifter(metric="f1_macro")`. xCOLUMNs is its Frank-Wolfe
method with k = 1; its score is the mean of {DRAWS} draws of its randomised classifier."""


def splits_text(cells: Cells) -> str:
    """Say how many splits each task has."""
    sizes = [f"{len(methods[OURS])} of {task}" for (task, _), methods in cells.items()]
    return f"splits with the seeds 0, 1, ...: {', '.join(sizes)}"


def make_page(results: Results) -> str:
    """Return the page."""
    cells = by_cell(results)
    lines = [[method, *(f"{found[method].mean():.4f}" for found in cells.values())] for method in results.methods]
    parts = [
        f"Mean test macro-F1 over the {splits_text(cells)}. {ABOUT}",
        markdown(["method", *(task for task, _ in cells)], lines),
        "## Ours minus xCOLUMNs",
        against(cells),
        verdict(cells),
        "\n".join(f"* {title}" for title in TITLES.values()),
    ]
    return whole_page(results, parts, lead=lead_of(cells))


def lead_of(cells: Cells) -> str:
    """Say in two sentences what it is about, and what came out."""
    apart = [f"{gap:+.4f} ({task})" for task, gap in gaps(cells).items()]
    what = "Macro-F1 of ten classes, with postshift and with xCOLUMNs on the same rows."
    return f"{what} Ours minus the best variant of xCOLUMNs is {', '.join(apart)}."


def panels(results: Results) -> list[Panel]:
    """Return every method, a panel for each task."""
    return [Panel(TITLES[task], results.by_method(task, METRIC), "test macro-F1") for task in results.tasks]


EXPERIMENT = Experiment(
    name="xcolumns_comparison",
    title="Macro-F1 of ten classes: comparison with xCOLUMNs",
    methods={name: partial(measure, name) for name in TITLES},
    page=make_page,
    by=("task",),
    columns=COLUMNS,
    seeds={name: 100 if name == "digits" else 10 for name in TITLES},  # a difference of 0.001 needs many
    figure=stacked(panels),
    picture="Test macro-F1 of every method on three tasks",
    packages=("xcolumns", "numba"),
    quick_methods=["digits"],
)

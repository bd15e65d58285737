"""What the ablation studies share: two metrics, methods of a split, values ``"<name>@<place>"`` in tables and figures.

Accuracy is what the paper looks at, by PI-EW; G-mean, by FW-EG, is shown beside it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from experiments.adult_paper import MAX_ITER, PROXY_BASES, Floats, Score, group_recalls
from experiments.adult_rows import as_task
from experiments.baseline_methods import Data
from experiments.chosen import fweg_by_cv
from experiments.study import Measured, Results, summary
from postshift import PostShiftClassifier
from postshift.baselines import CoordinatePlugin
from postshift.datasets import Part, Split
from postshift.exceptions import SmallValidationWarning

RADIUS = 0.1


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric of class distributions of a part's rows, and the iterations of the paper's method for it."""

    name: str
    title: str
    heading: str
    of: Callable[[Part], Score]
    iterations: int


def accuracy(part: Part) -> Score:
    """Return the share of right labels."""
    rows = np.arange(len(part.y))

    def score(table: Floats) -> float:
        return float(table[rows, part.y].mean())

    return score


METRICS = (
    Metric(name="accuracy", title="accuracy", heading="Accuracy (PI-EW)", of=accuracy, iterations=1),
    Metric(name="g_mean", title="G-mean", heading="G-mean (FW-EG)", of=group_recalls, iterations=MAX_ITER),
)


@contextmanager
def quietly() -> Iterator[None]:
    """Few validation rows are the point here: no warning of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallValidationWarning)
        yield


# -- methods of a split -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """A split, a fitted model and a metric; a quick look takes few steps."""

    data: Data
    model: Any
    metric: Metric
    quick: bool = False


def of_base(given: Given) -> np.ndarray:
    """Return the model's own labels of the test rows."""
    return np.asarray(given.model.predict(given.data.split.test.X))


def of_paper(given: Given, *, bases: Sequence[tuple[str, ...]] = PROXY_BASES) -> np.ndarray:
    """Return those of PI-EW (accuracy) or FW-EG (G-mean) at radius 0.1, the basis by cross-validation."""
    grid = [(basis, RADIUS) for basis in bases]
    metric = given.metric
    return fweg_by_cv(as_task(given.data, given.model), grid, metric.of, max_iter=metric.iterations).labels


def of_search(given: Given) -> np.ndarray:
    """Return those of the exact plug-in search."""
    return fitted_labels(CoordinatePlugin(FrozenEstimator(given.model), metric=given.metric.name), given.data.split)


def of_default(given: Given) -> np.ndarray:
    """Return those of the default, the model taken as it is."""
    return fitted_labels(PostShiftClassifier(FrozenEstimator(given.model), metric=given.metric.name), given.data.split)


def fitted_labels(model: Any, split: Split) -> np.ndarray:
    """Fit a classifier to both sides of a split and return its labels of the test rows."""
    train, val = split.train, split.validation
    with quietly():
        return np.asarray(model.fit(train.X, train.y, val.X, val.y).predict(split.test.X))


def stratified_order(labels: np.ndarray, *, rng: np.random.Generator) -> np.ndarray:
    """Return a random order of rows in which every beginning has the labels in their shares, but for rounding."""
    place = np.empty(len(labels))
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        place[rows] = (np.arange(len(rows)) + rng.random()) / len(rows)
    return np.argsort(place, kind="stable")


def by_metric(methods: Mapping[str, Any], measure: Callable[..., Measured]) -> dict[str, Callable[..., Measured]]:
    """Return ``measure(method, metric, seed, quick)`` of every metric and method, by name."""
    return {
        f"{metric.name}: {name}": partial(measure, method, metric)
        for metric in METRICS
        for name, method in methods.items()
    }


# -- what is shown ------------------------------------------------------------------------------------------


def sections(results: Results, *tellers: Callable[[Results, Metric], str]) -> list[str]:
    """Return what each teller says, under a heading for each metric."""
    told = [(f"## {metric.heading}", *(tell(results, metric) for tell in tellers)) for metric in METRICS]
    return [text for texts in told for text in texts if text]


# -- values by place ----------------------------------------------------------------------------------------


def places(results: Results, method: str) -> list[int]:
    """Return the places at which a method has a test value, ascending."""
    names = {row.name for row in results.rows if row.method == method}
    return sorted(int(each.removeprefix("test@")) for each in names if each.startswith("test@"))


def from_first_to_last(results: Results, methods: Mapping[str, str], what: str) -> str:
    """Say in one sentence how the means of some methods move from the first place to the last; by what to call them."""
    told = []
    for name, method in methods.items():
        at = places(results, method)
        if at:
            first, last = (results.values(method, f"test@{n}").mean() for n in (at[0], at[-1]))
            told.append(f"from {first:.3f} to {last:.3f} with *{name}*")
    return f"{what} goes {', '.join(told)}." if told else ""


def mean_sd(values: np.ndarray, digits: int = 3) -> str:
    """Return mean and, of several values, standard deviation; nothing for none."""
    if not len(values):
        return ""
    found = summary(values)
    spread = "" if found.n < 2 else f" ± {found.sd:.{digits}f}"
    return f"{found.mean:.{digits}f}{spread}"

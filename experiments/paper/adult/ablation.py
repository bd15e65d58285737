"""What the ablation studies share: two metrics, and methods of a split.

Accuracy is what the paper looks at, by PI-EW; G-mean, by FW-EG, is shown beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from experiments.harness.experiment import Results
from experiments.harness.store import Row
from experiments.paper.adult.chosen import fweg_by_cv
from experiments.paper.adult.splits import (
    MAX_ITER,
    PROXY_BASES,
    Data,
    Floats,
    Score,
    as_task,
    group_recalls,
    quietly,
)
from postshift import PostShiftClassifier
from postshift.baselines import CoordinatePlugin
from postshift.datasets import Dataset, Split

RADIUS = 0.1


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric of class distributions of a part's rows, and the iterations of the paper's method for it."""

    name: str
    title: str
    heading: str
    of: Callable[[Dataset], Score]
    iterations: int


def accuracy(part: Dataset) -> Score:
    """Return the share of right labels."""
    rows = np.arange(len(part.y))

    def score(table: Floats) -> float:
        return float(table[rows, part.y].mean())

    return score


METRICS = (
    Metric(name="accuracy", title="accuracy", heading="Accuracy (PI-EW)", of=accuracy, iterations=1),
    Metric(name="g_mean", title="G-mean", heading="G-mean (FW-EG)", of=group_recalls, iterations=MAX_ITER),
)


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
    task = as_task(replace(given.data, score_of=given.metric.of), given.model)
    return fweg_by_cv(task, grid, max_iter=given.metric.iterations).labels


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


def by_metric(methods: Mapping[str, Any], measure: Callable[..., Row]) -> dict[str, Callable[..., Row]]:
    """Return ``measure(method, metric, seed, quick)`` of every metric and method, by name."""
    return {
        f"{metric.name}: {name}": partial(measure, method, metric)
        for metric in METRICS
        for name, method in methods.items()
    }


# -- what is shown ------------------------------------------------------------------------------------------


def sections(results: Results, *parts: Callable[[Results, Metric], str]) -> list[str]:
    """Return a heading for each metric, with what the parts of its section say."""
    return [text for metric in METRICS for text in (f"## {metric.heading}", *(part(results, metric) for part in parts))]

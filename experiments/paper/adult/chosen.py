"""Settings chosen by cross-validation on validation rows, as the paper does: of FW-EG and of adaptive surrogates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from experiments.paper.adult.splits import MAX_ITER, Places, Score, Setting, Task, column_basis, group_of
from postshift import MemoryEngine, fw_eg
from postshift.baselines import AdaptiveSurrogates
from postshift.datasets import Dataset
from postshift.metrics import SoftOracle, from_predictions

Labels = NDArray[np.intp]
AnySetting = TypeVar("AnySetting")

RATES = (0.1, 1.0)  # the paper's grid of both learning rates of adaptive surrogates
CHOICE_ROWS = 8_000  # training rows of the fits that only choose among settings of adaptive surrogates
CHOICE_FOLDS = 3
FEW_STEPS = {"n_outer": 3, "n_inner": 5, "n_perturbations": 20}  # of adaptive surrogates in a quick look


@dataclass(frozen=True, kw_only=True, eq=False)
class Labelled:
    """Labels of the test rows, the queries that they took, and the setting that was chosen."""

    labels: Labels
    queries: int = 0
    setting: Mapping[str, Any] = field(default_factory=dict)


def best_setting(
    settings: Sequence[AnySetting],
    fold_labels: Callable[[AnySetting, Places, Places], Labels],
    val: Dataset,
    score: Score,
    *,
    n_folds: int = 5,
) -> AnySetting:
    """Return the setting with the best metric of pooled out-of-fold labels; the first of several."""
    if len(settings) == 1:
        return settings[0]
    group = group_of(val)
    strata = val.y if group is None else 2 * group + val.y
    folds = list(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(val.X, strata))
    values = []
    for setting in settings:
        out_of_fold = np.zeros(len(val.y), dtype=np.intp)
        for kept, left in folds:
            out_of_fold[left] = fold_labels(setting, kept, left)
        values.append(score(np.eye(2)[out_of_fold]))
    return settings[int(np.argmax(values))]


# -- the paper's method -------------------------------------------------------------------------------------


def fweg_by_cv(
    task: Task, grid: Sequence[Setting], *, max_iter: int = MAX_ITER, metric: Any = None, linearise: str = "probes"
) -> Labelled:
    """Return FW-EG (PI-EW with one iteration), basis and radius chosen on validation rows.

    Without a ``metric`` it asks for values of the task's score; a metric is read with the labels of validation rows.
    """
    engines = {basis: MemoryEngine(task.rows("train", basis, labels=True)) for basis in {basis for basis, _ in grid}}
    val, queries = task.split.validation, 0

    def fitted(setting: Setting, kept: Places) -> Any:
        nonlocal queries
        basis, radius = setting
        rows = task.rows("validation", basis, labels=metric is not None).take(kept)
        asked = SoftOracle(task.score_of(val.take(kept))) if metric is None else metric
        found = fw_eg(engines[basis], rows, asked, radius=radius, max_iter=max_iter, linearise=linearise)
        queries += found.n_queries
        return found.mixture

    def fold_labels(setting: Setting, kept: Places, left: Places) -> Labels:
        rows = task.rows("validation", setting[0], labels=False).take(left)
        return np.asarray(fitted(setting, kept).labels(rows.eta, rows.phi))

    best = best_setting(grid, fold_labels, val, task.on_val)
    test = task.rows("test", best[0], labels=False)
    labels = fitted(best, np.arange(len(val.y))).labels(test.eta, test.phi)
    return Labelled(labels=labels, queries=queries, setting={"basis": list(best[0]), "radius": best[1]})


# -- adaptive surrogates ------------------------------------------------------------------------------------


def surrogates_by_cv(task: Task, bases: Sequence[tuple[str, ...]], *, quick: bool) -> Labelled:
    """Return adaptive surrogates, basis and both learning rates chosen on validation rows.

    The fits that choose see some of the training rows only; the last one sees all. A quick look has one basis and few
    steps.
    """
    split, queries = task.split, 0
    rng = np.random.default_rng(task.seed)
    few = rng.permutation(len(split.train.y))[:CHOICE_ROWS]

    def fitted(setting: tuple[tuple[str, ...], float, float], kept: Places, train: Dataset) -> AdaptiveSurrogates:
        nonlocal queries
        basis, outer, inner = setting
        val = split.validation.take(kept)
        model = AdaptiveSurrogates(
            metric=from_predictions(task.score_of(val), soft=True, name="the metric"),
            basis=column_basis(split, basis),
            outer_learning_rate=outer,
            inner_learning_rate=inner,
            random_state=task.seed,
            **(FEW_STEPS if quick else {}),
        ).fit(train.X, train.y, val.X, val.y)
        queries += model.n_queries_
        return model

    def fold_labels(setting: tuple[tuple[str, ...], float, float], kept: Places, left: Places) -> Labels:
        return np.asarray(fitted(setting, kept, split.train.take(few)).predict(split.validation.X[left]))

    settings = list(product(bases[:1] if quick else bases, RATES, RATES))
    val = split.validation
    best = best_setting(settings, fold_labels, val, task.on_val, n_folds=CHOICE_FOLDS)
    model = fitted(best, np.arange(len(val.y)), split.train)
    setting = {"basis": list(best[0]), "outer rate": best[1], "inner rate": best[2]}
    return Labelled(labels=model.predict(split.test.X), queries=queries, setting=setting)

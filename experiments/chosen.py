"""Settings chosen by cross-validation on validation rows, as the paper does: of FW-EG and of adaptive surrogates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from experiments.adult_paper import MAX_ITER, Score, Setting, Task
from experiments.adult_rows import Rows, taken
from postshift import MemoryEngine, SoftDriver, fw_eg
from postshift.baselines import AdaptiveSurrogates
from postshift.datasets import Part, Split
from postshift.metrics import from_predictions

Labels = NDArray[np.intp]
AnySetting = TypeVar("AnySetting")

COLUMNS = {  # the columns of X that are the indicators of Adult
    "private": "workclass=private",
    "non_private": "workclass=non-private",
    "income": "income=>50K",
    "wife": "relationship=Wife",
    "husband": "relationship=Husband",
}
RATES = (0.1, 1.0)  # the paper's grid of both learning rates of adaptive surrogates
CHOICE_ROWS = 8_000  # training rows of the fits that only choose among settings of adaptive surrogates
CHOICE_FOLDS = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Chosen:
    """A fitted classifier, how many questions it took, and the setting."""

    labels: Labels
    queries: int
    setting: dict[str, Any]


def best_setting(
    settings: Sequence[AnySetting],
    fold_labels: Callable[[AnySetting, Rows, Rows], Labels],
    val: Part,
    score: Score,
    *,
    n_folds: int = 5,
) -> AnySetting:
    """Return the setting with the best metric of pooled out-of-fold labels; the first of several."""
    if len(settings) == 1:
        return settings[0]
    strata = val.y if val.group is None else 2 * val.group + val.y
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
    task: Task,
    grid: Sequence[Setting],
    score_of: Callable[[Part], Score],
    *,
    max_iter: int = MAX_ITER,
) -> Chosen:
    """Return FW-EG (PI-EW with one iteration) that is told values only, basis and radius chosen on validation rows."""
    engines = {basis: MemoryEngine(task.sample("train", basis, labels=True)) for basis in {basis for basis, _ in grid}}
    val, queries = task.split.validation, 0

    def fitted(setting: Setting, kept: Rows) -> Any:
        nonlocal queries
        basis, radius = setting
        rows = task.sample("validation", basis, labels=False).take(kept)
        driver = SoftDriver(score_of(taken(val, kept)))
        found = fw_eg(engines[basis], rows, driver, radius=radius, max_iter=max_iter)
        queries += found.n_questions
        return found.mixture

    def fold_labels(setting: Setting, kept: Rows, left: Rows) -> Labels:
        rows = task.sample("validation", setting[0], labels=False).take(left)
        return np.asarray(fitted(setting, kept).labels(rows.eta, rows.phi))

    best = best_setting(grid, fold_labels, val, score_of(val))
    test = task.sample("test", best[0], labels=False)
    labels = fitted(best, np.arange(len(val.y))).labels(test.eta, test.phi)
    return Chosen(labels=labels, queries=queries, setting={"basis": list(best[0]), "radius": best[1]})


# -- adaptive surrogates ------------------------------------------------------------------------------------


def column_basis(split: Split, basis: tuple[str, ...]) -> Any:
    """Return indicators as a basis of rows of X; the constant one where there are none."""
    if not basis:
        return "constant"
    places = [split.feature_names.index(COLUMNS.get(name, name)) for name in basis]
    return partial(columns_of, places=places)


def columns_of(X: Any, *, places: list[int]) -> Any:
    """Return some columns."""
    return X[:, places]


def surrogates_by_cv(
    task: Task,
    bases: Sequence[tuple[str, ...]],
    score_of: Callable[[Part], Score],
    *,
    options: dict[str, Any] | None = None,
) -> Chosen:
    """Return adaptive surrogates, basis and both learning rates chosen on validation rows.

    The fits that choose see some of the training rows only; the last one sees all.
    """
    split, queries = task.split, 0
    rng = np.random.default_rng(task.seed)
    few = rng.permutation(len(split.train.y))[:CHOICE_ROWS]

    def fitted(setting: tuple[tuple[str, ...], float, float], kept: Rows, train: Part) -> AdaptiveSurrogates:
        nonlocal queries
        basis, outer, inner = setting
        val = taken(split.validation, kept)
        model = AdaptiveSurrogates(
            metric=from_predictions(score_of(val), soft=True, name="the metric"),
            basis=column_basis(split, basis),
            outer_learning_rate=outer,
            inner_learning_rate=inner,
            random_state=task.seed,
            **(options or {}),
        ).fit(train.X, train.y, val.X, val.y)
        queries += model.n_queries_
        return model

    def fold_labels(setting: tuple[tuple[str, ...], float, float], kept: Rows, left: Rows) -> Labels:
        return np.asarray(fitted(setting, kept, taken(split.train, few)).predict(split.validation.X[left]))

    settings = list(product(bases, RATES, RATES))
    val = split.validation
    best = best_setting(settings, fold_labels, val, score_of(val), n_folds=CHOICE_FOLDS)
    model = fitted(best, np.arange(len(val.y)), split.train)
    setting = {"basis": list(best[0]), "outer rate": best[1], "inner rate": best[2]}
    return Chosen(labels=model.predict(split.test.X), queries=queries, setting=setting)

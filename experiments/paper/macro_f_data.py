"""The data of the macro F-measure experiment: COMPAS, Adult and Default, binned and split at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from experiments.paper.adult.splits import FAIRNESS_BASES
from postshift.datasets import Part, Split, Table, adult_fairness, load_compas, load_default_credit

Floats = NDArray[np.float64]

TEST_SHARE, VALIDATION_SHARE = 1 / 3, 1 / 3  # of all rows, and of the rest
SHARES = "4/9, 2/9 and 3/9"
FEW_VALUES, N_BINS = 12, 6  # a number of few values is one-hot, others are in quantile bins
QUICK_ROWS = 900


@dataclass(frozen=True, kw_only=True, eq=False)
class Whole:
    """All rows of a data set before they are split; ``indicators`` are functions for the bases."""

    X: Floats
    y: NDArray[np.intp]
    group: NDArray[np.intp]
    feature_names: tuple[str, ...]
    indicators: dict[str, Floats]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """How a data set is read, and the bases to choose from, by names of indicators; the first is the constant one."""

    load: Callable[[], Whole]
    bases: tuple[tuple[str, ...], ...]


def of_table(table: Table, group: NDArray[np.bool_], names: tuple[str, ...]) -> Whole:
    """Return a loader's table with one of two groups, and columns of it as indicators."""
    indicators = {name: table.X[:, table.feature_names.index(name)] for name in names}
    return Whole(
        X=table.X,
        y=table.y,
        group=group.astype(np.intp),
        feature_names=table.feature_names,
        indicators=indicators,
    )


@cache
def compas() -> Table:
    """Return COMPAS, read once."""
    return load_compas()


def compas_by_race() -> Whole:
    """Return COMPAS; the groups are African-Americans and all others."""
    table = compas()
    race = table.group_names["race"].index("African-American")
    return of_table(table, table.groups["race"] == race, COMPAS_BASES[-1])


def compas_by_sex() -> Whole:
    """Return COMPAS; the groups are men and women."""
    table = compas()
    return of_table(table, table.groups["sex"] == table.group_names["sex"].index("Male"), COMPAS_BASES[-1])


@cache
def default_by_sex() -> Whole:
    """Return Default; the groups are men and women."""
    table = load_default_credit()
    return of_table(table, table.groups["sex"] == table.group_names["sex"].index("male"), DEFAULT_BASES[-1])


@cache
def adult_by_sex() -> Whole:
    """Return both files of Adult, with the features of the fairness experiment; the groups are men and women."""
    split = adult_fairness(seed=0)
    parts = (split.train, split.validation, split.test)
    return Whole(
        X=np.concatenate([part.X for part in parts]),
        y=np.concatenate([part.y for part in parts]).astype(np.intp),
        group=np.concatenate([_group(part) for part in parts]).astype(np.intp),
        feature_names=split.feature_names,
        indicators={name: np.concatenate([part.indicators[name] for part in parts]) for name in split.train.indicators},
    )


def _group(part: Part) -> NDArray[np.intp]:
    """Return the groups of a part that has them."""
    assert part.group is not None  # noqa: S101
    return part.group


COMPAS_BASES = (
    (),
    ("sex=Female", "sex=Male"),
    ("sex=Female", "sex=Male", "age_cat=Less than 25", "age_cat=Greater than 45"),
)
DEFAULT_BASES = (
    (),
    ("MARRIAGE=1", "MARRIAGE=2"),
    ("MARRIAGE=1", "MARRIAGE=2", "EDUCATION=1", "EDUCATION=2"),
)
DATA_SETS = {
    "COMPAS by race": DataSet(load=compas_by_race, bases=COMPAS_BASES),
    "COMPAS by sex": DataSet(load=compas_by_sex, bases=COMPAS_BASES),
    "Adult": DataSet(load=adult_by_sex, bases=FAIRNESS_BASES),
    "Default": DataSet(load=default_by_sex, bases=DEFAULT_BASES),
}


def load_split(name: str, *, seed: int, quick: bool = False) -> Split:
    """Return training, validation and test rows, stratified by group and label; few rows for a quick look."""
    whole = DATA_SETS[name].load()
    strata = 2 * whole.group + whole.y
    rows = np.arange(len(strata))
    if quick:
        rows, _ = train_test_split(rows, train_size=min(QUICK_ROWS, len(rows) // 2), stratify=strata, random_state=seed)
    rest, test = train_test_split(rows, test_size=TEST_SHARE, stratify=strata[rows], random_state=seed)
    train, val = train_test_split(rest, test_size=VALIDATION_SHARE, stratify=strata[rest], random_state=seed)
    names, X = binned(whole.X, whole.feature_names, train=train)
    parts = [_part(whole, X, np.sort(each)) for each in (train, val, test)]
    return Split(
        train=parts[0],
        validation=parts[1],
        test=parts[2],
        early_stopping=np.zeros(len(train), dtype=bool),
        feature_names=names,
    )


def _part(whole: Whole, X: Floats, rows: NDArray[np.intp]) -> Part:
    """Return some rows as a part of a split."""
    return Part(
        X=X[rows],
        y=whole.y[rows],
        group=whole.group[rows],
        indicators={name: values[rows] for name, values in whole.indicators.items()},
        rows=rows,
    )


def binned(X: Floats, names: tuple[str, ...], *, train: NDArray[np.intp]) -> tuple[tuple[str, ...], Floats]:
    """Return every column as indicators, with edges from the training rows; indicators stay as they are."""
    columns, found = [], []
    for place, name in enumerate(names):
        values = X[:, place]
        edges = _edges(values[train])
        if set(np.unique(values)) <= {0.0, 1.0}:
            columns.append(values[:, None])
            found.append(name)
            continue
        columns.append(np.eye(len(edges) + 1)[np.searchsorted(edges, values)])
        found += [f"{name} bin {number}" for number in range(len(edges) + 1)]
    return tuple(found), np.hstack(columns)


def _edges(values: Floats) -> Floats:
    """Return upper ends of bins, all but the last: one bin a value where they are few, else quantiles."""
    distinct = np.unique(values)
    if len(distinct) <= FEW_VALUES:
        return np.asarray(distinct[:-1])
    return np.unique(np.quantile(values, np.arange(1, N_BINS) / N_BINS))

"""The data of the macro F-measure experiment: COMPAS, Adult and Default, binned and split at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from experiments.paper.adult.splits import FAIRNESS_BASES, PARTS
from postshift.datasets import Dataset, Split, adult_fairness, load_compas, load_default_credit

Floats = NDArray[np.float64]

TEST_SHARE, VALIDATION_SHARE = 1 / 3, 1 / 3  # of all rows, and of the rest
SHARES = "4/9, 2/9 and 3/9"
FEW_VALUES, N_BINS = 12, 6  # a number of few values is one-hot, others are in quantile bins
QUICK_ROWS = 900


@dataclass(frozen=True, kw_only=True)
class Loader:
    """How a data set is read, and the bases to choose from, by names of columns; the first is the constant one."""

    load: Callable[[], Dataset]
    bases: tuple[tuple[str, ...], ...]


def with_group(data: Dataset, group: str, name: str, columns: tuple[str, ...]) -> Dataset:
    """Return a data set with two groups, one of them by its name, and some of its features as columns for the bases."""
    is_in = data.groups[group] == data.group_names[group].index(name)
    features = {column: data.X[:, data.feature_names.index(column)] for column in columns}
    return replace(data, columns=features, groups={group: is_in.astype(np.intp)})


@cache
def compas() -> Dataset:
    """Return COMPAS, read once."""
    return load_compas()


def compas_by_race() -> Dataset:
    """Return COMPAS; the groups are African-Americans and all others."""
    return with_group(compas(), "race", "African-American", COMPAS_BASES[-1])


def compas_by_sex() -> Dataset:
    """Return COMPAS; the groups are men and women."""
    return with_group(compas(), "sex", "Male", COMPAS_BASES[-1])


@cache
def default_by_sex() -> Dataset:
    """Return Default; the groups are men and women."""
    return with_group(load_default_credit(), "sex", "male", DEFAULT_BASES[-1])


@cache
def adult_by_sex() -> Dataset:
    """Return both files of Adult, with the features of the fairness experiment; the groups are men and women."""
    split = adult_fairness(seed=0)
    parts = (split.train, split.validation, split.test)
    X = np.concatenate([part.X for part in parts])
    return replace(
        split.train,
        X=X,
        y=np.concatenate([part.y for part in parts]),
        rows=np.arange(len(X)),
        # The training rows have one column more.
        columns={name: np.concatenate([part.columns[name] for part in parts]) for name in split.validation.columns},
        groups={"sex": np.concatenate([part.groups["sex"] for part in parts])},
    )


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
    "COMPAS by race": Loader(load=compas_by_race, bases=COMPAS_BASES),
    "COMPAS by sex": Loader(load=compas_by_sex, bases=COMPAS_BASES),
    "Adult": Loader(load=adult_by_sex, bases=FAIRNESS_BASES),
    "Default": Loader(load=default_by_sex, bases=DEFAULT_BASES),
}


def load_split(name: str, *, seed: int, quick: bool = False) -> Split:
    """Return training, validation and test rows, stratified by group and label; few rows for a quick look."""
    whole = DATA_SETS[name].load()
    (groups,) = whole.groups.values()
    strata = 2 * groups + whole.y
    rows = np.arange(len(strata))
    if quick:
        rows, _ = train_test_split(rows, train_size=min(QUICK_ROWS, len(rows) // 2), stratify=strata, random_state=seed)
    rest, test = train_test_split(rows, test_size=TEST_SHARE, stratify=strata[rows], random_state=seed)
    train, val = train_test_split(rest, test_size=VALIDATION_SHARE, stratify=strata[rest], random_state=seed)
    names, X = binned(whole.X, whole.feature_names, train=train)
    data = replace(whole, X=X, feature_names=names)
    return Split(**{part: data.take(np.sort(at)) for part, at in zip(PARTS, (train, val, test), strict=True)})


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

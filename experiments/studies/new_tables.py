"""The tables of the new tasks that have a training sample: Adult, COMPAS, Default, CIFAR-10, digits, breast cancer."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits

from experiments.studies.menu_tasks import (
    EDUCATION_EDGES,
    RACES,
    Columns,
    Floats,
    Ints,
    Parts,
    Source,
    Task,
    adult_columns,
    adult_features,
    bands,
    high_income,
)
from postshift.datasets import load_cifar10, load_compas, load_default_credit

MARRIAGES = {  # the armed forces' marriages are counted with the others
    "Married-civ-spouse": 0, "Married-AF-spouse": 0, "Never-married": 1, "Divorced": 2, "Separated": 3, "Widowed": 4,
    "Married-spouse-absent": 5,
}  # fmt: skip
HERE_OR_UNCLEAR = ("United-States", "?", "Holand-Netherlands")  # one row has the last
RARE_JOBS = ("?", "Armed-Forces")
FEWEST_OF_A_JOB = 60
ON_AIRFIELD = {  # images by class of CIFAR-10: airplane, truck, automobile, ship, bird, dog, deer
    0: 5000, 9: 5000, 1: 5000, 8: 4000, 2: 96, 5: 96, 4: 48,
}  # fmt: skip
SIDE = 8  # of a thumbnail
DEFAULTS = 0.05  # share of the defaults in the selected book
GRADES = (1, 6)
DIGITS, PAIRS = 10, 100
SHARE_FOR_TRAINING, SHARE_FOR_VALIDATION = 0.5, 0.22  # of the images of every digit
TEST_PAIRS = 6000
PRIOR = np.array([0.78, 0.155, 0.056, 0.004, 0.003, 0.0012, 0.0008])
SPREAD, N_FEATURES, MANY_TEST = 1.3, 6, 60_000


# Adult.


@cache
def education_levels() -> Source:
    """Return Adult's sixteen levels of education, from preschool to doctorate."""
    columns = adult_columns()
    return Source(
        X=adult_features(columns, without=("education-num",)),
        y=np.asarray(columns["education-num"], dtype=np.intp) - 1,
        basis=bands(columns["age"], 30, 45),
    )


@cache
def marriages() -> Source:
    """Return Adult's marital status; the younger half is marked."""
    columns = adult_columns()
    return Source(
        X=adult_features(columns, without=()),
        y=np.array([MARRIAGES[name] for name in columns["marital-status"].tolist()], dtype=np.intp),
        basis=bands(columns["age"], 30, 50),
        marked=columns["age"] <= 37,  # the median
    )


@cache
def birthplaces() -> Source:
    """Return the countries of birth of those born abroad."""
    columns = _rows_of(adult_columns(), ~np.isin(adult_columns()["native-country"], HERE_OR_UNCLEAR))
    return Source(
        X=adult_features(columns, without=("native",)),
        y=_codes(columns["native-country"]),
        basis=bands(columns["education-num"], 9, 12),
    )


@cache
def jobs() -> Source:
    """Return occupations by level of education, those pairs that have enough rows."""
    columns = _rows_of(adult_columns(), ~np.isin(adult_columns()["occupation"], RARE_JOBS))
    level = bands(columns["education-num"], *EDUCATION_EDGES)
    job = _codes(columns["occupation"]) * (len(EDUCATION_EDGES) + 1) + level
    common = np.bincount(job)[job] >= FEWEST_OF_A_JOB
    columns = _rows_of(columns, common)
    return Source(
        X=adult_features(columns, without=("occupation", "education-num")),
        y=_codes(job[common]),
        basis=bands(columns["age"], 30, 45),
    )


@cache
def incomes() -> Source:
    """Return who earns over 50K."""
    columns = adult_columns()
    return Source(
        X=adult_features(columns, without=("income",)), y=high_income(columns), basis=bands(columns["age"], 30, 50)
    )


# Default and COMPAS.


@cache
def selected_clients() -> Source:
    """Return Default with every fourth or fifth default only, so that 5 % of the clients default."""
    table = load_default_credit()
    payers, defaults = np.flatnonzero(table.y == 0), np.flatnonzero(table.y == 1)
    n_kept = round(len(payers) * DEFAULTS / (1 - DEFAULTS))
    kept = defaults[np.linspace(0, len(defaults) - 1, n_kept).astype(np.intp)]
    rows = np.sort(np.concatenate([payers, kept]))
    months = table.X[:, table.feature_names.index("PAY_0")]
    return Source(X=table.X[rows], y=table.y[rows], basis=bands(months[rows], 0, 1))


@cache
def clients() -> Source:
    """Return Default, with the arrears of the last month as the basis."""
    table = load_default_credit()
    months = table.X[:, table.feature_names.index("PAY_0")]
    return Source(X=table.X, y=table.y, basis=bands(months, 0, 1))


@cache
def clients_in_groups() -> Source:
    """Return Default with six groups, sex by education, that the features do not tell."""
    table = load_default_credit()
    graduate, university = (table.X[:, table.feature_names.index(f"EDUCATION={code}")] == 1 for code in (1, 2))
    education = np.select([graduate, university], [0, 1], default=2)
    hidden = [name.startswith("EDUCATION=") for name in table.feature_names]
    return Source(
        X=table.X[:, ~np.array(hidden)],
        y=table.y,
        basis=bands(table.X[:, table.feature_names.index("AGE")], 30, 45),
        group=(table.groups["sex"] * 3 + education).astype(np.intp),
    )


@cache
def recidivism() -> Source:
    """Return COMPAS with three groups of race, that the features do not tell."""
    table = load_compas()
    ages = table.X[:, [name.startswith("age_cat=") for name in table.feature_names]]
    names = table.group_names["race"]
    group = np.array([RACES.get(name, 2) for name in names], dtype=np.intp)[table.groups["race"]]
    return Source(X=table.X, y=table.y, basis=ages.argmax(axis=1), group=group)


# Images and tumours.


@cache
def airfield() -> Source:
    """Return thumbnails of CIFAR-10 as a camera on an airfield sees them: three of seven classes are rare."""
    table = load_cifar10().train
    labels = np.asarray(table.y)
    rows = np.concatenate([np.flatnonzero(labels == code)[:count] for code, count in ON_AIRFIELD.items()])
    blocks = table.X[rows].reshape(len(rows), SIDE, 32 // SIDE, SIDE, 32 // SIDE, 3)
    place = {code: position for position, code in enumerate(ON_AIRFIELD)}
    return Source(
        X=blocks.mean(axis=(2, 4)).reshape(len(rows), -1).astype(np.float64),
        y=np.array([place[code] for code in labels[rows].tolist()], dtype=np.intp),
    )


@cache
def grades() -> Source:
    """Return the handwritten digits 1 to 6, as school grades."""
    X, y = load_digits(return_X_y=True)
    rows = (y >= GRADES[0]) & (y <= GRADES[1])
    return Source(X=X[rows], y=(y[rows] - GRADES[0]).astype(np.intp))


@cache
def tumours() -> Source:
    """Return the breast cancer table; 1 is malignant."""
    bunch = load_breast_cancer()
    return Source(X=bunch.data, y=(bunch.target == 0).astype(np.intp))


# Samples that are drawn anew for every split.


def digit_pairs(task: Task, rng: np.random.Generator) -> Parts:
    """Return images of two digits side by side, every number from 00 to 99 equally often.

    No image is in two of the three samples. The row number of a pair is that of the left image times the number of
    images, plus that of the right one.
    """
    X, y = load_digits(return_X_y=True)
    pools: list[list[Ints]] = [[], [], []]
    for digit in range(DIGITS):
        images = rng.permutation(np.flatnonzero(y == digit))
        ends = np.cumsum([SHARE_FOR_TRAINING, SHARE_FOR_VALIDATION]) * len(images)
        for pool, part in zip(pools, np.split(images, ends.astype(np.intp)), strict=True):
            pool.append(part)
    sizes = (task.n_train, task.n_val, TEST_PAIRS)
    (train, rows_train), (val, rows_val), (test, rows_test) = (
        _glued(X, pool, size=size, rng=rng) for pool, size in zip(pools, sizes, strict=True)
    )
    return Parts(train=train, val=val, test=test, rows_train=rows_train, rows_val=rows_val, rows_test=rows_test)


def _glued(X: Floats, pool: list[Ints], *, size: int, rng: np.random.Generator) -> tuple[Source, Ints]:
    """Return different pairs of a pool's images, in random order, and their row numbers."""
    left, right = [], []
    for number in range(PAIRS):
        tens, ones = pool[number // DIGITS], pool[number % DIGITS]
        pairs = rng.choice(len(tens) * len(ones), size // PAIRS, replace=False)
        left.append(tens[pairs // len(ones)])
        right.append(ones[pairs % len(ones)])
    order = rng.permutation(size // PAIRS * PAIRS)
    first, second = np.concatenate(left)[order], np.concatenate(right)[order]
    y = np.repeat(np.arange(PAIRS, dtype=np.intp), size // PAIRS)[order]
    return Source(X=np.column_stack([X[first], X[second]]), y=y), first * len(X) + second


def tiny_classes(task: Task, rng: np.random.Generator) -> Parts:
    """Return points around seven centres; four of the classes are tiny."""
    sizes = (task.n_train, task.n_val, MANY_TEST)
    n = sum(sizes)
    centres = rng.normal(size=(len(PRIOR), N_FEATURES)) * SPREAD
    y = rng.choice(len(PRIOR), n, p=PRIOR).astype(np.intp)
    table = Source(X=centres[y] + rng.normal(size=(n, N_FEATURES)), y=y)
    train, val, test = np.split(np.arange(n, dtype=np.intp), np.cumsum(sizes)[:-1])
    return Parts(
        train=table.take(train),
        val=table.take(val),
        test=table.take(test),
        rows_train=train,
        rows_val=val,
        rows_test=test,
    )


def _rows_of(columns: Columns, chosen: NDArray[np.bool_]) -> Columns:
    """Return some rows of all columns."""
    return {name: values[chosen] for name, values in columns.items()}


def _codes(values: NDArray[Any]) -> Ints:
    """Return the position of every value among the sorted ones."""
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.intp)

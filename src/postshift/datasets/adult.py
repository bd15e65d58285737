"""Adult ("Census Income"): the raw columns, and the splits of the paper's two experiments on it.

The protocol is that of the authors' program (Section 7.2 takes the validation rows from the training file): all of
``adult.data`` is the training sample. A stratified part of ``adult.test`` is the validation sample, and the rest is the
test sample. Every feature is one-hot. ``fnlwgt`` and ``marital-status`` are never features, because marital status
almost determines the proxy label.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from postshift._validation import FloatArray, check_count
from postshift.datasets._location import PathLike, obtain, read_verified
from postshift.datasets._public_files import ADULT_TEST, ADULT_TRAIN
from postshift.datasets.dataset import Dataset, Split, stratified

Columns = Mapping[str, npt.NDArray[Any]]

COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "income",
)  # fmt: skip
NUMBERS = frozenset({"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"})

# Intervals are open on the left, closed on the right; the edges of age are quantiles of the training sample.
EDGES = {
    "capital-gain": (-1, 1, 4000, 10000, 100000),
    "capital-loss": (-1, 1, 1800, 1950, 4500),
    "hours-per-week": (0, 39, 41, 50, 100),
    "education-num": (0, 8, 9, 11, 16),
}
AGE_QUANTILES = 4

# "?" is a category of its own: that gives the 101 and 106 columns of the paper's Table 6, not 99 and 104.
SHARED_FEATURES = (
    "age", "workclass", "education", "education-num", "occupation", "race",
    "capital-gain", "capital-loss", "hours-per-week", "native-country",
)  # fmt: skip

PROXY_VALIDATION = 0.01
FAIRNESS_VALIDATION = 0.10
EARLY_STOPPING = 1 / 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AdultTables:
    """The columns of both files, in the order of their rows.

    Attributes
    ----------
    train, test : mapping of str to ndarray of shape (n,)
        Columns of ``adult.data`` (32,561 rows) and ``adult.test`` (16,281 rows) by name; numbers as int64,
        the rest as str. A missing value is ``"?"``. The full stop after the incomes of ``adult.test`` is
        removed.

    Examples
    --------
    >>> tables = load_adult()  # doctest: +SKIP
    >>> tables.train["age"][:3]  # doctest: +SKIP
    array([39, 50, 38])
    """

    train: Columns
    test: Columns


def load_adult(*, data_dir: PathLike | None = None, download: bool = True) -> AdultTables:
    """Return the raw columns of ``adult.data`` and ``adult.test``.

    Parameters
    ----------
    data_dir : path-like, optional
        The folder that contains ``adult/``. It is searched before the other folders of :mod:`postshift.datasets`.
    download : bool, default=True
        Whether files that are in none of these folders are downloaded from UCI into the cache (6 MB).

    Returns
    -------
    AdultTables

    Raises
    ------
    DataNotFoundError
        If a file is in none of these folders and cannot be downloaded.
    InputError
        If a file is not the published one.

    Examples
    --------
    >>> tables = load_adult()  # doctest: +SKIP
    >>> int((tables.train["relationship"] == "Husband").sum())  # doctest: +SKIP
    13193
    """
    train, test = (
        _parse(read_verified(obtain(source, data_dir=data_dir, download=download), sha256=source.sha256))
        for source in (ADULT_TRAIN, ADULT_TEST)
    )
    return AdultTables(train=train, test=test)


def adult_proxy(*, seed: int, data_dir: PathLike | None = None, download: bool = True) -> Split:
    """Return the proxy-label experiment: predict `male`, trained on `husband` (Section 7.2).

    Training labels are ``relationship == "Husband"``, validation and test labels ``sex == "Male"``. The 101
    features leave out sex and relationship and include income. Validation is 1 % of ``adult.test`` (163
    rows), stratified by label.

    Parameters
    ----------
    seed : int
        Determines the validation rows and the rows for early stopping; at least 0.
    data_dir, download
        As for `load_adult`.

    Returns
    -------
    Split
        Without groups. The columns are the paper's basis functions `private`, `non_private` (everything else, ``"?"``
        included) and `income`. In `train`, the column ``early_stopping`` is True for a third of the rows, on which the
        training of the base model can be stopped early.

    Examples
    --------
    >>> split = adult_proxy(seed=0)  # doctest: +SKIP
    >>> len(split.train.feature_names), len(split.validation.y)  # doctest: +SKIP
    (101, 163)
    """
    check_count(seed, name="seed", low=0)
    tables = load_adult(data_dir=data_dir, download=download)
    names, *designs = _design(tables, SHARED_FEATURES)
    labels = (_is(tables.train, "relationship", "Husband"), _is(tables.test, "sex", "Male"))
    files = []
    for table, design, y in zip((tables.train, tables.test), designs, labels, strict=True):
        income = _is(table, "income", ">50K")
        X, columns = np.column_stack([design, income]), {**_workforce(table), "income": income}
        files.append(_dataset(X, y, feature_names=(*names, "income=>50K"), columns=columns))
    return _split(*files, share=PROXY_VALIDATION, seed=seed)


def adult_fairness(*, seed: int, data_dir: PathLike | None = None, download: bool = True) -> Split:
    """Return the black-box fairness experiment: predict income over 50K, groups by sex (Section 7.4).

    Labels are ``income == ">50K"``; the group ``"sex"`` is 1 for ``sex == "Male"``, else 0. The 106 features leave out
    sex and include relationship. Validation is 10 % of ``adult.test`` (1,629 rows), stratified by group and
    label.

    Parameters
    ----------
    seed : int
        Determines the validation rows and the rows for early stopping; at least 0.
    data_dir, download
        As for `load_adult`.

    Returns
    -------
    Split
        The columns are the paper's basis functions `private`, `non_private` (everything else, ``"?"`` included), `wife`
        and `husband`; in `train`, ``early_stopping`` as for `adult_proxy`.

    Examples
    --------
    >>> split = adult_fairness(seed=0)  # doctest: +SKIP
    >>> len(split.train.feature_names), len(split.validation.y)  # doctest: +SKIP
    (106, 1629)
    """
    check_count(seed, name="seed", low=0)
    tables = load_adult(data_dir=data_dir, download=download)
    names, *designs = _design(tables, (*SHARED_FEATURES, "relationship"))
    files = []
    for table, design in zip((tables.train, tables.test), designs, strict=True):
        spouses = {name: _is(table, "relationship", name.capitalize()) for name in ("wife", "husband")}
        columns, sex = {**_workforce(table), **spouses}, _is(table, "sex", "Male")
        files.append(_dataset(design, _is(table, "income", ">50K"), feature_names=names, columns=columns, sex=sex))
    return _split(*files, share=FAIRNESS_VALIDATION, seed=seed)


def _parse(content: bytes) -> Columns:
    """Return the columns of one file; the comment and empty lines do not have 15 fields and are skipped."""
    reader = csv.reader(io.StringIO(content.decode("ascii")), skipinitialspace=True)
    columns = zip(*(row for row in reader if len(row) == len(COLUMNS)), strict=True)
    table = dict(zip(COLUMNS, (np.array(column) for column in columns), strict=True))
    table["income"] = np.char.rstrip(table["income"], ".")
    return {name: values.astype(np.int64) if name in NUMBERS else values for name, values in table.items()}


def _is(table: Columns, column: str, value: str) -> FloatArray:
    """Return 1.0 where ``column`` equals ``value`` and 0.0 elsewhere."""
    return np.asarray(table[column] == value, dtype=np.float64)


def _workforce(table: Columns) -> dict[str, FloatArray]:
    """Return the indicators of private and of any other (or unknown) work class."""
    private = _is(table, "workclass", "Private")
    return {"private": private, "non_private": 1 - private}


def _design(tables: AdultTables, columns: tuple[str, ...]) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
    """Return feature names and the one-hot features of both files, with the categories of the first."""
    both = (tables.train, tables.test)
    edges = {"age": _quantile_edges(tables.train["age"]), **EDGES}
    names: list[str] = []
    blocks: tuple[list[FloatArray], list[FloatArray]] = ([], [])
    for column in columns:
        if column in edges:
            labels = tuple(f"({low}, {high}]" for low, high in pairwise(edges[column]))
            coded = [np.searchsorted(edges[column][1:-1], table[column], side="left") for table in both]
        else:
            values = [_categories(table, column) for table in both]
            labels = tuple(str(label) for label in np.unique(values[0]))
            coded = [np.searchsorted(labels, column_values) for column_values in values]
        names += [f"{column}={label}" for label in labels]
        for block, codes in zip(blocks, coded, strict=True):
            block.append(np.eye(len(labels))[codes])
    return tuple(names), np.hstack(blocks[0]), np.hstack(blocks[1])


def _categories(table: Columns, column: str) -> npt.NDArray[Any]:
    """Return a column of categories, work classes merged into private and non-private."""
    if column == "workclass":
        return np.where(table[column] == "Private", "private", "non-private")
    return table[column]


def _quantile_edges(values: npt.NDArray[Any]) -> tuple[int, ...]:
    """Return the edges of ``AGE_QUANTILES`` intervals of about equal counts that include the least value."""
    edges = np.quantile(values, np.linspace(0, 1, AGE_QUANTILES + 1)).astype(np.int64)
    edges[0] -= 1  # intervals are open on the left
    return tuple(edges.tolist())


def _dataset(
    X: FloatArray, y: FloatArray, *, feature_names: tuple[str, ...], columns: Columns, sex: FloatArray | None = None
) -> Dataset:
    """Return all rows of one file."""
    return Dataset(
        X=X,
        y=y.astype(np.intp),
        rows=np.arange(len(y)),
        columns=columns,
        groups={} if sex is None else {"sex": sex.astype(np.intp)},
        feature_names=feature_names,
        group_names={} if sex is None else {"sex": ("Female", "Male")},
    )


def _split(train: Dataset, pool: Dataset, *, share: float, seed: int) -> Split:
    """Return the samples: one file for training, the other divided by label (and group)."""
    strata = 2 * pool.groups["sex"] + pool.y if pool.groups else pool.y
    test, validation = stratified(strata, share=share, seed=seed)
    _, stopping = stratified(train.y, share=EARLY_STOPPING, seed=seed)
    columns = {**train.columns, "early_stopping": np.isin(train.rows, stopping)}
    return Split(train=replace(train, columns=columns), validation=pool.take(validation), test=pool.take(test))

"""Adult ("Census Income"): the raw columns, and the splits of the paper's two experiments on it.

The protocol is that of the authors' program (Section 7.2 takes validation from the training file):
all of ``adult.data`` is the training sample; the validation sample is split off ``adult.test``, stratified;
the rest of ``adult.test`` is the test sample. Every feature is one-hot. ``fnlwgt`` and ``marital-status`` are
never features: the latter all but gives the proxy label away.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from postshift._validation import FloatArray, IntArray, check_count
from postshift.datasets._location import PathLike, obtain, read_verified
from postshift.datasets._sources import ADULT_TEST, ADULT_TRAIN
from postshift.datasets._splits import stratified

BoolArray = npt.NDArray[np.bool_]
Table = Mapping[str, npt.NDArray[Any]]

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
        taken off.

    Examples
    --------
    >>> tables = load_adult()  # doctest: +SKIP
    >>> tables.train["age"][:3]  # doctest: +SKIP
    array([39, 50, 38])
    """

    train: Table
    test: Table


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """One of the three samples of a split.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        One-hot features, 0.0 or 1.0.
    y : ndarray of shape (n,)
        Labels, 0 or 1.
    group : ndarray of shape (n,) or None
        Protected group, 0 or 1; None where the task has none. Never a column of `X`.
    indicators : mapping of str to ndarray of shape (n,)
        The paper's basis functions, 0.0 or 1.0; the constant one is left out.
    rows : ndarray of shape (n,)
        Row numbers in the file that the sample comes from, ascending.

    Examples
    --------
    >>> part = adult_fairness(seed=0).validation  # doctest: +SKIP
    >>> part.X.shape, sorted(part.indicators)  # doctest: +SKIP
    ((1629, 106), ['husband', 'non_private', 'private', 'wife'])
    """

    X: FloatArray
    y: IntArray
    group: IntArray | None
    indicators: Mapping[str, FloatArray]
    rows: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Training, validation and test sample of one experiment.

    Attributes
    ----------
    train, validation, test : Part
        The samples. `train` is all of ``adult.data``; the others share out ``adult.test``.
    early_stopping : ndarray of bool of shape (n_train,)
        True for the third of the training rows that is kept back to stop the base model's training early.
    feature_names : tuple of str
        Names of the columns of every `X`, such as ``"race=White"`` or ``"age=(28, 37]"``.

    Examples
    --------
    >>> split = adult_proxy(seed=0)  # doctest: +SKIP
    >>> split.train.X.shape, split.validation.X.shape, split.test.X.shape  # doctest: +SKIP
    ((32561, 101), (163, 101), (16118, 101))
    """

    train: Part
    validation: Part
    test: Part
    early_stopping: BoolArray
    feature_names: tuple[str, ...]


def load_adult(*, data_dir: PathLike | None = None, download: bool = True) -> AdultTables:
    """Return the raw columns of ``adult.data`` and ``adult.test``.

    Parameters
    ----------
    data_dir : path-like, optional
        The folder that contains ``adult/``. Without it (or where it has no such file) the folder named by the
        environment variable ``POSTSHIFT_DATA`` is looked in, then ``shared/data`` beside the checkout, then the cache.
    download : bool, default=True
        Whether files that are in none of these folders are downloaded from UCI into the cache (6 MB).

    Returns
    -------
    AdultTables

    Raises
    ------
    DataNotFoundError
        When a file is in none of these folders and is not to be had from the source.
    InputError
        When a file is not the published one.

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
    rows), stratified by label. Indicators: `private`, `non_private` (everything else, ``"?"`` included) and
    `income`.

    Parameters
    ----------
    seed : int
        Decides the validation rows and the rows kept back for early stopping; at least 0.
    data_dir : path-like, optional
        As for `load_adult`.
    download : bool, default=True
        As for `load_adult`.

    Returns
    -------
    Split
        Without groups.

    Examples
    --------
    >>> split = adult_proxy(seed=0)  # doctest: +SKIP
    >>> len(split.feature_names), len(split.validation.y)  # doctest: +SKIP
    (101, 163)
    """
    check_count(seed, name="seed", low=0)
    tables = load_adult(data_dir=data_dir, download=download)
    names, *designs = _design(tables, SHARED_FEATURES)
    income = [_is(table, "income", ">50K") for table in (tables.train, tables.test)]
    labels = (_is(tables.train, "relationship", "Husband"), _is(tables.test, "sex", "Male"))
    train, pool = (
        _whole(
            np.column_stack([designs[file], income[file]]),
            labels[file],
            group=None,
            indicators={**_workforce(table), "income": income[file]},
        )
        for file, table in enumerate((tables.train, tables.test))
    )
    return _split(train, pool, feature_names=(*names, "income=>50K"), share=PROXY_VALIDATION, seed=seed)


def adult_fairness(*, seed: int, data_dir: PathLike | None = None, download: bool = True) -> Split:
    """Return the black-box fairness experiment: predict income over 50K, groups by sex (Section 7.4).

    Labels are ``income == ">50K"``; the group is 1 for ``sex == "Male"``, else 0. The 106 features leave out
    sex and include relationship. Validation is 10 % of ``adult.test`` (1,629 rows), stratified by group and
    label. Indicators: `private`, `non_private` (everything else, ``"?"`` included), `wife` and `husband`.

    Parameters
    ----------
    seed : int
        Decides the validation rows and the rows kept back for early stopping; at least 0.
    data_dir : path-like, optional
        As for `load_adult`.
    download : bool, default=True
        As for `load_adult`.

    Returns
    -------
    Split

    Examples
    --------
    >>> split = adult_fairness(seed=0)  # doctest: +SKIP
    >>> len(split.feature_names), len(split.validation.y)  # doctest: +SKIP
    (106, 1629)
    """
    check_count(seed, name="seed", low=0)
    tables = load_adult(data_dir=data_dir, download=download)
    names, *designs = _design(tables, (*SHARED_FEATURES, "relationship"))
    train, pool = (
        _whole(
            design,
            _is(table, "income", ">50K"),
            group=_is(table, "sex", "Male"),
            indicators={**_workforce(table), **_spouses(table)},
        )
        for design, table in zip(designs, (tables.train, tables.test), strict=True)
    )
    return _split(train, pool, feature_names=names, share=FAIRNESS_VALIDATION, seed=seed)


def _parse(content: bytes) -> Table:
    """Return the columns of one file; the comment and empty lines have no 15 fields and drop out."""
    reader = csv.reader(io.StringIO(content.decode("ascii")), skipinitialspace=True)
    columns = zip(*(row for row in reader if len(row) == len(COLUMNS)), strict=True)
    table = dict(zip(COLUMNS, (np.array(column) for column in columns), strict=True))
    table["income"] = np.char.rstrip(table["income"], ".")
    return {name: values.astype(np.int64) if name in NUMBERS else values for name, values in table.items()}


def _is(table: Table, column: str, value: str) -> FloatArray:
    """Return 1.0 where ``column`` equals ``value`` and 0.0 elsewhere."""
    return np.asarray(table[column] == value, dtype=np.float64)


def _workforce(table: Table) -> dict[str, FloatArray]:
    """Return the indicators of private and of any other (or unknown) work class."""
    private = _is(table, "workclass", "Private")
    return {"private": private, "non_private": 1 - private}


def _spouses(table: Table) -> dict[str, FloatArray]:
    """Return the indicators of wives and husbands."""
    return {"wife": _is(table, "relationship", "Wife"), "husband": _is(table, "relationship", "Husband")}


def _design(tables: AdultTables, columns: tuple[str, ...]) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
    """Return feature names and the one-hot tables of both files, with the categories of the first."""
    both = (tables.train, tables.test)
    edges = {"age": _quantile_edges(tables.train["age"]), **EDGES}
    names: list[str] = []
    blocks: tuple[list[FloatArray], list[FloatArray]] = ([], [])
    for column in columns:
        if column in edges:
            labels = _interval_names(edges[column])
            coded = [_interval_codes(table[column], edges[column]) for table in both]
        else:
            values = [_categories(table, column) for table in both]
            labels = tuple(str(label) for label in np.unique(values[0]))
            coded = [np.searchsorted(labels, column_values) for column_values in values]
        names += [f"{column}={label}" for label in labels]
        for block, codes in zip(blocks, coded, strict=True):
            block.append(np.eye(len(labels))[codes])
    return tuple(names), np.hstack(blocks[0]), np.hstack(blocks[1])


def _categories(table: Table, column: str) -> npt.NDArray[Any]:
    """Return a column of categories, work classes merged into private and non-private."""
    if column == "workclass":
        return np.where(table[column] == "Private", "private", "non-private")
    return table[column]


def _quantile_edges(values: npt.NDArray[Any]) -> tuple[int, ...]:
    """Return the edges of ``AGE_QUANTILES`` intervals of about equal counts that include the least value."""
    edges = np.quantile(values, np.linspace(0, 1, AGE_QUANTILES + 1)).astype(np.int64)
    edges[0] -= 1  # intervals are open on the left
    return tuple(edges.tolist())


def _interval_codes(values: npt.NDArray[Any], edges: tuple[int, ...]) -> IntArray:
    """Return the number of the interval ``(edges[k], edges[k + 1]]`` that holds each value."""
    return np.searchsorted(edges[1:-1], values, side="left")


def _interval_names(edges: tuple[int, ...]) -> tuple[str, ...]:
    """Return the intervals as text, such as ``"(28, 37]"``."""
    return tuple(f"({low}, {high}]" for low, high in pairwise(edges))


def _whole(
    design: FloatArray, labels: FloatArray, *, group: FloatArray | None, indicators: Mapping[str, FloatArray]
) -> Part:
    """Return all rows of one file as a sample."""
    return Part(
        X=design,
        y=labels.astype(np.intp),
        group=None if group is None else group.astype(np.intp),
        indicators=indicators,
        rows=np.arange(len(labels)),
    )


def _take(part: Part, rows: IntArray) -> Part:
    """Return some rows of a sample."""
    return Part(
        X=part.X[rows],
        y=part.y[rows],
        group=None if part.group is None else part.group[rows],
        indicators={name: column[rows] for name, column in part.indicators.items()},
        rows=part.rows[rows],
    )


def _split(train: Part, pool: Part, *, feature_names: tuple[str, ...], share: float, seed: int) -> Split:
    """Return the samples: all of one file to train, the other shared out by label (and group)."""
    strata = pool.y if pool.group is None else 2 * pool.group + pool.y
    test, validation = stratified(strata, share=share, seed=seed)
    _, stopping = stratified(train.y, share=EARLY_STOPPING, seed=seed)
    return Split(
        train=train,
        validation=_take(pool, validation),
        test=_take(pool, test),
        early_stopping=np.isin(train.rows, stopping),
        feature_names=feature_names,
    )

"""The paper's two tasks on Adult: splits, the metric, the bases; a model's probabilities; few rows for a quick look."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from postshift import Rows
from postshift.datasets import Dataset, Split, adult_fairness, adult_proxy
from postshift.exceptions import SmallValidationWarning
from postshift.metrics import from_predictions

Floats = NDArray[np.float64]
Places = NDArray[np.intp]  # of rows in a part
Setting = tuple[tuple[str, ...], float]  # indicator functions beside the constant, radius
Score = Callable[[Floats], float]  # of a table of class distributions (n, 2)

C = 1.0
MAX_ITER = 30
RADII = (1.0, 0.4, 0.1, 0.01, 0.001, 0.0001)  # the paper's grid
PROXY, FAIRNESS = "proxy", "fairness"
TASKS = (PROXY, FAIRNESS)
LOADERS = {PROXY: adult_proxy, FAIRNESS: adult_fairness}
METRICS = {PROXY: "g_mean", FAIRNESS: "group_g_mean"}
PROXY_BASES = ((), ("private", "non_private"), ("private", "non_private", "income"))
FAIRNESS_BASES = ((), ("private", "non_private"), ("private", "non_private", "wife", "husband"))
COLUMNS = {  # the columns of X that are the indicators
    "private": "workclass=private",
    "non_private": "workclass=non-private",
    "income": "income=>50K",
    "wife": "relationship=Wife",
    "husband": "relationship=Husband",
}
LARGEST = {  # of the paper's bases, by columns of X
    PROXY: tuple(COLUMNS[name] for name in PROXY_BASES[-1]),
    FAIRNESS: tuple(COLUMNS[name] for name in FAIRNESS_BASES[-1]),
}
PARTS = ("train", "validation", "test")
QUICK = {"train": 1_000, "validation": 200, "test": 1_000}  # rows of a quick look at the most


def group_of(part: Dataset) -> Places | None:
    """Return the group of every row, None where the rows have no groups."""
    return next(iter(part.groups.values()), None)


def group_recalls(part: Dataset) -> Score:
    """Return the geometric mean of the recalls of every class in every group (of all rows where there is none)."""
    found = group_of(part)
    groups = np.zeros(len(part.y), dtype=np.intp) if found is None else found
    cells = [np.flatnonzero((groups == g) & (part.y == c)) for g in np.unique(groups) for c in (0, 1)]
    classes = part.y[[cell[0] for cell in cells]]

    def score(table: Floats) -> float:
        recalls = [table[cell, label].mean() for cell, label in zip(cells, classes, strict=True)]
        return float(np.prod(recalls) ** (1 / len(recalls)))

    return score


# -- a split ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """One split of a task, and how class distributions of a part's rows are scored."""

    task: str
    seed: int
    split: Split
    score_of: Callable[[Dataset], Score] = group_recalls

    @property
    def metric(self) -> Any:
        """The name of the task's metric."""
        return METRICS[self.task]

    @property
    def groups(self) -> dict[str, Any]:
        """What the metric reads about the validation rows, beside their labels."""
        group = group_of(self.split.validation)
        return {} if group is None else {"groups": group}

    @cached_property
    def on_val(self) -> Score:
        """The metric of the validation rows."""
        return self.score_of(self.split.validation)

    @cached_property
    def on_test(self) -> Score:
        """The metric of the test rows."""
        return self.score_of(self.split.test)

    def score(self, labels: np.ndarray) -> float:
        """Return the metric of labels of the test rows."""
        return self.on_test(np.eye(2)[labels])

    def basis(self, names: tuple[str, ...]) -> Callable[[Any], np.ndarray]:
        """Return some columns of X, which are indicators, as a basis."""
        return partial(columns_of, places=[self.split.train.feature_names.index(name) for name in names])


@dataclass(frozen=True, kw_only=True, eq=False)
class BlackBox(Data):
    """A split whose metric returns values of predictions only: it keeps genders and psi to itself."""

    @property
    def metric(self) -> Any:
        """The metric, asked for values."""
        return from_predictions(self.on_val, soft=True, name="a secret")

    @property
    def groups(self) -> dict[str, Any]:
        """Nothing is known of the groups."""
        return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Task(Data):
    """A split with a model's probabilities."""

    eta: Mapping[str, Floats]

    def rows(self, part: str, basis: tuple[str, ...], *, labels: bool) -> Rows:
        """Return the rows of a part over the constant and some indicator functions."""
        data: Dataset = getattr(self.split, part)
        phi = np.column_stack([np.ones(len(data.y)), *(data.columns[name] for name in basis)])
        return Rows.of(self.eta[part], phi=phi, labels=data.y if labels else None)


def columns_of(X: Any, *, places: list[int]) -> np.ndarray:
    """Return some columns."""
    return np.asarray(X[:, places])


def column_basis(split: Split, basis: tuple[str, ...]) -> Any:
    """Return indicators as a basis of rows of X; the constant one where there are none."""
    if not basis:
        return "constant"
    names = split.train.feature_names
    return partial(columns_of, places=[names.index(COLUMNS.get(name, name)) for name in basis])


def load(task: str, seed: int) -> Data:
    """Return a split of a task."""
    return Data(task=task, seed=seed, split=LOADERS[task](seed=seed))


@lru_cache(maxsize=2)
def load_data(task: str, seed: int, *, quick: bool) -> Data:
    """Return a split of a task; a quick look has few rows."""
    data = load(task, seed)
    return replace(data, split=shortened(data.split, seed=seed)) if quick else data


def as_black_box(data: Data) -> BlackBox:
    """Return the same rows with a metric that returns values only."""
    return BlackBox(task=data.task, seed=data.seed, split=data.split)


def as_task(data: Data, model: Any = None) -> Task:
    """Return a split with a model's probabilities: a given one's, or those of logistic regression fitted now."""
    fitted = logistic().fit(data.split.train.X, data.split.train.y) if model is None else model
    eta = {part: fitted.predict_proba(getattr(data.split, part).X) for part in PARTS}
    return Task(task=data.task, seed=data.seed, split=data.split, score_of=data.score_of, eta=eta)


def logistic() -> LogisticRegression:
    """Return the base model."""
    return LogisticRegression(C=C, max_iter=2000)


@contextmanager
def quietly() -> Iterator[None]:
    """Ignore the warning of few validation rows: they are the point here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallValidationWarning)
        yield


# -- rows ---------------------------------------------------------------------------------------------------


def joined(first: Dataset, second: Dataset) -> Dataset:
    """Return the rows of two parts of the same file, in the order of the file."""
    both = replace(
        first,
        X=np.concatenate([first.X, second.X]),
        y=np.concatenate([first.y, second.y]),
        rows=np.concatenate([first.rows, second.rows]),
        columns={name: np.concatenate([values, second.columns[name]]) for name, values in first.columns.items()},
        groups={name: np.concatenate([codes, second.groups[name]]) for name, codes in first.groups.items()},
    )
    return both.take(np.argsort(both.rows, kind="stable"))


def shortened(split: Split, *, seed: int) -> Split:
    """Return a split of few rows, drawn at random."""
    rng = np.random.default_rng(seed)
    parts = {name: getattr(split, name) for name in PARTS}
    return Split(**{name: part.take(_some(len(part.y), QUICK[name], rng)) for name, part in parts.items()})


def _some(n_rows: int, most: int, rng: np.random.Generator) -> Places:
    """Return the numbers of some rows, ascending; of all where they are not more."""
    return np.sort(rng.choice(n_rows, size=min(n_rows, most), replace=False))

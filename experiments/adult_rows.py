"""Splits of Adult for the experiments: fewer rows for a quick look, and a metric that only tells values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.adult_paper import Task, group_recalls
from experiments.baseline_methods import Data, load, logistic
from postshift.datasets import Part, Split
from postshift.metrics import from_predictions

Rows = NDArray[np.intp]

PARTS = ("train", "validation", "test")
QUICK = {"train": 1_000, "validation": 200, "test": 1_000}  # rows of a quick look at the most


@dataclass(frozen=True, kw_only=True, eq=False)
class BlackBox(Data):
    """A split whose metric tells values of predictions only: genders and psi stay with whoever answers."""

    @property
    def metric(self) -> Any:
        """The metric, asked for values."""
        return from_predictions(group_recalls(self.split.validation), soft=True, name="a secret")

    @property
    def groups(self) -> dict[str, Any]:
        """Nothing is known of the groups."""
        return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Look:
    """A split, and whether it is a quick look at few rows."""

    data: Data
    quick: bool


def taken(part: Part, rows: Rows) -> Part:
    """Return some rows of a part."""
    return Part(
        X=part.X[rows],
        y=part.y[rows],
        group=None if part.group is None else part.group[rows],
        indicators={name: values[rows] for name, values in part.indicators.items()},
        rows=part.rows[rows],
    )


def joined(first: Part, second: Part) -> Part:
    """Return the rows of two parts of the same file, in the order of the file."""
    order = np.argsort(np.concatenate([first.rows, second.rows]), kind="stable")
    groups = None if first.group is None or second.group is None else np.concatenate([first.group, second.group])[order]
    return Part(
        X=np.concatenate([first.X, second.X])[order],
        y=np.concatenate([first.y, second.y])[order],
        group=groups,
        indicators={
            name: np.concatenate([values, second.indicators[name]])[order] for name, values in first.indicators.items()
        },
        rows=np.concatenate([first.rows, second.rows])[order],
    )


def shortened(split: Split, *, seed: int) -> Split:
    """Return a split of few rows, drawn at random."""
    rng = np.random.default_rng(seed)
    kept = {name: _some(len(getattr(split, name).y), QUICK[name], rng) for name in PARTS}
    parts = {name: taken(getattr(split, name), rows) for name, rows in kept.items()}
    return replace(split, **parts, early_stopping=split.early_stopping[kept["train"]])


@lru_cache(maxsize=2)
def load_data(task: str, seed: int, *, quick: bool) -> Data:
    """Return a split of a task."""
    data = load(task, seed)
    return with_split(data, shortened(data.split, seed=seed)) if quick else data


def with_split(data: Data, split: Split) -> Data:
    """Return the data of another split of the same task."""
    return replace(data, split=split, on_test=group_recalls(split.test))


def as_black_box(data: Data) -> BlackBox:
    """Return the same rows with a metric that only tells values."""
    return BlackBox(task=data.task, seed=data.seed, split=data.split, on_test=data.on_test)


def as_task(data: Data, model: Any = None) -> Task:
    """Return a split with a model's probabilities: a given one's, or those of logistic regression fitted now."""
    fitted = logistic().fit(data.split.train.X, data.split.train.y) if model is None else model
    return Task(
        name=data.task,
        seed=data.seed,
        split=data.split,
        eta={part: fitted.predict_proba(getattr(data.split, part).X) for part in PARTS},
        on_val=group_recalls(data.split.validation),
        on_test=data.on_test,
    )


def _some(n_rows: int, most: int, rng: np.random.Generator) -> Rows:
    """Return the numbers of some rows, ascending; of all where they are not more."""
    return np.sort(rng.choice(n_rows, size=min(n_rows, most), replace=False))

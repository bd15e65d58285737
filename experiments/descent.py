"""Gradient descent on a linear softmax of two classes, as the authors' program trains everything on Adult.

The model is Keras' dense layer of two columns, drawn at random; batches of 32, step 0.01, 100 epochs. Here the two
columns are one vector, their difference, for which a step counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.model_selection import train_test_split

from experiments.baseline_methods import Data

Floats = NDArray[np.float64]

RATE, BATCH, N_EPOCHS = 0.01, 32, 100
HELD_OUT = 1 / 3  # of the validation rows, where they say which epoch is the best
CLIP = 1e-7  # of probabilities in a logarithm, as in Keras


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows with a column of ones (n, d + 1) and labels 0 or 1 (n,)."""

    X: Floats
    y: Floats

    @classmethod
    def of(cls, X: Floats, y: NDArray[np.intp]) -> Sample:
        """Return rows with their intercept."""
        return cls(np.hstack([X, np.ones((len(X), 1))]), y.astype(np.float64))

    def take(self, rows: NDArray[np.intp]) -> Sample:
        """Return some rows."""
        return Sample(self.X[rows], self.y[rows])


def probability(theta: Floats, rows: Sample) -> Floats:
    """Return the probabilities of label 1."""
    return np.asarray(expit(rows.X @ theta))


def loss(theta: Floats, rows: Sample) -> float:
    """Return the mean cross-entropy."""
    z = rows.X @ theta
    return float(np.mean(np.logaddexp(0, z) - rows.y * z))


def slope(theta: Floats, rows: Sample) -> Floats:
    """Return its gradient."""
    return np.asarray(rows.X.T @ (probability(theta, rows) - rows.y) / len(rows.y))


def corrected(theta: Floats, rows: Sample, transition: Floats) -> tuple[Floats, Floats]:
    """Return the probabilities of label 1 and of the noisy label 1 under a transition."""
    p = probability(theta, rows)
    return p, np.clip((1 - p) * transition[0, 1] + p * transition[1, 1], CLIP, 1 - CLIP)


def corrected_loss(theta: Floats, rows: Sample, *, transition: Floats) -> float:
    """Return the mean cross-entropy of the noisy labels."""
    _, q = corrected(theta, rows, transition)
    return float(-np.mean(rows.y * np.log(q) + (1 - rows.y) * np.log(1 - q)))


def corrected_slope(theta: Floats, rows: Sample, *, transition: Floats) -> Floats:
    """Return its gradient."""
    p, q = corrected(theta, rows, transition)
    pull = (q - rows.y) / (q * (1 - q)) * (transition[1, 1] - transition[0, 1]) * p * (1 - p)
    return np.asarray(rows.X.T @ pull / len(rows.y))


def drawn(n_features: int, rng: np.random.Generator) -> Floats:
    """Return the difference of two columns of Glorot's uniform start, without intercept."""
    limit = np.sqrt(6 / (n_features + 2))
    first, second = rng.uniform(-limit, limit, size=(2, n_features))
    return np.append(second - first, 0.0)


def descent(
    theta: Floats,
    rows: Sample,
    *,
    rng: np.random.Generator,
    rate: float = RATE,
    n_epochs: int = N_EPOCHS,
    batch: int = BATCH,
    gradient: Callable[[Floats, Sample], Floats] = slope,
) -> Iterator[Floats]:
    """Yield the parameters after each epoch."""
    for _ in range(n_epochs):
        order = rng.permutation(len(rows.y))
        for begin in range(0, len(order), batch):
            theta = theta - 2 * rate * gradient(theta, rows.take(order[begin : begin + batch]))
        yield theta


def least(thetas: Iterable[Floats], value: Callable[[Floats], float]) -> Floats:
    """Return the parameters with the least value."""
    return min(thetas, key=value)


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """A split, and the authors' base model on it."""

    data: Data
    train: Sample
    stopping: Sample
    val: Sample
    test: Sample
    base: Floats

    @classmethod
    def of(cls, data: Data) -> Setting:
        """Train the base model on two thirds of the training rows; the rest says which epoch is the best."""
        split = data.split
        everything = Sample.of(split.train.X, split.train.y)
        stopping = everything.take(np.flatnonzero(split.early_stopping))
        train = everything.take(np.flatnonzero(~split.early_stopping))
        rng = np.random.default_rng(data.seed)
        thetas = descent(drawn(split.train.X.shape[1], rng), train, rng=rng)
        return cls(
            data=data,
            train=train,
            stopping=stopping,
            val=Sample.of(split.validation.X, split.validation.y),
            test=Sample.of(split.test.X, split.test.y),
            base=least(thetas, partial(loss, rows=stopping)),
        )

    @property
    def rng(self) -> np.random.Generator:
        """The same random numbers for every variant."""
        return np.random.default_rng([self.data.seed, 1])

    def score(self, theta: Floats) -> float:
        """Return the test metric of the likelier labels."""
        return self.data.score((self.test.X @ theta > 0).astype(np.intp))

    def new(self, rng: np.random.Generator) -> Floats:
        """Return parameters drawn at random."""
        return drawn(self.val.X.shape[1] - 1, rng)

    def parts_of_val(self) -> tuple[Sample, Sample]:
        """Return two thirds of the validation rows and the rest."""
        kept, left = train_test_split(
            np.arange(len(self.val.y)), test_size=HELD_OUT, stratify=self.val.y, random_state=self.data.seed
        )
        return self.val.take(kept), self.val.take(left)

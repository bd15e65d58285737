"""Synthetic problems whose truth is known: eight where the model is already optimal, six where a shift gains.

Classes are normal clouds around points of a circle, so the posterior of a row is known, and the score of any rule is
known up to the 100,000 rows that it is computed on (``Setting.truth``): the confusion matrix is summed over posteriors,
not over labels. A model is *optimal* if its probabilities carry the weights that maximise the metric, or if the metric
is an accuracy and they are the posterior: then every gain is noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from postshift import Rows
from postshift.metrics import resolve_metric
from postshift.rules import Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
TRUTH_ROWS, SEARCH_ROWS = 100_000, 40_000
FLOOR = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """Rows drawn from a setting: posterior, label and group, and what the model says."""

    posterior: Floats
    labels: Ints
    groups: Ints | None
    eta: Floats

    @property
    def bases(self) -> dict[str, Floats]:
        """The groups as a basis, where there are any."""
        return {} if self.groups is None else {"groups": np.eye(2)[self.groups]}

    def rows(self) -> Rows:
        """Return the rows as rules read them."""
        return Rows.of(self.eta, bases=self.bases, labels=self.labels)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One kind of problem.

    Attributes
    ----------
    name, metric : str
        ``metric`` is a name of the catalogue.
    prior : tuple of float
        Of the classes.
    apart : float
        Radius of the circle; the clouds have a standard deviation of 1.
    tuned : bool
        Whether the model carries the weights that maximise the metric.
    shift : tuple, optional
        What the model's log-probabilities are wrong by, for each class, or for each group and class.
    far : tuple of float, optional
        Factors of ``apart`` in two groups.
    """

    name: str
    metric: str
    prior: tuple[float, ...]
    apart: float
    tuned: bool = False
    shift: Any = None
    far: tuple[float, float] | None = None

    @property
    def gains(self) -> bool:
        """Whether there is something to gain."""
        return self.name.endswith("to gain")

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.prior)

    @property
    def resolved(self) -> Any:
        """The metric itself."""
        n_groups = None if self.far is None else 2
        return resolve_metric(self.metric, classes=np.arange(self.n_classes), n_groups=n_groups)

    def draw(self, n_rows: int, rng: np.random.Generator) -> Drawn:
        """Draw rows; the model is what the setting says."""
        posterior, labels, groups = self._raw(n_rows, rng)
        logs = np.log(np.maximum(posterior, FLOOR)) + self._tuning
        if self.shift is not None:
            wrong = np.asarray(self.shift, dtype=np.float64)
            logs = logs + (wrong if wrong.ndim == 1 else wrong[groups])
        return Drawn(posterior=posterior, labels=labels, groups=groups, eta=softmax(logs, axis=1))

    def problem(self, drawn: Drawn) -> Problem:
        """Return the problem of shifting the model by these rows."""
        return Problem.labelled(None, drawn.rows(), self.resolved, groups=drawn.groups)

    def truth(self, labels: Ints) -> float:
        """Return the score of labels of the rows of the truth."""
        return self._expected(labels, self.population.posterior, self.population.groups)

    @cached_property
    def population(self) -> Drawn:
        """The rows that the truth is computed on."""
        return self.draw(TRUTH_ROWS, np.random.default_rng(1))

    def _raw(self, n_rows: int, rng: np.random.Generator) -> tuple[Floats, Ints, Ints | None]:
        """Draw posterior, label and group."""
        labels = rng.choice(self.n_classes, size=n_rows, p=self.prior)
        groups = None if self.far is None else rng.integers(2, size=n_rows)
        scale = np.ones(n_rows) if groups is None else np.asarray(self.far)[groups]
        angle = 2 * np.pi * np.arange(self.n_classes) / self.n_classes
        centres = self.apart * np.column_stack([np.cos(angle), np.sin(angle)])
        x = scale[:, None] * centres[labels] + rng.normal(size=(n_rows, 2))
        squares = ((x[:, None] - scale[:, None, None] * centres) ** 2).sum(axis=-1)
        return softmax(np.log(self.prior) - squares / 2, axis=1), labels, groups

    def _expected(self, labels: Ints, posterior: Floats, groups: Ints | None) -> float:
        """Return the metric of the confusion matrix that the posterior expects."""
        n_groups, n_classes = 1 if groups is None else 2, self.n_classes
        table = np.zeros((n_groups, n_classes, n_classes))
        where = np.zeros(len(labels), dtype=np.intp) if groups is None else groups
        for group in range(n_groups):
            for label in range(n_classes):
                table[group, :, label] = posterior[(where == group) & (labels == label)].sum(axis=0)
        return float(self.resolved.value(table.reshape(-1, n_classes) / len(labels)))

    @cached_property
    def _tuning(self) -> Floats:
        """The logarithms of the weights that maximise the metric, where the model carries them."""
        if not self.tuned:
            return np.zeros(self.n_classes)
        posterior, _, groups = self._raw(SEARCH_ROWS, np.random.default_rng(2))
        logs = np.log(np.maximum(posterior, FLOOR))

        def loss(weights: Floats) -> float:
            return -self._expected(np.argmax(logs + np.append(0, weights), axis=1), posterior, groups)

        starts = np.zeros(self.n_classes - 1), np.log(self.prior[0]) - np.log(self.prior[1:])
        found = [minimize(loss, start, method="Nelder-Mead", options=_simplex(start)) for start in starts]
        return np.append(0, min(found, key=lambda each: float(each.fun)).x)


def _simplex(start: Floats) -> dict[str, Any]:
    """Return the options of the search: steps of 0.4 to begin with."""
    steps = np.vstack([start, start + 0.4 * np.eye(len(start))])
    return {"initial_simplex": steps, "maxfev": 200 * len(start), "xatol": 1e-3, "fatol": 1e-6}


@cache
def settings() -> dict[str, Setting]:
    """Return all settings by name, those without anything to gain first."""
    every = (
        Setting(name="accuracy, 2 classes", metric="accuracy", prior=(0.5, 0.5), apart=0.8),
        Setting(name="accuracy, 3 classes", metric="accuracy", prior=(0.6, 0.25, 0.15), apart=1.2),
        Setting(name="accuracy, 5 classes", metric="accuracy", prior=(0.2,) * 5, apart=1.6),
        Setting(name="G-mean, 3 classes", metric="g_mean", prior=(0.5, 0.3, 0.2), apart=1.3, tuned=True),
        Setting(name="minimum recall, 3 classes", metric="min_recall", prior=(0.4, 0.35, 0.25), apart=1.3, tuned=True),
        Setting(name="Matthews, 2 classes", metric="matthews_corrcoef", prior=(0.7, 0.3), apart=0.8, tuned=True),
        Setting(
            name="macro-F1, 5 classes", metric="f1_macro", prior=(0.3, 0.25, 0.2, 0.15, 0.1), apart=1.8, tuned=True
        ),
        Setting(name="worst group", metric="worst_group_accuracy", prior=(0.6, 0.4), apart=0.8, far=(1.0, 0.8)),
        Setting(name="G-mean, 3 classes, to gain", metric="g_mean", prior=(0.75, 0.15, 0.1), apart=1.2),
        Setting(name="macro-F1, 5 classes, to gain", metric="f1_macro", prior=(0.5, 0.2, 0.15, 0.1, 0.05), apart=1.6),
        Setting(
            name="accuracy, 3 classes, to gain",
            metric="accuracy",
            prior=(0.4, 0.35, 0.25),
            apart=1.1,
            shift=(1.5, 0.0, -1.0),
        ),
        Setting(name="minimum recall, 3 classes, to gain", metric="min_recall", prior=(0.6, 0.25, 0.15), apart=1.2),
        Setting(
            name="Matthews, 2 classes, to gain",
            metric="matthews_corrcoef",
            prior=(0.7, 0.3),
            apart=0.8,
            shift=(1.2, 0.0),
        ),
        Setting(
            name="worst group, to gain",
            metric="worst_group_accuracy",
            prior=(0.5, 0.5),
            apart=0.9,
            far=(1.0, 1.0),
            shift=((0.0, 0.0), (1.5, 0.0)),
        ),
    )
    return {each.name: each for each in every}

"""The metric as the rivals of the default may use it: a function of labels of validation rows that counts its calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postshift import Rows
from postshift.rules import Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Labeller = Callable[[Floats], Ints]  # from probabilities (n, m) to labels (n,)


def is_of_matrix(metric: Any) -> bool:
    """Return whether a metric is a known function of the confusion matrix; otherwise it is f(y_true, y_pred)."""
    return hasattr(metric, "value")


@dataclass(eq=False)
class Counter:
    """How often the metric was asked."""

    n_queries: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Value:
    """The metric on validation rows; a call takes labels (n,) and returns the value, and more is better.

    Attributes
    ----------
    metric : object
        A metric with ``value(confusion matrix)``, or a function f(y_true, y_pred) that is maximised.
    eta, y, groups : ndarray
        Probabilities (n, m), labels (n,) and groups (n,) of the rows; the groups may be None.
    counter : Counter
        The count of the calls; the parts of a sample share it.
    """

    metric: Any
    eta: Floats
    y: Ints
    groups: Ints | None = None
    counter: Counter = field(default_factory=Counter)
    _problem: Problem | None = field(default=None, repr=False)

    @classmethod
    def of(cls, data: Any, metric: Any) -> Value:
        """Return the metric on the validation rows of a task."""
        problem = problem_of(data, metric) if is_of_matrix(metric) else None
        return cls(metric=metric, eta=data.eta_val, y=data.y_val, groups=data.group_val, _problem=problem)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.eta.shape[1]

    def take(self, rows: Ints) -> Value:
        """Return the metric on some of the rows; the calls are counted together."""
        groups = None if self.groups is None else self.groups[rows]
        problem = None if self._problem is None else self._problem.take(rows)
        return replace(self, eta=self.eta[rows], y=self.y[rows], groups=groups, _problem=problem)

    def __call__(self, labels: Ints) -> float:
        """Return the metric of labels; a value that is not a number counts as the worst."""
        self.counter.n_queries += 1
        if self._problem is None:
            found = float(self.metric(self.y, labels))
        else:
            found = float(self._problem.metric_of(self._problem.label_confusion(labels)))
        return -np.inf if np.isnan(found) else found


def problem_of(data: Any, metric: Any) -> Problem:
    """Return the problem of the validation rows, without training rows; a class without rows is no news here.

    The groups are given to metrics over groups only.
    """
    groups = data.group_val if hasattr(metric, "n_categories") else None
    with warnings.catch_warnings(action="ignore"):
        return Problem.labelled(None, Rows.of(data.eta_val, labels=data.y_val), metric, groups=groups)


def weighted(weights: Floats) -> Labeller:
    """Return the rule ``argmax_k w_k eta_k``."""
    return lambda eta: np.asarray((eta * weights).argmax(axis=1), dtype=np.intp)


def folds(y: Ints, n_folds: int, *, seed: int = 0) -> list[tuple[Ints, Ints]]:
    """Return the rows outside and inside of each fold; the folds share the rows of every class evenly."""
    order = np.lexsort((np.random.default_rng(seed).random(len(y)), y))
    place = np.empty(len(y), dtype=np.intp)
    place[order] = np.arange(len(y)) % n_folds
    return [(np.flatnonzero(place != fold), np.flatnonzero(place == fold)) for fold in range(n_folds)]

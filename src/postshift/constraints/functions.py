"""Constraints on a user's function of labels: only its value is known, on rows with labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from postshift._validation import IntArray
from postshift.constraints.terms import Constraint
from postshift.core.queries import Query
from postshift.exceptions import MetricError, SettingError
from postshift.metrics.adapters import LabelFunction
from postshift.metrics.asking import LabelOracle
from postshift.metrics.resolve import metadata_names

N_DRAWS = 100  # of rows with replacement, for a standard error
_TRIES = 100  # draws until every class is among the rows


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundedFunction:
    """A constraint on a function of labels.

    Attributes
    ----------
    constraint : Constraint
        The constraint as it was written.
    function : LabelFunction
        What is bounded; its sign is not changed.
    oracle : LabelOracle, optional
        The function with the labels of some rows; see :meth:`on`.
    labels : array of shape (n,)
        The labels of these rows, as positions.
    """

    constraint: Constraint
    function: LabelFunction
    oracle: LabelOracle | None = None
    labels: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp), repr=False)

    def on(
        self, labels: IntArray | None, *, classes: Any, weights: Any, metadata: Mapping[str, Any]
    ) -> BoundedFunction:
        """Return the constraint for rows with labels; ``metadata`` may have more than the function reads."""
        text = str(self.constraint)
        if labels is None:
            raise MetricError(f"{text!r} needs validation labels: its function reads y_true. Give y_val")
        if missing := sorted(set(self.function.metadata) - set(metadata)):
            raise SettingError(
                f"{text!r} needs {missing[0]!r}, one value for each row: pass it as fit(..., {missing[0]}=...)"
            )
        read = {*self.function.metadata, *metadata_names(self.constraint.term.metric)}
        own = {name: values for name, values in metadata.items() if name in read}
        function = replace(self.function, metadata=tuple(own))
        oracle = LabelOracle(function, labels, classes=classes, weights=weights, metadata=own)
        return replace(self, function=function, oracle=oracle, labels=labels)

    def value(self, predicted: IntArray, rows: IntArray | None = None) -> float:
        """Return the function of predicted labels, as positions, of these rows; None for all."""
        about: Any = {"kind": "hard", "text": f"labels for the constraint {str(self.constraint)!r}"}
        name, n_rows = self.function.name, len(self.labels)
        return self.answer(Query(key=name, n_rows=n_rows, rows=rows, _predict=lambda: predicted, **about))

    def answer(self, query: Query) -> float:
        """Return the function of the predictions of a query."""
        assert self.oracle is not None  # noqa: S101
        return self.oracle.answer(query)

    def miss(self, value: float) -> float:
        """Return by how much a value misses the bound; negative if there is room."""
        return self.constraint.sign * (value - self.constraint.bound)

    def standard_error(self, predicted: IntArray, rows: IntArray | None = None, *, n_draws: int = N_DRAWS) -> float:
        """Return the standard error of the function, from rows that are drawn with replacement, always the same."""
        places = np.arange(len(self.labels)) if rows is None else rows
        rng, found = np.random.default_rng(0), []
        for _ in range(n_draws):
            drawn = _with_every_class(self.labels[places], rng)
            found.append(self.value(predicted[drawn], places[drawn]))
        return float(np.std(np.asarray(found, dtype=np.float64)))


def _with_every_class(labels: IntArray, rng: np.random.Generator) -> IntArray:
    """Return places drawn with replacement that have every class, which a function may need."""
    n_classes = len(np.unique(labels))
    for _ in range(_TRIES):
        drawn = rng.integers(len(labels), size=len(labels))
        if len(np.unique(labels[drawn])) == n_classes:
            break
    return drawn

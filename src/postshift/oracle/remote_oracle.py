"""A service as an oracle of the core: queries become bodies, and answers become counts, matrices and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from postshift._validation import FloatArray, IntArray
from postshift.core.queries import KindName, Query
from postshift.exceptions import MetricError, ShapeError
from postshift.oracle.wire import GRID, MICRO, encoded, on_grid

if TYPE_CHECKING:
    from postshift.oracle.client import RemoteMetric


class RemoteOracle:
    """A service as an oracle of the core.

    Parameters
    ----------
    metric : RemoteMetric
        The connection.
    kind : {"table", "confusion", "soft", "hard"}
        The kind of query.
    order : array of int
        For each class here, its position at the service.
    """

    takes_subsets = False

    def __init__(self, metric: RemoteMetric, *, kind: KindName, order: IntArray) -> None:
        self.kind, self._metric, self._order = kind, metric, order
        self._private = metric.about.is_private
        self._share = self._affordable()
        self.name = metric.about.metric_name

    @property
    def noise(self) -> float:
        """The standard deviation of a count of rows; 0 for exact answers."""
        return math.sqrt(MICRO / self._share) if self._private else 0.0

    @property
    def most_cells(self) -> int:
        """The most cells of a table that the service answers."""
        about = self._metric.about
        n_columns = 1 if self._metric.asks("table") else len(about.classes)
        return about.most_counts // (about.n_categories * n_columns)

    def expect(self, n_queries: int) -> None:
        """Divide what may be spent among this many queries."""
        self._share = max(1, self._affordable() // max(1, n_queries)) if self._private else 1

    def answer(self, query: Query) -> Any:
        """Return the answer to a query."""
        if query.rows is not None:
            raise MetricError("the service scores all validation rows at once, so they cannot be split")
        if query.n_rows != self._metric.about.n_rows:
            raise ShapeError(
                f"there are {query.n_rows} validation rows here and {self._metric.about.n_rows} at {self._metric.url}: "
                "give its rows, in its order (RemoteMetric.rows)"
            )
        answers: dict[str, Callable[[Query], Any]] = {"table": self._table, "confusion": self._confusion}
        return answers.get(query.kind, self._value)(query)

    def _affordable(self) -> int:
        """Return the micro-rho that a fit may spend, or 1 query; always the same, so that a second fit is free."""
        if not self._private:
            return 1
        rho = self._metric.rho
        return self._metric.about.allowance if rho is None else round(rho * MICRO)

    def _asked(self, kind: str, *, shape: tuple[int, ...], **arrays: dict[str, Any]) -> NDArray[Any]:
        """Return the answer of the service."""
        return self._metric.asked({"kind": kind, "cost": self._share, **arrays}, shape=shape)

    @property
    def _of_matrix(self) -> tuple[int, int]:
        """The shape (R, m) of a confusion matrix."""
        return self._metric.about.n_categories, len(self._order)

    def _table(self, query: Query) -> FloatArray:
        """Return the counts (K, R) of a partition; without tables, from the confusion matrices of constant labels."""
        cells, n_cells = encoded(query.predictions, "u4"), int(np.max(query.predictions)) + 1
        if self._metric.asks("table"):
            counts = self._asked("table", shape=(n_cells, self._of_matrix[0]), cells=cells)
        else:
            labels = encoded(np.zeros(query.n_rows, dtype=np.intp), "u1")
            matrices = self._asked("confusion", shape=(n_cells, *self._of_matrix), predictions=labels, cells=cells)
            counts = matrices[:, :, 0] / GRID
        return np.asarray(counts[:, self._categories], dtype=np.float64)

    def _value(self, query: Query) -> float:
        """Return the metric of predictions."""
        found = float(self._asked("value", shape=(), predictions=self._shown(query)))
        if not math.isfinite(found):
            raise MetricError(
                f"{self._metric.url} answered {found}: the owner's metric has no value for these predictions, or "
                "raised an error. Tell the owner"
            )
        return found

    def _confusion(self, query: Query) -> FloatArray:
        """Return confusion matrices (1 + L, R, m)."""
        shown, columns = self._shown(query), np.asarray(query.columns, dtype=np.float64)
        if not self._private:
            shape = columns.shape[1], *self._of_matrix
            found = self._asked("confusion", shape=shape, predictions=shown, columns=encoded(columns, "f8"))
            return np.asarray(found[:, self._categories][:, :, self._order], dtype=np.float64)
        patterns, cells = np.unique(columns, axis=0, return_inverse=True)
        shape = len(patterns), *self._of_matrix
        noisy = self._asked("confusion", shape=shape, predictions=shown, cells=encoded(cells.reshape(-1), "u4"))
        counts = noisy[:, self._categories][:, :, self._order] / GRID
        whole = onto_sums(counts, _sums_in(cells.reshape(-1), on_grid(query.predictions) / GRID, n_cells=len(patterns)))
        return np.asarray(np.einsum("kl,krm->lrm", patterns, whole) / query.n_rows)

    @property
    def _categories(self) -> IntArray:
        """For each category here, its position at the service."""
        n_groups = self._metric.about.n_categories // len(self._order)
        return (np.arange(n_groups)[:, None] * len(self._order) + self._order).reshape(-1)

    def _shown(self, query: Query) -> dict[str, Any]:
        """Return predictions as a field of a body, with the classes in the order of the service."""
        shown = query.predictions
        if query.kind == "hard":
            return encoded(self._order[shown], "u4")
        table = np.empty_like(np.asarray(shown, dtype=np.float64))
        table[:, self._order] = on_grid(shown) if self._private else shown
        return encoded(table, "u2" if self._private else "f8")


def onto_sums(counts: FloatArray, sums: FloatArray) -> FloatArray:
    """Return the nearest table (K, R, m) without negative entries whose sums over R are those (K, m) given.

    The learner knows how much of each class it predicted in each cell, so noise cannot change that.
    """
    ordered = -np.sort(-counts, axis=1)
    places = np.arange(1, counts.shape[1] + 1)[None, :, None]
    excess = (np.cumsum(ordered, axis=1) - sums[:, None, :]) / places
    last = np.maximum((ordered > excess).sum(axis=1, keepdims=True), 1)
    return np.maximum(counts - np.take_along_axis(excess, last - 1, axis=1), 0)


def _sums_in(cells: IntArray, shown: FloatArray, *, n_cells: int) -> FloatArray:
    """Return the sums (K, m) of predictions in each cell."""
    found = np.zeros((n_cells, shown.shape[1]))
    np.add.at(found, cells, shown)
    return found

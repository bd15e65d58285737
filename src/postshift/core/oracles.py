"""Oracles on this machine: from validation labels, or from functions of predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray, check_count, check_labels, check_rows, check_weights
from postshift.core.psi import ConfusionMetric, maximised
from postshift.core.queries import KindName, Oracle, Query
from postshift.core.rows import Rows
from postshift.core.sums import categories_of, missing_categories, weighted_confusions
from postshift.exceptions import LabelError, MetricError, MissingClassError, MissingClassWarning, ShapeError


def metric_and_oracle(
    metric: ConfusionMetric | Oracle, oracle: Oracle | None, val: Rows
) -> tuple[ConfusionMetric | None, Oracle]:
    """Return psi, if it is known, and the oracle: the given one, or one made of the validation labels."""
    if isinstance(metric, ConfusionMetric):
        psi = maximised(metric)
        return psi, oracle or _label_oracle(psi, val)
    if isinstance(metric, type) or not hasattr(metric, "answer"):
        raise MetricError(
            "metric must be a function of the confusion matrix (GMean(), MacroF1(), ...) or an oracle "
            f"(SoftOracle(f), HardOracle(f), ...). Got {metric!r} instead"
        )
    if val.weights is not None:
        raise MetricError("validation weights belong to the oracle: give them to the oracle, not to val")
    return None, metric


def _label_oracle(metric: ConfusionMetric, val: Rows) -> Oracle:
    """Return an oracle made of the validation labels."""
    if val.labels is None:
        raise LabelError(
            f"metric {metric.name!r} is a function of the confusion matrix and needs validation labels: "
            "pass labels=... to Rows.of, or give an oracle"
        )
    return ConfusionOracle(val.labels, n_classes=val.n_classes, weights=val.weights, metric=metric)


class ConfusionOracle:
    """Answers with confusion matrices, computed from validation labels.

    Parameters
    ----------
    labels : array of shape (n,)
        True classes ``0..n_classes-1`` of the validation rows.
    n_classes : int
        Number of classes m.
    weights : array of shape (n,), optional
        Sample weights.
    groups : array of shape (n,), optional
        For group-wise metrics: the group ``0..n_groups-1`` of each row. The rows of the matrices are then
        (group, class) pairs, ``group * n_classes + class``.
    metric : ConfusionMetric, optional
        The metric that will read the matrices: a class without rows is an error if the metric needs
        its recall (``needs_every_class``), otherwise a warning.
    """

    kind: KindName = "confusion"
    takes_subsets = True

    def __init__(
        self,
        labels: Any,
        *,
        n_classes: int,
        weights: Any = None,
        groups: Any = None,
        metric: ConfusionMetric | None = None,
    ) -> None:
        self._n_classes = check_count(n_classes, name="n_classes", low=2)
        n_rows = np.size(labels)
        check_rows(n_rows, name="validation")
        self._metric = metric
        found = check_labels(labels, n_rows=n_rows, n_classes=n_classes, name="validation labels")
        self.n_categories = int(getattr(metric, "n_categories", n_classes))
        if groups is not None and metric is None:
            self.n_categories = (int(np.max(groups)) + 1) * n_classes
        self.categories = categories_of(found, groups, n_classes=n_classes, n_categories=self.n_categories)
        given = check_weights(weights, n_rows=n_rows, name="validation weights")
        self._weights: FloatArray = np.ones(n_rows) if given is None else given
        if missing := self._missing(slice(None)):
            warnings.warn(f"{missing}: its weight cannot be learnt", MissingClassWarning, stacklevel=2)

    def answer(self, query: Query) -> FloatArray:
        """Return the matrices (1 + L, R, m) of the predictions."""
        rows: Any = slice(None) if query.rows is None else query.rows
        columns, shown = query.columns, query.predictions
        if columns is None:
            raise MetricError(f"query {query.key!r} has no columns: this oracle answers kind 'confusion' only")
        if query.n_rows != len(self.categories) or shown.shape[1] != self._n_classes:
            raise ShapeError(
                f"query {query.key!r} is about {query.n_rows} validation rows and {shown.shape[1]} classes; "
                f"this oracle holds the labels of {len(self.categories)} rows and {self._n_classes} classes"
            )
        weights, categories = self._weights[rows], self.categories[rows]
        if query.rows is not None:
            self._missing(rows)
        if not weights.any():
            raise MetricError(f"query {query.key!r} is about rows that all have weight 0")
        shares = columns * (weights / weights.sum())[:, None]
        return weighted_confusions(shares, categories, shown, n_categories=self.n_categories)

    def _missing(self, rows: Any) -> str:
        """Return a text that names the classes without rows; raise if the metric needs their recall."""
        size = {"n_classes": self._n_classes, "n_categories": self.n_categories}
        what = missing_categories(self.categories[rows], self._weights[rows], **size)
        if what and self._metric is not None and getattr(self._metric, "needs_every_class", False):
            raise MissingClassError(
                f"{what}, but metric {self._metric.name!r} needs its recall: add rows of it, or choose a metric that "
                "is defined without it"
            )
        return what


class TableOracle:
    """Answers with the counts of the categories in each cell of a partition of the validation rows.

    Parameters
    ----------
    labels : array of shape (n,)
        True classes ``0..n_classes-1`` of the validation rows.
    n_classes : int
        Number of classes m.
    groups : array of shape (n,), optional
        For group-wise metrics: the group ``0..n_groups-1`` of each row. The categories are then (group, class) pairs.
    metric : ConfusionMetric, optional
        The metric of the confusion matrix.

    Examples
    --------
    >>> oracle = TableOracle([0, 1, 1], n_classes=2)
    >>> oracle.counts(np.array([0, 0, 1])).tolist()
    [[1, 1], [0, 1]]
    """

    kind: KindName = "table"
    takes_subsets = False

    def __init__(
        self, labels: Any, *, n_classes: int, groups: Any = None, metric: ConfusionMetric | None = None
    ) -> None:
        known = ConfusionOracle(labels, n_classes=n_classes, groups=groups, metric=metric)
        self._categories, self._n_categories = known.categories, known.n_categories

    def counts(self, cells: IntArray) -> IntArray:
        """Return the counts (K, R) of the categories in each cell."""
        n_cells = int(np.max(cells)) + 1
        places = np.asarray(cells, dtype=np.intp) * self._n_categories + self._categories
        return np.bincount(places, minlength=n_cells * self._n_categories).reshape(n_cells, self._n_categories)

    def answer(self, query: Query) -> IntArray:
        """Return the counts of the query's partition."""
        if query.kind != self.kind or query.rows is not None or query.n_rows != len(self._categories):
            raise ShapeError(
                f"query {query.key!r} is of kind {query.kind!r} about {query.n_rows} validation rows; this oracle "
                f"counts its {len(self._categories)} rows in the cells of a partition"
            )
        return self.counts(query.predictions)


class SoftOracle:
    """Answers with a function of class distributions (n, m): the randomised classifier is scored exactly.

    Parameters
    ----------
    function : callable
        ``f(distributions) -> number``. It always gets all validation rows. Greater is better; if the function has
        ``greater_is_better = False`` (see ``from_predictions``), its values are negated.

    Examples
    --------
    >>> oracle = SoftOracle(lambda table: table[:, 1].mean())
    >>> oracle.kind, oracle.takes_subsets
    ('soft', False)
    """

    kind: KindName = "soft"
    takes_subsets = False

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def answer(self, query: Query) -> Any:
        """Return the function's value of the predictions."""
        return _call(self._function, query)


class HardOracle:
    """Answers with a function of labels (n,), for metrics that take labels only.

    Parameters
    ----------
    function : callable
        ``f(labels) -> number``. It always gets all validation rows. Greater is better; if the function has
        ``greater_is_better = False`` (see ``from_predictions``), its values are negated.
    """

    kind: KindName = "hard"
    takes_subsets = False

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def answer(self, query: Query) -> Any:
        """Return the function's value of the predictions."""
        return _call(self._function, query)


def _call(function: Callable[[Any], Any], query: Query) -> Any:
    """Call a user's metric with the predictions of all rows."""
    if query.rows is not None:
        raise MetricError(
            f"query {query.key!r} is about {len(query.rows)} rows only, but this oracle only scores all rows at once: "
            "use confusion queries for a split validation sample"
        )
    shown = np.array(query.predictions)  # a copy: the function may change it
    if not getattr(function, "greater_is_better", True):
        return mapped(lambda: -function(shown), query)
    return mapped(lambda: function(shown), query)


def mapped(call: Callable[[], Any], query: Query) -> Any:
    """Call a user's metric; raise its errors as MetricError, with the name of the query."""
    try:
        return call()
    except Exception as error:
        raise MetricError(
            f"the metric raised {type(error).__name__} at query {query.key!r} ({query.text}): {error}"
        ) from error

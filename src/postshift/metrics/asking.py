"""Oracles that answer the loop's queries with a user's function of labels or of predictions (see ``adapters``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from postshift._validation import FloatArray, IntArray, check_labels, check_rows, check_weights
from postshift.core.oracles import HardOracle, SoftOracle, mapped
from postshift.core.queries import KindName, Query
from postshift.exceptions import MetricError, SettingError, ShapeError
from postshift.metrics.adapters import LabelFunction, PredictionFunction


class LabelOracle:
    """Answers with a function of true and predicted labels, from validation labels held here.

    A function that takes weights gets each row of a randomised classifier once for each possible label, with the
    label's probability times the row's weight, so its value is exact. Other functions get labels drawn at random. The
    answers are signed so that greater is better.

    Parameters
    ----------
    function : LabelFunction
        The function (``from_labels``).
    labels : array of shape (n,)
        True classes of the validation rows, as positions ``0..m-1`` in ``classes``.
    classes : array of shape (m,)
        The user's class labels; the function sees these.
    weights : array of shape (n,), optional
        Sample weights; the function must take them.
    metadata : mapping of str to array of shape (n, ...), optional
        The further arguments of the function, one value a row.

    Examples
    --------
    >>> from postshift.metrics import from_labels
    >>> def hits(y_true, y_pred, sample_weight):
    ...     return np.average(y_true == y_pred, weights=sample_weight)
    >>> oracle = LabelOracle(from_labels(hits), [0, 1, 1], classes=["ham", "spam"])
    >>> oracle.kind, oracle.takes_subsets
    ('soft', True)
    """

    takes_subsets = True

    def __init__(
        self,
        function: LabelFunction,
        labels: Any,
        *,
        classes: Any,
        weights: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.kind: KindName = "soft" if function.takes_weights else "hard"
        self.name, self._function, self._classes = function.name, function, np.asarray(classes)
        n_rows = np.size(labels)
        check_rows(n_rows, name="validation")
        self._labels = check_labels(labels, n_rows=n_rows, n_classes=len(self._classes), name="validation labels")
        given = check_weights(weights, n_rows=n_rows, name="validation weights")
        if given is not None and not function.takes_weights:
            raise MetricError(
                f"metric {function.name!r} takes no sample_weight, but the validation rows have weights: "
                "give the function an argument sample_weight, or leave the weights out"
            )
        self._weights: FloatArray = np.ones(n_rows) if given is None else given
        self._metadata = _per_row(metadata or {}, function, n_rows=n_rows)

    def answer(self, query: Query) -> float:
        """Return the value of the function; greater is better."""
        if query.n_rows != len(self._labels):
            raise ShapeError(
                f"query {query.key!r} is about {query.n_rows} validation rows; "
                f"this oracle holds the labels of {len(self._labels)}"
            )
        rows: IntArray = np.arange(query.n_rows) if query.rows is None else np.asarray(query.rows)
        shown = query.predictions
        if query.kind == "hard":
            return self._value(query, rows, shown, self._weights[rows])
        if query.kind != "soft" or not self._function.takes_weights:
            raise MetricError(f"query {query.key!r} is of kind {query.kind!r}, which this oracle cannot serve")
        weights = shown * self._weights[rows][:, None]
        places, predicted = np.nonzero(weights > 0)
        return self._value(query, rows[places], predicted, weights[places, predicted])

    def _value(self, query: Query, rows: IntArray, predicted: IntArray, weights: FloatArray) -> float:
        """Return the function of these rows, which may be repeated."""
        if not weights.any():
            raise MetricError(f"query {query.key!r} is about rows that all have weight 0")
        function, truth = self._function, self._classes[self._labels[rows]]
        metadata = {name: values[rows] for name, values in self._metadata.items()}
        found: float = mapped(
            lambda: function(
                truth,
                self._classes[predicted],
                weights=weights if function.takes_weights else None,
                metadata=metadata,
            ),
            query,
        )
        return function.sign * found


class PredictionOracle:
    """Answers with a function of predictions that has its own labels; greater is better.

    Parameters
    ----------
    function : PredictionFunction
        The function (``from_predictions``).
    classes : array of shape (m,)
        The user's class labels; a function of labels sees these.

    Examples
    --------
    >>> from postshift.metrics import from_predictions
    >>> oracle = PredictionOracle(from_predictions(len), classes=["ham", "spam"])
    >>> oracle.kind, oracle.takes_subsets
    ('hard', False)
    """

    takes_subsets = False

    def __init__(self, function: PredictionFunction, *, classes: Any) -> None:
        self.kind: KindName = "soft" if function.soft else "hard"
        self.name, self._function, self._classes = function.name, function, np.asarray(classes)
        self._oracle = SoftOracle(self._value) if function.soft else HardOracle(self._value)

    def answer(self, query: Query) -> Any:
        """Return the value of the function."""
        if query.kind != self.kind:
            raise MetricError(f"query {query.key!r} is of kind {query.kind!r}; this oracle serves {self.kind!r}")
        return self._oracle.answer(query)

    def _value(self, shown: Any) -> float:
        """Return the function of distributions, or of labels in the user's classes."""
        return self._function.sign * self._function(shown if self._function.soft else self._classes[shown])


def _per_row(metadata: Mapping[str, Any], function: LabelFunction, *, n_rows: int) -> dict[str, Any]:
    """Return the further arguments as arrays; raise unless they are those that the function takes."""
    if set(metadata) != set(function.metadata):
        raise SettingError(
            f"metric {function.name!r} needs the metadata {sorted(function.metadata)}. Got {sorted(metadata)} instead"
        )
    arrays = {name: np.asarray(values) for name, values in metadata.items()}
    for name, values in arrays.items():
        if values.ndim == 0 or len(values) != n_rows:
            raise ShapeError(
                f"metadata {name!r} must have one value per row ({n_rows} rows). Got shape {values.shape} instead"
            )
    return arrays

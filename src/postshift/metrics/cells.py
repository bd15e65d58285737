"""A function of labels and weights, as a metric of the confusion matrix."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from postshift._validation import FloatArray, check_in_range
from postshift.exceptions import MetricError, ShapeError
from postshift.metrics.adapters import LabelFunction, mapped

_TOLERANCE = 1e-9  # relative and absolute, between the values of the function on rows and on cells


@dataclass(frozen=True, eq=False)
class CellMetric:
    """A metric psi(C) that calls a function of labels and weights on the cells of C.

    The function gets one row for each cell with weight: true class i, predicted class j, weight ``total * C_ij``. This
    is exact if its value depends only on the total weight of each cell; ``agrees`` checks that on some rows. A function
    that does not read weights gets ``total * C_ij`` rows for each cell instead, rounded to a whole number. A loss is
    negated, so that greater is better.

    Parameters
    ----------
    function : LabelFunction
        The function. It must take no metadata and, unless it is called on whole rows, weights.
    classes : array of shape (m,)
        The class labels, by position.
    total : float, default=1.0
        The sum of the weights of all cells, for functions that compute a sum and not an average.
    weighting : {"diagonal", "columns", "full"}, default="full"
        The entries of C that the metric depends on.
    whole_rows : bool, default=False
        Whether the function is called without weights, on whole rows.

    Examples
    --------
    >>> from postshift.metrics import from_labels
    >>> def hits(y_true, y_pred, sample_weight):
    ...     return np.average(y_true == y_pred, weights=sample_weight)
    >>> metric = CellMetric(from_labels(hits), ["ham", "spam"])
    >>> metric.name, round(float(metric.value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    ('hits', 0.7)
    """

    function: LabelFunction
    classes: Any
    _: KW_ONLY
    total: float = 1.0
    weighting: str = "full"
    whole_rows: bool = False
    needs_every_class: ClassVar[bool] = False
    greater_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise unless the function takes only labels and, if it is not called on whole rows, weights."""
        if self.function.metadata or not (self.function.takes_weights or self.whole_rows):
            raise MetricError(
                f"metric {self.function.name!r} must take only labels and sample_weight to be a function of the "
                "confusion matrix: use LabelOracle instead"
            )
        check_in_range(self.total, name="total", low=0, high=np.inf, open_low=True, open_high=True)
        object.__setattr__(self, "classes", np.asarray(self.classes))

    @property
    def name(self) -> str:
        """The name of the function, with ``neg_`` before the name of a loss."""
        return self.function.name if self.function.greater_is_better else f"neg_{self.function.name}"

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.classes)

    @property
    def scale(self) -> float:
        """The width of the range of values."""
        return self.function.scale

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the metric of each matrix, with one call of the function for each."""
        square = (self.n_classes, self.n_classes)
        if confusion.shape[-2:] != square:
            raise ShapeError(
                f"{self.n_classes} classes need matrices of shape {square}. Got {confusion.shape[-2:]} instead"
            )
        lead = confusion.shape[:-2]
        found = [self._of_cells(self.total * confusion[place]) for place in np.ndindex(lead)]
        return self.function.sign * np.array(found, dtype=np.float64).reshape(lead)

    def agrees(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> bool:
        """Return whether the function has the same value on these rows and on their cells.

        Parameters
        ----------
        y_true, y_pred : array of shape (n,)
            True and predicted class labels.
        sample_weight : array of shape (n,), optional
            Sample weights; whole rows have none.
        """
        truth, labels = np.asarray(y_true), np.asarray(y_pred)
        weights = np.ones(len(truth)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        cells = np.einsum("n,ni,nj->ij", weights, *(each[:, None] == self.classes for each in (truth, labels)))
        shown = None if self.whole_rows else weights
        by_rows = mapped(lambda: self.function(truth, labels, weights=shown), self.function.name)
        return bool(np.isclose(by_rows, self._of_cells(cells), rtol=_TOLERANCE, atol=_TOLERANCE))

    def _of_cells(self, weights: FloatArray) -> float:
        """Return the value of the function on the cells that have weight."""
        if self.whole_rows:
            weights = np.rint(weights)
        true, predicted = np.nonzero(weights > 0)
        if not len(true):
            raise MetricError(f"metric {self.name!r} got a confusion matrix whose entries are all 0")
        shown: FloatArray | None = weights[true, predicted]
        labels = self.classes[true], self.classes[predicted]
        if self.whole_rows:
            times = weights[true, predicted].astype(np.intp)
            labels, shown = (np.repeat(labels[0], times), np.repeat(labels[1], times)), None
        return mapped(lambda: self.function(*labels, weights=shown), self.function.name)

"""A function of labels that takes weights, as a metric of the confusion matrix."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from postshift._validation import FloatArray, check_in_range
from postshift.exceptions import MetricError, ShapeError
from postshift.metrics.adapters import LabelFunction, mapped

_AGREEMENT = 1e-9  # relative, of a function of the rows and of their cells


@dataclass(frozen=True, eq=False)
class CellMetric:
    """A metric psi(C) from a function of labels that takes weights, called on the cells of C.

    The function sees one row for each cell of weight above 0: true class i, predicted class j, weight
    ``total * C_ij``. This is exact for a function that reads its rows through their weights only; ``agrees`` tries
    whether it does. The value of a loss is its negative: greater is better.

    Parameters
    ----------
    function : LabelFunction
        The function; it takes weights and no metadata.
    classes : array of shape (m,)
        The user's class labels, by position.
    total : float, default=1.0
        What the weights of all cells sum to, for functions that add up and do not average.
    weighting : {"diagonal", "columns", "full"}, default="full"
        What it depends on.

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
    needs_every_class: ClassVar[bool] = False
    greater_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a function that is not one of weighted labels alone."""
        if not self.function.takes_weights or self.function.metadata:
            raise MetricError(
                f"metric {self.function.name!r} must take sample_weight and nothing else but labels to be a function "
                "of the confusion matrix: ask it through LabelOracle"
            )
        check_in_range(self.total, name="total", low=0, high=np.inf, open_low=True, open_high=True)
        object.__setattr__(self, "classes", np.asarray(self.classes))

    @property
    def name(self) -> str:
        """The function's name, with ``neg_`` before that of a loss."""
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
        """Return the function of the cells of each matrix, one call a matrix."""
        n_classes = len(self.classes)
        if confusion.shape[-2:] != (n_classes, n_classes):
            raise ShapeError(f"there are {n_classes} classes, and matrices of shape {confusion.shape[-2:]}")
        lead = confusion.shape[:-2]
        found = [self._of_cells(self.total * confusion[place]) for place in np.ndindex(lead)]
        return self.function.sign * np.array(found, dtype=np.float64).reshape(lead)

    def agrees(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> bool:
        """Return whether the function of these rows is that of their cells.

        Parameters
        ----------
        y_true, y_pred : array of shape (n,)
            True and predicted labels, in the user's classes.
        sample_weight : array of shape (n,), optional
            Sample weights.
        """
        truth, labels = np.asarray(y_true), np.asarray(y_pred)
        weights = np.ones(len(truth)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        cells = np.einsum("n,ni,nj->ij", weights, *(each[:, None] == self.classes for each in (truth, labels)))
        by_rows = mapped(lambda: self.function(truth, labels, weights=weights), self.function.name)
        return bool(np.isclose(by_rows, self._of_cells(cells), rtol=_AGREEMENT, atol=_AGREEMENT))

    def _of_cells(self, weights: FloatArray) -> float:
        """Return the function of the cells that have weight."""
        true, predicted = np.nonzero(weights > 0)
        if not len(true):
            raise MetricError(f"metric {self.name!r} was asked about a confusion matrix without weight")
        shown = weights[true, predicted]
        labels = self.classes[true], self.classes[predicted]
        return mapped(lambda: self.function(*labels, weights=shown), self.function.name)

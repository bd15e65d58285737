"""Metrics psi(C) of the confusion matrix: rows are true classes, entries are shares of the weight.

A metric says which entries it depends on (``weighting``) and whether it needs rows of every class. It has a gradient,
defined up to a constant per row, since the row sums of C do not depend on the classifier. ``value`` takes a stack of
matrices (..., m, m). Other modules: functions of the recalls in ``recalls``, precision, F1 and similar rates in
``rates``, metrics over groups in ``over_groups``, differences between groups in ``gaps``.

A fit maximises its metric: ``maximised`` negates a metric with ``greater_is_better = False``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from postshift._validation import FloatArray, as_table
from postshift.exceptions import SettingError, ShapeError

_POWERS = {None: 0, "linear": 1, "quadratic": 2}  # an error costs this power of the distance of the classes
_VANISHED = 1e-150  # a share below this counts as 0: its inverse, or that of its square, would overflow


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The share of correct predictions, ``sum_i C_ii``.

    Examples
    --------
    >>> float(Accuracy().value(np.array([[0.4, 0.1], [0.2, 0.3]])))
    0.7
    """

    name: ClassVar[str] = "accuracy"
    weighting: ClassVar[str] = "diagonal"
    needs_every_class: ClassVar[bool] = False
    greater_is_better: ClassVar[bool] = True
    is_mean_over_all: ClassVar[bool] = False

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the accuracy of each matrix."""
        return np.asarray(np.trace(confusion, axis1=-2, axis2=-1))

    def of_counts(self, hits: FloatArray, true: FloatArray, predicted: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the sum of the hits."""
        return np.asarray(hits.sum(axis=-1))

    def count_slopes(self, hits: FloatArray, true: FloatArray, predicted: FloatArray) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """Return 1 for the hits, and 0."""
        return np.ones(hits.shape), np.zeros(predicted.shape)

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the identity."""
        return np.eye(confusion.shape[-1])


@dataclass(frozen=True, slots=True)
class MatthewsCorrelation:
    """The correlation of true and predicted classes, for any number of classes; 0 if either is always one class.

    With row sums t and column sums p of shares that sum to 1, it is
    ``(sum_i C_ii - t.p) / sqrt((1 - t.t) (1 - p.p))``.

    Examples
    --------
    >>> round(float(MatthewsCorrelation().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.4082
    """

    name: ClassVar[str] = "matthews_corrcoef"
    weighting: ClassVar[str] = "columns"
    needs_every_class: ClassVar[bool] = False
    greater_is_better: ClassVar[bool] = True

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the correlation of each matrix."""
        chance, found, spread_true, spread_predicted = self._parts(confusion)
        total = confusion.sum(axis=(-2, -1))
        return ratio(total * (chance - found), np.sqrt(spread_true * spread_predicted))

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return d psi / d C_ij including the effect on the column sums; 0 where psi is 0 / 0."""
        chance, found, spread_true, spread_predicted = self._parts(confusion)
        loss, total = _disagreement(confusion.shape[-1], None), confusion.sum()
        lean = ratio(chance - found, spread_predicted) * (loss @ confusion.sum(axis=0))
        slopes = ratio(loss @ confusion.sum(axis=1), total) - loss - lean
        return np.asarray(slopes * ratio(total, np.sqrt(spread_true * spread_predicted)))

    @staticmethod
    def _parts(confusion: FloatArray) -> tuple[FloatArray, ...]:
        """Return the loss by chance, the loss, and ``1 - t.t`` and ``1 - p.p`` as sums that can be exactly 0."""
        loss, total = _disagreement(confusion.shape[-1], None), confusion.sum(axis=(-2, -1))
        spreads = [
            or_zero(np.asarray(np.einsum("...i,ij,...j->...", sums, loss, sums)), total**2)
            for sums in (confusion.sum(axis=-1), confusion.sum(axis=-2))
        ]
        return (*_losses(confusion, loss), *spreads)


@dataclass(frozen=True, slots=True)
class CohenKappa:
    """Cohen's kappa, ``1 - loss / loss by chance`` for fixed row and column sums; 0 if the loss by chance is 0.

    With ``weights="quadratic"`` it is the quadratic weighted kappa (QWK) of ordinal classes.

    Parameters
    ----------
    weights : {"linear", "quadratic"}, optional
        The cost of an error: 1 by default, the distance of the two classes, or its square.

    Notes
    -----
    The distance is the difference of the positions in ``classes_``, not of the labels: from 1 to 5 it is 1 if no class
    is between them. ``PostShiftClassifier`` sorts the labels, so strings are in alphabetical order ("bad" < "good" <
    "medium"): use whole numbers as labels of ordinal classes. ``PostShifter`` and the command line take the order of
    the columns of probabilities.

    Examples
    --------
    >>> round(float(CohenKappa().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.4
    >>> near, far = np.array([[[2, 1, 0], [0, 2, 0], [0, 0, 2]], [[2, 0, 1], [0, 2, 0], [0, 0, 2]]]) / 7
    >>> CohenKappa("quadratic").value(np.array([near, far])).round(3)
    array([0.889, 0.611])
    """

    weights: Literal["linear", "quadratic"] | None = None
    name: ClassVar[str] = "cohen_kappa"
    needs_every_class: ClassVar[bool] = False
    greater_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise if the weights are unknown."""
        if self.weights not in tuple(_POWERS):
            raise SettingError(f"weights must be None, 'linear' or 'quadratic'. Got {self.weights!r} instead")

    @property
    def weighting(self) -> str:
        """``"columns"`` if all errors cost the same, else ``"full"``."""
        return "columns" if self.weights is None else "full"

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the kappa of each matrix."""
        chance, found = _losses(confusion, _disagreement(confusion.shape[-1], self.weights))
        return ratio(chance - found, chance)

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return d psi / d C_ij including the effect on the column sums; 0 where psi is 0 / 0."""
        loss = _disagreement(confusion.shape[-1], self.weights)
        chance, found = _losses(confusion, loss)
        moved = ratio(loss @ confusion.sum(axis=1), confusion.sum())
        return (ratio(found, chance) * moved - loss) * ratio(np.asarray(1.0), chance)


class LinearMetric:
    """A metric ``sum_ij L_ij C_ij``. L (m, m) is the field named by ``entries``: rows true, columns predicted."""

    __slots__ = ()
    needs_every_class: ClassVar[bool] = False
    entries: ClassVar[str]

    def __post_init__(self) -> None:
        """Raise unless L is a square matrix of finite numbers."""
        table = as_table(getattr(self, self.entries), name=self.entries)
        if table.shape[0] != table.shape[1] or not np.isfinite(table).all():
            raise ShapeError(f"{self.entries} must be a square matrix of finite numbers. Got shape {table.shape}")
        object.__setattr__(self, self.entries, table)

    @property
    def matrix(self) -> FloatArray:
        """The matrix L."""
        return np.asarray(getattr(self, self.entries))

    @property
    def weighting(self) -> str:
        """``"diagonal"`` for a diagonal matrix, else ``"full"``."""
        return "diagonal" if not (self.matrix - np.diag(np.diag(self.matrix))).any() else "full"

    @property
    def scale(self) -> float:
        """The width of the range of the entries."""
        return float(np.ptp(self.matrix))

    @property
    def n_classes(self) -> int:
        """The number of classes m."""
        return len(self.matrix)

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the expectation for each matrix."""
        self._check(confusion)
        return np.asarray(np.einsum("...ij,ij->...", confusion, self.matrix))

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return L."""
        self._check(confusion)
        return np.array(self.matrix)

    def _check(self, confusion: FloatArray) -> None:
        """Raise if the matrices have another shape."""
        if confusion.shape[-2:] != self.matrix.shape:
            raise ShapeError(
                f"the {self.entries} matrix has shape {self.matrix.shape}, but there are {confusion.shape[-1]} classes "
                f"and confusion matrices of shape {confusion.shape[-2:]}: give {self.entries}s of that shape, with "
                "true classes as rows and predicted classes as columns"
            )


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedReward(LinearMetric):
    """The linear metric ``sum_ij L_ij C_ij`` for a reward matrix L: rows true, columns predicted.

    Examples
    --------
    >>> round(float(ExpectedReward([[1, 0], [-5, 2]]).value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.0
    """

    reward: Any
    name: ClassVar[str] = "expected_reward"
    greater_is_better: ClassVar[bool] = True
    entries: ClassVar[str] = "reward"


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedCost(LinearMetric):
    """The linear metric ``sum_ij L_ij C_ij`` for a cost matrix L: rows true, columns predicted. Less is better.

    Examples
    --------
    >>> metric = ExpectedCost([[0, 1], [5, 0]])
    >>> round(float(metric.value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    1.1
    >>> metric.greater_is_better
    False
    """

    cost: Any
    name: ClassVar[str] = "expected_cost"
    greater_is_better: ClassVar[bool] = False
    entries: ClassVar[str] = "cost"


def _disagreement(n_classes: int, weights: Literal["linear", "quadratic"] | None) -> FloatArray:
    """Return the cost of each error (m, m): 1, the distance of the classes, or its square."""
    apart = np.abs(np.subtract.outer(np.arange(n_classes), np.arange(n_classes))).astype(np.float64)
    return np.asarray(np.where(apart > 0, apart ** _POWERS[weights], 0.0))


def _losses(confusion: FloatArray, loss: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the loss by chance (true and predicted classes independent), and the loss of each matrix."""
    true, predicted = confusion.sum(axis=-1), confusion.sum(axis=-2)
    total = true.sum(axis=-1)
    chance = or_zero(ratio(np.asarray(np.einsum("...i,ij,...j->...", true, loss, predicted)), total), total)
    return chance, np.asarray(np.einsum("...ij,ij->...", confusion, loss))


def counts_of(confusion: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the hits, the row sums and the column sums of each matrix."""
    return np.diagonal(confusion, axis1=-2, axis2=-1), confusion.sum(axis=-1), confusion.sum(axis=-2)


def or_zero(numbers: FloatArray, whole: FloatArray) -> FloatArray:
    """Return numbers, with 0 for those that are negligible parts of the whole."""
    return np.where(numbers > _VANISHED * whole, numbers, 0.0)


def ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return ``above / below``, 0 where ``below`` is 0."""
    return np.divide(above, below, out=np.zeros(np.broadcast_shapes(above.shape, below.shape)), where=below > 0)

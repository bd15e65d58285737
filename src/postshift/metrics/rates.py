"""Precision, recall, F-beta and Jaccard: ``a TP / (a TP + b FN + c FP)`` of one class, or an average over classes.

========= ============== ======== ===
metric    a              b        c
========= ============== ======== ===
F-beta    1 + beta^2     beta^2   1
precision 1              0        1
recall    1              1        0
Jaccard   1              1        1
========= ============== ======== ===

A rate 0 / 0 counts 0. The averages are scikit-learn's: ``"binary"`` is the rate of one of two classes, ``"macro"`` the
mean of the classes' rates, ``"weighted"`` their mean weighted with the row sums of C, and ``"micro"`` the rate of the
TP, FN and FP summed over the classes. scikit-learn averages over the labels that occur; here the mean is over all m
classes, as in scikit-learn with ``labels=range(m)`` and ``zero_division=0``. ``"macro_present"`` is the mean over the
classes that have rows, as with ``labels=unique(y_true)``. ``"one_vs_rest"`` is the rate of one class against all
others, for any number of classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from postshift._validation import FloatArray, check_count, check_in_range
from postshift.exceptions import SettingError, ShapeError
from postshift.metrics.confusion import counts_of, or_zero, ratio

Average = Literal["binary", "one_vs_rest", "macro", "macro_present", "micro", "weighted"]
OF_ONE_CLASS = ("binary", "one_vs_rest")


class RateMetric(ABC):
    """A rate of one class or an average of rates, defined by ``coefficients`` and ``stem``."""

    __slots__ = ()
    average: Average
    positive: int
    needs_every_class: ClassVar[bool] = False
    greater_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise if the average is unknown, or ``positive`` is not the position of a class."""
        if self.average not in get_args(Average):
            raise SettingError(f"average must be one of {get_args(Average)}. Got {self.average!r} instead")
        if self.average == "one_vs_rest":
            check_count(self.positive, name="positive", low=0)
        elif (
            type(self.positive) is bool
            or not isinstance(self.positive, int | np.integer)
            or self.positive not in (0, 1)
        ):
            raise SettingError(f"positive must be 0 or 1, the position of a class. Got {self.positive!r} instead")

    @property
    @abstractmethod
    def coefficients(self) -> tuple[float, float, float]:
        """The weights a, b, c of TP, FN, FP."""

    @property
    @abstractmethod
    def stem(self) -> str:
        """The name of the rate of one class."""

    @property
    def name(self) -> str:
        """The name in the form of scikit-learn: the stem for one class, with the average otherwise."""
        return self.stem if self.average in OF_ONE_CLASS else f"{self.stem}_{self.average}"

    @property
    def positive_classes(self) -> tuple[int, ...]:
        """The position of the class that the rate is about, if it is about one."""
        return (self.positive,) if self.average in OF_ONE_CLASS else ()

    @property
    def weighting(self) -> str:
        """``"diagonal"`` for recalls and for "micro" rates, which are functions of the accuracy; else ``"columns"``."""
        return "diagonal" if self.average == "micro" or self.coefficients[2] == 0 else "columns"

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the rate of each matrix."""
        return self.of_counts(*counts_of(confusion))

    def of_counts(self, hits: FloatArray, true: FloatArray, predicted: FloatArray) -> FloatArray:
        """Return the rate of the hits, row sums and column sums of each matrix."""
        found, sizes = self._parts(hits, true, predicted)
        return np.asarray((self._shares(true) * ratio(self.coefficients[0] * found, sizes)).sum(axis=-1))

    @property
    def is_mean_over_all(self) -> bool:
        """Whether it is the mean over all classes."""
        return self.average == "macro"

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return d psi / d C_ij including the effect on row and column sums; the weights of an average are fixed."""
        _, b, c = self.coefficients
        own, pull = self._slopes(*counts_of(confusion))
        return np.asarray(np.diag(own) - b * pull[:, None] - c * pull)

    def count_slopes(self, hits: FloatArray, true: FloatArray, predicted: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives by the hits and by the column sums; the weights of an average are fixed."""
        own, pull = self._slopes(hits, true, predicted)
        return own, -self.coefficients[2] * pull

    def _slopes(self, hits: FloatArray, true: FloatArray, predicted: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the derivative by the hits, and minus that by the size ``a TP + b FN + c FP``, of each class."""
        a, b, c = self.coefficients
        shares = np.broadcast_to(self._shares(true), predicted.shape)
        found, sizes = self._parts(hits, true, predicted)
        pull = shares * ratio(a * found, sizes**2)
        return shares * ratio(np.asarray(a), sizes) - (a - b - c) * pull, pull

    def _parts(self, hits: FloatArray, true: FloatArray, predicted: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return TP and ``a TP + b FN + c FP`` of each class (..., m), or summed over the classes (..., 1)."""
        n_rows, n_classes = true.shape[-1], predicted.shape[-1]
        if self.average == "binary" and (n_rows, n_classes) != (2, 2):
            raise ShapeError(
                f"metric {self.name!r} is for two classes. Got matrices of {(n_rows, n_classes)}; "
                "see average='macro' (for f1: MacroF1) and average='one_vs_rest'"
            )
        if self.average == "one_vs_rest" and self.positive >= n_classes:
            raise ShapeError(
                f"metric {self.name!r} is about the class at position {self.positive}, but there are "
                f"{n_classes} classes: give a position below {n_classes}"
            )
        whole = true.sum(axis=-1, keepdims=True)
        if self.average == "micro":
            hits, predicted = (count.sum(axis=-1, keepdims=True) for count in (hits, predicted))
            true = whole
        a, b, c = self.coefficients
        return hits, or_zero((a - b - c) * hits + b * true + c * predicted, whole)

    def _shares(self, true: FloatArray) -> FloatArray:
        """Return the weight of each class in the average."""
        if self.average == "weighted":
            return ratio(true, true.sum(axis=-1, keepdims=True))
        if self.average == "macro_present":
            present = np.asarray(true > 0, dtype=np.float64)
            return ratio(present, present.sum(axis=-1, keepdims=True))
        if self.average in OF_ONE_CLASS:
            return np.asarray(np.arange(true.shape[-1]) == self.positive, dtype=np.float64)
        return np.full(1, 1.0 if self.average == "micro" else 1 / true.shape[-1])


@dataclass(frozen=True, slots=True)
class FBeta(RateMetric):
    """The F-beta measure, ``(1 + beta^2) TP / ((1 + beta^2) TP + beta^2 FN + FP)``.

    Parameters
    ----------
    beta : float, default=1.0
        How many times more recall counts than precision.
    average : {"binary", "one_vs_rest", "macro", "macro_present", "micro", "weighted"}, default="macro"
        The rate of one of two classes, of one class against the rest, or an average over the classes.
    positive : int, default=1
        The position of the class, for "binary" (0 or 1) and "one_vs_rest".

    Examples
    --------
    >>> metric = FBeta(2, average="binary")
    >>> metric.name, round(float(metric.value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    ('fbeta_2', 0.625)
    """

    beta: float = 1.0
    average: Average = "macro"
    positive: int = 1

    def __post_init__(self) -> None:
        """Raise if beta is below 0, or the average or ``positive`` is wrong."""
        check_in_range(self.beta, name="beta", low=0, high=1e6)
        RateMetric.__post_init__(self)

    @property
    def coefficients(self) -> tuple[float, float, float]:
        """The weights of TP, FN, FP."""
        return 1 + self.beta**2, self.beta**2, 1.0

    @property
    def stem(self) -> str:
        """``f1``, or ``fbeta_`` and beta."""
        return "f1" if self.beta == 1 else f"fbeta_{self.beta:g}"


class MacroF1(FBeta):
    """The mean over classes of ``2 C_ii / (sum_j C_ij + sum_j C_ji)``; 0 for a class neither true nor predicted.

    Examples
    --------
    >>> MacroF1().name, round(float(MacroF1().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    ('f1_macro', 0.697)
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(average="macro")

    def __repr__(self) -> str:
        return "MacroF1()"


class BinaryF1(FBeta):
    """The F1 of one of two classes, ``2 C_pp / (sum_j C_pj + sum_j C_jp)``; 0 if it is neither true nor predicted.

    Parameters
    ----------
    positive : {0, 1}, default=1
        The positive class p.

    Examples
    --------
    >>> BinaryF1().name, round(float(BinaryF1().value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    ('f1', 0.6667)
    """

    __slots__ = ()

    def __init__(self, positive: int = 1) -> None:
        super().__init__(average="binary", positive=positive)

    def __repr__(self) -> str:
        return f"BinaryF1(positive={self.positive})"


@dataclass(frozen=True, slots=True)
class Precision(RateMetric):
    """The share of the predictions of a class that are correct, ``TP / (TP + FP)``.

    The parameters are those of ``FBeta``, without beta.

    Examples
    --------
    >>> metric = Precision("binary")
    >>> metric.name, round(float(metric.value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    ('precision', 0.75)
    """

    average: Average = "macro"
    positive: int = 1
    coefficients: ClassVar[tuple[float, float, float]] = (1.0, 0.0, 1.0)
    stem: ClassVar[str] = "precision"


@dataclass(frozen=True, slots=True)
class Recall(RateMetric):
    """The share of the rows of a class that are found, ``TP / (TP + FN)``.

    The parameters are those of ``FBeta``, without beta.

    Examples
    --------
    >>> metric = Recall("binary")
    >>> metric.name, round(float(metric.value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    ('recall', 0.6)
    """

    average: Average = "macro"
    positive: int = 1
    coefficients: ClassVar[tuple[float, float, float]] = (1.0, 1.0, 0.0)
    stem: ClassVar[str] = "recall"


@dataclass(frozen=True, slots=True)
class Jaccard(RateMetric):
    """The share of correct predictions among the rows of or predicted as a class, ``TP / (TP + FN + FP)``.

    The parameters are those of ``FBeta``, without beta.

    Examples
    --------
    >>> metric = Jaccard("binary")
    >>> metric.name, round(float(metric.value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    ('jaccard', 0.5)
    """

    average: Average = "macro"
    positive: int = 1
    coefficients: ClassVar[tuple[float, float, float]] = (1.0, 1.0, 1.0)
    stem: ClassVar[str] = "jaccard"


@dataclass(frozen=True, slots=True)
class PredictedRate:
    """The share of rows that are predicted to be of one class: a capacity, when it is bounded.

    Parameters
    ----------
    positive : int
        The position of the class.

    Examples
    --------
    >>> round(float(PredictedRate(1).value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    0.4
    """

    positive: int
    name: ClassVar[str] = "rate"
    weighting: ClassVar[str] = "columns"
    needs_every_class: ClassVar[bool] = False
    greater_is_better: ClassVar[bool] = True

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the rate of each matrix."""
        return ratio(confusion[..., self.positive].sum(axis=-1), confusion.sum(axis=(-2, -1)))

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return 1 in the column of the class."""
        slopes = np.zeros(confusion.shape)
        slopes[:, self.positive] = 1
        return slopes

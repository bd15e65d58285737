"""Metrics over groups of rows: the rows of C are (group, class) pairs, with the number ``group * n_classes + class``.

The oracle counts a row of group g and class i in category ``g * n_classes + i``. A prediction is correct if it is i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from postshift._validation import FloatArray, as_numbers, check_count
from postshift.exceptions import SettingError, ShapeError
from postshift.metrics.recalls import BalancedAccuracy, GMean, SmoothedMinimum, Units, of_present, slopes_of_present

Inner = Literal["accuracy", "balanced_accuracy", "g_mean"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetric:
    """The numbers of groups and classes of a metric over groups.

    Parameters
    ----------
    n_groups : int
        Number of groups.
    n_classes : int
        Number of classes m.
    """

    n_groups: int
    n_classes: int

    def __post_init__(self) -> None:
        """Raise unless there are at least one group and two classes."""
        check_count(self.n_groups, name="n_groups", low=1)
        check_count(self.n_classes, name="n_classes", low=2)

    @property
    def n_categories(self) -> int:
        """The number of (group, class) pairs."""
        return self.n_groups * self.n_classes

    def check_shape(self, confusion: FloatArray) -> None:
        """Raise if the matrices have another number of (group, class) pairs."""
        if confusion.shape[-2:] != (self.n_categories, self.n_classes):
            raise ShapeError(
                f"{self.n_groups} groups and {self.n_classes} classes need matrices of shape "
                f"{(self.n_categories, self.n_classes)}. Got {confusion.shape[-2:]} instead"
            )

    def by_group(self, confusion: FloatArray) -> FloatArray:
        """Return the matrices as (..., groups, m, m)."""
        self.check_shape(confusion)
        return confusion.reshape(*confusion.shape[:-2], self.n_groups, self.n_classes, self.n_classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGMean(GroupMetric, GMean):
    """The geometric mean of the recalls of all (group, class) pairs, the paper's fairness metric; 0 if one is 0.

    Pairs without rows are left out.

    Parameters
    ----------
    n_groups : int
        Number of groups.
    n_classes : int
        Number of classes m.

    Examples
    --------
    >>> confusion = np.array([[0.2, 0.05], [0.05, 0.2], [0.2, 0.05], [0.1, 0.15]])
    >>> metric = GroupGMean(n_groups=2, n_classes=2)
    >>> metric.n_categories, round(float(metric.value(confusion)), 4)
    (4, 0.7445)
    """

    name: ClassVar[str] = "group_g_mean"


@dataclass(frozen=True, slots=True)
class WorstGroup(GroupMetric):
    """The lowest accuracy, mean recall or G-mean among the groups that have rows.

    Parameters
    ----------
    inner : {"accuracy", "balanced_accuracy", "g_mean"}, default="accuracy"
        What is computed in each group. The last two leave out the classes that have no rows in a group, as
        scikit-learn's ``balanced_accuracy_score`` does.
    n_groups : int
        Number of groups.
    n_classes : int
        Number of classes m.

    Examples
    --------
    >>> confusion = np.array([[0.2, 0.05], [0.05, 0.2], [0.2, 0.05], [0.1, 0.15]])
    >>> metric = WorstGroup("accuracy", n_groups=2, n_classes=2)
    >>> metric.name, round(float(metric.value(confusion)), 4)
    ('worst_group_accuracy', 0.7)
    """

    inner: Inner = "accuracy"
    weighting: ClassVar[str] = "diagonal"
    skips_absent: ClassVar[bool] = True
    greater_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise if the inner metric is unknown, or the numbers of groups and classes are too low."""
        if self.inner not in get_args(Inner):
            raise SettingError(f"inner must be one of {get_args(Inner)}. Got {self.inner!r} instead")
        GroupMetric.__post_init__(self)

    @property
    def name(self) -> str:
        """``worst_group_`` and the inner metric."""
        return f"worst_group_{self.inner}"

    @property
    def needs_every_class(self) -> bool:
        """Whether each group must have rows of each class."""
        return self.inner != "accuracy"

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the value of the worst group of each matrix, 0 for a matrix without rows."""
        lowest = self._levels(confusion).min(axis=-1)
        return np.where(np.isfinite(lowest), lowest, 0.0)

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the gradient of the value of the worst group; in case of ties, of the first."""
        worst = int(np.argmin(self._levels(confusion)))
        rates, sizes = self._units.rates(confusion)
        slopes = np.zeros_like(rates)
        slopes[worst] = slopes_of_present(self._units.inner.slopes, rates[worst], sizes[worst] > 0)
        return self._units.gradient(slopes, confusion)

    def smoothed(self, counts: Any) -> SmoothedMinimum:
        """Return the metric to fit in its place, given the number of validation rows of each category."""
        given = as_numbers(counts, name="counts")
        if given.shape != (self.n_categories,):
            raise ShapeError(f"counts must have shape ({self.n_categories},). Got {given.shape} instead")
        return SmoothedMinimum(
            metric=self.name, units=self._units, counts=given, needs_every_class=self.needs_every_class
        )

    @property
    def _units(self) -> Units:
        """The groups, each valued by its accuracy or by its recalls."""
        inner = GMean() if self.inner == "g_mean" else BalancedAccuracy()
        return Units(width=self.n_classes, inner=inner, pooled=self.inner == "accuracy")

    def _levels(self, confusion: FloatArray) -> FloatArray:
        """Return the value of each group (..., groups), infinite for groups without rows."""
        self.check_shape(confusion)
        rates, sizes = self._units.rates(confusion)
        levels = of_present(self._units.inner.of_recalls, rates, sizes > 0)
        return np.where(sizes.sum(axis=-1) > 0, levels, np.inf)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PooledMetric(GroupMetric):
    """A metric of the classes, read from (group, class) rows: the groups are summed up.

    Parameters
    ----------
    inner : ConfusionMetric
        The metric of the classes.
    n_groups : int
        Number of groups.
    n_classes : int
        Number of classes m.
    """

    inner: Any
    greater_is_better: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name of the inner metric."""
        return str(self.inner.name)

    @property
    def weighting(self) -> str:
        """What the inner metric depends on."""
        return str(self.inner.weighting)

    @property
    def needs_every_class(self) -> bool:
        """False: a (group, class) pair may have no rows."""
        return False

    @property
    def scale(self) -> float:
        """The width of the range of values."""
        return float(getattr(self.inner, "scale", 1.0))

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the inner metric of each matrix."""
        return np.asarray(self.inner.value(self.by_group(confusion).sum(axis=-3)))

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the gradient of the inner metric, the same in each group."""
        return np.tile(self.inner.gradient(self.by_group(confusion).sum(axis=-3)), (self.n_groups, 1))

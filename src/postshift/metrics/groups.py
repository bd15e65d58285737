"""Metrics over groups of rows: the rows of C are (group, class) pairs, category ``group * n_classes + class``.

Whoever answers the queries counts a row of group g and class i in category ``g * n_classes + i``; a prediction
is right if it is the class i.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, get_args

from postshift._validation import FloatArray, as_numbers, check_count
from postshift.exceptions import SettingError, ShapeError
from postshift.metrics.recalls import BalancedAccuracy, GMean, RecallMetric, SmoothedMinimum, Units

Inner = Literal["accuracy", "balanced_accuracy", "g_mean"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGMean(RecallMetric):
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
    >>> import numpy as np
    >>> confusion = np.array([[0.2, 0.05], [0.05, 0.2], [0.2, 0.05], [0.1, 0.15]])
    >>> metric = GroupGMean(n_groups=2, n_classes=2)
    >>> metric.n_categories, round(float(metric.value(confusion)), 4)
    (4, 0.7445)
    """

    n_groups: int
    n_classes: int
    name: ClassVar[str] = "group_g_mean"

    def __post_init__(self) -> None:
        """Refuse numbers of groups and classes that are none."""
        check_sizes(self.n_groups, self.n_classes)

    @property
    def n_categories(self) -> int:
        """The number of (group, class) pairs."""
        return self.n_groups * self.n_classes

    def of_recalls(self, recalls: FloatArray) -> FloatArray:
        """Return the geometric mean."""
        return GMean().of_recalls(recalls)

    def slopes(self, recalls: FloatArray) -> FloatArray:
        """Return psi / (n_categories r_i); 0 where psi is 0."""
        return GMean().slopes(recalls)

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the geometric mean of the recalls of each matrix."""
        check_shape(confusion, self.n_groups, self.n_classes)
        return RecallMetric.value(self, confusion)

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the slopes in the columns of the own classes."""
        check_shape(confusion, self.n_groups, self.n_classes)
        return RecallMetric.gradient(self, confusion)


@dataclass(frozen=True, slots=True)
class WorstGroup:
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
    >>> import numpy as np
    >>> confusion = np.array([[0.2, 0.05], [0.05, 0.2], [0.2, 0.05], [0.1, 0.15]])
    >>> metric = WorstGroup("accuracy", n_groups=2, n_classes=2)
    >>> metric.name, round(float(metric.value(confusion)), 4)
    ('worst_group_accuracy', 0.7)
    """

    inner: Inner = "accuracy"
    _: KW_ONLY
    n_groups: int
    n_classes: int
    weighting: ClassVar[str] = "diagonal"
    skips_absent: ClassVar[bool] = True
    greater_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse an inner metric that is not known, and numbers of groups and classes that are none."""
        if self.inner not in get_args(Inner):
            raise SettingError(f"inner must be one of {get_args(Inner)}. Got {self.inner!r} instead")
        check_sizes(self.n_groups, self.n_classes)

    @property
    def name(self) -> str:
        """``worst_group_`` and the inner metric."""
        return f"worst_group_{self.inner}"

    @property
    def needs_every_class(self) -> bool:
        """Whether each group must have rows of each class."""
        return not self._units.pooled

    @property
    def n_categories(self) -> int:
        """The number of (group, class) pairs."""
        return self.n_groups * self.n_classes

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the worst group's value of each matrix."""
        check_shape(confusion, self.n_groups, self.n_classes)
        return self._units.lowest(confusion)

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the gradient of the worst group's value; of several groups, of the first."""
        check_shape(confusion, self.n_groups, self.n_classes)
        return self._units.lowest_gradient(confusion)

    def smoothed(self, counts: Any) -> SmoothedMinimum:
        """Return what to fit in its place, given the number of validation rows of each category."""
        given = as_numbers(counts, name="counts")
        if given.shape != (self.n_categories,):
            raise ShapeError(f"counts must have shape ({self.n_categories},). Got {given.shape} instead")
        return SmoothedMinimum(
            metric=self.name, units=self._units, counts=given, needs_every_class=self.needs_every_class
        )

    @property
    def _units(self) -> Units:
        """The groups, each valued by its pooled accuracy or by its recalls."""
        inner = GMean() if self.inner == "g_mean" else BalancedAccuracy()
        return Units(width=self.n_classes, inner=inner, pooled=self.inner == "accuracy")


def check_sizes(n_groups: int, n_classes: int) -> None:
    """Refuse numbers of groups and classes that are none."""
    check_count(n_groups, name="n_groups", low=1)
    check_count(n_classes, name="n_classes", low=2)


def check_shape(confusion: FloatArray, n_groups: int, n_classes: int) -> None:
    """Refuse matrices of another number of (group, class) pairs."""
    if confusion.shape[-2:] != (n_groups * n_classes, n_classes):
        raise ShapeError(
            f"{n_groups} groups and {n_classes} classes make matrices of shape "
            f"{(n_groups * n_classes, n_classes)}. Got {confusion.shape[-2:]} instead"
        )

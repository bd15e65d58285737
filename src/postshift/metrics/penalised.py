"""A metric of all rows minus a gap between groups."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from postshift._validation import FloatArray, check_in_range, unknown
from postshift.core.psi import DifferentiableMetric, maximised
from postshift.exceptions import MetricError, SettingError
from postshift.metrics.catalogue import GAPS, find_metric
from postshift.metrics.gaps import GapMetric
from postshift.metrics.grammar import class_position, read_term
from postshift.metrics.over_groups import GroupMetric


@dataclass(frozen=True, slots=True)
class Penalised(GroupMetric):
    """A metric of all rows minus ``strength`` times a gap between groups.

    Parameters
    ----------
    inner : ConfusionMetric or str
        The metric of the classes, or its name. It must have a gradient. A cost is negated first. A name such as "f1" is
        about the class ``positive``, unless it has the position of a class in brackets, as in ``"f1[2]"``.
    gap : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        The gap.
    strength : float, default=1.0
        The cost of a gap of 1.
    positive : int, optional
        The position of the class that the gap is about; None for the largest gap over the classes.
    n_groups : int
        Number of groups.
    n_classes : int
        Number of classes m.

    Examples
    --------
    >>> confusion = np.array([[0.2, 0.05], [0.05, 0.2], [0.2, 0.05], [0.1, 0.15]])
    >>> metric = Penalised("accuracy", "equal_opportunity", strength=0.5, positive=1, n_groups=2, n_classes=2)
    >>> metric.name, round(float(metric.value(confusion)), 4)
    ('accuracy - 0.5 * equal_opportunity', 0.65)
    """

    inner: Any
    gap: str
    _: KW_ONLY
    strength: float = 1.0
    positive: int | None = None
    weighting: ClassVar[str] = "full"
    needs_every_class: ClassVar[bool] = False
    greater_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Make the inner metric; raise if it has no gradient, or if a parameter is out of range."""
        check_in_range(self.strength, name="strength", low=0, high=np.inf, open_high=True)
        if self.gap not in GAPS:
            raise SettingError(unknown(self.gap, GAPS, what="gap"))
        inner, positive = self.inner, self.gap_metric.positive
        if isinstance(inner, str):
            name, label = read_term(inner)
            place = positive if label is None else class_position(label, range(self.n_classes))
            inner = find_metric(name, label=label, with_gap=True).metric(n_classes=self.n_classes, positive=place)
        if isinstance(inner, type) or not isinstance(inner, DifferentiableMetric):
            raise MetricError(
                "inner must be a metric of the confusion matrix that has a gradient, or the name of one. "
                f"Got {inner!r} instead; write the whole metric with from_confusion"
            )
        if getattr(inner, "n_categories", self.n_classes) != self.n_classes:
            raise MetricError(f"inner must be a metric of the {self.n_classes} classes. Got {inner.name!r} instead")
        object.__setattr__(self, "inner", maximised(inner))

    @property
    def name(self) -> str:
        """The inner metric, a minus, the strength unless it is 1, and the gap."""
        factor = "" if self.strength == 1 else f"{self.strength:g} * "
        return f"{self.inner.name} - {factor}{self.gap}"

    @property
    def positive_classes(self) -> tuple[int, ...]:
        """The positions of the classes that the metric and the gap are about, if they are about single classes."""
        inner: tuple[int, ...] = getattr(self.inner, "positive_classes", ())
        return tuple(dict.fromkeys(inner + self.gap_metric.positive_classes))

    @property
    def scale(self) -> float:
        """The width of the range of values."""
        return float(getattr(self.inner, "scale", 1.0)) + self.strength

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the penalised metric of each matrix."""
        gap = self.gap_metric.value(confusion)
        return np.asarray(self.inner.value(self.by_group(confusion).sum(axis=-3)) - self.strength * gap)

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the inner metric's gradient, the same in each group, minus that of the gap."""
        gap = self.gap_metric.gradient(confusion)
        pooled = self.inner.gradient(self.by_group(confusion).sum(axis=-3))
        return np.asarray(np.tile(pooled, (self.n_groups, 1)) - self.strength * gap)

    @property
    def gap_metric(self) -> GapMetric:
        """The gap."""
        return GAPS[self.gap](n_groups=self.n_groups, n_classes=self.n_classes, positive=self.positive)

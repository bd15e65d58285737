"""The metric psi as the core sees it: a function of confusion matrices, called with its failures mapped to ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from postshift._validation import LARGEST, FloatArray
from postshift.exceptions import MetricError, ShapeError

VALUE = "value"
_PASSED_ON = (
    "n_categories",
    "n_classes",
    "needs_every_class",
    "positive_classes",
    "scale",
    "skips_absent",
)  # what a metric may say of itself


@runtime_checkable
class ConfusionMetric(Protocol):
    """A metric psi of the confusion matrix, rows true categories, entries shares of weight.

    A metric may say more of itself by attributes: ``n_categories`` where the rows are not the m classes, ``n_classes``
    where it is made for so many classes only, ``greater_is_better = False`` where it is a cost, ``needs_every_class =
    True`` where it is not defined without rows of every class, and ``skips_absent = True`` where it leaves those out.
    """

    @property
    def name(self) -> str:
        """What the metric is called."""

    @property
    def weighting(self) -> str:
        """What it depends on: ``"diagonal"``, ``"columns"`` or ``"full"``."""

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return psi of each matrix of a stack (..., R, m)."""


@runtime_checkable
class DifferentiableMetric(ConfusionMetric, Protocol):
    """A metric whose gradient is known."""

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return d psi / d C of one matrix, up to a constant per row (the row sums do not move)."""


@dataclass(frozen=True)
class Negated:
    """A metric of which less is better, turned around. Made by ``maximised``."""

    inner: ConfusionMetric
    greater_is_better: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """``neg_`` and the inner metric's name."""
        return f"neg_{self.inner.name}"

    @property
    def weighting(self) -> str:
        """What the inner metric depends on."""
        return self.inner.weighting

    def __getattr__(self, name: str) -> Any:
        """Pass on what a metric may say of itself, if the inner metric says it."""
        if name in _PASSED_ON:
            return getattr(self.inner, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the negative of each matrix's value."""
        return -np.asarray(self.inner.value(confusion))


class NegatedDifferentiable(Negated):
    """The same of a metric that has a gradient."""

    inner: DifferentiableMetric

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the negative of the gradient."""
        return -np.asarray(self.inner.gradient(confusion))


def maximised(metric: ConfusionMetric) -> ConfusionMetric:
    """Return the metric, or its negative where less is better.

    Parameters
    ----------
    metric : ConfusionMetric
        The metric. One that does not say ``greater_is_better`` is taken to be better when greater.

    Examples
    --------
    >>> from postshift.metrics import Accuracy, ExpectedCost
    >>> cost = maximised(ExpectedCost([[0, 1], [5, 0]]))
    >>> round(float(cost.value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    -1.1
    >>> maximised(Accuracy())
    Accuracy()
    """
    return metric if getattr(metric, "greater_is_better", True) else negated(metric)


def negated(metric: ConfusionMetric) -> Negated:
    """Return the negative of a metric, with a gradient if the metric has one."""
    return NegatedDifferentiable(metric) if isinstance(metric, DifferentiableMetric) else Negated(metric)


def check_classes(metric: ConfusionMetric, *, n_classes: int) -> None:
    """Refuse a metric that is made for another number of classes."""
    made_for = int(getattr(metric, "n_classes", n_classes))
    if made_for == n_classes:
        return
    n_groups = int(getattr(metric, "n_categories", made_for)) // made_for
    raise ShapeError(
        f"metric {metric.name!r} is for matrices of shape {(n_groups * made_for, made_for)}, and there are {n_classes} "
        f"classes: make it for shape {(n_groups * n_classes, n_classes)}"
    )


def check_is_maximised(metric: ConfusionMetric) -> None:
    """Refuse a cost: whatever a run of the core is given, it maximises."""
    if not getattr(metric, "greater_is_better", True):
        raise MetricError(
            f"less of metric {metric.name!r} is better, and a run maximises: give postshift.metrics.maximised(metric), "
            "its negative"
        )


def value_of(metric: ConfusionMetric, confusion: FloatArray) -> FloatArray:
    """Return psi of a stack of matrices (..., R, m); the metric gets a copy, which it may change."""
    return _guarded(metric.value, confusion, metric, VALUE, confusion.shape[:-2])


def gradient_of(metric: DifferentiableMetric, confusion: FloatArray) -> FloatArray:
    """Return the gradient of psi at one matrix; the metric gets a copy, which it may change."""
    return _guarded(metric.gradient, confusion, metric, "gradient", confusion.shape)


def _guarded(
    call: Callable[[FloatArray], Any],
    confusion: FloatArray,
    metric: ConfusionMetric,
    what: str,
    shape: tuple[int, ...],
) -> FloatArray:
    """Return a metric's array, with anything it raises or gets wrong mapped to MetricError."""
    try:
        found = np.array(call(np.array(confusion)), dtype=np.float64)
    except MetricError:
        raise
    except Exception as error:
        raise MetricError(f"the {what} of metric {metric.name!r} raised {type(error).__name__}: {error}") from error
    if found.shape != shape or not np.isfinite(found).all():
        shown = f"shape {found.shape}" if found.shape != shape else "NaN or infinite values"
        raise MetricError(
            f"the {what} of metric {metric.name!r} must give finite numbers of shape {shape}. Got {shown} instead"
        )
    if what == VALUE and np.abs(found).max(initial=0) > LARGEST:
        raise MetricError(too_large(metric.name, found.flat[np.argmax(np.abs(found))]))
    return found


def too_large(name: str, value: Any) -> str:
    """Say that a metric has values that nothing can be computed with."""
    return (
        f"metric {name!r} gave {value:g}, and values above {LARGEST:g} are too large to compute with: divide the "
        "metric, or the weights that it adds up"
    )

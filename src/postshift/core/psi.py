"""The metric psi as the core sees it: a function of confusion matrices, called with its failures mapped to ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from postshift._validation import LARGEST, FloatArray
from postshift.exceptions import MetricError, ShapeError

VALUE = "value"


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

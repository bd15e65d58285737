"""The metric psi as the core sees it: a function of confusion matrices, called with its failures mapped to ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from postshift._validation import FloatArray
from postshift.exceptions import MetricError


@runtime_checkable
class ConfusionMetric(Protocol):
    """A metric psi of the confusion matrix, rows true categories, entries shares of weight.

    A metric whose rows are not the m classes says so by an attribute ``n_categories``.
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


def guarded(call: Callable[[], FloatArray], metric: ConfusionMetric, what: str, shape: tuple[int, ...]) -> FloatArray:
    """Return a metric's array, with anything it raises or gets wrong mapped to MetricError."""
    try:
        found = np.asarray(call(), dtype=np.float64)
    except MetricError:
        raise
    except Exception as error:
        raise MetricError(f"the {what} of metric {metric.name!r} raised {type(error).__name__}: {error}") from error
    if found.shape != shape or not np.isfinite(found).all():
        shown = f"shape {found.shape}" if found.shape != shape else "NaN or infinite values"
        raise MetricError(
            f"the {what} of metric {metric.name!r} must give finite numbers of shape {shape}. Got {shown} instead"
        )
    return found

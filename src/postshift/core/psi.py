"""The metric psi: a function of confusion matrices, whose errors are raised as MetricError."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeGuard, runtime_checkable

import numpy as np

from postshift._validation import LARGEST, FloatArray
from postshift.exceptions import MetricError, ShapeError

VALUE = "value"
_TWO_WAYS = ("of_counts", "value")
_PASSED_ON = (
    "n_categories",
    "n_classes",
    "needs_every_class",
    "positive_classes",
    "scale",
    "skips_absent",
)  # optional attributes of a metric


@runtime_checkable
class ConfusionMetric(Protocol):
    """A metric psi of the confusion matrix: rows are true categories, entries are shares of weight.

    Optional attributes of a metric: ``n_categories`` if the rows are not the m classes, ``n_classes`` if it is for this
    number of classes only, ``greater_is_better = False`` if it is a cost, ``needs_every_class = True`` if it is
    undefined without rows of every class, and ``skips_absent = True`` if it leaves out classes without rows.
    """

    @property
    def name(self) -> str:
        """The name of the metric."""

    @property
    def weighting(self) -> str:
        """The entries it depends on: ``"diagonal"``, ``"columns"`` or ``"full"``."""

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return psi of each matrix of a stack (..., R, m)."""


@runtime_checkable
class DifferentiableMetric(ConfusionMetric, Protocol):
    """A metric whose gradient is known."""

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return d psi / d C of one matrix, up to a constant per row (the row sums are fixed)."""


@runtime_checkable
class CountMetric(ConfusionMetric, Protocol):
    """A metric of three numbers of each class: its hits, its rows, and the rows that are predicted as it.

    For m classes these are 3 m numbers in place of m^2, so the score of a probe takes m times less.
    """

    def of_counts(self, hits: FloatArray, true: FloatArray, predicted: FloatArray) -> FloatArray:
        """Return psi of the hits, row sums and column sums (..., m) of each matrix."""


@runtime_checkable
class CountSlopesMetric(CountMetric, Protocol):
    """A metric of counts whose derivatives are known, and to which a class adds nothing if it has no counts.

    Very many classes are fitted with it: the m^2 entries of a gradient are never needed.
    """

    @property
    def is_mean_over_all(self) -> bool:
        """Whether it is a mean over all m classes, in which a class without counts is a 0."""

    def count_slopes(self, hits: FloatArray, true: FloatArray, predicted: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives by the hits (m,) and by the column sums (m,) of one matrix; row sums are fixed."""


@dataclass(frozen=True)
class Negated:
    """The negative of a metric, made by ``maximised`` if less is better."""

    inner: ConfusionMetric
    greater_is_better: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """``neg_`` and the inner metric's name."""
        return f"neg_{self.inner.name}"

    @property
    def weighting(self) -> str:
        """The entries that the inner metric depends on: ``"diagonal"``, ``"columns"`` or ``"full"``."""
        return self.inner.weighting

    def __getattr__(self, name: str) -> Any:
        """Pass on the optional attributes of the inner metric."""
        if name in _PASSED_ON:
            return getattr(self.inner, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the negative of each matrix's value."""
        return -np.asarray(self.inner.value(confusion))


class NegatedDifferentiable(Negated):
    """The same for a metric that has a gradient."""

    inner: DifferentiableMetric

    def gradient(self, confusion: FloatArray) -> FloatArray:
        """Return the negative of the gradient."""
        return -np.asarray(self.inner.gradient(confusion))


def maximised(metric: ConfusionMetric) -> ConfusionMetric:
    """Return the metric, or its negative if less is better.

    Parameters
    ----------
    metric : ConfusionMetric
        The metric. Without the attribute ``greater_is_better``, greater is better.

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
    """Raise if the metric is for another number of classes."""
    made_for = int(getattr(metric, "n_classes", n_classes))
    if made_for == n_classes:
        return
    n_groups = int(getattr(metric, "n_categories", made_for)) // made_for
    raise ShapeError(
        f"metric {metric.name!r} is for matrices of shape {(n_groups * made_for, made_for)}, but there are {n_classes} "
        f"classes: make it for shape {(n_groups * n_classes, n_classes)}"
    )


def check_is_maximised(metric: ConfusionMetric) -> None:
    """Raise if the metric is a cost, because a fit maximises its metric."""
    if not getattr(metric, "greater_is_better", True):
        raise MetricError(
            f"metric {metric.name!r} is a cost (less is better), but a fit maximises its metric: give its negative, "
            "postshift.metrics.maximised(metric)"
        )


def value_of(metric: ConfusionMetric, confusion: FloatArray) -> FloatArray:
    """Return psi of a stack of matrices (..., R, m); the metric gets a copy, which it may change."""
    return _guarded(metric.value, confusion, metric, VALUE, confusion.shape[:-2])


def depends_on_counts(metric: ConfusionMetric) -> TypeGuard[CountMetric]:
    """Return whether ``of_counts`` computes the metric; not if a subclass has a ``value`` of its own."""
    owners = [next((kind for kind in type(metric).__mro__ if name in vars(kind)), object) for name in _TWO_WAYS]
    return object not in owners and issubclass(owners[0], owners[1])


def value_of_counts(metric: CountMetric, hits: FloatArray, true: FloatArray, predicted: FloatArray) -> FloatArray:
    """Return psi of the hits, row sums and column sums (..., m) of a stack of matrices."""

    def call(found: FloatArray) -> FloatArray:
        return metric.of_counts(found, true, predicted)

    return _guarded(call, hits, metric, VALUE, hits.shape[:-1])


def has_count_slopes(metric: ConfusionMetric | None) -> TypeGuard[CountSlopesMetric]:
    """Return whether the metric is one of counts with known derivatives, and not one of a single class."""
    return (
        isinstance(metric, CountSlopesMetric)
        and depends_on_counts(metric)
        and not getattr(metric, "positive_classes", ())
    )


def count_slopes_of(
    metric: CountSlopesMetric, hits: FloatArray, true: FloatArray, predicted: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of psi by the hits and by the column sums of one matrix."""

    def call(found: FloatArray) -> FloatArray:
        return np.stack(np.broadcast_arrays(*metric.count_slopes(found, true, predicted)))

    by_hits, by_predicted = _guarded(call, hits, metric, "gradient", (2, *hits.shape))
    return by_hits, by_predicted


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
    """Return a metric's array; raise MetricError if the metric raises, or returns a wrong result."""
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
    """Return the error text for a value that is too large to compute with."""
    return (
        f"metric {name!r} gave {value:g}, and values above {LARGEST:g} are too large to compute with: divide the "
        "metric by a constant"
    )

"""What turns a user's function into a metric: of confusion matrices, of labels, or of predictions alone.

=====================  ==================================  ==========================================================
constructor            the function is called with         and what becomes of it
=====================  ==================================  ==========================================================
``from_confusion``     a confusion matrix of shares        a metric psi(C)
``from_labels``        y_true, y_pred (, sample_weight)    psi(C) by ``CellMetric``, or asked through ``LabelOracle``
``from_predictions``   y_pred, or class distributions      asked through ``PredictionOracle``
=====================  ==================================  ==========================================================

Each call gets arrays of its own: a function that changes them in place changes nothing else. ``CellMetric`` is in
``cells``, the oracles are in ``asking``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from postshift._validation import LARGEST, FloatArray, check_count, check_in_range
from postshift.core.psi import too_large
from postshift.exceptions import MetricError, PostshiftError, SettingError

T = TypeVar("T")
_WEIGHT = "sample_weight"
_WEIGHTINGS = ("diagonal", "columns", "full")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, kw_only=True)
class ConfusionFunction:
    """A user's function of the confusion matrix, as a metric. Made by ``from_confusion``."""

    function: Callable[[FloatArray], Any]
    name: str
    weighting: str
    stacked: bool
    greater_is_better: bool
    scale: float
    categories: int | None
    needs_every_class: ClassVar[bool] = False

    @property
    def n_categories(self) -> int:
        """The number of rows of the matrices, where they are not the classes."""
        if self.categories is None:
            raise AttributeError("the rows of the matrices are the classes")
        return self.categories

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the function of each matrix."""
        if self.stacked:
            return mapped(lambda: np.array(self.function(np.array(confusion)), dtype=np.float64), self.name)
        lead = confusion.shape[:-2]
        found = [self._of_one(confusion[place]) for place in np.ndindex(lead)]
        return np.array(found, dtype=np.float64).reshape(lead)

    def _of_one(self, confusion: FloatArray) -> float:
        """Return the function of one matrix."""
        return mapped(lambda: number(self.function(np.array(confusion)), name=self.name), self.name)


@dataclass(frozen=True, kw_only=True)
class LabelFunction:
    """A user's function of true and predicted labels. Made by ``from_labels``.

    Attributes
    ----------
    function : callable
        The function.
    name : str
        What it is called.
    greater_is_better : bool
        False for a loss.
    metadata : tuple of str
        Names of the further arguments it takes, one value a row.
    takes_weights : bool
        Whether it takes ``sample_weight``.
    scale : float
        The width of the range of its values.
    """

    function: Callable[..., Any]
    name: str
    greater_is_better: bool
    metadata: tuple[str, ...]
    takes_weights: bool
    scale: float

    @property
    def sign(self) -> float:
        """1, or -1 for a loss."""
        return 1.0 if self.greater_is_better else -1.0

    def __call__(
        self, y_true: Any, y_pred: Any, *, weights: Any = None, metadata: Mapping[str, Any] | None = None
    ) -> float:
        """Return the function's own number, a loss as a loss."""
        arguments = dict(metadata or {})
        if weights is not None:
            arguments[_WEIGHT] = weights
        shown = {name: np.array(values) for name, values in arguments.items()}
        return number(self.function(np.array(y_true), np.array(y_pred), **shown), name=self.name)


@dataclass(frozen=True, kw_only=True)
class PredictionFunction:
    """A user's function of predictions that keeps its labels to itself. Made by ``from_predictions``."""

    function: Callable[[Any], Any]
    soft: bool
    name: str
    greater_is_better: bool
    scale: float

    @property
    def sign(self) -> float:
        """1, or -1 for a loss."""
        return 1.0 if self.greater_is_better else -1.0

    def __call__(self, predictions: Any) -> float:
        """Return the function's own number, a loss as a loss."""
        return number(self.function(np.array(predictions)), name=self.name)


def from_confusion(
    function: Callable[[FloatArray], Any],
    *,
    name: str | None = None,
    weighting: str = "full",
    stacked: bool = False,
    greater_is_better: bool = True,
    scale: float = 1.0,
    n_categories: int | None = None,
) -> ConfusionFunction:
    """Return a metric from a function of the confusion matrix.

    Parameters
    ----------
    function : callable
        ``f(confusion) -> number`` of one matrix (m, m) of shares of the weight: rows true, columns predicted.
    name : str, optional
        What to call it; None for the function's own name.
    weighting : {"diagonal", "columns", "full"}, default="full"
        What it depends on, given the row sums: the diagonal, the diagonal and the column sums, or all.
    stacked : bool, default=False
        Whether it takes a whole stack (..., m, m) and returns an array (...); faster.
    greater_is_better : bool, default=True
        False for a loss.
    scale : float, default=1.0
        The width of the range of its values.
    n_categories : int, optional
        The number of rows of the matrices where they are (group, class) pairs, category ``group * m + class``.

    Examples
    --------
    >>> metric = from_confusion(lambda confusion: confusion[1, 1] - 2 * confusion[0, 1], name="profit", scale=3)
    >>> metric.name, round(float(metric.value(np.array([[0.4, 0.1], [0.2, 0.3]]))), 4)
    ('profit', 0.1)
    """
    if weighting not in _WEIGHTINGS:
        raise SettingError(f"weighting must be one of {_WEIGHTINGS}. Got {weighting!r} instead")
    return ConfusionFunction(
        function=_checked(function),
        name=called(function, name),
        weighting=weighting,
        stacked=stacked,
        greater_is_better=greater_is_better,
        scale=_width(scale),
        categories=None if n_categories is None else check_count(n_categories, name="n_categories", low=2),
    )


def from_labels(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    greater_is_better: bool = True,
    metadata: Iterable[str] | None = None,
    scale: float = 1.0,
) -> LabelFunction:
    """Return what the library needs to know of a function of true and predicted labels.

    Parameters
    ----------
    function : callable
        ``f(y_true, y_pred) -> number``, or ``f(y_true, y_pred, sample_weight=...)``. One that takes weights can tell
        the value of a randomised classifier exactly.
    name : str, optional
        What to call it; None for the function's own name.
    greater_is_better : bool, default=True
        False for a loss.
    metadata : iterable of str, optional
        Names of further keyword arguments with one value a row (groups, costs, ...). None for all arguments after
        the first two that have no default, ``sample_weight`` excepted.
    scale : float, default=1.0
        The width of the range of its values.

    Examples
    --------
    >>> def gain(y_true, y_pred, *, amount, sample_weight=None):
    ...     return np.average(amount * (y_true == y_pred), weights=sample_weight)
    >>> found = from_labels(gain, scale=100)
    >>> found.name, found.metadata, found.takes_weights
    ('gain', ('amount',), True)
    """
    parameters = parameters_of(_checked(function))
    if isinstance(metadata, str):
        raise SettingError(f"metadata must be names, in a list or tuple. Got {metadata!r} instead")
    names = _further(parameters) if metadata is None else tuple(metadata)
    open_ended = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    strange = [each for each in names if each not in parameters and not open_ended]
    if strange:
        raise SettingError(f"metric {called(function, name)!r} takes no argument {strange[0]!r}, named in metadata")
    return LabelFunction(
        function=function,
        name=called(function, name),
        greater_is_better=greater_is_better,
        metadata=names,
        takes_weights=_WEIGHT in parameters,
        scale=_width(scale),
    )


def from_predictions(
    function: Callable[[Any], Any],
    *,
    soft: bool = False,
    name: str | None = None,
    greater_is_better: bool = True,
    scale: float = 1.0,
) -> PredictionFunction:
    """Return what the library needs to know of a function that keeps its labels to itself.

    Parameters
    ----------
    function : callable
        ``f(predictions) -> number``. It is always shown all validation rows.
    soft : bool, default=False
        Whether it is shown class distributions (n, m), and not labels (n,) in the user's own classes.
    name : str, optional
        What to call it; None for the function's own name.
    greater_is_better : bool, default=True
        False for a loss.
    scale : float, default=1.0
        The width of the range of its values.

    Examples
    --------
    >>> secret = np.array(["spam", "ham", "ham"])
    >>> metric = from_predictions(lambda labels: (labels == secret).mean(), name="hidden accuracy")
    >>> round(metric(np.array(["spam", "ham", "spam"])), 4)
    0.6667
    """
    return PredictionFunction(
        function=_checked(function),
        soft=soft,
        name=called(function, name),
        greater_is_better=greater_is_better,
        scale=_width(scale),
    )


def mapped(call: Callable[[], T], name: str) -> T:
    """Call a user's function; what it raises becomes a MetricError."""
    try:
        return call()
    except PostshiftError:
        raise
    except Exception as error:
        raise MetricError(f"metric {name!r} raised {type(error).__name__}: {error}") from error


def number(answer: Any, *, name: str) -> float:
    """Return what a user's function returned as a float, refused unless it is one finite number."""
    try:
        value = np.asarray(answer)
    except ValueError:
        value = np.asarray(None)
    if value.dtype.kind not in "iuf" or value.ndim or not np.isfinite(value):
        raise MetricError(f"metric {name!r} must return one finite number. Got {answer!r} instead")
    if abs(float(value)) > LARGEST:
        raise MetricError(too_large(name, float(value)))
    return float(value)


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function, none where it does not tell."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def required_positionals(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    """Return the names of the positional parameters without a default, ``sample_weight`` excepted."""
    return [
        name
        for name, each in parameters.items()
        if each.kind in _POSITIONAL and each.default is each.empty and name != _WEIGHT
    ]


def _further(parameters: Mapping[str, inspect.Parameter]) -> tuple[str, ...]:
    """Return the names of the parameters after the first two that have no default, ``sample_weight`` excepted."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(
        name
        for place, (name, each) in enumerate(parameters.items())
        if place >= 2 and each.kind in kinds and each.default is each.empty and name != _WEIGHT
    )


def _checked(function: Any) -> Any:
    """Return a function, refused where it cannot be called."""
    if not callable(function) or isinstance(function, type):
        raise MetricError(f"the metric must be a function. Got {function!r} instead")
    return function


def called(function: Any, name: str | None = None) -> str:
    """Return the name given, or the function's own, or that of what it was made of."""
    while hasattr(function, "func") or hasattr(function, "__wrapped__"):
        function = getattr(function, "func", None) or function.__wrapped__
    return name or str(getattr(function, "__name__", type(function).__name__))


def _width(scale: Any) -> float:
    """Return the width of a range, refused unless it is above 0."""
    return check_in_range(scale, name="scale", low=0, high=np.inf, open_low=True, open_high=True)

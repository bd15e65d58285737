"""Adapters: a user's function of confusion matrices, of labels, or of predictions alone, as a metric.

=====================  ==================================  ==========================================================
constructor            the function is called with         how it is used
=====================  ==================================  ==========================================================
``from_confusion``     a confusion matrix of shares        as a metric psi(C)
``from_labels``        y_true, y_pred (, sample_weight)    as psi(C) by ``CellMetric``, or through ``LabelOracle``
``from_predictions``   y_pred, or class distributions      through ``PredictionOracle``
``from_oracle``        queries                             through the oracle itself
=====================  ==================================  ==========================================================

Each call gets copies of the arrays: a function may change them in place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from postshift._validation import LARGEST, FloatArray, check_count, check_in_range
from postshift.core.psi import ConfusionMetric, too_large
from postshift.core.queries import Oracle
from postshift.core.weighting import weighting_named
from postshift.exceptions import MetricError, PostshiftError, SettingError

T = TypeVar("T")
_WEIGHT = "sample_weight"
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, kw_only=True)
class UserFunction:
    """A user's function, its name, whether it is a loss, and the width of the range of its values."""

    function: Callable[..., Any]
    name: str
    greater_is_better: bool
    scale: float

    def __post_init__(self) -> None:
        """Raise if the function cannot be called or is a class, or the width is not above 0 and finite."""
        if not callable(self.function) or isinstance(self.function, type):
            raise MetricError(f"the metric must be a function. Got {self.function!r} instead")
        width = check_in_range(self.scale, name="scale", low=0, high=np.inf, open_low=True, open_high=True)
        object.__setattr__(self, "scale", width)

    @property
    def sign(self) -> float:
        """1, or -1 for a loss."""
        return 1.0 if self.greater_is_better else -1.0


@dataclass(frozen=True, kw_only=True)
class ConfusionFunction(UserFunction):
    """A user's function of the confusion matrix, as a metric. Returned by ``from_confusion``."""

    weighting: str
    stacked: bool
    categories: int | None
    needs_every_class: ClassVar[bool] = False

    @property
    def n_categories(self) -> int:
        """The number of rows of the matrices; raises AttributeError if they are the classes."""
        if self.categories is None:
            raise AttributeError("the rows of the matrices are the classes")
        return self.categories

    def value(self, confusion: FloatArray) -> FloatArray:
        """Return the function of each matrix."""
        if self.stacked:
            return mapped(lambda: np.array(self.function(np.array(confusion)), dtype=np.float64), self.name)
        lead = confusion.shape[:-2]
        found = [mapped(partial(self._of_one, confusion[place]), self.name) for place in np.ndindex(lead)]
        return np.array(found, dtype=np.float64).reshape(lead)

    def _of_one(self, confusion: FloatArray) -> float:
        """Return the function of one matrix."""
        return number(self.function(np.array(confusion)), name=self.name)


@dataclass(frozen=True, kw_only=True)
class LabelFunction(UserFunction):
    """A user's function of true and predicted labels. Returned by ``from_labels``.

    ``metadata`` are the names of its other arguments, and ``takes_weights`` says whether it takes ``sample_weight``.
    """

    metadata: tuple[str, ...]
    takes_weights: bool

    def __call__(
        self, y_true: Any, y_pred: Any, *, weights: Any = None, metadata: Mapping[str, Any] | None = None
    ) -> float:
        """Return the value of the function, without a change of sign for a loss."""
        arguments = dict(metadata or {})
        if weights is not None:
            arguments[_WEIGHT] = weights
        shown = {name: np.array(values) for name, values in arguments.items()}
        return number(self.function(np.array(y_true), np.array(y_pred), **shown), name=self.name)


@dataclass(frozen=True, kw_only=True)
class PredictionFunction(UserFunction):
    """A user's function of predictions, which has the true labels itself. Returned by ``from_predictions``."""

    soft: bool

    def __call__(self, predictions: Any) -> float:
        """Return the value of the function, without a change of sign for a loss."""
        return number(self.function(np.array(predictions)), name=self.name)


def from_confusion(
    function: Callable[[FloatArray], Any],
    *,
    name: str | None = None,
    weighting: str | Sequence[tuple[int, int]] = "full",
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
        Its name; by default the name of the function.
    weighting : {"diagonal", "columns", "full"} or sequence of pairs, default="full"
        What it depends on, given the row sums: the diagonal, the diagonal and the column sums, or all; or some entries
        as pairs (true class, predicted class) of positions, to which the paper's method gives weights of their own.
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
    return ConfusionFunction(
        function=function,
        name=called(function, name),
        weighting=weighting_named(weighting).name,
        stacked=stacked,
        greater_is_better=greater_is_better,
        scale=scale,
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
    """Return a metric from a function of true and predicted labels.

    Parameters
    ----------
    function : callable
        ``f(y_true, y_pred) -> number``, or ``f(y_true, y_pred, sample_weight=...)``. With weights, the value of a
        randomised classifier is exact.
    name : str, optional
        Its name; by default the name of the function.
    greater_is_better : bool, default=True
        False for a loss.
    metadata : iterable of str, optional
        Names of other keyword arguments with one value per row (groups, costs, ...). By default all arguments after
        the first two that have no default, except ``sample_weight``.
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
    parameters = parameters_of(function)
    if isinstance(metadata, str):
        raise SettingError(f"metadata must be names, in a list or tuple. Got {metadata!r} instead")
    required = [each for each in extra_parameters(function) if parameters[each].default is inspect.Parameter.empty]
    names = tuple(required if metadata is None else metadata)
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    missing = [each for each in names if each not in parameters and not takes_any]
    if missing:
        raise SettingError(
            f"metric {called(function, name)!r} takes no argument {missing[0]!r}: remove it from metadata, or add it "
            "to the function"
        )
    return LabelFunction(
        function=function,
        name=called(function, name),
        greater_is_better=greater_is_better,
        metadata=names,
        takes_weights=_WEIGHT in parameters,
        scale=scale,
    )


def from_predictions(
    function: Callable[[Any], Any],
    *,
    soft: bool = False,
    name: str | None = None,
    greater_is_better: bool = True,
    scale: float = 1.0,
) -> PredictionFunction:
    """Return a metric from a function of predictions, which has the true labels itself.

    Parameters
    ----------
    function : callable
        ``f(predictions) -> number``. It always gets the predictions of all validation rows.
    soft : bool, default=False
        Whether it gets class distributions (n, m) instead of class labels (n,).
    name : str, optional
        Its name; by default the name of the function.
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
        function=function,
        soft=soft,
        name=called(function, name),
        greater_is_better=greater_is_better,
        scale=scale,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class OracleMetric:
    """A metric that an oracle answers, which has the labels itself. Returned by ``from_oracle``.

    ``psi`` is the metric of the confusion matrix, if the oracle answers with matrices or with a table.
    """

    oracle: Oracle
    psi: ConfusionMetric | None
    name: str
    scale: float


def from_oracle(
    oracle: Oracle, *, metric: ConfusionMetric | None = None, name: str | None = None, scale: float = 1.0
) -> OracleMetric:
    """Return a metric from an oracle: an object that answers queries about predictions.

    Parameters
    ----------
    oracle : Oracle
        Has ``kind``, ``takes_subsets`` and ``answer(query)``, as in :mod:`postshift.core.queries`.
    metric : ConfusionMetric, optional
        For an oracle that answers with confusion matrices: the metric of such a matrix.
    name : str, optional
        Its name; by default the metric's, or that of the oracle's class.
    scale : float, default=1.0
        The width of the range of its values.

    Examples
    --------
    >>> from postshift.core.oracles import ConfusionOracle
    >>> from postshift.metrics import GMean
    >>> from_oracle(ConfusionOracle([0, 1, 1], n_classes=2), metric=GMean()).name
    'g_mean'
    """
    if isinstance(oracle, type) or not hasattr(oracle, "answer"):
        raise MetricError(f"oracle must be an object that answers queries. Got {oracle!r} instead")
    reads_matrices = oracle.kind in ("confusion", "table")
    if reads_matrices != (metric is not None):
        raise MetricError(
            f"an oracle of kind {oracle.kind!r} {'needs' if reads_matrices else 'takes no'} metric=..., the metric of "
            "the confusion matrix"
        )
    width = check_in_range(scale, name="scale", low=0, high=np.inf, open_low=True, open_high=True)
    found = name or (type(oracle).__name__ if metric is None else metric.name)
    return OracleMetric(oracle=oracle, psi=metric, name=found, scale=width)


def mapped(call: Callable[[], T], name: str) -> T:
    """Call a user's function and convert its errors to MetricError."""
    try:
        return call()
    except PostshiftError:
        raise
    except Exception as error:
        raise MetricError(f"metric {name!r} raised {type(error).__name__}: {error}") from error


def number(answer: Any, *, name: str) -> float:
    """Return the answer of a user's function as a float; raise unless it is one finite number."""
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
    """Return the parameters of a function, or an empty mapping if it has no signature."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def required_positionals(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    """Return the names of the positional parameters without a default, except ``sample_weight``."""
    return [
        name
        for name, each in parameters.items()
        if each.kind in _POSITIONAL and each.default is each.empty and name != _WEIGHT
    ]


def extra_parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters after the first two, except ``sample_weight``."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    later = list(parameters_of(function).items())[2:]
    return [name for name, each in later if each.kind in kinds and name != _WEIGHT]


def called(function: Any, name: str | None = None) -> str:
    """Return the given name, or that of the function, or of the function it wraps."""
    while hasattr(function, "func") or hasattr(function, "__wrapped__"):
        function = getattr(function, "func", None) or function.__wrapped__
    return name or str(getattr(function, "__name__", type(function).__name__))

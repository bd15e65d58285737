"""scikit-learn's scorers as metrics. No other module of the metrics imports scikit-learn; this one does when called.

Functions of scikit-learn become metrics psi(C) of this library if their arguments are supported: these are fast and
have gradients. They average over all classes; scikit-learn averages over the labels that occur. Any other function of
predicted labels becomes a ``LabelFunction``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from postshift._validation import unknown
from postshift.core.psi import ConfusionMetric, negated
from postshift.exceptions import MetricError, SettingError
from postshift.metrics.adapters import LabelFunction, from_labels
from postshift.metrics.confusion import Accuracy, CohenKappa, MatthewsCorrelation
from postshift.metrics.rates import FBeta, Jaccard, Precision, RateMetric, Recall
from postshift.metrics.recalls import BalancedAccuracy

_ATTRIBUTES = ("_score_func", "_sign", "_kwargs", "_response_method")
_ZERO = ("warn", 0)  # values of zero_division for which a rate 0 / 0 counts 0
_FOREIGN = {
    "sklearn.metrics._regression": "is for numbers (regression), not for classes",
    "sklearn.metrics.cluster": "compares clusterings and does not know which class is which",
}
_INSTEAD = "use one of accuracy, balanced_accuracy, f1_macro, g_mean, ... (see metric_catalogue)"

Builder = Callable[[dict[str, Any], Any], ConfusionMetric | None]


def is_scorer(candidate: Any) -> bool:
    """Return whether an object was returned by scikit-learn's ``make_scorer``."""
    return all(hasattr(candidate, name) for name in _ATTRIBUTES)


def is_of_ranking(function: Any) -> bool:
    """Return whether a function is one of scikit-learn's metrics of scores or probabilities."""
    return str(getattr(function, "__module__", "")) == "sklearn.metrics._ranking"


def is_scorer_name(name: str) -> bool:
    """Return whether scikit-learn has a scorer of this name."""
    from sklearn.metrics import get_scorer_names

    return name in get_scorer_names()


def from_scorer(scorer: Any, *, classes: Any) -> ConfusionMetric | LabelFunction:
    """Return a scorer of scikit-learn as a metric, with its sign, its arguments and its ``pos_label``.

    Parameters
    ----------
    scorer : str or scorer
        The name of a scorer, or a scorer from ``sklearn.metrics.make_scorer``. It must read predicted labels.
    classes : array of shape (m,)
        The class labels, by position.

    Returns
    -------
    ConfusionMetric or LabelFunction
        For functions of scikit-learn, a metric of the confusion matrix for which greater is better; else the function.

    Examples
    --------
    >>> from sklearn.metrics import fbeta_score, make_scorer
    >>> from_scorer(make_scorer(fbeta_score, beta=2, pos_label="spam"), classes=["ham", "spam"])
    FBeta(beta=2, average='binary', positive=1)
    """
    if isinstance(scorer, str):
        from sklearn.metrics import get_scorer, get_scorer_names

        if not is_scorer_name(scorer):
            raise SettingError(unknown(scorer, get_scorer_names(), what="scorer"))
        scorer = get_scorer(scorer)
    if not is_scorer(scorer):
        raise MetricError(
            f"a scorer must be a name or the result of sklearn.metrics.make_scorer. Got {scorer!r} instead; "
            "wrap a function of y_true and y_pred in from_labels"
        )
    function, arguments = scorer._score_func, dict(scorer._kwargs)  # noqa: SLF001
    _check(scorer, function, arguments)
    classes = np.asarray(classes)
    builder = _builders().get(function)
    metric = None if builder is None else builder(arguments, classes)
    if metric is not None:
        return metric if scorer._sign > 0 else negated(metric)  # noqa: SLF001
    return from_labels(partial(function, **arguments), greater_is_better=scorer._sign > 0)  # noqa: SLF001


def _check(scorer: Any, function: Any, arguments: Mapping[str, Any]) -> None:
    """Raise unless the scorer reads predicted labels, one class per row."""
    name, method = getattr(function, "__name__", repr(function)), scorer._response_method  # noqa: SLF001
    first = method if isinstance(method, str) else next(iter(method))
    if first != "predict":
        raise MetricError(
            f"scorer {name!r} reads {first}, that is, scores or probabilities, but postshift changes the predicted "
            f"classes: {_INSTEAD}"
        )
    for module, reason in _FOREIGN.items():
        if str(getattr(function, "__module__", "")).startswith(module):
            raise MetricError(f"scorer {name!r} {reason}: {_INSTEAD}")
    if arguments.get("average") == "samples":
        raise MetricError(f"scorer {name!r} with average='samples' is for rows with several labels: {_INSTEAD}")
    if "sample_weight" in arguments:
        raise MetricError(f"scorer {name!r} has a fixed sample_weight: pass the weights with the validation rows")


def _builders() -> dict[Any, Builder]:
    """Return the builder of the metric for each supported function of scikit-learn."""
    from sklearn import metrics

    return {
        metrics.accuracy_score: partial(_without_arguments, Accuracy, {"normalize": True}),
        metrics.balanced_accuracy_score: partial(_without_arguments, BalancedAccuracy, {"adjusted": False}),
        metrics.matthews_corrcoef: partial(_without_arguments, MatthewsCorrelation, {}),
        metrics.cohen_kappa_score: _kappa,
        metrics.f1_score: partial(_rate, FBeta),
        metrics.fbeta_score: partial(_rate, FBeta),
        metrics.precision_score: partial(_rate, Precision),
        metrics.recall_score: partial(_rate, Recall),
        metrics.jaccard_score: partial(_rate, Jaccard),
    }


def _without_arguments(
    kind: Callable[[], ConfusionMetric], defaults: Mapping[str, Any], arguments: dict[str, Any], _: Any
) -> ConfusionMetric | None:
    """Return a metric without parameters; None if an argument differs from the defaults."""
    same = all(name in defaults and defaults[name] is value for name, value in arguments.items())
    return kind() if same else None


def _kappa(arguments: dict[str, Any], classes: Any) -> ConfusionMetric | None:
    """Return Cohen's kappa; None for weights and unsorted classes, because scikit-learn sorts them."""
    rest = {name for name, value in arguments.items() if not (name == "labels" and value is None)} - {"weights"}
    weights = arguments.get("weights")
    if rest or (weights is not None and not np.array_equal(np.sort(classes), classes)):
        return None
    return CohenKappa(weights)


def _rate(kind: Callable[..., RateMetric], arguments: dict[str, Any], classes: Any) -> ConfusionMetric | None:
    """Return a rate; None if scikit-learn's arguments change 0 / 0 or leave out labels."""
    given = {"average": "binary", "pos_label": 1, "zero_division": "warn", "labels": None} | arguments
    average, label = given.pop("average"), given.pop("pos_label")
    zero, labels = given.pop("zero_division"), given.pop("labels")
    if labels is not None or not any(zero is each or zero == each for each in _ZERO) or set(given) - {"beta"}:
        return None
    if average is None:
        raise MetricError("average=None returns one number for each class: use 'macro', 'micro' or 'weighted'")
    if average != "binary":
        return kind(average=average, **given)
    if len(classes) != 2:
        raise MetricError(f"average='binary' is for two classes, but there are {len(classes)}: use average='macro'")
    known = classes.tolist()
    if label not in known:
        raise MetricError(
            f"pos_label={label!r} is not one of the classes {known}: pass one of them, make_scorer(..., pos_label=...)"
        )
    return kind(average=average, positive=known.index(label), **given)

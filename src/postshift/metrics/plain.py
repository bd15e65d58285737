"""Metrics of the classes by their names: scikit-learn's where it has one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from postshift._validation import unknown
from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import SettingError
from postshift.metrics.confusion import Accuracy, CohenKappa, MatthewsCorrelation
from postshift.metrics.grammar import Term, class_position
from postshift.metrics.rates import Average, BinaryF1, FBeta, Jaccard, MacroF1, Precision, Recall
from postshift.metrics.recalls import BalancedAccuracy, GMean, HMean, MinRecall, QMean

_RATES: dict[str, tuple[Callable[..., DifferentiableMetric], str]] = {
    "f1": (FBeta, "harmonic mean of precision and recall"),
    "precision": (Precision, "share of the predictions of a class that are right"),
    "recall": (Recall, "share of the rows of a class that are found"),
    "jaccard": (Jaccard, "share right among the rows that are of a class or predicted to be"),
}
_AVERAGES: dict[Average, str] = {
    "binary": "of the positive of two classes",
    "macro": "mean over the classes",
    "micro": "of all classes together",
    "weighted": "mean over the classes, weighted with their sizes",
}
_OTHERS: dict[str, tuple[Callable[[], DifferentiableMetric], str]] = {
    "accuracy": (Accuracy, "share of right predictions"),
    "balanced_accuracy": (BalancedAccuracy, "mean of the recalls"),
    "g_mean": (GMean, "geometric mean of the recalls"),
    "h_mean": (HMean, "harmonic mean of the recalls"),
    "q_mean": (QMean, "one less the quadratic mean of the misses"),
    "min_recall": (MinRecall, "lowest recall"),
    "matthews_corrcoef": (MatthewsCorrelation, "correlation of truth and prediction"),
    "cohen_kappa": (CohenKappa, "agreement above chance"),
    "cohen_kappa_linear": (partial(CohenKappa, "linear"), "agreement above chance, errors cost their distance"),
    "cohen_kappa_quadratic": (partial(CohenKappa, "quadratic"), "agreement above chance, errors cost it squared"),
}


def plain_descriptions() -> dict[str, str]:
    """Return the names, each with a line on what it is."""
    rates = {
        stem if average == "binary" else f"{stem}_{average}": f"{text}, {ending}"
        for stem, (_, text) in _RATES.items()
        for average, ending in _AVERAGES.items()
    }
    return {name: text for name, (_, text) in _OTHERS.items()} | rates


def is_of_one_class(name: str) -> bool:
    """Return whether the metric of a name is that of a positive class, which may stand in brackets after it."""
    return name in _RATES


def check_takes_class(term: Term) -> None:
    """Refuse a class in brackets after the name of a metric that is not about one class."""
    if term.label is not None and not is_of_one_class(term.name):
        ones = ", ".join(f"{name}[{term.label}]" for name in _RATES)
        raise SettingError(f"metric {term.name!r} is not about one class: leave [{term.label}] out, or take {ones}")


def plain_metric(name: str, *, n_classes: int, positive: int | None = None) -> DifferentiableMetric:
    """Return the metric of a name, or of ``NAME[POSITION]`` for the class at a position.

    One of a positive class is about the class at ``positive``; where that is None, about the second of two classes.
    """
    term = Term.read(name)
    if term.name in _OTHERS and term.label is None:
        return _OTHERS[term.name][0]()
    stem, _, ending = term.name.partition("_")
    average = ending or "binary"
    if term.name not in plain_descriptions():
        raise SettingError(unknown(term.name, plain_descriptions(), what="metric"))
    check_takes_class(term)
    if average != "binary":
        return MacroF1() if term.name == "f1_macro" else _RATES[stem][0](average=average)
    if term.label is not None:
        positive = class_position(term.label, range(n_classes))
    if n_classes != 2:
        return _one_vs_rest(stem, positive, n_classes)
    positive = 1 if positive is None else positive
    return BinaryF1(positive) if stem == "f1" else _RATES[stem][0](average="binary", positive=positive)


def _one_vs_rest(stem: str, positive: int | None, n_classes: int) -> DifferentiableMetric:
    """Return the rate of one of many classes, refused where it is not said of which."""
    if positive is None:
        raise SettingError(
            f"metric {stem!r} is for two classes, and there are {n_classes}: use '{stem}_macro', or name one class, "
            f"'{stem}[CLASS]'"
        )
    return _RATES[stem][0](average="one_vs_rest", positive=positive)

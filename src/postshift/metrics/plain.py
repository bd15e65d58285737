"""Metrics of the classes by their names: scikit-learn's where it has one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import get_args

from postshift._validation import unknown
from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import SettingError
from postshift.metrics.confusion import Accuracy, CohenKappa, MatthewsCorrelation
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


def plain_metric(name: str, *, n_classes: int, positive: int = 1) -> DifferentiableMetric:
    """Return the metric of this name, refused where there is none or it is for two classes."""
    if name in _OTHERS:
        return _OTHERS[name][0]()
    stem, _, ending = name.partition("_")
    average = ending or "binary"
    if stem not in _RATES or average not in get_args(Average) or name.endswith("_binary"):
        raise SettingError(unknown(name, plain_descriptions(), what="metric"))
    if average == "binary" and n_classes != 2:
        raise SettingError(f"metric {name!r} is for two classes, and there are {n_classes}: use '{name}_macro'")
    if stem == "f1" and average == "binary":
        return BinaryF1(positive)
    if stem == "f1" and average == "macro":
        return MacroF1()
    return _RATES[stem][0](average=average, positive=positive if average == "binary" else 1)

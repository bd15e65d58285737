"""What the default is compared with: simple rules, published rules, and rules of other libraries.

A rival gets the probabilities and labels of the validation rows, the metric on them (`Value`, which counts how often
it is asked), and the probabilities of the test rows. It never gets test labels or groups, nor training rows.

``labels_of(rival, data, metric)`` returns the test labels and the number of queries. A query is one value of the
metric of labels; rules that use the metric's formula (expected utility, xCOLUMNs, OxonFair, fairlearn) ask nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from experiments.studies import library_rivals
from experiments.studies.calibrations import Calibration, matrix_scaling, temperature_scaling
from experiments.studies.cwplugin import cwplugin
from experiments.studies.dnip import dnip, dnip_on_metric
from experiments.studies.menu_tasks import TaskData
from experiments.studies.rival_value import Floats, Ints, Labeller, Value, folds, is_of_matrix, problem_of, weighted
from experiments.studies.weight_search import coordinate_search, search_weights, tuned_threshold
from postshift import Rows
from postshift.core.queries import without_queries
from postshift.rules import ExpectedUtility

N_FOLDS = 5
MENU = "cross-validated menu"

Calibrator = Callable[[Floats, Ints], Calibration]
Rule = Callable[[Value], Labeller]  # fitted to validation rows, it labels any rows


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A rival: its name, whether it can be used (data, metric), and its test labels (data, the metric to ask)."""

    name: str
    usable: Callable[[TaskData, Any], bool]
    fit: Callable[[TaskData, Value], Ints]


def labels_of(rival: Rival, data: TaskData, metric: Any) -> tuple[Ints, int]:
    """Return a rival's test labels, and how often it asked for the metric; test labels and groups are taken away."""
    blind: TaskData = replace(data, y_test=None, group_test=None)  # type: ignore[arg-type]
    value = Value.of(blind, metric)
    with warnings.catch_warnings(action="ignore"):  # other libraries warn of few rows and of their own future
        labels = np.asarray(rival.fit(blind, value), dtype=np.intp)
    return labels, value.counter.n_queries


# -- simple rules -------------------------------------------------------------------------------------------


def argmax(value: Value) -> Labeller:
    """Return the model as it is."""
    return weighted(np.ones(value.n_classes))


def inverse_prior(value: Value) -> Labeller:
    """Return ``argmax_k eta_k / prior_k``, with the shares of the validation labels; none is below one row."""
    return weighted(len(value.y) / np.maximum(np.bincount(value.y, minlength=value.n_classes), 1))


def calibrated(calibrate: Calibrator, then: Rule) -> Rule:
    """Return a rule that calibrates the probabilities first."""

    def fit(value: Value) -> Labeller:
        posterior = calibrate(value.eta, value.y)
        label = then(replace(value, eta=posterior(value.eta)))
        return lambda eta: label(posterior(eta))

    return fit


def expected_utility(calibrate: Calibrator, data: TaskData, value: Value) -> Ints:
    """Return the test labels of postshift's expected utility on calibrated probabilities of the validation rows."""
    posterior = calibrate(data.eta_val, data.y_val)
    problem = problem_of(data, value.metric).with_eta(posterior)
    return without_queries(ExpectedUtility().fit(problem)).labels(Rows.of(posterior(data.eta_test)))


def _has_expected_utility(data: TaskData, metric: Any) -> bool:
    """Return whether the metric is a known function of the confusion matrix of the classes."""
    return is_of_matrix(metric) and ExpectedUtility().usable(problem_of(data, metric))


# -- the menu -----------------------------------------------------------------------------------------------

SIMPLE: dict[str, Rule] = {
    "argmax": argmax,
    "inverse prior": inverse_prior,
    "temperature + inverse prior": calibrated(temperature_scaling, inverse_prior),
    "matrix scaling + argmax": calibrated(matrix_scaling, argmax),
    "search": search_weights,
}


def menu_by_folds(value: Value) -> Labeller:
    """Return the simple rule with the best metric of its labels outside of the folds, fitted to all rows.

    The labels of all folds are scored together: a fold has too few rows of a rare class. Of equal rules, the first
    wins.
    """
    parts = folds(value.y, N_FOLDS)
    scores = {name: value(_labels_by_folds(rule, value, parts)) for name, rule in SIMPLE.items()}
    return SIMPLE[max(scores, key=lambda name: scores[name])](value)


def _labels_by_folds(rule: Rule, value: Value, parts: list[tuple[Ints, Ints]]) -> Ints:
    """Return a rule's labels of every row, fitted without the row's fold."""
    labels = np.empty(len(value.y), dtype=np.intp)
    for fitted, held in parts:
        labels[held] = rule(value.take(fitted))(value.eta[held])
    return labels


# -- all ----------------------------------------------------------------------------------------------------


def _always(data: TaskData, metric: Any) -> bool:
    """Return True."""
    return True


def _has_two_classes(data: TaskData, metric: Any) -> bool:
    """Return whether there are two classes."""
    return data.n_classes == 2


def _has_more_classes(data: TaskData, metric: Any) -> bool:
    """Return whether there are more than two classes."""
    return data.n_classes > 2


def _of_rule(name: str, rule: Rule, usable: Callable[[TaskData, Any], bool] = _always) -> Rival:
    """Return the rival of a rule that reads probabilities only."""
    return Rival(name=name, usable=usable, fit=lambda data, value: rule(value)(data.eta_test))


def _of_calibration(name: str, calibrate: Calibrator) -> tuple[Rival, ...]:
    """Return a calibration with its argmax, the inverse prior and expected utility.

    Temperature scaling keeps the argmax: its first rival is the model as it is.
    """
    return (
        _of_rule(f"{name} + argmax", calibrated(calibrate, argmax)),
        _of_rule(f"{name} + inverse prior", calibrated(calibrate, inverse_prior)),
        Rival(
            name=f"{name} + expected utility",
            usable=_has_expected_utility,
            fit=partial(expected_utility, calibrate),
        ),
    )


RIVALS: tuple[Rival, ...] = (
    _of_rule("inverse prior of the labels", inverse_prior),
    *_of_calibration("temperature", temperature_scaling),
    *_of_calibration("matrix scaling", matrix_scaling),
    _of_rule("tuned threshold", tuned_threshold, _has_two_classes),
    _of_rule("coordinate search", coordinate_search, _has_more_classes),
    _of_rule(MENU, menu_by_folds),
    _of_rule("CWPlugin", cwplugin),
    _of_rule("CWPlugin, golden section", partial(cwplugin, fast=True)),
    _of_rule("CWPlugin, all rows", partial(cwplugin, all_rows=True), _has_more_classes),
    _of_rule("DNIP", dnip),
    _of_rule("DNIP annealing on the metric", dnip_on_metric),
    Rival(name="xCOLUMNs", usable=library_rivals.suits_xcolumns, fit=library_rivals.run_xcolumns),
    Rival(name="OxonFair", usable=library_rivals.suits_oxonfair, fit=library_rivals.run_oxonfair),
    Rival(name="ThresholdOptimizer", usable=library_rivals.suits_thresholds, fit=library_rivals.run_thresholds),
)

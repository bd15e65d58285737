"""Plain searches of a threshold or of class weights for the metric on the validation rows."""

from __future__ import annotations

import numpy as np

from experiments.studies.rival_value import Floats, Labeller, Value, weighted

N_THRESHOLDS = 100  # as in scikit-learn's TunedThresholdClassifierCV
N_TRIED = 40  # weights of a class
SWEEPS = 5
_FLOOR = 1e-12


def search_weights(value: Value) -> Labeller:
    """Search a threshold for two classes, and class weights for more."""
    return tuned_threshold(value) if value.n_classes == 2 else coordinate_search(value)


def tuned_threshold(value: Value) -> Labeller:
    """Return the best of 100 even thresholds of the second class, as scikit-learn tunes a model that is fitted.

    scikit-learn (``cv="prefit"``) takes thresholds between the smallest and the largest probability; so does this. Of
    equal ones the first wins, as there.
    """
    scores = value.eta[:, 1]
    thresholds = np.linspace(scores.min(), scores.max(), N_THRESHOLDS)
    values = [value((scores >= threshold).astype(np.intp)) for threshold in thresholds]
    best = thresholds[int(np.argmax(values))]
    return lambda eta: (eta[:, 1] >= best).astype(np.intp)


def coordinate_search(value: Value) -> Labeller:
    """Return class weights by ascent along one class at a time, from equal weights and from the inverse prior.

    The tried weights of a class lie between those at which a row changes its label. A sweep over all classes without
    a gain ends the search.
    """
    prior = np.maximum(np.bincount(value.y, minlength=value.n_classes), 1) / len(value.y)
    found = [_ascended(value, start) for start in (np.ones(value.n_classes), 1 / prior)]
    return weighted(max(found, key=lambda each: each[1])[0])


def _ascended(value: Value, weights: Floats) -> tuple[Floats, float]:
    """Return the weights that the ascent finds, and their value."""
    best = value(weighted(weights)(value.eta))
    for _ in range(SWEEPS):
        before = best
        for label in range(value.n_classes):
            for weight in tried_weights(value.eta, weights, label):
                there = weights.copy()
                there[label] = weight
                then = value(weighted(there)(value.eta))
                if then > best:
                    best, weights = then, there
        if best == before:
            break
    return weights, best


def tried_weights(eta: Floats, weights: Floats, label: int) -> Floats:
    """Return weights of a class between its rows' turning points, at most `N_TRIED` even quantiles of them."""
    others = np.delete(eta * weights, label, axis=1).max(axis=1)
    turns = np.unique(np.log(np.maximum(others, _FLOOR)) - np.log(np.maximum(eta[:, label], _FLOOR)))
    between = np.concatenate([turns[:1] - 1, (turns[1:] + turns[:-1]) / 2, turns[-1:] + 1])
    places = np.unique(np.linspace(0, len(between) - 1, N_TRIED).round().astype(np.intp))
    return np.asarray(np.exp(between[places]))

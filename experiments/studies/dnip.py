"""DNIP: class weights from a grid, found by simulated annealing, written anew.

The method is that of Lin and You (2024), "COBias and Debias" (arXiv 2405.07623), debiasing as nonlinear integer
programming. Only its abstract and summaries were at hand, not the text nor code. They say: the rule is
``argmax_k w_k eta_k``; the objective is made of the accuracy and of COBias, the differences of the class accuracies
over all pairs; simulated annealing minimises it. The grid of 30 weights k / 30 and the term of the pointwise mutual
information (PMI) of the predicted and the true class are from a short description of the method.

What is filled in here: the objective is the error, plus the mean of ``|A_i - A_j|`` over pairs, minus `PMI_SHARE`
times the mean PMI of the classes (the published strengths were not at hand; here they are fixed, not tuned). The
annealing starts at the model as it is; the temperature falls by 5 % after every ``2 m`` moves; a move gives one class
a new weight; the best place that was seen is returned.

A second rule anneals the metric of the task itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.studies.rival_value import Floats, Ints, Labeller, Value, weighted

LEVELS = 30
PMI_SHARE = 0.2
HOTTEST, COLDEST, COOLING = 0.3, 1e-3, 0.95
MOVES = 2  # for each class at every temperature
SEED = 0
_TINY = 1e-6


def dnip(value: Value) -> Labeller:
    """Anneal the published objective and return the rule; the metric of the task is never asked."""
    return weighted(anneal(lambda weights: cost(weighted(weights)(value.eta), value.y, value.n_classes), value))


def dnip_on_metric(value: Value) -> Labeller:
    """Anneal the metric of the task and return the rule."""
    return weighted(anneal(lambda weights: -value(weighted(weights)(value.eta)), value))


def cost(labels: Ints, y: Ints, n_classes: int) -> float:
    """Return the error plus COBias minus a share of the mean PMI; classes without rows are left out."""
    confusion = np.bincount(y * n_classes + labels, minlength=n_classes**2).reshape(n_classes, n_classes) / len(y)
    true, predicted, hits = confusion.sum(axis=1), confusion.sum(axis=0), np.diag(confusion)
    present = true > 0
    accuracies = hits[present] / true[present]
    n_present = len(accuracies)
    gaps = np.abs(accuracies[:, None] - accuracies[None]).sum() / max(n_present * (n_present - 1), 1)
    pmi = np.log((hits[present] + _TINY) / (predicted[present] * true[present] + _TINY))
    return float(1 - hits.sum() + gaps - PMI_SHARE * pmi.mean())


def n_evaluations(n_classes: int) -> int:
    """Return how many places the annealing looks at."""
    return 1 + _n_temperatures() * MOVES * n_classes


def _n_temperatures() -> int:
    """Return the number of temperatures."""
    return int(np.ceil(np.log(COLDEST / HOTTEST) / np.log(COOLING)))


def anneal(objective: Callable[[Floats], float], value: Value) -> Floats:
    """Return the weights with the smallest objective that the annealing has seen."""
    rng, n_classes = np.random.default_rng(SEED), value.n_classes
    here = np.full(n_classes, LEVELS)
    now = objective(here / LEVELS)
    best, least = here, now
    for place in range(_n_temperatures()):
        temperature = HOTTEST * COOLING**place
        for _ in range(MOVES * n_classes):
            there = here.copy()
            there[rng.integers(n_classes)] = rng.integers(1, LEVELS + 1)
            then = objective(there / LEVELS)
            if then <= now or rng.random() < np.exp((now - then) / temperature):
                here, now = there, then
                best, least = (here, now) if now < least else (best, least)
    return np.asarray(best / LEVELS)

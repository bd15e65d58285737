"""Random rows with labels of every kind, and the metrics of the catalogue by scikit-learn's own functions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn import metrics as sk

from postshift.metrics import metric_catalogue
from postshift.metrics.resolve import metadata_names

KINDS = {
    "whole": np.arange(-3, 60),
    "gaps": np.array([-(2**40), -7, 0, 1, 5, 12, 999, 2**31, 2**53]),
    "small": np.arange(250, dtype=np.uint8),
    "bools": np.array([False, True]),
    "floats": np.array([-1.5, -0.25, 0.0, 0.5, 1.0, 2.0, 3.75, 1e9]),
    "texts": np.array(["", " a", "1", "ant", "bee", "Zoë", "a,b", "true", "yes", "ж", "nan", "x" * 40]),
    "objects": np.array(["ant", "bee", "cat", "dog", "elk"], dtype=object),
}
RATES = {"f1": sk.f1_score, "precision": sk.precision_score, "recall": sk.recall_score, "jaccard": sk.jaccard_score}
AVERAGES = ("macro", "micro", "weighted")


@dataclass(frozen=True)
class Rows:
    """Rows with their labels, as positions among ``classes``: the true ones and those that were predicted."""

    classes: Any
    truth: Any
    found: Any
    groups: Any
    weights: Any = None

    @property
    def n_classes(self):
        return len(self.classes)

    @property
    def y(self):
        return self.classes[self.truth]

    @property
    def eta(self):
        """Probabilities by which a model predicts what was found."""
        return (np.eye(self.n_classes) * (self.n_classes + 1) + 1)[self.found] / (2 * self.n_classes + 1)

    def take(self, rows):
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, truth=self.truth[rows], found=self.found[rows], groups=self.groups[rows], weights=weights)


def draw(rng):
    """Return random rows: classes may be absent, rows may weigh nothing, groups may be of any size."""
    kind = str(rng.choice(list(KINDS)))
    n_classes = min(len(KINDS[kind]), int(rng.integers(2, 7)))
    classes = np.sort(rng.choice(KINDS[kind], size=n_classes, replace=False))
    n_rows, n_groups = int(rng.integers(2, 80)), int(rng.integers(1, 4))
    truth, shown = (rng.choice(n_classes, p=rng.dirichlet(np.full(n_classes, 0.5)), size=n_rows) for _ in range(2))
    found = np.where(rng.random(n_rows) < rng.random(), truth, shown)
    scale = 10.0 ** rng.integers(-9, 10)
    weights = rng.choice([0.0, 1.0, 0.5, 3.25], p=[0.1, 0.3, 0.3, 0.3], size=n_rows) * scale
    if rng.random() < 0.4 or not weights.any():
        weights = None
    groups = rng.integers(n_groups, size=n_rows)
    return Rows(classes, truth, found, np.array(["north", "south", "west"])[groups], weights)


def names_for(rows):
    """Return the names of the metrics that these rows have; those of one class name it."""
    names = [name for name in metric_catalogue() if name not in RATES and " - " not in name]
    return names + [(stem, place) for stem in RATES for place in range(rows.n_classes)]


def expected(name, rows):
    """Return a metric's value by scikit-learn."""
    if rows.weights is not None:  # scikit-learn counts rows of weight 0 among those that occur
        rows = rows.take(rows.weights > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is absent, scikit-learn says so
        return float(_expected(name, rows))


def _expected(name, rows):
    how = {"sample_weight": rows.weights}
    labels = list(range(rows.n_classes))
    if isinstance(name, tuple):
        stem, place = name
        return RATES[stem](rows.truth, rows.found, labels=[place], average="macro", zero_division=0, **how)
    stem, _, average = name.partition("_")
    if average == "macro_present":
        labels, average = np.unique(rows.truth), "macro"
    if stem in RATES and average in AVERAGES:
        return RATES[stem](rows.truth, rows.found, labels=labels, average=average, zero_division=0, **how)
    return OTHERS[name](rows)


def _recalls(rows):
    """Return the recalls of the classes that occur."""
    return sk.recall_score(
        rows.truth, rows.found, labels=np.unique(rows.truth), average=None, sample_weight=rows.weights
    )


def _plain(function, rows):
    return function(rows.truth, rows.found, sample_weight=rows.weights)


def _kappa(weights, rows):
    labels = list(range(rows.n_classes))
    found = sk.cohen_kappa_score(rows.truth, rows.found, labels=labels, weights=weights, sample_weight=rows.weights)
    return 0.0 if np.isnan(found) else found  # 0 / 0: one class is all there is


def _g_mean(rows):
    return np.prod(_recalls(rows)) ** (1 / len(_recalls(rows)))


def _h_mean(rows):
    recalls = _recalls(rows)
    return 0.0 if (recalls == 0).any() else len(recalls) / (1 / recalls).sum()


def _q_mean(rows):
    return 1 - np.sqrt(((1 - _recalls(rows)) ** 2).mean())


def _by_group(inner, rows):
    return [inner(rows.take(rows.groups == group)) for group in np.unique(rows.groups)]


def _worst_group(inner, rows):
    return min(_by_group(inner, rows))


def _group_g_mean(rows):
    recalls = np.concatenate(_by_group(_recalls, rows))
    return np.prod(recalls) ** (1 / len(recalls))


OTHERS = {
    "accuracy": partial(_plain, sk.accuracy_score),
    "balanced_accuracy": partial(_plain, sk.balanced_accuracy_score),
    "matthews_corrcoef": partial(_plain, sk.matthews_corrcoef),
    "cohen_kappa": partial(_kappa, None),
    "cohen_kappa_linear": partial(_kappa, "linear"),
    "cohen_kappa_quadratic": partial(_kappa, "quadratic"),
    "g_mean": _g_mean,
    "h_mean": _h_mean,
    "q_mean": _q_mean,
    "min_recall": lambda rows: _recalls(rows).min(),
    "worst_group_accuracy": partial(_worst_group, partial(_plain, sk.accuracy_score)),
    "worst_group_balanced_accuracy": partial(_worst_group, partial(_plain, sk.balanced_accuracy_score)),
    "worst_group_g_mean": partial(_worst_group, _g_mean),
    "group_g_mean": _group_g_mean,
}


def is_over_groups(name):
    """Whether a metric reads groups."""
    return isinstance(name, str) and bool(metadata_names(name))

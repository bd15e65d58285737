"""Values of the metrics of the catalogue: the same under another order, repeated rows, another scale or dtype."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postshift import PostShifter
from postshift.metrics import metric_catalogue
from postshift.metrics.resolve import metadata_names

NAMES = sorted(metric_catalogue())
OF_TWO_CLASSES = ("f1", "precision", "recall", "jaccard")
BY_DISTANCE = ("cohen_kappa_linear", "cohen_kappa_quadratic")  # they read the order of the classes
N_GROUPS = 2


@dataclass(frozen=True)
class Rows:
    """Rows that a model was asked about; ``classes`` are the labels of the columns of eta."""

    classes: Any
    eta: Any
    y: Any
    groups: Any
    weights: Any = None

    def take(self, rows):
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, eta=self.eta[rows], y=self.y[rows], groups=self.groups[rows], weights=weights)

    def score(self, name):
        """Return the metric of the model's own labels, as an estimator of these classes scores it."""
        metadata = {"groups": self.groups} if metadata_names(name) else {}
        model = unshifted(name, tuple(self.classes.tolist()))
        return model.score(self.eta, self.y, sample_weight=self.weights, **metadata)


@cache
def unshifted(name, classes):
    """Return an estimator that leaves the model's labels as they are."""
    y = np.tile(classes, 2 * N_GROUPS)
    eta = np.tile(np.eye(len(classes)) * 0.5 + 0.5 / len(classes), (2 * N_GROUPS, 1))
    metadata = {"groups": np.arange(len(y)) // (2 * len(classes))} if metadata_names(name) else {}
    return PostShifter(name, method="base", classes=classes).fit(eta, y, **metadata)


def drawn(name, seed, *, weighted=True):
    """Return rows in which every class occurs in every group; eta is exact in single precision."""
    rng = np.random.default_rng(seed)
    n_classes = 2 if name in OF_TWO_CLASSES else int(rng.integers(2, 5))
    n_rows = 4 * N_GROUPS * n_classes
    places = np.arange(n_rows)
    return Rows(
        classes=np.arange(n_classes),
        eta=rng.multinomial(64, rng.dirichlet(np.ones(n_classes), size=n_rows)) / 64,
        y=places % n_classes,
        groups=(places // n_classes) % N_GROUPS,
        weights=rng.integers(1, 5, size=n_rows).astype(float) if weighted else None,
    )


def without_ties(rows):
    """Return the rows whose largest probability is one alone: of several, the first class wins."""
    top = np.sort(rows.eta, axis=1)[:, -2:]
    eta = np.where((top[:, 1] == top[:, 0])[:, None], np.eye(rows.eta.shape[1])[rows.y], rows.eta)
    return replace(rows, eta=eta)


pytestmark = pytest.mark.filterwarnings("ignore::postshift.exceptions.PostshiftWarning")
each_metric = pytest.mark.parametrize("name", NAMES)
few = settings(max_examples=5)
seeds = st.integers(0, 10**6)


@each_metric
@given(seed=seeds)
@few
def test_row_order(name, seed):
    rows = drawn(name, seed)
    order = np.random.default_rng(seed).permutation(len(rows.y))
    assert rows.take(order).score(name) == pytest.approx(rows.score(name), abs=1e-12)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BY_DISTANCE])
@given(seed=seeds)
@few
def test_class_order(name, seed):
    rows = without_ties(drawn(name, seed))
    order = np.random.default_rng(seed).permutation(len(rows.classes))
    other = replace(rows, classes=rows.classes[order], eta=rows.eta[:, order])
    assert other.score(name) == pytest.approx(rows.score(name), abs=1e-12)


@pytest.mark.parametrize("name", BY_DISTANCE)
@given(seed=seeds)
@few
def test_a_metric_of_distances_is_the_same_backwards(name, seed):
    rows = without_ties(drawn(name, seed))
    other = replace(rows, classes=rows.classes[::-1], eta=rows.eta[:, ::-1])
    assert other.score(name) == pytest.approx(rows.score(name), abs=1e-12)


@each_metric
@given(seed=seeds)
@few
def test_a_weight_is_how_often_a_row_counts(name, seed):
    rows = drawn(name, seed)
    repeated = rows.take(np.repeat(np.arange(len(rows.y)), rows.weights.astype(int)))
    assert replace(repeated, weights=None).score(name) == pytest.approx(rows.score(name), abs=1e-12)


@each_metric
@given(seed=seeds, times=st.integers(2, 4))
@few
def test_all_rows_several_times(name, seed, times):
    rows = drawn(name, seed)
    assert rows.take(np.tile(np.arange(len(rows.y)), times)).score(name) == pytest.approx(rows.score(name), abs=1e-12)


@each_metric
@given(seed=seeds, power=st.floats(-250, 250))
@few
def test_weight_scale(name, seed, power):
    rows = drawn(name, seed)
    scaled = replace(rows, weights=rows.weights * 10.0**power)
    assert scaled.score(name) == pytest.approx(rows.score(name), abs=1e-12)


@each_metric
@given(seed=seeds, power=st.floats(-250, 250))
@few
def test_equal_weights_are_none(name, seed, power):
    rows = drawn(name, seed, weighted=False)
    equal = replace(rows, weights=np.full(len(rows.y), 10.0**power))
    assert equal.score(name) == pytest.approx(rows.score(name), abs=1e-12)


@each_metric
@given(seed=seeds)
@few
def test_dtype(name, seed):
    """Probabilities and weights that are exact in single precision, labels as any kind of whole number."""
    rows = drawn(name, seed)
    other = replace(
        rows, eta=rows.eta.astype(np.float32), y=rows.y.astype(np.int8), weights=rows.weights.astype(np.int32)
    )
    assert other.score(name) == rows.score(name)
    assert replace(rows, y=rows.y.astype(float), weights=rows.weights.tolist()).score(name) == rows.score(name)

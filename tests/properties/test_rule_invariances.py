"""Fitted rules: the same whatever the scale of the weights, the order of the classes and the dtype."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from postshift import PostShifter
from postshift.metrics import from_labels

METHODS = [
    "auto",
    "inverse prior",
    "plug-in search",
    "smoothed plug-in",
    "stack",
    "stack + plug-in search",
    "stack + expected utility",
    "influence",
    "stack + influence",
    "paper",
]
METRICS = ["g_mean", "min_recall", "f1_macro", "matthews_corrcoef"]
NEAR_TIE = 1e-6  # of the two largest shares of a row

pytestmark = [  # many whole fits
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::postshift.exceptions.PostshiftWarning"),
]
few = settings(max_examples=4)
seeds = st.integers(0, 10**6)


@dataclass(frozen=True)
class Data:
    """Validation and training rows over one basis, with weights of both."""

    classes: Any
    eta: Any
    y: Any
    phi: Any
    weights: Any
    eta_train: Any
    y_train: Any
    phi_train: Any
    weights_train: Any

    def fitted(self, metric, method):
        return PostShifter(metric, method=method, classes=self.classes).fit(
            self.eta,
            self.y,
            self.eta_train,
            self.y_train,
            self.phi,
            self.phi_train,
            sample_weight_val=self.weights,
            sample_weight_train=self.weights_train,
        )

    def labels(self, shifter):
        return shifter.predict(self.eta_train, self.phi_train)

    def in_order(self, order):
        """Return the same rows with the classes in another order."""
        return replace(self, classes=self.classes[order], eta=self.eta[:, order], eta_train=self.eta_train[:, order])

    def scaled(self, val, train):
        return replace(self, weights=self.weights * val, weights_train=self.weights_train * train)


def drawn(seed, *, n_val=60, n_train=80):
    rng = np.random.default_rng(seed)
    classes = np.array(["ant", "bee", "cat", "dog"][: int(rng.integers(2, 5))])
    prior = rng.dirichlet(np.full(len(classes), 3.0)) * len(classes) + 0.2

    def side(n_rows):
        eta = rng.dirichlet(prior, size=n_rows)
        codes = np.array([rng.choice(len(classes), p=row) for row in eta])
        codes[: 3 * len(classes)] = np.arange(3 * len(classes)) % len(classes)
        phi = np.eye(2)[rng.integers(2, size=n_rows)]
        return eta, classes[codes], phi, rng.uniform(0.3, 3, size=n_rows)

    return Data(classes, *side(n_val), *side(n_train))


def in_steps(table):
    """Return probabilities in steps of 1 / 256."""
    steps = np.floor(table * 256)
    steps[:, 0] += 256 - steps.sum(axis=1)
    return steps / 256


def assume_no_ties(data, shifter):
    """Leave out rules of which two classes share the lead of a row: rounding decides there."""
    shares = shifter.example_weights(data.eta_train, data.phi_train) * np.maximum(data.eta_train, 1e-6)
    top = np.sort(shares / shares.sum(axis=1, keepdims=True), axis=1)
    assume((top[:, -1] - top[:, -2]).min() > NEAR_TIE)


def assert_same(data, one, other, two):
    """Assert that two fits give the same labels and say the same of themselves."""
    np.testing.assert_array_equal(data.labels(one), other.labels(two))
    for name in ("score_", "base_score_"):
        assert getattr(two, name) == pytest.approx(getattr(one, name), abs=1e-6)
    assert one.fallback_ == two.fallback_


@pytest.mark.parametrize("method", METHODS)
@given(seed=seeds, metric=st.sampled_from(METRICS), powers=st.tuples(*[st.floats(-150, 150)] * 2))
@few
def test_weight_scale(method, seed, metric, powers):
    data = drawn(seed)
    other = data.scaled(*(10.0**power for power in powers))
    one = data.fitted(metric, method)
    assume_no_ties(data, one)
    assert_same(data, one, other, other.fitted(metric, method))


@pytest.mark.parametrize("method", METHODS)
@given(seed=seeds, metric=st.sampled_from(METRICS), equal=st.floats(1e-9, 1e9))
@few
def test_equal_weights_are_none(method, seed, metric, equal):
    data = replace(drawn(seed), weights=None, weights_train=None)
    other = replace(data, weights=np.full(len(data.y), equal), weights_train=np.full(len(data.y_train), equal))
    one, two = data.fitted(metric, method), other.fitted(metric, method)
    np.testing.assert_array_equal(data.labels(one), other.labels(two))
    assert (one.score_, one.base_score_) == (two.score_, two.base_score_)


@pytest.mark.parametrize("method", METHODS)
@given(seed=seeds, metric=st.sampled_from(METRICS), weighted=st.booleans())
@few
def test_class_order(method, seed, metric, weighted):
    data = drawn(seed)
    data = data if weighted else replace(data, weights=None, weights_train=None)
    order = np.random.default_rng(seed).permutation(len(data.classes))
    other, one = data.in_order(order), data.fitted(metric, method)
    assume_no_ties(data, one)
    assert_same(data, one, other, other.fitted(metric, method))


@pytest.mark.parametrize("method", METHODS)
@given(seed=seeds, metric=st.sampled_from(METRICS))
@few
def test_dtype(method, seed, metric):
    """Numbers that are exact in single precision give the same rule in either."""
    data, numbers = drawn(seed), ("eta", "eta_train", "phi", "phi_train", "weights", "weights_train")
    wide = replace(
        data,
        eta=in_steps(data.eta),
        eta_train=in_steps(data.eta_train),
        weights=np.ceil(data.weights),
        weights_train=np.ceil(data.weights_train),
    )
    narrow = replace(wide, **{name: getattr(wide, name).astype(np.float32) for name in numbers})
    one, two = wide.fitted(metric, method), narrow.fitted(metric, method)
    np.testing.assert_array_equal(wide.labels(one), narrow.labels(two))
    assert one.score_ == two.score_


@given(seed=seeds, power=st.floats(-90, 90))
@few
def test_weight_scale_for_a_function_that_averages(seed, power):
    """A function of labels and weights that is asked, and one of the confusion matrix."""

    def hits(y_true, y_pred, sample_weight):
        return np.average(y_true == y_pred, weights=sample_weight)

    def hits_by_row(y_true, y_pred, sample_weight):
        return np.average(y_true == y_pred, weights=sample_weight) + 0.1 * (len(y_true) > 10**6)

    data = drawn(seed)
    other = data.scaled(10.0**power, 1.0)
    for function in (hits, hits_by_row):
        one = data.fitted(from_labels(function), "inverse prior")
        two = other.fitted(from_labels(function), "inverse prior")
        assert_same(data, one, other, two)


@pytest.mark.parametrize("method", ["auto", "stack + influence", "plug-in search"])
@given(seed=seeds, metric=st.sampled_from(METRICS))
@few
def test_rows_of_weight_0_are_no_rows(method, seed, metric):
    data = drawn(seed)
    rng = np.random.default_rng(seed)
    kept, kept_train = (np.sort(rng.permutation(len(y))[: len(y) - 15]) for y in (data.y, data.y_train))
    assume(len(set(data.y[kept])) == len(set(data.y_train[kept_train])) == len(data.classes))
    zeros = replace(
        data,
        weights=np.where(np.isin(np.arange(len(data.y)), kept), data.weights, 0),
        weights_train=np.where(np.isin(np.arange(len(data.y_train)), kept_train), data.weights_train, 0),
    )
    without = replace(
        data,
        **{name: getattr(data, name)[kept] for name in ("eta", "y", "phi", "weights")},
        **{f"{name}_train": getattr(data, f"{name}_train")[kept_train] for name in ("eta", "y", "phi", "weights")},
    )
    one, two = without.fitted(metric, method), zeros.fitted(metric, method)
    np.testing.assert_array_equal(data.labels(one), data.labels(two))
    assert one.score_ == pytest.approx(two.score_, abs=1e-12)
    np.testing.assert_array_equal(kept[one.held_out_.rows], two.held_out_.rows)

"""Correction of priors: EM against its likelihood, a general optimiser, a known shift, and what it reads."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from postshift.baselines.prior_correction import PriorCorrection, likeliest_priors
from postshift.exceptions import InputError, SettingError, ShapeError

MEANS = np.array([-1.5, 0.0, 1.5])


class Exact(ClassifierMixin, BaseEstimator):
    """The posterior of unit Gaussians at MEANS with the priors of the training labels."""

    def fit(self, X, y):  # noqa: ARG002
        self.classes_, counts = np.unique(y, return_counts=True)
        self.priors_ = counts / len(y)
        return self

    def predict_proba(self, X):
        joint = self.priors_ * norm.pdf(np.asarray(X), MEANS)
        return joint / joint.sum(axis=1, keepdims=True)


class Table(ClassifierMixin, BaseEstimator):
    """Rows are their own probabilities."""

    def fit(self, X, y):
        self.n_features_in_, self.classes_ = np.shape(X)[1], np.unique(y)
        return self

    def predict_proba(self, X):
        return np.asarray(X, dtype=float)[:, : len(self.classes_)]


def gaussians(priors, n_rows, seed):
    rng = np.random.default_rng(seed)
    y = rng.choice(3, p=priors, size=n_rows)
    return rng.normal(MEANS[y])[:, None], y


def two_samples(seed=0):
    X, y = gaussians([0.6, 0.3, 0.1], 2000, seed)
    X_val, y_val = gaussians([0.1, 0.3, 0.6], 1000, seed + 100)
    return X, y, X_val, y_val


def random_eta(seed, n_rows, n_classes, sharpness=2.0):
    scores = sharpness * np.random.default_rng(seed).normal(size=(n_rows, n_classes))
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


# -- expectation maximisation ----------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 10_000),
    n_rows=st.integers(1, 60),
    n_classes=st.integers(2, 6),
    sharpness=st.floats(0.1, 8.0),
)
def test_the_likelihood_never_falls(seed, n_rows, n_classes, sharpness):
    eta = random_eta(seed, n_rows, n_classes, sharpness)
    start = np.random.default_rng(seed + 1).dirichlet(np.ones(n_classes))
    priors, trace = likeliest_priors(eta / start, start=start, max_iter=10_000, tol=1e-4)
    assert trace[0] == pytest.approx(0, abs=1e-12)
    assert np.diff(trace).min() >= -1e-12
    assert trace[-1] == pytest.approx(np.log((eta / start) @ priors).mean(), abs=1e-12)
    assert priors.sum() == pytest.approx(1)
    assert priors.min() >= 0


@pytest.mark.parametrize("seed", range(4))
def test_it_ends_where_a_general_optimiser_does(seed):
    eta, start = random_eta(seed, 80, 4), np.array([0.4, 0.3, 0.2, 0.1])
    ratio = eta / start
    found, trace = likeliest_priors(ratio, start=start, max_iter=100_000, tol=1e-10)
    reference = minimize(
        lambda p: -np.log(ratio @ p).mean(),
        np.full(4, 0.25),
        jac=lambda p: -(ratio / (ratio @ p)[:, None]).mean(axis=0),
        method="SLSQP",
        bounds=[(1e-12, 1)] * 4,
        constraints=LinearConstraint(np.ones(4), 1, 1),
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(found, reference.x, atol=1e-4)
    assert trace[-1] == pytest.approx(-reference.fun, abs=1e-8)
    # the conditions of an optimum on the simplex: no class would gain by having more
    slope = (ratio / (ratio @ found)[:, None]).mean(axis=0)
    assert slope.max() <= 1 + 1e-6
    np.testing.assert_allclose(slope[found > 1e-6], 1, atol=1e-3)


def test_a_known_shift_is_recovered():
    X, y = gaussians([0.6, 0.3, 0.1], 40_000, 0)
    X_val, y_val = gaussians([0.1, 0.3, 0.6], 40_000, 1)
    model = PriorCorrection(Exact()).fit(X, y, X_val)
    np.testing.assert_allclose(model.priors_, [0.1, 0.3, 0.6], atol=0.01)
    np.testing.assert_allclose(model.train_priors_, [0.6, 0.3, 0.1], atol=0.01)
    joint = np.array([0.1, 0.3, 0.6]) * norm.pdf(X_val, MEANS)
    np.testing.assert_allclose(model.predict_proba(X_val), joint / joint.sum(axis=1, keepdims=True), atol=0.03)
    assert model.score(X_val, y_val) > np.mean(Exact().fit(X, y).predict_proba(X_val).argmax(axis=1) == y_val) + 0.1


def test_one_iteration_is_the_mean_of_the_posterior():
    X, y, X_val, _ = two_samples()
    with pytest.warns(ConvergenceWarning, match="after 1 iterations a prior still changes by"):
        model = PriorCorrection(Exact(), max_iter=1).fit(X, y, X_val)
    np.testing.assert_allclose(model.priors_, Exact().fit(X, y).predict_proba(X_val).mean(axis=0))
    assert model.n_iter_ == 1
    assert len(model.log_likelihood_) == 2


def test_nothing_changes_where_nothing_has_shifted():
    X, y, *_ = two_samples()
    model = PriorCorrection(LogisticRegression(C=1e6)).fit(X, y, X)  # whose mean probabilities are the priors
    np.testing.assert_allclose(model.priors_, model.train_priors_, atol=1e-3)
    np.testing.assert_allclose(model.predict_proba(X), model.estimator_.predict_proba(X), atol=1e-3)


# -- what it reads ---------------------------------------------------------------------------------------------


def test_validation_labels_are_not_read():
    X, y, X_val, y_val = two_samples()
    blind = PriorCorrection(GaussianNB()).fit(X, y, X_val)
    for labels in (y_val, y_val[::-1], np.full(len(y_val), 7)):
        model = PriorCorrection(GaussianNB()).fit(X, y, X_val, labels)
        np.testing.assert_array_equal(model.priors_, blind.priors_)
        np.testing.assert_array_equal(model.classes_, [0, 1, 2])
        np.testing.assert_array_equal(model.predict_proba(X_val), blind.predict_proba(X_val))


def test_validation_labels_are_counted_where_asked_for():
    X, y, X_val, y_val = two_samples()
    model = PriorCorrection(Exact(), on="y_val").fit(X, y, X_val, y_val)
    np.testing.assert_array_equal(model.priors_, np.bincount(y_val) / len(y_val))
    assert model.n_iter_ == 0
    proba = model.predict_proba(X_val)
    joint = np.bincount(y_val) * norm.pdf(X_val, MEANS)
    np.testing.assert_allclose(proba, joint / joint.sum(axis=1, keepdims=True))


def test_a_fifth_is_held_out_without_validation_rows():
    X, y, *_ = two_samples()
    model = PriorCorrection(GaussianNB()).fit(X, y)
    assert model.estimator_.class_count_.sum() == 0.8 * len(X)
    np.testing.assert_allclose(model.priors_, model.train_priors_, atol=0.1)


def test_a_frozen_model_is_taken_as_it_is():
    X, y, X_val, _ = two_samples()
    fitted = GaussianNB().fit(X[:500], y[:500])
    model = PriorCorrection(FrozenEstimator(fitted)).fit(X, y, X_val)
    np.testing.assert_array_equal(model.estimator_.theta_, fitted.theta_)


def test_names_of_classes_a_frame_and_a_pipeline():
    X, y, X_val, y_val = two_samples()
    names = np.array(["low", "middle", "high"])

    def frame(X):
        return pd.DataFrame({"x": X[:, 0], "sign": np.where(X[:, 0] > 0, "plus", "minus")})

    encoder = make_column_transformer((OneHotEncoder(), ["sign"]), remainder=StandardScaler())
    model = PriorCorrection(make_pipeline(encoder, LogisticRegression())).fit(frame(X), names[y], frame(X_val))
    assert model.classes_.tolist() == ["high", "low", "middle"]
    np.testing.assert_allclose(model.priors_, [0.6, 0.1, 0.3], atol=0.1)
    assert model.score(frame(X_val), names[y_val]) > model.estimator_.score(frame(X_val), names[y_val]) + 0.1


def test_sparse_rows():
    X, y, X_val, _ = two_samples()
    dense = PriorCorrection(LogisticRegression()).fit(X, y, X_val)
    light = PriorCorrection(LogisticRegression()).fit(sp.csr_array(X), y, sp.csr_array(X_val))
    np.testing.assert_allclose(light.priors_, dense.priors_, atol=1e-3)


def test_parameters_are_kept_as_given():
    model = clone(PriorCorrection(LogisticRegression(C=2.0), max_iter=7, tol=0.1))
    assert model.get_params()["estimator__C"] == 2.0
    assert (model.max_iter, model.tol, model.on) == (7, 0.1, "X_val")


# -- classes without rows ----------------------------------------------------------------------------------------


@given(seed=st.integers(0, 1000), gone=st.integers(0, 2))
def test_probabilities_sum_to_one_even_if_a_class_is_gone(seed, gone):
    eta = random_eta(seed, 50, 3, sharpness=5.0)
    labels = np.r_[np.arange(3), np.random.default_rng(seed).integers(3, size=47)]
    val_labels = np.setdiff1d(np.arange(3), [gone])[labels[:20] % 2]
    model = PriorCorrection(Table(), on="y_val").fit(eta, labels, eta[:20], val_labels)
    assert model.priors_[gone] == 0
    proba = model.predict_proba(eta)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(proba[:, gone], 0)


def test_a_row_that_only_a_class_without_prior_explains_stays_as_it_is():
    eta, labels = np.eye(3)[[0, 1, 2, 0, 1, 2]], [0, 1, 2, 0, 1, 2]
    model = PriorCorrection(Table()).fit(eta, labels, np.eye(3)[[0, 1, 1]])
    np.testing.assert_allclose(model.priors_, [1 / 3, 2 / 3, 0])
    np.testing.assert_array_equal(model.predict_proba(np.eye(3)), np.eye(3))
    np.testing.assert_allclose(model.predict_proba([[0.0, 0.1, 0.9]]), [[0, 1, 0]])


def test_a_class_without_training_rows_stays_at_zero():
    X, y, X_val, y_val = two_samples()
    model = PriorCorrection(GaussianNB(), on="y_val").fit(X[y < 2], y[y < 2], X_val, y_val)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.train_priors_[2] == 0
    proba = model.predict_proba(X_val)
    np.testing.assert_array_equal(proba[:, 2], 0)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


# -- what it refuses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_iter": 0}, "max_iter must be a whole number >= 1. Got 0 instead"),
        ({"tol": -1.0}, r"tol must be a number in \[0, 1\]. Got -1.0 instead"),
        ({"on": "X_test"}, "there is no value of on 'X_test'; choose from 'X_val', 'y_val'"),
    ],
)
def test_bad_settings(params, message):
    X, y, X_val, _ = two_samples()
    with pytest.raises(SettingError, match=message):
        PriorCorrection(GaussianNB(), **params).fit(X, y, X_val)


def test_a_model_without_probabilities():
    X, y, X_val, _ = two_samples()
    with pytest.raises(InputError, match=r"LinearSVC\(\) has no predict_proba"):
        PriorCorrection(LinearSVC()).fit(X, y, X_val)


def test_labels_of_validation_rows_that_are_needed():
    X, y, X_val, y_val = two_samples()
    with pytest.raises(ShapeError, match="X_val and y_val belong together"):
        PriorCorrection(GaussianNB(), on="y_val").fit(X, y, X_val)
    with pytest.raises(ShapeError, match="X_val and y_val belong together"):
        PriorCorrection(GaussianNB()).fit(X, y, y_val=y_val)


def test_rows_of_unknown_classes_only():
    likelihoods = np.array([[0.0, 0.0, 1.0]])
    with pytest.raises(InputError, match="none of the 1 validation rows is of a class that the training rows have"):
        likeliest_priors(likelihoods, start=np.array([0.5, 0.5, 0.0]), max_iter=10, tol=1e-6)

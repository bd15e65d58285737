"""Learning to reweight: derivatives against finite differences, weights against known noise."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from postshift.baselines.learn_to_reweight import LearnToReweight, example_weights, meta_gradient
from postshift.baselines.softmax import SoftmaxRegression
from postshift.exceptions import InputError, SettingError


def small_problem(seed=0):
    """Return parameters, training and validation rows with labels, of three classes."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(3, 5))
    return theta, *((rng.normal(size=(n, 4)), rng.integers(3, size=n)) for n in (20, 9))


def as_targets(rows):
    return rows[0], np.eye(3)[rows[1]]


def validation_loss(theta, rows):
    """Return the mean cross-entropy, by other means than the library's."""
    X, y = rows
    return -log_softmax(X @ theta[:, :4].T + theta[:, 4], axis=1)[np.arange(len(y)), y].mean()


def one_gradient(theta, x, label):
    """Return the gradient of one row's loss."""
    residual = softmax(theta[:, :4] @ x + theta[:, 4]) - np.eye(3)[label]
    return np.outer(residual, np.append(x, 1))


def noisy_rows(n_rows=4000, n_val=200, seed=0):
    """Return rows of two classes; of the second, seven labels in ten are flipped in the training rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows + n_val + 2000, 5))
    clean = (X @ [2.0, -1.0, 0.5, 0.0, 0.0] + rng.logistic(size=len(X)) / 2 > 0).astype(int)
    y = np.where((clean == 1) & (rng.random(len(X)) < 0.7), 0, clean)
    train, val, test = np.split(np.arange(len(X)), [n_rows, n_rows + n_val])
    return SimpleNamespace(
        X=X[train], y=y[train], clean=clean[train], X_val=X[val], y_val=clean[val], X_test=X[test], y_test=clean[test]
    )


def sides(data):
    return data.X, data.y, data.X_val, data.y_val


# -- the weights of a batch -----------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
def test_the_meta_gradient_against_finite_differences(sparse):
    theta, train, val = small_problem()
    gradients = np.array([one_gradient(theta, x, label) for x, label in zip(*train, strict=True)])

    def after(eps):
        return validation_loss(theta - np.tensordot(eps, gradients, axes=1), val)

    width = 1e-5
    differences = [(after(width * e) - after(-width * e)) / (2 * width) for e in np.eye(20)]
    X, targets = as_targets(train)
    found = meta_gradient(theta, (csr_matrix(X) if sparse else X, targets), as_targets(val))
    np.testing.assert_allclose(found, differences, atol=1e-7)


def test_the_meta_gradient_as_a_sum_over_pairs():
    theta, train, val = small_problem(1)
    residuals = [softmax(X @ theta[:, :4].T + theta[:, 4], axis=1) - np.eye(3)[y] for X, y in (train, val)]
    pairs = (train[0] @ val[0].T + 1) * (residuals[0] @ residuals[1].T)
    np.testing.assert_allclose(meta_gradient(theta, as_targets(train), as_targets(val)), -pairs.mean(axis=1))


def test_weights_are_what_helps_and_sum_to_1():
    theta, train, val = small_problem()
    slope = meta_gradient(theta, as_targets(train), as_targets(val))
    weights = example_weights(theta, as_targets(train), as_targets(val))
    np.testing.assert_allclose(weights.sum(), 1)
    assert ((weights > 0) == (slope < 0)).all()
    helping = slope < 0
    np.testing.assert_allclose(weights[helping] / weights[helping].max(), slope[helping] / slope.min())
    harmful = tuple(part[~helping] for part in as_targets(train))
    np.testing.assert_array_equal(example_weights(theta, harmful, as_targets(val)), 0)


# -- training -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_under_heavy_asymmetric_noise(seed):
    data = noisy_rows(seed=seed)
    model = LearnToReweight(random_state=seed).fit(*sides(data))
    plain = LogisticRegression().fit(data.X, data.y)
    flipped = data.y != data.clean
    assert model.example_weights_[flipped].mean() < 0.5 * model.example_weights_[~flipped].mean()
    assert model.score(data.X_test, data.y_test) > plain.score(data.X_test, data.y_test) + 0.2
    unspoilt = LogisticRegression().fit(data.X, data.clean)
    assert model.score(data.X_test, data.y_test) > unspoilt.score(data.X_test, data.y_test) - 0.03


def test_one_step_written_out():
    theta, train, val = small_problem()
    model = LearnToReweight(SoftmaxRegression(C=0.5), learning_rate=0.2, n_epochs=1, batch_size=50).fit(*train, *val)
    zero = np.zeros_like(theta)
    weights = example_weights(zero, as_targets(train), as_targets(val))
    gradient = sum(weight * one_gradient(zero, *row) for weight, *row in zip(weights, *train, strict=True))
    found = np.column_stack([model.estimator_.coef_, model.estimator_.intercept_])
    np.testing.assert_allclose(found, -0.2 * gradient, atol=1e-12)
    np.testing.assert_allclose(model.example_weights_, 20 * weights, atol=1e-12)


def test_the_penalty_is_the_models():
    data = noisy_rows(500)
    free, strict = (LearnToReweight(SoftmaxRegression(C=C)).fit(*sides(data)) for C in (np.inf, 1e-3))
    assert np.abs(strict.estimator_.coef_).max() < 0.5 * np.abs(free.estimator_.coef_).max()


def test_every_row_is_seen_in_every_epoch():
    data = noisy_rows(250)
    model = LearnToReweight(n_epochs=3, batch_size=100, momentum=0).fit(*sides(data))
    assert model.example_weights_.shape == (250,)
    np.testing.assert_allclose(model.example_weights_.sum(), 250, atol=2)  # batches of 84, 83 and 83 rows, of sum 1


def test_random_state():
    data = noisy_rows(500)
    first, again, other = (LearnToReweight(n_epochs=2, random_state=seed).fit(*sides(data)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.estimator_.coef_, again.estimator_.coef_)
    assert np.abs(first.estimator_.coef_ - other.estimator_.coef_).max() > 0


def test_names_frames_sparse_rows_and_pipelines():
    data = noisy_rows(600)
    plain = LearnToReweight(n_epochs=2).fit(*sides(data))
    names = np.array(["no", "yes"])
    frames = [pd.DataFrame(X).add_prefix("x") for X in (data.X, data.X_val, data.X_test)]
    named = LearnToReweight(n_epochs=2).fit(frames[0], names[data.y], frames[1], names[data.y_val])
    np.testing.assert_array_equal(named.predict(frames[2]), names[plain.predict(data.X_test)])
    sparse = LearnToReweight(n_epochs=2).fit(csr_matrix(data.X), data.y, csr_matrix(data.X_val), data.y_val)
    np.testing.assert_allclose(sparse.predict_proba(csr_matrix(data.X_test)), plain.predict_proba(data.X_test))
    piped = LearnToReweight(make_pipeline(StandardScaler(), SoftmaxRegression()), n_epochs=2).fit(*sides(data))
    scaler = StandardScaler().fit(data.X)
    inside = LearnToReweight(n_epochs=2).fit(scaler.transform(data.X), data.y, scaler.transform(data.X_val), data.y_val)
    np.testing.assert_allclose(
        piped.predict_proba(data.X_test), inside.predict_proba(scaler.transform(data.X_test)), atol=1e-12
    )


def test_a_class_missing_from_one_side():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = np.argmax(X, axis=1)
    train, val = slice(0, 600), slice(600, None)
    for lacking in (train, val):
        keep = np.ones(900, dtype=bool)
        keep[lacking] = y[lacking] != 2
        sides = [part[where][keep[where]] for where in (train, val) for part in (X, y)]
        model = LearnToReweight().fit(*sides)
        assert list(model.classes_) == [0, 1, 2]
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
        known = y != 2
        assert np.mean(model.predict(X[known]) == y[known]) > 0.6


def test_clone_and_held_out_rows():
    data = noisy_rows(500)
    model = clone(LearnToReweight(SoftmaxRegression(), momentum=0.5)).set_params(estimator__C=0.1, n_epochs=1)
    assert (model.momentum, model.estimator.C, model.n_epochs) == (0.5, 0.1, 1)
    assert len(model.fit(data.X, data.y).example_weights_) == 400


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"learning_rate": np.inf}, SettingError, r"learning_rate must be a number in \(0, inf\)"),
        ({"n_epochs": 0}, SettingError, "n_epochs must be a whole number >= 1"),
        ({"batch_size": 0}, SettingError, "batch_size must be a whole number >= 1"),
        ({"momentum": 1}, SettingError, r"momentum must be a number in \[0, 1\)"),
        ({"estimator": LogisticRegression()}, InputError, "learning to reweight trains a SoftmaxRegression"),
        ({"estimator": FrozenEstimator(LogisticRegression())}, InputError, "give one that is not frozen"),
    ],
)
def test_errors(params, error, message):
    with pytest.raises(error, match=message):
        LearnToReweight(**params).fit(*sides(noisy_rows(100)))

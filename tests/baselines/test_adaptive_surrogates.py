"""AdaptiveSurrogates: surrogates by their definition, gradients by differences, the gain over the plain model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from postshift.baselines.adaptive_surrogates import (
    AdaptiveSurrogates,
    Surrogates,
    approached,
    elicited_gradient,
    scores_of,
    shares_of,
)
from postshift.basis import GroupBasis
from postshift.exceptions import BasisError, MissingClassWarning, SettingError
from postshift.metrics import from_predictions
from tests.estimators.data import noisy

SHORT = {"n_outer": 6, "n_inner": 10, "n_perturbations": 20}


def g_mean(y_true, y_pred):
    recalls = [np.mean(y_pred[y_true == label] == label) for label in np.unique(y_true)]
    return float(np.prod(recalls) ** (1 / len(recalls)))


def short(**params):
    return AdaptiveSurrogates(**{**SHORT, **params})


def fitted(model, data, **metadata):
    return model.fit(data.X, data.y, data.X_val, data.y_val, **metadata)


def surrogates(n_classes=2, loss="sigmoid", n_functions=2, n_rows=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    labels = np.argmax(X[:, :n_classes] + rng.normal(size=(n_rows, n_classes)), axis=1)
    phi = rng.uniform(size=(n_rows, n_functions))
    shares = shares_of(labels, phi, n_classes=n_classes)
    return Surrogates(X=X, labels=labels, shares=shares, n_classes=n_classes, loss=loss), phi


def some_model(each, seed=0):
    return np.random.default_rng(seed).normal(size=each.start.shape)


# -- the surrogates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["sigmoid", "cross_entropy"])
def test_two_classes_have_the_average_loss_of_each_class_in_each_function(loss):
    each, phi = surrogates(loss=loss)
    theta = some_model(each)
    margin = (each.X @ theta[:-1, 0] + theta[-1, 0]) * np.where(each.labels == 1, 1, -1)
    losses = expit(-1.5 * margin) if loss == "sigmoid" else np.log1p(np.exp(-margin))
    expected = [
        np.average(losses[each.labels == label], weights=phi[each.labels == label, column])
        for label in (0, 1)
        for column in range(2)
    ]
    np.testing.assert_allclose(each.profile(theta), expected)


@pytest.mark.parametrize("loss", ["sigmoid", "cross_entropy"])
def test_three_classes_have_losses_of_the_softmax(loss):
    each, phi = surrogates(3, loss, n_functions=1)
    theta = some_model(each)
    sharp = 1.5 if loss == "sigmoid" else 1.0
    own = softmax(sharp * (each.X @ theta[:-1] + theta[-1]), axis=1)[np.arange(300), each.labels]
    losses = 1 - own if loss == "sigmoid" else -np.log(own)
    expected = [np.average(losses[each.labels == c], weights=phi[each.labels == c, 0]) for c in range(3)]
    np.testing.assert_allclose(each.profile(theta), expected)


def test_a_class_without_rows_in_a_function_has_no_surrogate():
    labels, phi = np.array([0, 0, 1, 1]), np.array([[1.0, 1], [1, 0], [1, 0], [1, 0]])
    np.testing.assert_allclose(
        shares_of(labels, phi, n_classes=3), [[0.5, 1, 0], [0.5, 0, 0], [0, 0, 0.5], [0, 0, 0.5]]
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_many_models_at_once_are_the_same_as_one_by_one(n_classes):
    each, _ = surrogates(n_classes)
    models = np.array([some_model(each, seed) for seed in range(5)])
    np.testing.assert_allclose(each.profiles(models), [each.profile(theta) for theta in models])


@pytest.mark.parametrize("loss", ["sigmoid", "cross_entropy"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_the_slope_of_the_excess_is_that_of_finite_differences(loss, n_classes, form):
    dense, _ = surrogates(n_classes, loss)
    each = Surrogates(X=form(dense.X), labels=dense.labels, shares=dense.shares, n_classes=n_classes, loss=loss)
    theta = some_model(each)
    target = each.profile(theta) + np.resize([-0.3, 0.2, -0.1], each.shares.shape[1])  # some are above, some below
    _, slope = each.excess(theta, target)
    expected = approx_fprime(theta.ravel(), lambda flat: each.excess(flat.reshape(theta.shape), target)[0], 1e-7)
    np.testing.assert_allclose(slope.ravel(), expected, rtol=1e-4, atol=1e-5)


def test_surrogates_below_their_target_do_not_pull():
    each, _ = surrogates()
    theta = some_model(each)
    value, slope = each.excess(theta, each.profile(theta) + 0.1)
    assert value == 0
    assert not slope.any()


# -- the metric's gradient -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_a_metric_that_is_linear_in_the_surrogates_has_its_own_coefficients(n_classes, scale):
    each, _ = surrogates(n_classes)
    rng = np.random.default_rng(1)
    slopes, theta = rng.normal(size=each.shares.shape[1]), some_model(each)
    noise = scale * rng.standard_normal((40, *theta.shape))

    def value(model):
        return float(slopes @ each.profile(model)) + 0.3

    found = elicited_gradient(each, value, theta + noise)
    np.testing.assert_allclose(found, slopes, atol=1e-8)


def test_a_smooth_metric_has_its_gradient_nearby():
    each, _ = surrogates(n_functions=1)
    theta, rng = some_model(each), np.random.default_rng(0)

    def value(model):
        return float(np.sqrt(np.prod(1 - each.profile(model))))

    noise = 1e-3 * rng.standard_normal((200, *theta.shape))
    found = elicited_gradient(each, value, theta + noise)
    np.testing.assert_allclose(found, -value(theta) / 2 / (1 - each.profile(theta)), rtol=0.02)


# -- the inner steps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["sigmoid", "cross_entropy"])
def test_inner_steps_reach_a_target_that_another_model_attains(loss):
    each, _ = surrogates(3, loss)
    plain = LogisticRegression().fit(each.X, each.labels)
    target = each.profile(np.vstack([plain.coef_.T, plain.intercept_])) + 0.01
    before, _ = each.excess(each.start, target)
    theta, squares = approached(each, each.start, target, squares=np.full(each.start.shape, 0.1), n_steps=300, rate=1.0)
    after, _ = each.excess(theta, target)
    assert before > 0.01
    assert after < 1e-3 * before
    assert (squares >= 0.1).all()


def test_a_step_is_adagrads():
    each, _ = surrogates()
    target = np.zeros(4)
    _, slope = each.excess(each.start, target)
    theta, _ = approached(each, each.start, target, squares=np.full(each.start.shape, 0.1), n_steps=1, rate=0.5)
    np.testing.assert_allclose(theta, -0.5 * slope / np.sqrt(0.1 + slope**2))


# -- the whole -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", ["sigmoid", "cross_entropy"])
def test_it_beats_plain_logistic_regression_on_rare_classes(n_classes, loss):
    weights = [0.9, 0.1] if n_classes == 2 else [0.8, 0.12, 0.08]
    X, y = make_classification(
        4000, n_features=8, n_informative=6, n_redundant=0, n_classes=n_classes, weights=weights, random_state=0
    )
    train, val, test = slice(0, 2000), slice(2000, 2500), slice(2500, None)
    plain = g_mean(y[test], LogisticRegression().fit(X[train], y[train]).predict(X[test]))
    model = AdaptiveSurrogates(loss=loss, n_outer=20, n_perturbations=40).fit(X[train], y[train], X[val], y[val])
    assert g_mean(y[test], model.predict(X[test])) > plain + 0.1
    assert model.score_ == model.history_.max() == pytest.approx(g_mean(y[val], model.predict(X[val])))
    assert model.coef_.shape == (1 if n_classes == 2 else 3, 8)


def test_queries_are_counted():
    data, calls = noisy(), []
    metric = from_predictions(lambda shown: calls.append(1) or g_mean(data.y_val, shown))
    model = fitted(short(metric=metric), data)
    assert model.n_queries_ == len(calls) == 6 * 21 + 1
    assert model.history_.shape == (7,)


def test_the_seed_decides():
    data = noisy()
    first, again, other = (fitted(short(random_state=seed), data).coef_ for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_a_basis_adds_surrogates_of_its_rows():
    data = noisy()
    X, X_val = (np.column_stack([table, table[:, 0] > 0]) for table in (data.X, data.X_val))
    plain = short().fit(X, data.y, X_val, data.y_val)
    grouped = short(basis=GroupBasis(8)).fit(X, data.y, X_val, data.y_val)
    assert plain.bases_ == {}
    assert list(grouped.bases_) == ["groups"]
    assert (plain.coef_ != grouped.coef_).any()


def test_sparse_rows_are_the_same_as_dense_ones():
    data = noisy()
    dense = fitted(short(), data)
    rows, rows_val = sp.csr_matrix(data.X), sp.csr_matrix(data.X_val)
    sparse = short().fit(rows, data.y, rows_val, data.y_val)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-6)
    np.testing.assert_array_equal(sparse.predict(rows_val), dense.predict(data.X_val))


def test_rows_that_are_mostly_zero_are_held_sparse():
    model = short()
    model.transformer_ = None
    assert sp.issparse(model._numbers(np.eye(10)))
    assert not sp.issparse(model._numbers(np.ones((3, 2))))


def test_names_of_classes_frames_and_transformers():
    data, names = noisy(3), np.array(["a", "b", "c"])
    columns = [f"x{k}" for k in range(8)]
    frame, frame_val = (
        pd.DataFrame(X, columns=columns).assign(sign=np.where(X[:, 0] > 0, "plus", "minus"))
        for X in (data.X, data.X_val)
    )
    transformer = make_column_transformer((StandardScaler(), columns), (OneHotEncoder(), ["sign"]))
    model = short(transformer=transformer, basis="col:sign")
    model.fit(frame, names[data.y], frame_val, names[data.y_val])
    plain = clone(model).fit(frame, data.y, frame_val, data.y_val)
    np.testing.assert_array_equal(model.predict(frame_val), names[plain.predict(frame_val)])
    assert model.coef_.shape == (3, 10)
    assert not hasattr(transformer, "transformers_")


def test_groups_are_read_by_the_metric():
    data = noisy()
    groups = np.where(data.X_val[:, 0] > 0, 1, 0)
    model = fitted(short(metric="worst_group_accuracy"), data, groups=groups)
    right = model.predict(data.X_val) == data.y_val
    assert model.score_ == pytest.approx(min(right[groups == group].mean() for group in (0, 1)))


def test_a_class_without_training_rows_has_a_column():
    data = noisy(3)
    known = data.y != 2
    model = short(metric="accuracy").fit(data.X[known], data.y[known], data.X_val, data.y_val)
    assert model.coef_.shape == (3, 8)
    assert set(model.predict(data.X_test)) <= {0, 1, 2}


def test_a_class_without_validation_rows_is_told_once():
    data = noisy(3)
    known = data.y_val != 2
    with pytest.warns(MissingClassWarning, match="class 2") as caught:
        short().fit(data.X, data.y, data.X_val[known], data.y_val[known])
    assert len(caught) == 1


def test_scores_of_two_classes_begin_with_zero():
    np.testing.assert_array_equal(scores_of(np.array([[2.0]]), np.array([[3.0], [1.0]])), [[0.0], [7.0]])


# -- what it refuses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"loss": "hinge"}, "there is no loss 'hinge'; choose from 'cross_entropy', 'sigmoid'"),
        ({"n_outer": 0}, "n_outer must be a whole number >= 1"),
        ({"n_inner": 1.5}, "n_inner must be a whole number >= 1"),
        ({"n_perturbations": -1}, "n_perturbations must be a whole number >= 1"),
        ({"outer_learning_rate": 0}, r"outer_learning_rate must be a number in \(0, inf\)"),
        ({"inner_learning_rate": "fast"}, r"inner_learning_rate must be a number in \(0, inf\)"),
        ({"perturbation_scale": -1.0}, r"perturbation_scale must be a number in \(0, inf\)"),
    ],
)
def test_settings_that_make_no_run_are_refused(params, message):
    with pytest.raises(SettingError, match=message):
        fitted(short(**params), noisy())


def test_a_basis_that_is_not_known_is_refused():
    with pytest.raises(BasisError, match="did you mean 'kmeans'"):
        fitted(short(basis="kmaens:3"), noisy())


def test_rows_that_are_no_numbers_are_refused():
    data = noisy()
    words = np.full((len(data.y), 2), "word", dtype=object)
    with pytest.raises(ValueError, match="could not convert string to float"):
        short().fit(words, data.y, words[: len(data.y_val)], data.y_val)

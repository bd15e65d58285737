"""Softmax regression: against scikit-learn's, against finite differences, and against sums written out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import check_grad
from scipy.sparse import csr_matrix
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from postshift.baselines import softmax as module
from postshift.baselines.softmax import (
    SoftmaxRegression,
    fitted_head,
    head_and_last,
    mean_loss,
    penalised_loss,
    row_losses,
    safe_step,
    scores_of,
    start_of,
    theta_of,
)
from postshift.core.plugin import onehot
from postshift.exceptions import InputError, LabelError, ProbabilityError, SettingError, ShapeError, WeightError

TRANSITION = np.array([[0.7, 0.2, 0.1], [0.0, 0.8, 0.2], [0.3, 0.0, 0.7]])


@parametrize_with_checks([SoftmaxRegression()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def rows(n_classes, n_rows=400, n_features=6, seed=0):
    return make_classification(
        n_rows, n_features, n_informative=4, n_classes=n_classes, n_clusters_per_class=1, flip_y=0.2, random_state=seed
    )


def peer(C):
    return LogisticRegression(C=C, tol=1e-10, max_iter=10_000)


# -- the fit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0, np.inf])
def test_same_probabilities_as_scikit_learn(n_classes, C):
    X, y = rows(n_classes)
    weights = np.random.default_rng(1).uniform(0, 3, size=len(y))
    ours = SoftmaxRegression(C=C).fit(X, y, weights)
    theirs = peer(C).fit(X, y, weights)
    assert ours.coef_.shape == (n_classes, X.shape[1])
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=2e-6)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_one_hot_features_that_depend_on_each_other():
    rng = np.random.default_rng(0)
    codes = rng.integers(5, size=(500, 4))
    X = np.hstack([np.eye(5)[column] for column in codes.T])
    y = (rng.random(500) < 0.2 + 0.1 * codes[:, 0]).astype(int)
    ours, theirs = SoftmaxRegression().fit(X, y), peer(1.0).fit(X, y)
    assert ours.n_iter_ < 30
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    free = SoftmaxRegression(C=np.inf).fit(X, y)
    shares = np.array([free.predict_proba(X)[X[:, cell] == 1, 1].mean() for cell in range(20)])
    counted = np.array([y[X[:, cell] == 1].mean() for cell in range(20)])
    np.testing.assert_allclose(shares, counted, atol=1e-7)  # the likelihood equations


def test_soft_targets_are_rows_of_every_label_with_weights():
    X, _ = rows(3)
    targets = np.random.default_rng(2).dirichlet(np.ones(3), size=len(X))
    soft = SoftmaxRegression(C=0.3).fit(X, targets)
    repeated = np.repeat(X, 3, axis=0), np.tile(np.arange(3), len(X))
    hard = peer(0.3).fit(*repeated, sample_weight=targets.ravel())
    np.testing.assert_allclose(soft.predict_proba(X), hard.predict_proba(X), atol=2e-6)


def test_the_identity_corrects_nothing():
    X, y = rows(3)
    plain, corrected = SoftmaxRegression().fit(X, y), SoftmaxRegression(transition=np.eye(3)).fit(X, y)
    np.testing.assert_allclose(corrected.coef_, plain.coef_, atol=1e-8)
    np.testing.assert_allclose(corrected.intercept_, plain.intercept_, atol=1e-8)


def test_a_corrected_fit_is_stationary():
    X, y = rows(3)
    weights = np.random.default_rng(3).uniform(size=len(y))
    model = SoftmaxRegression(transition=TRANSITION, C=2.0).fit(X, y, weights)

    def objective(theta):
        p = softmax(X @ theta[:, :-1].T + theta[:, -1], axis=1) @ TRANSITION
        return -2.0 * weights @ np.log(p[np.arange(len(y)), y]) + (theta[:, :-1] ** 2).sum() / 2

    theta = theta_of(model)
    moved = [objective(theta + 1e-3 * step) for step in np.random.default_rng(4).normal(size=(50, *theta.shape))]
    assert objective(theta) < min(moved)


def test_start():
    X, y = rows(3)
    model = SoftmaxRegression().fit(X, y)
    again = SoftmaxRegression().fit(X, y, start=(model.coef_, model.intercept_))
    assert again.n_iter_ <= 1 < model.n_iter_
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-7)
    elsewhere = SoftmaxRegression().fit(X, y, start=(np.full((3, 6), 2.0), [3.0, 0.0, -3.0]))
    np.testing.assert_allclose(elsewhere.predict_proba(X), model.predict_proba(X), atol=1e-6)


def test_sparse_and_wide_rows(monkeypatch):
    X, y = rows(3)
    dense = SoftmaxRegression().fit(X, y)
    np.testing.assert_allclose(SoftmaxRegression().fit(csr_matrix(X), y).coef_, dense.coef_, atol=1e-7)
    np.testing.assert_allclose(dense.predict_proba(csr_matrix(X)), dense.predict_proba(X))
    monkeypatch.setattr(module, "_WIDE", 3)
    np.testing.assert_allclose(SoftmaxRegression().fit(X, y).coef_, dense.coef_, atol=1e-4)
    np.testing.assert_allclose(SoftmaxRegression().fit(csr_matrix(X), y).coef_, dense.coef_, atol=1e-4)


def test_names_of_classes_and_features():
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    model = SoftmaxRegression().fit(X, names[y])
    assert list(model.feature_names_in_) == list(X.columns)
    assert model.score(X, names[y]) == SoftmaxRegression().fit(X, y).score(X, y) > 0.95
    soft = SoftmaxRegression().fit(X, onehot(y.to_numpy(), n_classes=3), classes=names)
    np.testing.assert_allclose(soft.coef_, model.coef_, atol=1e-8)
    np.testing.assert_array_equal(soft.predict(X), model.predict(X))


def test_a_class_without_rows_gets_no_probability():
    X, y = rows(2)
    model = SoftmaxRegression().fit(X, y, classes=[0, 1, 2])
    assert model.predict_proba(X).shape == (len(X), 3)
    assert model.predict_proba(X)[:, 2].max() < 1e-5


def test_parameters_are_kept_and_cloned():
    model = SoftmaxRegression(C=0.5, transition=TRANSITION, max_iter=7, tol=0.1)
    again = clone(model)
    assert again.get_params().keys() == {"C", "transition", "max_iter", "tol"}
    np.testing.assert_array_equal(again.transition, TRANSITION)
    assert (again.C, again.max_iter, again.tol) == (0.5, 7, 0.1)


def test_an_unfinished_fit_says_so():
    X, y = rows(3)
    with pytest.warns(ConvergenceWarning, match=r"after 1 iterations: the gradient is .* raise max_iter"):
        SoftmaxRegression(max_iter=1).fit(X, y)


# -- loss and gradient ----------------------------------------------------------------------------------


@pytest.mark.parametrize("transition", [None, TRANSITION])
def test_gradient_against_finite_differences(transition):
    X, _ = rows(3, n_rows=40)
    rng = np.random.default_rng(5)
    kept = {
        "X": X,
        "targets": rng.dirichlet(np.ones(3), size=40),
        "shares": rng.dirichlet(np.ones(40)),
        "transition": transition,
        "penalty": 0.3,
    }
    theta = rng.normal(size=(3, 7))
    error = check_grad(
        lambda flat: penalised_loss(flat.reshape(3, 7), **kept)[0],
        lambda flat: penalised_loss(flat.reshape(3, 7), **kept)[1].ravel(),
        theta.ravel(),
    )
    assert error < 1e-6


def test_losses_written_out():
    rng = np.random.default_rng(6)
    scores, y = rng.normal(size=(50, 3)), rng.integers(3, size=50)
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    plain, residuals = row_losses(scores, onehot(y, n_classes=3))
    np.testing.assert_allclose(plain, -np.log(p[np.arange(50), y]))
    np.testing.assert_allclose(residuals, p - np.eye(3)[y], atol=1e-15)
    corrected, _ = row_losses(scores, onehot(y, n_classes=3), TRANSITION)
    np.testing.assert_allclose(corrected, [-np.log(sum(p[i] * TRANSITION[:, label])) for i, label in enumerate(y)])


def test_losses_of_rows_far_out_are_finite():
    losses, residuals = row_losses(np.array([[5000.0, 0.0, -5000.0]] * 3), np.eye(3), TRANSITION)
    np.testing.assert_allclose(losses, -np.log(TRANSITION[0]))
    np.testing.assert_allclose(residuals, 0, atol=1e-12)
    losses, _ = row_losses(np.array([[0.0, 5000.0, 0.0]]), np.eye(3)[:1], TRANSITION)  # class 1 never gets label 0
    np.testing.assert_allclose(losses, 5000.0, atol=1)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_safe_step_is_the_inverse_of_a_curvature_that_is_never_exceeded(sparse):
    X, y = rows(3, n_rows=30)
    X = csr_matrix(X) if sparse else X
    rng = np.random.default_rng(7)
    curvatures = [
        max(np.linalg.eigvalsh(hessian(size * rng.normal(size=(3, 7)), X, onehot(y, n_classes=3))))
        for size in (0, 0.1, 1)
    ]
    assert max(curvatures) < 1 / safe_step(X)
    np.testing.assert_allclose(curvatures[0], 2 / 3 / safe_step(X), rtol=1e-6)  # at even thirds: 1/3, not 1/2


def hessian(theta, X, targets, width=1e-5):
    steps = width * np.eye(theta.size).reshape(-1, *theta.shape)
    pairs = [(mean_loss(theta + step, X, targets)[1], mean_loss(theta - step, X, targets)[1]) for step in steps]
    return np.array([(after - before).ravel() for after, before in pairs]) / (2 * width)


# -- models ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "n_classes"),
    [
        (LogisticRegression(), 2),
        (LogisticRegression(), 3),
        (LinearDiscriminantAnalysis(), 2),
        (SoftmaxRegression(transition=TRANSITION), 3),
    ],
)
def test_parameters_of_a_fitted_model_give_its_probabilities(model, n_classes):
    X, y = rows(n_classes)
    model.fit(X, y)
    theta = start_of(model, X=X, classes=np.arange(n_classes))
    np.testing.assert_allclose(softmax(scores_of(X, theta), axis=1), model.predict_proba(X), atol=1e-12)


def test_a_class_the_model_does_not_know_starts_small():
    X, y = rows(2)
    model = LogisticRegression().fit(X, np.array(["a", "c"])[y])
    p = softmax(scores_of(X, start_of(model, X=X, classes=np.array(["a", "b", "c"]))), axis=1)
    assert 0 < p[:, 1].max() < 1e-3
    np.testing.assert_allclose(p[:, [0, 2]], model.predict_proba(X), atol=1e-3)


def test_models_without_softmax_scores_are_refused():
    X, y = rows(3)
    with pytest.raises(InputError, match=r"is not a softmax model .* give SoftmaxRegression or LogisticRegression"):
        start_of(OneVsRestClassifier(LogisticRegression()).fit(X, y), X=X, classes=np.arange(3))
    shrunk = LogisticRegression().fit(X, y)
    shrunk.predict_proba = lambda X: np.full((len(X), 3), 1 / 3)
    with pytest.raises(InputError, match=r"not the softmax of its scores \(difference"):
        start_of(shrunk, X=X, classes=np.arange(3))


def test_heads_of_models():
    scaler, last = StandardScaler(), SoftmaxRegression()
    assert head_and_last(last) == (None, last)
    assert head_and_last(FrozenEstimator(last)) == (None, last)
    assert head_and_last(Pipeline([("only", last)])) == (None, last)
    head, found = head_and_last(FrozenEstimator(make_pipeline(scaler, FrozenEstimator(last))))
    assert (head.steps[0][1], found) == (scaler, last)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LogisticRegression(), "trains a SoftmaxRegression"),
        (FrozenEstimator(SoftmaxRegression()), "trains the model itself: give one that is not frozen"),
        (SoftmaxRegression(transition=TRANSITION), "must have transition=None"),
    ],
)
def test_what_cannot_be_trained(estimator, message):
    X, y = rows(3)
    with pytest.raises(InputError, match=message):
        fitted_head(estimator, X, y, method="the method")


# -- errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"C": 0}, SettingError, r"C must be a number in \(0, inf\]"),
        ({"max_iter": 0}, SettingError, "max_iter must be a whole number >= 1"),
        ({"tol": -1}, SettingError, "tol must be a number in"),
        ({"transition": np.eye(2)}, ShapeError, r"transition must have shape \(3, 3\). Got \(2, 2\)"),
        ({"transition": np.eye(3) * 0.5}, ProbabilityError, "transition has 3 of 3 rows with a sum other than 1"),
        ({"transition": [[1.5, -0.5, 0], [0, 1, 0], [0, 0, 1]]}, ProbabilityError, "transition .* negative values"),
        ({"transition": [[0, 0, 1]] * 3}, ProbabilityError, r"no class ever gets label 0 .* but \d+ rows have it"),
    ],
)
def test_errors_of_parameters(params, error, message):
    with pytest.raises(error, match=message):
        SoftmaxRegression(**params).fit(*rows(3))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"y": np.ones((400, 3))}, ProbabilityError, "y has 400 of 400 rows with a sum other than 1"),
        ({"y": np.full((9, 2), 0.5)}, ShapeError, r"y must have shape \(400, 2\). Got \(9, 2\)"),
        ({"y": np.zeros(9)}, ShapeError, "Got 400 rows and 9 labels"),
        ({"y": np.zeros(400)}, LabelError, r"Got one class, \[0.0\]"),
        ({"classes": [0, 1]}, LabelError, "not among the 2 classes"),
        ({"sample_weight": -np.ones(400)}, WeightError, "sample_weight has 400 of 400 rows with negative"),
        ({"start": np.zeros((3, 7))}, SettingError, "start must be a pair"),
        ({"start": (np.zeros((3, 5)), np.zeros(3))}, ShapeError, "start must have shapes"),
    ],
)
def test_errors_of_rows(changes, error, message):
    X, y = rows(3)
    with pytest.raises(error, match=message):
        SoftmaxRegression().fit(**{"X": X, "y": y, **changes})


def test_a_frame_with_other_columns_is_refused():
    X, y = rows(2)
    model = SoftmaxRegression().fit(pd.DataFrame(X).add_prefix("f"), y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame(X).add_prefix("g"))

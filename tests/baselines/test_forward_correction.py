"""Forward correction: on labels whose noise is known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.special import softmax
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from postshift.baselines.forward_correction import ForwardCorrection, anchor_transition, labelled_transition
from postshift.baselines.softmax import SoftmaxRegression
from postshift.exceptions import InputError, LabelError, MissingClassWarning, ProbabilityError, SettingError, ShapeError

TRANSITION = np.array([[0.8, 0.1, 0.1], [0.45, 0.5, 0.05], [0.0, 0.3, 0.7]])
FREE = SoftmaxRegression(C=np.inf)
CELLS = make_pipeline(OneHotEncoder(), SoftmaxRegression())  # the classes that are certain need a penalty


def drawn(p, rng):
    """Return a label for each row of probabilities."""
    return (rng.random((len(p), 1)) > np.cumsum(p, axis=1)).sum(axis=1).clip(max=p.shape[1] - 1)


def from_a_softmax(n_rows=40_000, n_val=2000, seed=0):
    """Return rows whose classes follow a softmax model and become labels by a known transition."""
    rng = np.random.default_rng(seed)
    coef, intercept = rng.normal(size=(3, 4)) * 2, np.array([0.5, 0.0, -0.5])
    X, X_val = rng.normal(size=(n_rows, 4)), rng.normal(size=(n_val, 4))
    clean = drawn(softmax(X @ coef.T + intercept, axis=1), rng)
    y_val = drawn(softmax(X_val @ coef.T + intercept, axis=1), rng)
    noisy = drawn(TRANSITION[clean], rng)
    return SimpleNamespace(X=X, y=noisy, clean=clean, X_val=X_val, y_val=y_val, coef=coef, intercept=intercept)


def of_cells(n_rows=12_000, seed=0):
    """Return rows of twelve cells, one variable: in three of them the class is certain."""
    rng = np.random.default_rng(seed)
    p = np.vstack([np.eye(3), rng.dirichlet(np.ones(3), size=9)])
    cells = rng.integers(12, size=n_rows)
    clean = drawn(p[cells], rng)
    return SimpleNamespace(X=cells[:, None], y=drawn(TRANSITION[clean], rng), clean=clean, p=p)


def off(model, data):
    """Return the largest error of the parameters, which count up to a constant for all classes."""
    theta = np.column_stack([model.coef_ - data.coef, model.intercept_ - data.intercept])
    return np.abs(theta - theta.mean(axis=0)).max()


def test_given_the_transition_the_clean_model_is_recovered():
    data = from_a_softmax()
    corrected = ForwardCorrection(FREE, transition=TRANSITION).fit(data.X, data.y)
    plain = clone(FREE).fit(data.X, data.y)
    unspoilt = clone(FREE).fit(data.X, data.clean)
    assert off(unspoilt, data) < 0.1
    assert off(corrected.estimator_, data) < 0.2
    assert off(plain, data) > 1.0
    p = softmax(data.X @ data.coef.T + data.intercept, axis=1)
    assert np.abs(corrected.predict_proba(data.X) - p).mean() < 0.02
    assert np.abs(plain.predict_proba(data.X) - p).mean() > 0.15
    assert corrected.score(data.X, data.clean) > plain.score(data.X, data.clean) + 0.05
    assert corrected.noisy_estimator_ is None


def test_the_identity_is_plain_cross_entropy():
    data = from_a_softmax(2000)
    corrected = ForwardCorrection(transition=np.eye(3)).fit(data.X, data.y)
    plain = LogisticRegression(tol=1e-10).fit(data.X, data.y)
    np.testing.assert_allclose(corrected.estimator_.coef_, SoftmaxRegression().fit(data.X, data.y).coef_, atol=1e-6)
    np.testing.assert_allclose(corrected.predict_proba(data.X), plain.predict_proba(data.X), atol=1e-6)


@pytest.mark.parametrize("percentile", [97, 100])
def test_the_transition_is_estimated_where_there_are_anchors(percentile):
    data = of_cells()
    model = ForwardCorrection(CELLS, percentile=percentile).fit(data.X, data.y)
    np.testing.assert_allclose(model.transition_, TRANSITION, atol=0.03)
    cells = np.arange(12)[:, None]
    np.testing.assert_allclose(model.noisy_estimator_.predict_proba(cells), data.p @ TRANSITION, atol=0.05)
    np.testing.assert_allclose(model.predict_proba(cells), data.p, atol=0.1)
    assert np.abs(model.noisy_estimator_.predict_proba(cells) - data.p).max() > 0.4
    assert model.score(data.X, data.clean) > model.noisy_estimator_.score(data.X, data.clean)


def test_the_transition_is_estimated_from_validation_rows():
    data = of_cells()
    train, val = slice(0, 10_000), slice(10_000, None)
    model = ForwardCorrection(CELLS, transition="validation")
    model.fit(data.X[train], data.y[train], data.X[val], data.clean[val])
    shown = (data.p @ TRANSITION)[data.X[val, 0]]
    expected = [shown[data.clean[val] == label].mean(axis=0) for label in range(3)]
    np.testing.assert_allclose(model.transition_, expected, atol=0.02)


def test_anchors_written_out():
    rng = np.random.default_rng(1)
    p = np.vstack([rng.dirichlet(np.ones(3), size=200), np.eye(3)])[rng.permutation(203)]
    np.testing.assert_allclose(anchor_transition(p @ TRANSITION, percentile=100), TRANSITION)
    eta = np.column_stack([np.arange(101), 100 - np.arange(101)]) / 100
    np.testing.assert_allclose(anchor_transition(eta, percentile=97), [[0.97, 0.03], [0.03, 0.97]])
    np.testing.assert_allclose(anchor_transition(eta, percentile=0), [[0, 1], [1, 0]])


def test_means_by_label_written_out():
    rng = np.random.default_rng(2)
    eta, y = rng.dirichlet(np.ones(3), size=60), rng.integers(3, size=60)
    found = labelled_transition(eta, y)
    for label in range(3):
        np.testing.assert_allclose(found[label], eta[y == label].mean(axis=0))


def test_which_rows_are_looked_at():
    data = from_a_softmax(1000)
    alone, beside = ForwardCorrection(), ForwardCorrection()
    alone.fit(data.X, data.y)
    beside.fit(data.X, data.y, data.X_val, data.y_val)
    np.testing.assert_array_equal(alone.estimator_.coef_, beside.estimator_.coef_)
    held_out = ForwardCorrection(transition="validation").fit(data.X, data.y)
    beside = ForwardCorrection(transition="validation").fit(data.X, data.y, data.X_val, data.y_val)
    assert np.abs(held_out.transition_ - beside.transition_).max() > 0.05
    np.testing.assert_array_equal(beside.noisy_estimator_.coef_, SoftmaxRegression().fit(data.X, data.y).coef_)
    assert np.abs(held_out.noisy_estimator_.coef_ - beside.noisy_estimator_.coef_).max() > 1e-3  # of fewer rows


def test_a_class_missing_from_one_side():
    data = from_a_softmax(2000)
    known = data.y_val != 2
    with pytest.warns(MissingClassWarning, match="class number 2 is missing from the validation rows"):
        model = ForwardCorrection(transition="validation").fit(data.X, data.y, data.X_val[known], data.y_val[known])
    np.testing.assert_array_equal(model.transition_[2], [0, 0, 1])
    known = data.y != 1
    with pytest.warns(MissingClassWarning, match="class number 1 is missing from the training labels"):
        model = ForwardCorrection().fit(data.X[known], data.y[known], data.X_val, data.y_val)
    np.testing.assert_array_equal(model.transition_[1], [0, 1, 0])
    assert model.predict_proba(data.X)[:, 1].max() < 0.01


def test_a_class_that_never_keeps_its_label_is_found_through_the_others():
    rng = np.random.default_rng(3)
    data = from_a_softmax(20_000)
    transition = np.array([[0.9, 0.0, 0.1], [0.5, 0.0, 0.5], [0.1, 0.0, 0.9]])
    noisy = drawn(transition[data.clean], rng)
    model = ForwardCorrection(FREE, transition=transition).fit(data.X, noisy, data.X_val, data.y_val)
    assert 1 not in noisy
    assert np.mean(model.predict(data.X_val)[data.y_val == 1] == 1) > 0.5


def test_names_frames_sparse_rows_and_pipelines():
    data = from_a_softmax(1000)
    plain = ForwardCorrection(transition=TRANSITION).fit(data.X, data.y)
    names, frame = np.array(["a", "b", "c"]), pd.DataFrame(data.X).add_prefix("x")
    named = ForwardCorrection(transition=TRANSITION).fit(frame, names[data.y])
    np.testing.assert_array_equal(named.predict(frame), names[plain.predict(data.X)])
    sparse = ForwardCorrection(transition=TRANSITION).fit(csr_matrix(data.X), data.y)
    np.testing.assert_allclose(sparse.predict_proba(csr_matrix(data.X)), plain.predict_proba(data.X), atol=1e-6)
    scaled = ForwardCorrection(make_pipeline(StandardScaler(), FREE), transition=TRANSITION).fit(frame, names[data.y])
    free = ForwardCorrection(FREE, transition=TRANSITION).fit(data.X, data.y)
    np.testing.assert_allclose(scaled.predict_proba(frame), free.predict_proba(data.X), atol=1e-5)


def test_clone():
    model = clone(ForwardCorrection(SoftmaxRegression(C=2.0), transition=TRANSITION, percentile=90))
    assert model.get_params(deep=False).keys() == {"estimator", "transition", "percentile"}
    assert (model.estimator.C, model.percentile) == (2.0, 90)
    np.testing.assert_array_equal(model.transition, TRANSITION)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"transition": "validate"}, SettingError, "there is no transition 'validate'; did you mean 'validation'"),
        ({"transition": np.eye(2)}, ShapeError, r"transition must have shape \(3, 3\). Got \(2, 2\)"),
        ({"transition": np.ones((3, 3))}, ProbabilityError, "transition has 3 of 3 rows with a sum other than 1"),
        ({"transition": -np.eye(3)}, ProbabilityError, "transition has 3 of 3 rows with negative values"),
        ({"transition": np.eye(3)[[0, 1, 1]]}, ProbabilityError, r"no class ever gets label 2 .*but \d+ rows have it"),
        ({"percentile": 101}, SettingError, r"percentile must be a number in \[0, 100\]"),
        ({"estimator": LogisticRegression()}, InputError, "forward correction trains a SoftmaxRegression"),
        ({"estimator": FrozenEstimator(FREE)}, InputError, "forward correction trains the model itself"),
    ],
)
def test_errors(params, error, message):
    data = from_a_softmax(200)
    with pytest.raises(error, match=message):
        ForwardCorrection(**params).fit(data.X, data.y)


def test_one_training_label_says_nothing_about_noise():
    data = from_a_softmax(200)
    with pytest.raises(LabelError, match="Got one class"):
        ForwardCorrection().fit(data.X, np.zeros(200), data.X_val, data.y_val)

"""``postshift.frontier``: models, arrays of probabilities, and what is taken from a fitted estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import postshift
from postshift import PostShiftClassifier, PostShifter
from postshift.exceptions import InfeasibleError, InputError, SettingError
from tests.estimators.data import noisy

BOUNDS = [0.6, 0.7]


@pytest.fixture(scope="module")
def data():
    return noisy(2, n_rows=1500)


@pytest.fixture(scope="module")
def model(data):
    return LogisticRegression().fit(data.X, data.y)


@pytest.fixture(scope="module")
def found(data, model):
    return traced(model, data.X_val, data.y_val)


def traced(model, X, y, **more):
    """A small frontier."""
    given = {"metric": "precision", "subject_to": "recall >= 0.6", "bounds": BOUNDS, **more}
    return postshift.frontier(model, X, y, **given)


def same(one, other):
    return one.to_frame().equals(other.to_frame())


def test_models_and_probabilities_give_the_same(data, model, found):
    eta = model.predict_proba(data.X_val)
    assert same(traced(FrozenEstimator(model), data.X_val, data.y_val), found)
    assert same(traced(None, eta, data.y_val), found)
    assert same(traced(PostShifter(), eta, data.y_val), found)


def test_what_a_frontier_says(data, found):
    assert (found.metric, found.constraint, found.sense, found.others) == ("precision", "recall", ">=", ())
    assert found.classes == (0, 1)
    assert found.n_rows == len(data.y_val)
    assert found.confidence is None
    assert [point.bound for point in found.points] == BOUNDS
    assert found.at(0.65) is found.points[1]
    assert found.at(0.99) is found.points[1]
    frame = found.to_frame()
    assert frame["bound"].tolist() == BOUNDS
    assert "rule" not in frame


def test_a_fitted_estimator_brings_its_settings(data, model):
    fitted = PostShiftClassifier(
        FrozenEstimator(model), metric="precision", subject_to="recall >= 0.6", margin=1.0, basis="constant"
    ).fit(data.X, data.y, data.X_val, data.y_val)
    own = postshift.frontier(fitted, data.X_val, data.y_val, bounds=BOUNDS)
    assert (own.metric, own.constraint) == ("precision", "recall")
    assert own.at(0.6).rule.labels(fitted._new_rows(data.X_val)).tolist() == fitted.predict(data.X_val).tolist()
    other = postshift.frontier(
        fitted, data.X_val, data.y_val, metric="accuracy", subject_to="rate[1] <= 0.3", bounds=[0.3]
    )
    assert (other.metric, other.constraint) == ("accuracy", "rate[1]")


def test_labels_of_any_kind(data, model):
    names = np.array(["ham", "spam"])
    eta = model.predict_proba(data.X_val)
    given = {"metric": "precision[spam]", "subject_to": "recall[spam] >= 0.6", "classes": names}
    assert traced(None, eta, names[data.y_val], **given).classes == ("ham", "spam")


def test_groups_and_rows_without_labels(data, model):
    groups = np.array(["a", "b"])[np.arange(len(data.y_val)) % 2]
    given = {"metric": "accuracy", "subject_to": "demographic_parity <= 0.1", "bounds": [0.3, 0.2]}
    eta = model.predict_proba(data.X_val)
    phi = np.eye(2)[np.arange(len(data.y_val)) % 2]
    plain = traced(None, eta, data.y_val, groups=groups, phi=phi, **given)
    assert plain.points[0].confusion.shape == (4, 2)
    more = {"confidence": 0.9, "X_unlabelled": eta, "phi_unlabelled": phi, "groups_unlabelled": groups}
    certified = traced(None, eta, data.y_val, groups=groups, phi=phi, **given, **more)
    assert certified.confidence == 0.9
    assert all(point.certified is not None for point in certified.points)


def test_what_it_refuses(data, model):
    with pytest.raises(SettingError, match="a frontier needs metric"):
        postshift.frontier(model, data.X_val, data.y_val, metric="f1")
    with pytest.raises(SettingError, match="fitted without subject_to"):
        postshift.frontier(PostShifter(), model.predict_proba(data.X_val), data.y_val)
    with pytest.raises(SettingError, match="give confidence"):
        traced(model, data.X_val, data.y_val, X_unlabelled=data.X)
    with pytest.raises(SettingError, match="classes are for arrays"):
        traced(model, data.X_val, data.y_val, classes=[0, 1])
    with pytest.raises(SettingError, match="phi is for arrays"):
        traced(model, data.X_val, data.y_val, phi=np.ones((len(data.y_val), 1)))
    with pytest.raises(InfeasibleError, match="no classifier meets any"):
        traced(model, data.X_val, data.y_val, subject_to="precision >= 0.5", metric="recall", bounds=[1.01])
    with pytest.raises(SettingError, match="bounds must be a whole number"):
        traced(model, data.X_val, data.y_val, bounds=1)


def test_rows_that_the_model_was_fitted_to_are_refused(data):
    fitted = PostShiftClassifier(LogisticRegression(), metric="accuracy", method="stack", basis="constant")
    fitted.fit(data.X, data.y)
    with pytest.raises(InputError, match="training rows of the fit"):
        traced(fitted, data.X, data.y)

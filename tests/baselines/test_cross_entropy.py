"""The model fitted to one side: the same as fitting it by hand, on one call."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from postshift.baselines.cross_entropy import CrossEntropyOnTrain, CrossEntropyOnValidation
from postshift.exceptions import InputError, LabelError
from tests.estimators.data import noisy

BOTH = [CrossEntropyOnTrain, CrossEntropyOnValidation]


def sides(data):
    return data.X, data.y, data.X_val, data.y_val


@pytest.mark.parametrize("model", [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())])
def test_each_is_the_model_of_its_side(model):
    data = noisy(3)
    on_train, on_val = (method(model).fit(*sides(data)) for method in BOTH)
    for ours, theirs in (
        (on_train, clone(model).fit(data.X, data.y)),
        (on_val, clone(model).fit(data.X_val, data.y_val)),
    ):
        np.testing.assert_array_equal(ours.predict_proba(data.X_test), theirs.predict_proba(data.X_test))
        np.testing.assert_array_equal(ours.predict(data.X_test), theirs.predict(data.X_test))
        assert ours.score(data.X_test, data.y_test) == theirs.score(data.X_test, data.y_test)


def test_without_validation_rows():
    data = noisy()
    on_train = CrossEntropyOnTrain(LogisticRegression()).fit(data.X, data.y)
    np.testing.assert_array_equal(on_train.estimator_.coef_, LogisticRegression().fit(data.X, data.y).coef_)
    counts = CrossEntropyOnValidation(DummyClassifier()).fit(data.X, data.y).estimator_.class_prior_
    np.testing.assert_allclose(counts, np.bincount(data.y) / len(data.y), atol=0.01)  # a stratified fifth
    kept = CrossEntropyOnValidation(RandomForestClassifier(1, bootstrap=False)).fit(data.X, data.y)
    assert kept.estimator_[0].tree_.n_node_samples[0] == np.ceil(len(data.y) / 5)


def test_a_fitted_model_is_taken_as_it_is():
    data = noisy()
    fitted = LogisticRegression(C=0.01).fit(data.X_test, data.y_test)
    model = CrossEntropyOnTrain(FrozenEstimator(fitted)).fit(*sides(data))
    np.testing.assert_array_equal(model.predict_proba(data.X), fitted.predict_proba(data.X))
    with pytest.raises(NotFittedError):
        CrossEntropyOnTrain(FrozenEstimator(LogisticRegression())).fit(*sides(data))


@pytest.mark.parametrize("method", BOTH)
def test_a_class_missing_from_a_side_has_probability_0(method):
    data = noisy(3)
    here = (data.X, data.y) if method is CrossEntropyOnTrain else (data.X_val, data.y_val)
    there = (data.X, data.y) if method is CrossEntropyOnValidation else (data.X_val, data.y_val)
    known = here[1] != 1
    here = here[0][known], here[1][known]
    order = (*here, *there) if method is CrossEntropyOnTrain else (*there, *here)
    model = method(LogisticRegression()).fit(*order)
    assert list(model.classes_) == [0, 1, 2]
    p = model.predict_proba(data.X_test)
    np.testing.assert_array_equal(p[:, 1], 0)
    np.testing.assert_array_equal(p[:, [0, 2]], LogisticRegression().fit(*here).predict_proba(data.X_test))


@pytest.mark.parametrize("method", BOTH)
def test_names_and_frames(method):
    data = noisy()
    frames = [pd.DataFrame(X).add_prefix("x") for X in (data.X, data.X_val, data.X_test)]
    names = np.array(["no", "yes"])
    named = method(LogisticRegression()).fit(frames[0], names[data.y], frames[1], pd.Series(names[data.y_val]))
    plain = method(LogisticRegression()).fit(*sides(data))
    np.testing.assert_array_equal(named.predict(frames[2]), names[plain.predict(data.X_test)])
    assert list(named.feature_names_in_) == list(frames[0].columns)


@pytest.mark.parametrize("method", BOTH)
def test_clone(method):
    model = clone(method(LogisticRegression())).set_params(estimator__C=0.5)
    assert model.get_params(deep=False).keys() == {"estimator"}
    assert model.estimator.C == 0.5


def test_errors():
    data = noisy()
    ones = data.y_val == 1
    with pytest.raises(LabelError, match=rf"the {ones.sum()} validation rows are all of class .*1.*: give rows"):
        CrossEntropyOnValidation(LogisticRegression()).fit(data.X, data.y, data.X_val[ones], data.y_val[ones])
    with pytest.raises(LabelError, match="training rows are all of class"):
        CrossEntropyOnTrain(LogisticRegression()).fit(data.X, np.zeros(len(data.y)), data.X_val, data.y_val)
    with pytest.raises(InputError, match=r"no predict_proba: wrap it in .*CalibratedClassifierCV"):
        CrossEntropyOnTrain(Perceptron()).fit(*sides(data)).predict(data.X)

"""DirectSearch against all thresholds, and against a fine grid of weights."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from postshift.baselines.direct_search import DirectSearch
from postshift.exceptions import MissingClassWarning, SettingError
from postshift.metrics import ExpectedCost, from_predictions
from tests.estimators.data import noisy


def g_mean(y_true, y_pred):
    recalls = [np.mean(y_pred[y_true == label] == label) for label in np.unique(y_true)]
    return float(np.prod(recalls) ** (1 / len(recalls)))


def search(metric="g_mean", **params):
    return DirectSearch(LogisticRegression(), metric=metric, **params)


def fitted(model, data):
    return model.fit(data.X, data.y, data.X_val, data.y_val)


def val_eta(data):
    return LogisticRegression().fit(data.X, data.y).predict_proba(data.X_val)


# -- what it finds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_classes_come_near_the_best_of_all_thresholds(seed):
    data = noisy(seed=seed)
    positive = val_eta(data)[:, 1]
    best = max(g_mean(data.y_val, (positive >= cut).astype(int)) for cut in np.r_[positive, np.inf])
    model = fitted(search(max_queries=400, random_state=seed), data)
    reached = g_mean(data.y_val, model.predict(data.X_val))
    assert best - 0.005 <= reached <= best + 1e-12
    assert model.score_ == pytest.approx(reached)


def test_three_classes_come_near_the_best_of_a_fine_grid():
    data, eta = noisy(3), val_eta(noisy(3))
    logs = np.linspace(-3, 3, 61)
    grid = (np.argmax(np.exp([0, a, b]) * eta, axis=1) for a in logs for b in logs)
    best = max(g_mean(data.y_val, labels) for labels in grid)
    reached = fitted(search(), data).score_
    assert reached > best - 0.005
    assert best > g_mean(data.y_val, np.argmax(eta, axis=1)) + 0.02


@pytest.mark.parametrize("seed", range(5))
def test_it_is_never_worse_than_the_model_as_it_is(seed):
    data = noisy(3, seed=seed)
    base = g_mean(data.y_val, np.argmax(val_eta(data), axis=1))
    model = fitted(search(max_queries=5, population=5, random_state=seed), data)
    assert g_mean(data.y_val, model.predict(data.X_val)) >= base


def test_a_cost_is_made_small():
    data = noisy()
    dear = fitted(search(ExpectedCost([[0, 1], [50, 0]]), max_queries=200), data)
    assert np.mean(dear.predict(data.X_val) == 1) > 0.7
    assert dear.score_ < 0


def test_the_seed_decides():
    data = noisy(3)
    first, again = (fitted(search(max_queries=100, random_state=3), data).weights_ for _ in range(2))
    other = fitted(search(max_queries=100, random_state=4), data).weights_
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    drawn = fitted(search(max_queries=100, random_state=np.random.RandomState(3)), data).weights_
    np.testing.assert_array_equal(first, drawn)


@pytest.mark.parametrize("max_queries", [20, 37, 100])
def test_queries_are_counted_and_never_too_many(max_queries):
    data, calls = noisy(3), []
    metric = from_predictions(lambda shown: calls.append(1) or g_mean(data.y_val, shown))
    model = fitted(search(metric, max_queries=max_queries), data)
    assert model.n_queries_ == len(calls) == max_queries - max_queries % 20


def test_weights_stay_in_their_box():
    data = noisy(3)
    model = fitted(search("accuracy", max_queries=100, max_log_weight=0.1), data)
    assert np.abs(np.log(model.weights_)).max() <= 0.1
    assert model.weights_[0] == 1


# -- what it takes -------------------------------------------------------------------------------------------


def test_names_of_classes_frames_and_pipelines():
    data, names = noisy(3), np.array(["a", "b", "c"])
    frame, frame_val = (pd.DataFrame(X, columns=[f"x{k}" for k in range(8)]) for X in (data.X, data.X_val))
    model = DirectSearch(make_pipeline(StandardScaler(), LogisticRegression()), metric="g_mean", max_queries=100)
    model.fit(frame, names[data.y], frame_val, names[data.y_val])
    plain = clone(model).fit(data.X, data.y, data.X_val, data.y_val)
    np.testing.assert_array_equal(model.predict(frame_val), names[plain.predict(data.X_val)])
    assert model.get_params()["max_queries"] == 100


def test_a_frozen_model_is_taken_as_it_is():
    data = noisy()
    frozen = FrozenEstimator(LogisticRegression().fit(data.X, data.y))
    model = DirectSearch(frozen, metric="g_mean", max_queries=100).fit(data.X[:9], data.y[:9], data.X_val, data.y_val)
    np.testing.assert_array_equal(model.weights_, fitted(search(max_queries=100), data).weights_)


def test_groups_are_read_by_the_metric():
    data = noisy()
    groups = np.where(data.X_val[:, 0] > 0, 1, 0)
    model = search("worst_group_accuracy", max_queries=100)
    model.fit(data.X, data.y, data.X_val, data.y_val, groups=groups)
    right = model.predict(data.X_val) == data.y_val
    assert model.score_ == pytest.approx(min(right[groups == group].mean() for group in (0, 1)))


def test_a_class_without_training_rows_is_never_predicted():
    data = noisy(3)
    known = data.y != 1
    model = search("accuracy", max_queries=100).fit(data.X[known], data.y[known], data.X_val, data.y_val)
    assert set(model.predict(data.X_test)) == {0, 2}


def test_a_class_without_validation_rows_is_told_once():
    data = noisy(3)
    known = data.y_val != 1
    with pytest.warns(MissingClassWarning, match="class 1") as caught:
        search(max_queries=100).fit(data.X, data.y, data.X_val[known], data.y_val[known])
    assert len(caught) == 1


# -- what it refuses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"population": 4}, "population must be a whole number >= 5"),
        ({"max_queries": 0}, "max_queries must be a whole number >= 1"),
        ({"max_queries": 19}, "max_queries=19 is not enough for one generation of 20"),
        ({"max_log_weight": 0}, r"max_log_weight must be a number in \(0, 300\]"),
        ({"metric": "g_maen"}, "did you mean 'g_mean'"),
    ],
)
def test_settings_that_make_no_search_are_refused(params, message):
    with pytest.raises(SettingError, match=message):
        fitted(search(**params), noisy())

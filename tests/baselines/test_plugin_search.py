"""CoordinatePlugin against thresholds and grids tried one by one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from postshift.baselines.plugin_search import CoordinatePlugin
from postshift.exceptions import InputError, MissingClassWarning, SettingError
from postshift.metrics import from_predictions
from tests.estimators.data import noisy


def g_mean(y_true, y_pred):
    recalls = [np.mean(y_pred[y_true == label] == label) for label in np.unique(y_true)]
    return float(np.prod(recalls) ** (1 / len(recalls)))


def f1(y_true, y_pred):
    return 2 * float(y_true @ y_pred) / float(y_true.sum() + y_pred.sum())


def correlation(y_true, y_pred):
    return float(np.corrcoef(y_true, y_pred)[0, 1]) if np.ptp(y_pred) else 0.0


def accuracy(y_true, y_pred):
    return float(np.mean(y_true == y_pred))


SCORES = {"g_mean": g_mean, "f1": f1, "matthews_corrcoef": correlation, "accuracy": accuracy}


class Told(ClassifierMixin, BaseEstimator):
    """A model whose probabilities are its rows."""

    def fit(self, X, y):  # noqa: ARG002
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X):
        return X


def plugin(metric="g_mean", **params):
    return CoordinatePlugin(LogisticRegression(), metric=metric, **params)


def fitted(model, data):
    return model.fit(data.X, data.y, data.X_val, data.y_val)


def val_eta(data):
    return LogisticRegression().fit(data.X, data.y).predict_proba(data.X_val)


def best_of_all_thresholds(data, score):
    positive = val_eta(data)[:, 1]
    cuts = np.r_[-np.inf, np.unique(positive), np.inf]
    return max(score(data.y_val, (positive >= cut).astype(int)) for cut in cuts)


# -- the exact search ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", SCORES)
@pytest.mark.parametrize("seed", [0, 1])
def test_two_classes_are_the_best_of_all_thresholds(metric, seed):
    data = noisy(seed=seed)
    model = fitted(plugin(metric), data)
    best = best_of_all_thresholds(data, SCORES[metric])
    assert SCORES[metric](data.y_val, model.predict(data.X_val)) == pytest.approx(best, abs=1e-12)
    assert model.n_queries_ == 0


def test_no_single_weight_of_three_brings_more():
    data, eta = noisy(3), val_eta(noisy(3))
    model = fitted(plugin(max_sweeps=20), data)
    reached = g_mean(data.y_val, model.predict(data.X_val))
    for label in range(3):
        for factor in np.exp(np.linspace(-3, 3, 61)):
            weights = model.weights_ * np.where(np.arange(3) == label, factor, 1.0)
            assert g_mean(data.y_val, np.argmax(weights * eta, axis=1)) <= reached + 1e-12
    assert reached > g_mean(data.y_val, np.argmax(eta, axis=1))


@pytest.mark.parametrize("keeps_labels", [True, False])
def test_a_metric_known_by_its_values_is_asked_and_counted(keeps_labels):
    data, calls = noisy(), []

    def told(y_true, y_pred):
        calls.append(y_pred)
        return g_mean(y_true, y_pred)

    metric = from_predictions(lambda shown: told(data.y_val, shown)) if keeps_labels else told
    few = fitted(plugin(metric, max_cuts=5), data)
    assert few.n_queries_ == len(calls) <= 3 * 2 * 5 + 1
    calls.clear()
    many = fitted(plugin(metric, max_cuts=10_000), data)
    assert many.n_queries_ == len(calls)
    assert g_mean(data.y_val, many.predict(data.X_val)) == pytest.approx(best_of_all_thresholds(data, g_mean))


def test_groups_are_read_by_the_metric():
    data = noisy()
    groups = np.where(data.X_val[:, 0] > 0, "b", "a")
    model = plugin("group_g_mean").fit(data.X, data.y, data.X_val, data.y_val, groups=groups)

    def score(y_true, y_pred):
        cells = [(groups == group) & (y_true == label) for group in "ab" for label in (0, 1)]
        return np.prod([np.mean(y_pred[cell] == y_true[cell]) for cell in cells]) ** 0.25

    reached = score(data.y_val, model.predict(data.X_val))
    assert reached == pytest.approx(best_of_all_thresholds(data, score), abs=1e-12)


# -- the paper's grid ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["g_mean", "f1"])
@pytest.mark.parametrize("spacing", [0.01, 0.3])
def test_two_classes_are_an_explicit_search_over_the_grid(metric, spacing):
    data, eta = noisy(), val_eta(noisy())
    grid = [zeta for k in range(1, 1000) if (zeta := k * spacing) < 1 - 1e-9]
    values = [SCORES[metric](data.y_val, np.where(z * eta[:, 0] >= (1 - z) * eta[:, 1], 0, 1)) for z in grid]
    best = min(
        (z for z, value in zip(grid, values, strict=True) if value > max(values) - 1e-12), key=lambda z: abs(z - 0.5)
    )
    model = fitted(plugin(metric, spacing=spacing), data)
    np.testing.assert_allclose(model.weights_, [best / (1 - best), 1])
    assert SCORES[metric](data.y_val, model.predict(data.X_val)) == pytest.approx(max(values))
    assert model.n_queries_ <= len(grid)


@pytest.mark.parametrize(("n_first", "weight"), [(4, 0.6), (8, 1.0)])
def test_rows_that_tie_on_the_grid_go_to_the_first_class(n_first, weight):
    """Four rows of each of three probabilities, of which 0.5 is a point of the grid."""
    positive = np.repeat([0.3, 0.5, 0.7], 4)
    eta, y = np.column_stack([1 - positive, positive]), np.repeat([0, 1], [n_first, 12 - n_first])
    model = CoordinatePlugin(Told().fit(eta, y), metric="accuracy", spacing=0.125).fit(eta, y, eta, y)
    np.testing.assert_allclose(model.weights_, [weight, 1])
    np.testing.assert_array_equal(model.predict(eta), y)
    assert model.n_queries_ == 4


def test_each_of_three_classes_is_searched_against_the_last():
    data, eta = noisy(3), val_eta(noisy(3))
    grid = np.arange(1, 50) / 50
    model = fitted(plugin("accuracy", spacing=0.02), data)
    assert model.weights_[2] == 1
    for label in (0, 1):
        shown = [np.where(z * eta[:, label] >= (1 - z) * eta[:, 2], label, 2) for z in grid]
        values = np.array([accuracy(data.y_val, labels) for labels in shown])
        zeta = model.weights_[label] / (1 + model.weights_[label])
        assert values[np.argmin(np.abs(grid - zeta))] == values.max()


def test_a_fine_grid_comes_near_the_exact_search_and_never_above_it():
    data = noisy()
    exact = best_of_all_thresholds(data, g_mean)
    reached = g_mean(data.y_val, fitted(plugin(spacing=1e-4), data).predict(data.X_val))
    assert exact - 0.005 < reached <= exact + 1e-12


def test_where_no_pair_of_classes_scores_the_model_stays_as_it_is():
    data = noisy(3)
    model = fitted(plugin("g_mean", spacing=0.05), data)
    np.testing.assert_array_equal(model.weights_, 1)


def test_labels_that_are_asked_about_once_are_counted_once():
    data, calls = noisy(), []
    metric = from_predictions(lambda shown: calls.append(shown.tobytes()) or g_mean(data.y_val, shown))
    model = fitted(plugin(metric, spacing=1e-3), data)
    assert model.n_queries_ == len(calls) == len(set(calls)) <= len(data.y_val) + 1


# -- what it takes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spacing", [None, 0.01])
def test_names_of_classes_frames_and_pipelines(spacing):
    data = noisy()
    names = np.array(["no", "yes"])
    frame, frame_val = (pd.DataFrame(X, columns=[f"x{k}" for k in range(8)]) for X in (data.X, data.X_val))
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    model = CoordinatePlugin(pipeline, metric="g_mean", spacing=spacing)
    model.fit(frame, names[data.y], frame_val, names[data.y_val])
    plain = clone(model).fit(data.X, data.y, data.X_val, data.y_val)
    np.testing.assert_array_equal(model.predict(frame_val), names[plain.predict(data.X_val)])
    assert model.get_params()["spacing"] == spacing
    assert list(model.feature_names_in_) == list(frame.columns)


def test_a_frozen_model_is_taken_as_it_is():
    data = noisy()
    base = LogisticRegression().fit(data.X, data.y)
    frozen = CoordinatePlugin(FrozenEstimator(base), metric="g_mean").fit(
        data.X[:50], 1 - data.y[:50], data.X_val, data.y_val
    )
    np.testing.assert_array_equal(frozen.weights_, fitted(plugin(), data).weights_)


def test_without_validation_rows_a_part_is_held_out():
    data = noisy()
    assert set(plugin().fit(data.X, data.y).predict(data.X_test)) == {0, 1}


def test_a_class_without_training_rows_is_never_predicted():
    data = noisy(3)
    known = data.y != 2
    model = plugin("accuracy").fit(data.X[known], data.y[known], data.X_val, data.y_val)
    assert set(model.predict(data.X_test)) == {0, 1}


@pytest.mark.parametrize("spacing", [None, 0.1])
def test_a_class_without_validation_rows_is_told(spacing):
    data = noisy(3)
    known = data.y_val != 2
    with pytest.warns(MissingClassWarning, match="class 2"):
        plugin(spacing=spacing).fit(data.X, data.y, data.X_val[known], data.y_val[known])


# -- what it refuses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spacing", [0, 0.6, -1, "fine", True])
def test_a_spacing_that_makes_no_grid_is_refused(spacing):
    with pytest.raises(SettingError, match=r"spacing must be a number in \(0, 0.5\]"):
        fitted(plugin(spacing=spacing), noisy())


@pytest.mark.parametrize("params", [{"max_sweeps": 0}, {"max_cuts": 0}])
def test_counts_below_one_are_refused(params):
    with pytest.raises(SettingError, match=f"{next(iter(params))} must be a whole number >= 1"):
        fitted(plugin(**params), noisy())


def test_a_model_without_probabilities_is_refused():
    with pytest.raises(InputError, match="has no predict_proba: wrap it"):
        fitted(CoordinatePlugin(LinearSVC()), noisy())


@pytest.mark.parametrize("spacing", [None, 0.1])
def test_metadata_that_the_metric_does_not_read_is_refused(spacing):
    data = noisy()
    with pytest.raises(SettingError, match="does not read 'groups'"):
        plugin(spacing=spacing).fit(data.X, data.y, data.X_val, data.y_val, groups=data.y_val)

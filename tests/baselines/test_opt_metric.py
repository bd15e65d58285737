"""OptMetric against Bayes rules of linear metrics, brute force over thresholds, and random plug-in classifiers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from postshift.baselines.opt_metric import OptMetric
from postshift.baselines.plugin_search import CoordinatePlugin
from postshift.exceptions import MetricError, MissingClassWarning, SettingError
from postshift.metrics import ExpectedCost, ExpectedReward, from_confusion, from_predictions
from tests.estimators.data import noisy


def opt(metric="g_mean", **params):
    return OptMetric(LogisticRegression(), metric=metric, **params)


def fitted(model, data):
    return model.fit(data.X, data.y, data.X_val, data.y_val)


def val_model(data):
    return LogisticRegression().fit(data.X_val, data.y_val)


def recalls(y_true, distribution):
    return np.array([distribution[y_true == label, label].mean() for label in range(distribution.shape[1])])


def calibrated(n_levels=100):
    """Rows of two classes, one rare, whose probabilities are just the shares of the classes among equal rows."""
    levels = np.repeat(np.arange(n_levels + 1), np.r_[np.full(20, 5), np.full(n_levels - 19, 1)])
    positive = np.repeat(levels / n_levels, n_levels)
    y = (np.tile(np.arange(n_levels), len(levels)) < np.repeat(levels, n_levels)).astype(int)
    return np.column_stack([1 - positive, positive]), y


class Told(ClassifierMixin, BaseEstimator):
    """A model whose probabilities are its rows."""

    def fit(self, X, y):  # noqa: ARG002
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X):
        return X


def told(metric, eta, y, **params):
    return OptMetric(FrozenEstimator(Told().fit(eta, y)), metric=metric, **params).fit(eta, y, eta, y)


def worth(metric, y, distribution):
    right = recalls(y, distribution)
    if metric == "f1":
        positive = distribution[:, 1]
        return 2 * (positive @ y) / (positive.sum() + y.sum())
    return np.sqrt(right.prod()) if metric == "g_mean" else 2 * right.prod() / right.sum()


# -- linear metrics: the Bayes rule --------------------------------------------------------------------------


def test_accuracy_is_the_likeliest_class():
    data = noisy(3)
    model = fitted(opt("accuracy"), data)
    np.testing.assert_array_equal(model.predict(data.X_test), val_model(data).predict(data.X_test))
    assert model.n_queries_ == 0


@pytest.mark.parametrize("kind", [ExpectedCost, ExpectedReward])
def test_a_matrix_of_costs_or_rewards_is_the_best_expected_one(kind):
    data = noisy(3)
    table = np.random.default_rng(0).uniform(size=(3, 3)) + 2 * np.eye(3) * (1 if kind is ExpectedReward else -1)
    expected = val_model(data).predict_proba(data.X_test) @ table
    best = np.argmax(expected if kind is ExpectedReward else -expected, axis=1)
    model = fitted(opt(kind(table)), data)
    np.testing.assert_array_equal(model.predict(data.X_test), best)
    np.testing.assert_allclose(model.history_, model.history_[0])


def test_balanced_accuracy_is_the_inverse_prior():
    data = noisy(3)
    prior = np.bincount(data.y_val) / len(data.y_val)
    best = np.argmax(val_model(data).predict_proba(data.X_test) / prior, axis=1)
    np.testing.assert_array_equal(fitted(opt("balanced_accuracy"), data).predict(data.X_test), best)


# -- other metrics: brute force ------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["g_mean", "f1", "h_mean"])
def test_two_classes_come_within_a_thousandth_of_the_best_threshold(metric):
    eta, y = calibrated()
    best = max(worth(metric, y, np.eye(2)[(eta[:, 1] >= cut).astype(int)]) for cut in np.unique(eta))
    model = told(metric, eta, y, max_iter=200)
    assert model.history_[-1] == pytest.approx(best, abs=1e-3)
    assert worth(metric, y, model.predict_distribution(eta)) == pytest.approx(model.history_[-1])
    assert worth(metric, y, np.eye(2)[model.predict(eta)]) == pytest.approx(best, abs=1e-3)
    assert best > worth(metric, y, np.eye(2)[np.argmax(eta, axis=1)]) + 0.01


@pytest.mark.parametrize("metric", ["g_mean", "f1", "f1_macro", "q_mean", "matthews_corrcoef"])
def test_iterates_all_but_climb(metric):
    eta, y = calibrated()
    history = told(metric, eta, y, max_iter=60).history_
    assert np.diff(history)[5:].min() > -1e-3
    assert history[-1] > history.max() - 1e-3
    assert history[-1] >= history[0] - 1e-9


def test_three_classes_beat_every_other_plug_in_rule():
    rng = np.random.default_rng(0)
    eta = rng.dirichlet([4, 1, 0.5], size=20_000)
    y = (rng.random((len(eta), 1)) > eta.cumsum(axis=1)).sum(axis=1)
    model = told("g_mean", eta, y, max_iter=200)
    tried = (np.argmax(np.exp(rng.normal(size=3) * 2) * eta, axis=1) for _ in range(300))
    best = max(np.prod(recalls(y, np.eye(3)[labels])) ** (1 / 3) for labels in tried)
    assert model.history_[-1] > best - 1e-3
    assert np.prod(recalls(y, model.predict_distribution(eta))) ** (1 / 3) == pytest.approx(model.history_[-1])


def test_a_class_that_is_never_predicted_at_first_is_found():
    """The model thinks too little of the last class: after the first step the G-mean and its gradient are 0."""
    rng = np.random.default_rng(1)
    y = rng.choice(3, size=3000, p=[0.5, 0.3, 0.2])
    eta = np.column_stack([np.eye(3)[y][:, :2] + rng.uniform(0.3, 1, size=(3000, 2)), 0.02 * (1 + (y == 2))])
    eta /= eta.sum(axis=1, keepdims=True)
    model = told("g_mean", eta, y)
    assert model.history_[0] == 0
    assert model.history_[-1] > 0.45


def test_a_minimum_is_fitted_too():
    eta, y = calibrated()
    model = told("min_recall", eta, y, max_iter=100)
    even = recalls(y, model.predict_distribution(eta))
    assert abs(even[0] - even[1]) < 0.02
    assert model.history_[-1] == pytest.approx(even.min())


# -- groups --------------------------------------------------------------------------------------------------


def test_groups_that_the_rows_give_away_are_served_without_being_told():
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=4000)
    x = rng.normal(size=4000)
    y = (rng.random(4000) < 1 / (1 + np.exp(2 - 1.5 * x - np.where(group == 1, 3.0, 0.0)))).astype(int)
    X = np.column_stack([x, group])
    names = np.array(["f", "m"])[group]

    def even(model):
        right = model.predict(X) == y
        return np.prod([right[(group == g) & (y == c)].mean() for g in (0, 1) for c in (0, 1)]) ** 0.25

    known = opt("group_g_mean", max_iter=60).fit(X, y, X, y, groups=names)
    one_weight = CoordinatePlugin(LogisticRegression(), metric="group_g_mean").fit(X, y, X, y, groups=names)
    assert known.categories_.tolist() == [0, 1, 2, 3]
    assert known.gains_.shape == (60, 4, 2)
    assert even(known) > even(one_weight) + 0.05


# -- the mixture ---------------------------------------------------------------------------------------------


def test_labels_are_the_likeliest_of_the_members():
    data = noisy(3)
    model = fitted(opt("f1_macro", max_iter=7), data)
    eta = val_model(data).predict_proba(data.X_test)
    drawn = np.zeros((len(eta), 3))
    for gain, share in zip(model.gains_, model.shares_, strict=True):
        drawn[np.arange(len(eta)), np.argmax(eta @ gain, axis=1)] += share
    np.testing.assert_allclose(model.predict_distribution(data.X_test), drawn)
    np.testing.assert_array_equal(model.predict(data.X_test), np.argmax(drawn, axis=1))
    np.testing.assert_allclose(model.shares_, 2 * np.arange(1, 8) / (7 * 8))  # what steps 2 / (t + 2) come to


def test_training_rows_are_not_used():
    data = noisy()
    other = opt().fit(data.X[:4], [0, 1, 0, 1], data.X_val, data.y_val)
    np.testing.assert_array_equal(other.predict(data.X_test), fitted(opt(), data).predict(data.X_test))


def test_a_frozen_model_is_taken_as_it_is():
    data = noisy()
    base = LogisticRegression().fit(data.X, data.y)
    model = OptMetric(FrozenEstimator(base), metric="accuracy").fit(data.X, data.y, data.X_val, data.y_val)
    np.testing.assert_array_equal(model.predict(data.X_test), base.predict(data.X_test))


# -- what it takes -------------------------------------------------------------------------------------------


def test_names_of_classes_frames_and_pipelines():
    data, names = noisy(3), np.array(["a", "b", "c"])
    frame, frame_val = (pd.DataFrame(X, columns=[f"x{k}" for k in range(8)]) for X in (data.X, data.X_val))
    model = OptMetric(make_pipeline(StandardScaler(), LogisticRegression()), metric="f1_macro", max_iter=5)
    model.fit(frame, names[data.y], frame_val, names[data.y_val])
    plain = clone(model).fit(data.X, data.y, data.X_val, data.y_val)
    np.testing.assert_array_equal(model.predict(frame_val), names[plain.predict(data.X_val)])
    assert model.get_params()["max_iter"] == 5


def test_a_class_without_training_rows_is_learnt_from_the_validation_rows():
    data = noisy(3)
    known = data.y != 2
    model = opt().fit(data.X[known], data.y[known], data.X_val, data.y_val)
    assert set(model.predict(data.X_test)) == {0, 1, 2}


def test_a_class_without_validation_rows_is_told_and_never_predicted():
    data = noisy(3)
    known = data.y_val != 2
    with pytest.warns(MissingClassWarning, match="class 2"):
        model = opt().fit(data.X, data.y, data.X_val[known], data.y_val[known])
    assert set(model.predict(data.X_test)) == {0, 1}
    assert model.history_[-1] > 0


# -- what it refuses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metric",
    [
        from_confusion(lambda confusion: confusion[1, 1], name="hits"),
        from_predictions(lambda shown: float(shown.mean()), name="hits"),
        lambda y_true, y_pred: float(np.mean(y_true == y_pred)),
        lambda y_true, y_pred, sample_weight=None: float(np.average(y_true == y_pred, weights=sample_weight)),
    ],
)
def test_a_metric_without_a_gradient_is_refused(metric):
    with pytest.raises(MetricError, match=r"has no gradient in the confusion matrix.*CoordinatePlugin"):
        fitted(opt(metric), noisy())


def test_a_metric_that_does_not_change_is_refused():
    with pytest.raises(MetricError, match="does not change near the uniformly random classifier"):
        fitted(opt(ExpectedReward(np.ones((2, 2)))), noisy())


def test_a_frozen_model_does_not_tell_groups_apart():
    data = noisy()
    model = OptMetric(FrozenEstimator(LogisticRegression().fit(data.X, data.y)), metric="group_g_mean")
    with pytest.raises(SettingError, match=r"4 \(group, class\) pairs, which a frozen model of 2 classes"):
        model.fit(data.X, data.y, data.X_val, data.y_val, groups=(data.X_val[:, 0] > 0).astype(int))


def test_no_iteration_is_refused():
    with pytest.raises(SettingError, match="max_iter must be a whole number >= 1"):
        fitted(opt(max_iter=0), noisy())

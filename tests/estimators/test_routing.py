"""Arguments of fit reach the model, the metric and the splitter."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, hamming_loss, make_scorer
from sklearn.model_selection import GroupKFold, GroupShuffleSplit

from postshift import PostShiftClassifier
from postshift.exceptions import SettingError
from tests.estimators.data import noisy, overlapping


def test_requests_with_other_names_and_with_weights():
    X, y = overlapping()
    amount = np.random.default_rng(0).random(400)

    def gain(y_true, y_pred, *, amount, sample_weight=None):
        return np.average(amount * (y_true == y_pred), weights=sample_weight)

    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(gain).set_score_request(amount="money")
        model = PostShiftClassifier(LogisticRegression(), metric=scorer, method="smoothed plug-in").fit(
            X, y, money=amount
        )
        paid = np.average(amount * (model.predict(X) == y))
        assert model.score(X, y, money=amount) == pytest.approx(paid)
        base = LogisticRegression().set_fit_request(sample_weight=True)
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        model = PostShiftClassifier(base, metric=scorer, method="smoothed plug-in")
        model.fit(X, y, X[:300], y[:300], sample_weight=amount, sample_weight_val=amount[:300])
        scorer = make_scorer(hamming_loss, greater_is_better=False).set_score_request(sample_weight=True)
        model = PostShiftClassifier(base, metric=scorer, method="influence").fit(X, y, sample_weight=amount)
        assert model.n_queries_ == 0


def test_groups_of_both_samples():
    X, y = overlapping()
    groups = np.arange(400) // 10
    model = PostShiftClassifier(
        LogisticRegression(), cv=GroupKFold(3), metric="worst_group_accuracy", method="smoothed plug-in"
    )
    parts = (X[:300], y[:300], X[300:], y[300:])
    with pytest.raises(SettingError, match="groups_val"):
        model.fit(*parts, groups=groups[300:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(*parts, groups=groups[:300], groups_val=groups[300:] % 2)
    assert model.groups_.tolist() == [0, 1]
    splitter = GroupShuffleSplit(1, test_size=0.3, random_state=0)
    with pytest.raises(SettingError, match="hold out more groups"):
        PostShiftClassifier(LogisticRegression(), cv=splitter, method="smoothed plug-in").fit(
            X, y, groups=np.arange(400) % 3
        )


def simple(metric="g_mean", **params):
    return PostShiftClassifier(LogisticRegression(), metric=metric, method="smoothed plug-in", **params)


def gain(y_true, y_pred, *, amount, sample_weight=None):
    return np.average(amount * (y_true == y_pred), weights=sample_weight)


def test_costs_reach_the_metric_by_their_name():
    data = noisy()
    amount = np.where(data.y_val == 0, 0.1, 1.0)
    model = simple(gain).fit(data.X, data.y, data.X_val, data.y_val, amount=amount)
    assert model.n_queries_ > 0
    plain = simple("accuracy").fit(data.X, data.y, data.X_val, data.y_val)
    paid = [np.average(amount * (m.predict(data.X_val) == data.y_val)) for m in (model, plain)]
    assert paid[0] > paid[1]
    with pytest.raises(SettingError, match=r"metric 'gain' needs 'amount'"):
        simple(gain).fit(data.X, data.y, data.X_val, data.y_val)


def test_costs_reach_the_metric_by_request():
    data = noisy()
    amount = np.where(data.y_val == 0, 0.1, 1.0)
    by_name = simple(gain).fit(data.X, data.y, data.X_val, data.y_val, amount=amount)
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(gain).set_score_request(amount=True)
        by_request = simple(scorer).fit(data.X, data.y, data.X_val, data.y_val, amount=amount)
        weighted = PostShiftClassifier(LogisticRegression().set_fit_request(sample_weight=True), method="base")
        weighted.fit(data.X, data.y, sample_weight=1.0 + data.y)
    np.testing.assert_allclose(by_request.coef_, by_name.coef_)
    np.testing.assert_allclose(weighted.estimator_.coef_, LogisticRegression().fit(data.X, data.y, 1.0 + data.y).coef_)


def test_groups_reach_the_metric_and_the_splitter():
    data = noisy()
    groups = np.arange(len(data.y_val)) % 3
    fair = simple("worst_group_accuracy").fit(data.X, data.y, data.X_val, data.y_val, groups=groups)
    accuracies = [np.mean(fair.predict(data.X_val[groups == g]) == data.y_val[groups == g]) for g in range(3)]
    assert fair.score(data.X_val, data.y_val, groups=groups) == pytest.approx(min(accuracies))
    blocks = np.repeat(np.arange(100), len(data.y) // 100 + 1)[: len(data.y)]
    kept = simple(cv=GroupKFold(4)).fit(data.X, data.y, groups=blocks)
    assert kept.score_ > kept.base_score_
    with pytest.raises(SettingError, match="neither metric 'g_mean' nor cv None reads them"):
        simple().fit(data.X, data.y, groups=blocks)


def test_weights_that_the_model_does_not_take():
    from sklearn.neighbors import KNeighborsClassifier

    data = noisy()
    model = PostShiftClassifier(KNeighborsClassifier(), method="smoothed plug-in")
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight"):
        model.fit(data.X, data.y, sample_weight=np.ones(len(data.y)))

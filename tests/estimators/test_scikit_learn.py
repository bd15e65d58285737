"""scikit-learn's own checks, and its tools around the classifier."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from postshift import PostShiftClassifier
from postshift.exceptions import SettingError
from tests.estimators.data import noisy


@pytest.mark.filterwarnings("ignore::postshift.exceptions.SmallValidationWarning")
@pytest.mark.filterwarnings("ignore::postshift.exceptions.MissingClassWarning")
@parametrize_with_checks([PostShiftClassifier(LogisticRegression())])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def simple(metric="g_mean", **params):
    return PostShiftClassifier(LogisticRegression(), metric=metric, method="smoothed plug-in", **params)


def test_clone_params_and_repr():
    model = simple(basis="tree:3", cv=0.25, random_state=3)
    again = clone(model).set_params(estimator__C=0.5, metric="f1_macro")
    assert again.get_params()["estimator__C"] == 0.5
    assert model.metric == "g_mean"
    assert "f1_macro" in repr(again)


def test_the_html_shows_the_model_inside():
    data = noisy()
    html = simple().fit(data.X, data.y)._repr_html_()
    assert "LogisticRegression" in html
    assert "PostShiftClassifier" in html


def test_grid_search_over_its_own_parameters():
    data = noisy()
    grid = {"metric": ["g_mean", "accuracy"], "estimator__C": [0.1, 1.0]}
    search = GridSearchCV(simple(), grid, scoring="balanced_accuracy", cv=3).fit(data.X, data.y)
    assert search.best_params_["metric"] == "g_mean"


def test_cross_validation_uses_the_metric_itself():
    data = noisy()
    by_itself = cross_val_score(simple("g_mean"), data.X, data.y, cv=3)
    scored = [simple("g_mean").fit(data.X[fit], data.y[fit]) for fit, _ in _folds(data)]
    by_hand = [model.score(data.X[left], data.y[left]) for model, (_, left) in zip(scored, _folds(data), strict=True)]
    np.testing.assert_allclose(by_itself, by_hand)


def _folds(data):
    from sklearn.model_selection import StratifiedKFold

    return list(StratifiedKFold(3).split(data.X, data.y))


def test_folds_in_processes_give_the_same():
    data = noisy()
    one, two = (simple(n_jobs=n).fit(data.X, data.y) for n in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_random_state():
    data = noisy()
    same = [simple(random_state=np.random.RandomState(5)).fit(data.X, data.y).score_ for _ in range(2)]
    other = simple(random_state=6).fit(data.X, data.y).score_
    assert same[0] == same[1] != other


# -- metadata ------------------------------------------------------------------------------------------------


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


# -- progress ------------------------------------------------------------------------------------------------


def test_callbacks_are_told_of_every_step():
    pytest.importorskip("sklearn.callback")
    told = Told()
    data = noisy()
    PostShiftClassifier(LogisticRegression()).set_callbacks(told).fit(data.X, data.y, data.X_val, data.y_val)
    assert told.begun.count("fitting the model") == told.begun.count("choosing a rule") == 1
    assert [name for name in told.begun if name.startswith("fold")] == [f"fold {k}" for k in range(1, 6)]
    assert "stack + influence [tree]" in told.begun
    assert sorted(told.begun) == sorted(told.ended)


class Told:
    def __init__(self):
        self.begun, self.ended = [], []

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context):  # noqa: ARG002
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context):  # noqa: ARG002
        self.ended.append(context.task_name)

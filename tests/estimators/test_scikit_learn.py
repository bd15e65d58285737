"""scikit-learn's own checks, and its tools around the classifier."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from postshift import PostShiftClassifier
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


@pytest.mark.slow
def test_folds_in_processes_give_the_same():
    data = noisy()
    one, two = (simple(n_jobs=n).fit(data.X, data.y) for n in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_random_state():
    data = noisy()
    same = [simple(random_state=np.random.RandomState(5)).fit(data.X, data.y).score_ for _ in range(2)]
    other = simple(random_state=6).fit(data.X, data.y).score_
    assert same[0] == same[1] != other

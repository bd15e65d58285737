"""What an adversarial reader found in the estimators, and what holds now."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    get_scorer,
    hamming_loss,
    make_scorer,
    roc_auc_score,
    zero_one_loss,
)
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, RepeatedStratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from postshift import PostShiftClassifier, PostShifter
from postshift.basis import RBFBasis
from postshift.exceptions import BasisError, LabelError, MetricError, SettingError
from postshift.metrics import WorstGroup, from_confusion, from_predictions

SIMPLE = {"method": "smoothed plug-in"}


def data(n_rows=400, n_classes=2, weights=(0.7,), seed=0):
    return make_classification(
        n_rows,
        n_features=5,
        n_informative=4,
        n_redundant=0,
        n_classes=n_classes,
        weights=None if weights is None else list(weights),
        random_state=seed,
        class_sep=0.6,
        flip_y=0.1,
    )


def noise(n_rows=800, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, 30)), rng.integers(0, 2, n_rows)


# -- labels of validation rows stay out of the bases -----------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"basis": "tree:40", "cv": 0.5}, {"basis": RBFBasis(width=1.0, clip=(0.0, 1.0))}])
def test_labels_that_are_noise_are_not_learnt(how):
    model = PostShiftClassifier(LogisticRegression(), **how).fit(*noise())
    assert model.score_ < 0.56


def test_a_tree_of_the_labels_needs_other_rows_than_those_that_choose():
    X, y = data()
    with pytest.raises(BasisError, match=r"basis 'tree' is fitted to labels.*hold rows out"):
        PostShiftClassifier(LogisticRegression(), basis="tree:4").fit(X, y)
    assert PostShiftClassifier(LogisticRegression(), **SIMPLE).fit(X, y).bases_ == {}
    metric = from_predictions(lambda labels: float(np.mean(labels == y)))
    with pytest.raises(BasisError, match="give y_val, or use 'rbf:all'"):
        PostShiftClassifier(LogisticRegression(), metric=metric, basis="rbf").fit(X, y, X)


def test_a_row_is_not_near_itself():
    X, y = data(60)
    basis = RBFBasis(width=1.0, clip=(0.0, 1.0)).fit(X, y)
    kernel = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / 2)
    np.fill_diagonal(kernel, 0)
    expected = [[kernel[n, y == g].sum() / ((y == g).sum() - (y[n] == g)) for g in (0, 1)] for n in range(60)]
    np.testing.assert_allclose(basis.on_fit_rows(X)[:, :2], expected, atol=1e-12)


# -- rows keep their order and count once ----------------------------------------------------------------------


def test_a_metric_that_keeps_its_labels_sees_the_rows_in_their_order():
    X, y = data(1000, weights=(0.8,))
    hidden = from_predictions(lambda labels: balanced_accuracy_score(y, labels))
    one = PostShiftClassifier(LogisticRegression(), metric=hidden, method="influence").fit(X, y)
    assert balanced_accuracy_score(y, one.predict(X)) > 0.5
    assert one.score_ > one.base_score_
    with pytest.raises(SettingError, match="would get 250 of the 1000 rows"):
        PostShiftClassifier(LogisticRegression(), metric=hidden, cv=0.25).fit(X, y)
    with pytest.raises(MetricError, match="has its own labels"):
        one.score(X, y)


def test_repeated_splits_do_not_make_more_rows():
    X, y = data()
    splitter = RepeatedStratifiedKFold(n_splits=5, n_repeats=3, random_state=0)
    once, often = (PostShiftClassifier(LogisticRegression(), metric="f1", cv=cv).fit(X, y) for cv in (5, splitter))
    assert once.diagnostics_.n_val == often.diagnostics_.n_val == 400
    assert often.diagnostics_.choice.noise > once.diagnostics_.choice.noise / 2


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("metric", ["balanced_accuracy", lambda t, p: float(balanced_accuracy_score(t, p))])
def test_groups_stay_together_in_the_choice(frozen, metric):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 10)
    labels, X = rng.integers(0, 2, 60)[groups], np.repeat(rng.normal(size=(60, 3)), 10, axis=0)
    base = LogisticRegression()
    if frozen:
        base = FrozenEstimator(base.fit(rng.normal(size=(200, 3)), rng.integers(0, 2, 200)))
    model = PostShiftClassifier(base, metric=metric, cv=GroupKFold(5), basis="kmeans:60", method="best")
    assert model.fit(X, labels, groups=groups).score_ < 0.8


@pytest.mark.parametrize("cv", [[], 1, 0, -3, 1.5])
def test_splits_that_are_none(cv):
    with pytest.raises(ValueError, match="cv"):
        PostShiftClassifier(LogisticRegression(), cv=cv).fit(*data())


def test_splits_as_masks():
    X, y = data()
    masks = [(np.arange(400) % 2 == k, np.arange(400) % 2 != k) for k in (0, 1)]
    assert PostShiftClassifier(LogisticRegression(), cv=masks, **SIMPLE).fit(X, y).diagnostics_.n_val == 400


# -- the metric that is fitted is the one that is meant --------------------------------------------------------


def profit(y_true, y_pred, sample_weight=None):  # noqa: ARG001
    return float(10 * ((y_pred == 1) & (y_true == 1)).sum() - (y_pred == 1).sum())


def test_a_function_that_ignores_its_weights_is_called_on_rows():
    X, y = data(1000, weights=(0.95,), seed=2)
    model = PostShiftClassifier(LogisticRegression(C=1e-3), metric=profit).fit(X, y)
    assert model.score(X, y) == profit(y, model.predict(X))
    assert model.n_queries_ > 0
    assert profit(y, model.predict(X)) > 0


def test_a_loss_in_a_partial_is_found_out():
    X, y = data()
    with pytest.raises(MetricError, match="'zero_one_loss' has the name of a loss"):
        PostShiftClassifier(LogisticRegression(), metric=partial(zero_one_loss, normalize=True)).fit(X, y)
    with pytest.raises(MetricError, match="'roc_auc_score' reads scores"):
        PostShiftClassifier(LogisticRegression(), metric=roc_auc_score).fit(X, y)


def test_arguments_that_nobody_reads_are_refused():
    X, y = data()
    eta = LogisticRegression().fit(X, y).predict_proba(X)
    with pytest.raises(SettingError, match=r"does not read 'sample_weight'.*did you mean 'sample_weight_val'"):
        PostShifter("accuracy").fit(eta, y, sample_weight=np.ones(400))
    fitted = PostShifter("accuracy", method="base").fit(eta, y)
    with pytest.raises(SettingError, match="does not read 'gruops'"):
        fitted.score(eta, y, gruops=y)


def test_groups_mean_the_same_in_every_part():
    X, y = data()

    def only_b(confusion):
        block = confusion.reshape(3, 2, 2)[1]
        return float(np.trace(block) / max(block.sum(), 1e-12))

    metric = from_confusion(only_b, name="only b", n_categories=6)
    groups = np.where(np.arange(400) < 200, "b", "c").astype(object)
    groups[7] = "a"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PostShiftClassifier(LogisticRegression(), metric=metric, method="base", cv=0.3)
        model.fit(X, y, groups=groups)
        of_b = np.mean(model.predict(X[groups == "b"]) == y[groups == "b"])
        assert model.score(X, y, groups=groups) == pytest.approx(of_b)
    worst = PostShiftClassifier(LogisticRegression(), metric=WorstGroup(n_groups=2, n_classes=2), method="base")
    halves = np.arange(400) % 2
    worst.fit(X, y, groups=halves)
    some = halves == 1
    with pytest.warns(match="pair"):
        alone = worst.score(X[some], y[some], groups=halves[some])
    assert alone == pytest.approx(np.mean(worst.predict(X[some]) == y[some]))


def test_a_class_that_is_missing_is_left_out_of_the_mean():
    X, y = data(600, 3, None)
    model = PostShiftClassifier(LogisticRegression(), **SIMPLE).fit(X, y)
    kept = y != 2
    with pytest.warns(match="no validation row of class 2"):
        found = model.score(X[kept], y[kept])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found == pytest.approx(get_scorer("balanced_accuracy")(model, X[kept], y[kept]))


def test_the_base_that_is_chosen_is_a_fallback():
    X, y = data()
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    chosen = [
        PostShiftClassifier(frozen, metric="accuracy", method="best", random_state=seed).fit(X, y) for seed in range(4)
    ]
    assert any(model.fallback_ for model in chosen)
    assert all(model.fallback_ == (model.rule_.rules[0].name == "base") for model in chosen)


def test_a_function_that_needs_every_class_is_not_asked_about_parts():
    X, y = data(600, 3, None)
    rare = np.r_[np.flatnonzero(y < 2), np.flatnonzero(y == 2)[:1]]

    def mean_recall(y_true, y_pred):
        return float(np.mean([(y_pred[y_true == c] == c).mean() for c in (0, 1, 2)]))

    model = PostShiftClassifier(LogisticRegression(), metric=mean_recall, method="best")
    assert model.fit(X, y, X[rare], y[rare]).n_queries_ > 0


def test_weights_of_an_example_where_a_probability_is_zero():
    X, y = data(500, 3, None)
    model = PostShiftClassifier(KNeighborsClassifier(3), metric="g_mean", method="influence").fit(X, y)
    rows = data(500, 3, None, seed=3)[0]
    raised = model.example_weights(rows) * np.maximum(model.predict_proba(rows), 1e-6)
    np.testing.assert_array_equal(np.argmax(raised, axis=1), model.predict(rows))


# -- warnings, routing, what is left behind --------------------------------------------------------------------


def test_the_users_filters_hold():
    X, y = data()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", module="sklearn")
        model = PostShiftClassifier(LogisticRegression(max_iter=1), **SIMPLE).fit(X[:200], y[:200])
    assert [one.category.__name__ for one in caught] == ["SmallValidationWarning"]
    assert caught[0].filename == __file__
    assert model.diagnostics_.warnings == (str(caught[0].message),)


def test_requests_with_other_names_and_with_weights():
    X, y = data()
    amount = np.random.default_rng(0).random(400)

    def gain(y_true, y_pred, *, amount, sample_weight=None):
        return np.average(amount * (y_true == y_pred), weights=sample_weight)

    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(gain).set_score_request(amount="money")
        model = PostShiftClassifier(LogisticRegression(), metric=scorer, **SIMPLE).fit(X, y, money=amount)
        paid = np.average(amount * (model.predict(X) == y))
        assert model.score(X, y, money=amount) == pytest.approx(paid)
        base = LogisticRegression().set_fit_request(sample_weight=True)
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        model = PostShiftClassifier(base, metric=scorer, **SIMPLE)
        model.fit(X, y, X[:300], y[:300], sample_weight=amount, sample_weight_val=amount[:300])
        scorer = make_scorer(hamming_loss, greater_is_better=False).set_score_request(sample_weight=True)
        model = PostShiftClassifier(base, metric=scorer, method="influence").fit(X, y, sample_weight=amount)
        assert model.n_queries_ == 0


def test_groups_of_both_samples():
    X, y = data()
    groups = np.arange(400) // 10
    model = PostShiftClassifier(LogisticRegression(), cv=GroupKFold(3), metric="worst_group_accuracy", **SIMPLE)
    parts = (X[:300], y[:300], X[300:], y[300:])
    with pytest.raises(SettingError, match="groups_val"):
        model.fit(*parts, groups=groups[300:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(*parts, groups=groups[:300], groups_val=groups[300:] % 2)
    assert model.groups_.tolist() == [0, 1]
    splitter = GroupShuffleSplit(1, test_size=0.3, random_state=0)
    with pytest.raises(SettingError, match="hold out more groups"):
        PostShiftClassifier(LogisticRegression(), cv=splitter, **SIMPLE).fit(X, y, groups=np.arange(400) % 3)


def test_a_fit_that_fails_leaves_no_rule_behind():
    X, y = data()
    model = PostShiftClassifier(LogisticRegression(), **SIMPLE).fit(X, y)
    with pytest.raises(ValueError, match="no metric"):
        model.set_params(metric="g_maen").fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_settings_of_the_wrong_kind():
    X, y = data()
    for wrong in ({"method": ["auto"]}, {"budget": -5}, {"budget": "5"}):
        with pytest.raises(SettingError, match=next(iter(wrong))):
            PostShiftClassifier(LogisticRegression(), **wrong).fit(X, y)
    with pytest.raises(MetricError, match="raised IndexError"):
        PostShiftClassifier(LogisticRegression(), metric=from_confusion(lambda c: c[5, 5]), **SIMPLE).fit(X, y)
    groups = np.array([None, "a"], dtype=object)[np.arange(400) % 2]
    with pytest.raises(LabelError, match="groups is missing in 200 of 400 rows"):
        PostShiftClassifier(LogisticRegression(), metric="worst_group_accuracy").fit(X, y, groups=groups)

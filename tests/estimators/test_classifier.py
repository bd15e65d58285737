"""PostShiftClassifier: what it takes, what it gives, what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

from postshift import PostShiftClassifier, PostShifter
from postshift.basis import GroupBasis, TreeBasis
from postshift.exceptions import (
    BasisError,
    InputError,
    LabelError,
    MetricError,
    MissingClassWarning,
    SettingError,
    ShapeError,
    SmallValidationWarning,
)
from postshift.metrics import ExpectedCost, GMean, from_confusion, from_predictions
from tests.estimators.data import noisy, overlapping

SIMPLE = "smoothed plug-in"


def shifted(metric="g_mean", method=SIMPLE, **params):
    return PostShiftClassifier(LogisticRegression(), metric=metric, method=method, **params)


def frame(X):
    return pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])


# -- what it gives -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "best", "paper", "influence", "plug-in search", "stack + influence [tree]"])
def test_it_beats_the_model_on_its_metric(method):
    data = noisy(3)
    model = shifted(method=method).fit(data.X, data.y, data.X_val, data.y_val)
    base = LogisticRegression().fit(data.X, data.y)
    confusion = np.stack(
        [(data.y_test == i)[:, None] & (base.predict(data.X_test)[:, None] == range(3)) for i in range(3)]
    )
    assert model.score(data.X_test, data.y_test) > GMean().value(confusion.mean(axis=1)) + 0.02
    assert model.score_ > model.base_score_
    assert not model.fallback_
    assert model.n_queries_ == 0


def test_the_papers_method_has_weights_per_class_and_basis_function():
    data = noisy()
    model = shifted(method="paper", basis="tree:3").fit(data.X, data.y, data.X_val, data.y_val)
    assert model.coef_.shape == (3, 2)
    assert model.rule_.rules[0].name == "FW-EG [tree]"


def test_probabilities_stay_the_models():
    data = noisy()
    model = shifted().fit(data.X, data.y)
    base = LogisticRegression().fit(data.X, data.y)
    np.testing.assert_array_equal(model.predict_proba(data.X_test), base.predict_proba(data.X_test))
    np.testing.assert_array_equal(model.predict(data.X_test), model.predict(data.X_test))


def test_a_label_does_not_depend_on_the_other_rows():
    data = noisy(3)
    model = shifted(method="auto").fit(data.X, data.y, data.X_val, data.y_val)
    alone = np.concatenate([model.predict(row[None]) for row in data.X_test[:40]])
    np.testing.assert_array_equal(alone, model.predict(data.X_test)[:40])


def test_the_guard_keeps_a_model_that_nothing_beats():
    data = noisy()
    clean = FrozenEstimator(LogisticRegression().fit(np.vstack([data.X_val, data.X_test]), [*data.y_val, *data.y_test]))
    model = PostShiftClassifier(clean, metric="accuracy").fit(data.X_val, data.y_val)
    labels = [m.predict(data.X_test) for m in (model, clean)]
    assert np.mean(labels[0] == labels[1]) > 0.95
    assert model.score_ >= model.base_score_


# -- where validation rows come from --------------------------------------------------------------------------


def test_a_hold_out_without_refit():
    data = noisy()
    model = shifted(cv=0.5, refit=False).fit(data.X, data.y)
    assert not np.allclose(model.estimator_.coef_, LogisticRegression().fit(data.X, data.y).coef_, atol=1e-3)
    with pytest.raises(SettingError, match=r"refit=False is for a hold-out.*5 folds"):
        shifted(refit=False).fit(data.X, data.y)


def test_a_fitted_model_is_taken_as_it_is():
    data = noisy()
    base = LogisticRegression().fit(data.X, data.y)
    frozen = PostShiftClassifier(FrozenEstimator(base), metric="g_mean", method=SIMPLE)
    with_train = frozen.fit(data.X, data.y, data.X_val, data.y_val)
    assert with_train.diagnostics_.n_train == len(data.y)
    assert with_train.estimator_.estimator is base
    alone = frozen.fit(data.X_val, data.y_val)
    assert alone.diagnostics_.n_train == 0
    assert alone.score_ > alone.base_score_
    with pytest.raises(Exception, match="must be fitted"):
        PostShiftClassifier(FrozenEstimator(LogisticRegression())).fit(data.X, data.y)


def test_weights_count():
    data = noisy()
    heavy = np.where(data.y_val == 1, 50.0, 1.0)
    plain, weighted = (
        shifted("accuracy").fit(data.X, data.y, data.X_val, data.y_val, sample_weight_val=w) for w in (None, heavy)
    )
    assert weighted.predict(data.X_test).mean() > plain.predict(data.X_test).mean()
    scored = weighted.score(data.X_val, data.y_val, sample_weight=heavy)
    assert scored == pytest.approx(np.average(weighted.predict(data.X_val) == data.y_val, weights=heavy))


# -- what it takes -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_string_labels_sparse_rows_and_frames_give_the_same():
    data = noisy(3)
    names = np.array(["ash", "birch", "oak"])
    plain = shifted(method="auto").fit(data.X, data.y, data.X_val, data.y_val)
    expected = plain.predict(data.X_test)
    as_names = shifted(method="auto").fit(data.X, names[data.y], data.X_val, names[data.y_val])
    np.testing.assert_array_equal(as_names.predict(data.X_test), names[expected])
    as_pandas = shifted(method="auto").fit(frame(data.X), data.y, frame(data.X_val), pd.Series(data.y_val))
    np.testing.assert_array_equal(as_pandas.predict(frame(data.X_test)), expected)
    as_polars = shifted(method="auto").fit(
        pl.from_pandas(frame(data.X)), data.y, pl.from_pandas(frame(data.X_val)), data.y_val
    )
    np.testing.assert_array_equal(as_polars.predict(pl.from_pandas(frame(data.X_test))), expected)
    sparse = shifted(method="auto").fit(sp.csr_array(data.X), data.y, sp.csr_array(data.X_val), data.y_val)
    assert np.mean(sparse.predict(sp.csr_array(data.X_test)) == expected) > 0.99  # the solver's last digits


def test_feature_names_are_checked():
    data = noisy()
    model = shifted().fit(frame(data.X), data.y, frame(data.X_val), data.y_val)
    assert list(model.feature_names_in_) == list(frame(data.X).columns)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame(data.X_test).rename(columns={"x0": "other"}))
    with pytest.raises(ValueError, match="feature names should match"):
        shifted().fit(frame(data.X), data.y, frame(data.X_val).rename(columns={"x0": "other"}), data.y_val)


def test_mixed_columns_and_texts():
    data = noisy()
    table = frame(data.X).assign(kind=np.where(data.X[:, 0] > 0, "up", "down"))
    val = frame(data.X_val).assign(kind=np.where(data.X_val[:, 0] > 0, "up", "down"))
    columns = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    model = PostShiftClassifier(make_pipeline(columns, LogisticRegression()), metric="g_mean", method="influence")
    model.fit(table, data.y, val, data.y_val)
    assert set(model.bases_) == {"tree"}
    words = np.array(["plain words here", "rare thing there"])
    texts = [words[label] for label in data.y]
    by_text = PostShiftClassifier(make_pipeline(TfidfVectorizer(), MultinomialNB()), method=SIMPLE).fit(texts, data.y)
    assert by_text.bases_ == {}
    assert by_text.predict(["rare thing"])[0] == 1


def test_bases_of_ones_own():
    data = noisy()
    table, val = frame(data.X), frame(data.X_val)
    for part in (table, val):
        part["region"] = np.where(part["x1"] > 0, "north", "south")
    columns = make_column_transformer((OneHotEncoder(), ["region"]), remainder="passthrough")
    model = make_pipeline(columns, LogisticRegression())
    bases = {"region": GroupBasis("region"), "leaves": TreeBasis(3)}
    several = PostShiftClassifier(model, metric="g_mean", basis=bases).fit(table, data.y, val, data.y_val)
    assert set(several.bases_) == {"region", "leaves"}
    names = [entry.name for entry in several.diagnostics_.choice.entries]
    assert {"influence [region]", "influence [leaves]", "influence [constant]"} <= set(names)
    with pytest.raises(BasisError, match=r"no column 'regoin'; did you mean 'region'"):
        PostShiftClassifier(model, basis="col:regoin").fit(table, data.y, val, data.y_val)


def test_rbf_bases_are_fitted_to_validation_rows():
    data = noisy()
    model = shifted(basis="rbf", method="paper").fit(data.X, data.y, data.X_val, data.y_val)
    assert model.bases_["rbf"].n_features_in_ == data.X.shape[1]
    assert model.score_ > model.base_score_


@pytest.mark.filterwarnings("ignore::postshift.exceptions.SmallValidationWarning")
def test_a_class_that_is_missing_from_validation():
    data = noisy(3)
    kept = data.y_val != 2
    model = shifted(method="auto")
    with pytest.warns(MissingClassWarning, match="no validation row of class 2"):
        model.fit(data.X, data.y, data.X_val[kept], data.y_val[kept])
    assert any("no validation row" in text for text in model.diagnostics_.warnings)
    assert model.predict_proba(data.X_test).shape[1] == 3


def test_a_class_with_few_rows():
    data = noisy(3)
    rare = np.append(np.flatnonzero(data.y != 2), np.flatnonzero(data.y == 2)[:1])
    named = r"fewer than 5 validation rows are of class 2 \(1\), .*Without them, the score is 0\.\d+ \(base 0\.\d+\)"
    with pytest.warns(SmallValidationWarning, match=named):
        model = shifted("accuracy").fit(data.X[rare], data.y[rare])
    assert model.classes_.tolist() == [0, 1, 2]
    few = model.diagnostics_.choice.few_rows
    assert (few.categories, few.counts) == ((2,), (1,))
    assert any("class 2 (1)" in text for text in model.diagnostics_.warnings)


@pytest.mark.filterwarnings("ignore::postshift.exceptions.SmallValidationWarning")
def test_a_class_with_few_validation_rows_leans_on_training_rows():
    data = noisy(3)
    kept = np.append(np.flatnonzero(data.y_val != 2), np.flatnonzero(data.y_val == 2)[:2])
    leans = r"class 2 \(2\), whose part of the score also leans on training rows of the class, which count as \d+ row"
    with pytest.warns(SmallValidationWarning, match=leans):
        model = shifted("g_mean", method="auto").fit(data.X, data.y, data.X_val[kept], data.y_val[kept])
    eta = model.predict_proba(data.X_val[kept])
    with pytest.warns(SmallValidationWarning, match=r"the model's probabilities, which count as 1 row at most\. "):
        PostShifter("g_mean").fit(eta, data.y_val[kept])
    assert model.diagnostics_.choice.few_rows.lenders == ("training rows",)
    assert len(model.held_out_.rows) == len(kept)
    with pytest.warns(SmallValidationWarning, match=r"class 2 \(2\), whose part of the score is mostly chance\. "):
        shifted("g_mean", method="stack").fit(data.X, data.y, data.X_val[kept], data.y_val[kept])


def test_few_validation_rows_warn_with_the_noise():
    data = noisy()
    with pytest.warns(SmallValidationWarning, match=r"150 validation rows.*below about 0\.\d+ may be chance"):
        shifted().fit(data.X, data.y, data.X_val[:150], data.y_val[:150])


# -- metrics -------------------------------------------------------------------------------------------------


def test_a_cost_matrix():
    data = noisy(3)
    cost = np.array([[0, 1, 1], [5, 0, 1], [20, 1, 0]])
    model = shifted(ExpectedCost(cost), method="auto").fit(data.X, data.y, data.X_val, data.y_val)
    paid = cost[data.y_test, model.predict(data.X_test)].mean()
    base = cost[data.y_test, LogisticRegression().fit(data.X, data.y).predict(data.X_test)].mean()
    assert paid < base
    assert model.score(data.X_test, data.y_test) == pytest.approx(-paid)


def plain_score(y_true, y_pred):
    return float(balanced_accuracy_score(y_true, y_pred))


def weighted_score(y_true, y_pred, sample_weight=None):
    return float(balanced_accuracy_score(y_true, y_pred, sample_weight=sample_weight))


@pytest.mark.filterwarnings("ignore:y_pred contains classes")
@pytest.mark.parametrize(
    "metric",
    [
        plain_score,
        pytest.param(weighted_score, marks=pytest.mark.slow),
        from_confusion(lambda c: float(GMean().value(c)), name="g"),
    ],
)
def test_functions_of_ones_own(metric):
    data = noisy()
    model = shifted(metric, method="auto").fit(data.X, data.y, data.X_val, data.y_val)
    assert model.score_ > model.base_score_
    assert model.n_queries_ == 0


def test_a_metric_that_keeps_its_labels():
    data = noisy()
    metric = from_predictions(lambda labels: balanced_accuracy_score(data.y_val, labels))
    model = shifted(metric, method="auto", budget=300).fit(data.X, data.y, data.X_val)
    assert 0 < model.n_queries_ <= 300
    assert model.score_ > model.base_score_
    with pytest.raises(LabelError, match="metric 'g_mean' needs validation labels"):
        shifted().fit(data.X, data.y, data.X_val)


def test_ranking_and_probability_scorers_are_refused():
    data = noisy()
    for name in ("roc_auc", "neg_log_loss"):
        with pytest.raises(MetricError, match="scores or probabilities"):
            shifted(name).fit(data.X, data.y)


# -- what it refuses -----------------------------------------------------------------------------------------


def test_typos_get_suggestions():
    data = noisy()
    with pytest.raises(SettingError, match=r"no metric 'g_maen'; did you mean 'g_mean'\?"):
        shifted("g_maen").fit(data.X, data.y)
    with pytest.raises(SettingError, match=r"no method 'papr'; did you mean 'paper'\?"):
        shifted(method="papr").fit(data.X, data.y)
    with pytest.raises(BasisError, match=r"no basis 'kmeens.*did you mean 'kmeans'"):
        shifted(basis="kmeens:3").fit(data.X, data.y)


def test_what_it_refuses():
    data = noisy()
    with pytest.raises(ShapeError, match="belong to X_val"):
        shifted().fit(data.X, data.y, y_val=data.y_val)
    with pytest.raises(LabelError, match=r"y_val has \d+ values that are not among the 2 classes"):
        shifted().fit(data.X, data.y, data.X_val, data.y_val + 1)
    with pytest.raises(InputError, match="CalibratedClassifierCV"):
        PostShiftClassifier(LinearSVC()).fit(data.X, data.y)
    with pytest.raises(LabelError, match="out of scope"):
        shifted().fit(data.X, np.column_stack([data.y, 1 - data.y]))
    with pytest.raises(LabelError, match="at least two classes"):
        shifted().fit(data.X, np.zeros(len(data.y)))
    with pytest.raises(ShapeError, match="groups must have one value for each of the 350 validation rows"):
        shifted("worst_group_accuracy").fit(data.X, data.y, data.X_val, data.y_val, groups=[0, 1, 0])
    with pytest.raises(SettingError, match="pass groups"):
        shifted("worst_group_accuracy").fit(data.X, data.y, data.X_val, data.y_val)


def test_a_metric_that_keeps_its_labels_sees_the_rows_in_their_order():
    X, y = overlapping(1000, weights=(0.8,))
    hidden = from_predictions(lambda labels: balanced_accuracy_score(y, labels))
    one = PostShiftClassifier(LogisticRegression(), metric=hidden, method="influence").fit(X, y)
    assert balanced_accuracy_score(y, one.predict(X)) > 0.5
    assert one.score_ > one.base_score_
    with pytest.raises(SettingError, match="would get 250 of the 1000 rows"):
        PostShiftClassifier(LogisticRegression(), metric=hidden, cv=0.25).fit(X, y)
    with pytest.raises(MetricError, match="has its own labels"):
        one.score(X, y)


def test_a_fit_that_fails_leaves_no_rule_behind():
    X, y = overlapping()
    model = PostShiftClassifier(LogisticRegression(), method="smoothed plug-in").fit(X, y)
    with pytest.raises(ValueError, match="no metric"):
        model.set_params(metric="g_maen").fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_settings_of_the_wrong_kind():
    X, y = overlapping()
    for wrong in ({"method": ["auto"]}, {"budget": -5}, {"budget": "5"}):
        with pytest.raises(SettingError, match=next(iter(wrong))):
            PostShiftClassifier(LogisticRegression(), **wrong).fit(X, y)
    with pytest.raises(MetricError, match="raised IndexError"):
        PostShiftClassifier(
            LogisticRegression(), metric=from_confusion(lambda c: c[5, 5]), method="smoothed plug-in"
        ).fit(X, y)
    groups = np.array([None, "a"], dtype=object)[np.arange(400) % 2]
    with pytest.raises(LabelError, match="groups is missing in 200 of 400 rows"):
        PostShiftClassifier(LogisticRegression(), metric="worst_group_accuracy").fit(X, y, groups=groups)


@pytest.mark.parametrize("wrong", [{"method": "smothed plug-in"}, {"basis": "kmens:4"}, {"method": None}])
def test_a_misspelt_name_is_told_before_the_model_is_fitted(yes_or_no, wrong):
    class Never(LogisticRegression):
        def fit(self, *_):
            pytest.fail("the model was fitted")

    eta, y = yes_or_no
    with pytest.raises((SettingError, BasisError), match=r"did you mean|must be a name"):
        PostShiftClassifier(Never(), **wrong).fit(eta, y)

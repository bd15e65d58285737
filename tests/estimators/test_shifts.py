"""What both estimators share: the fallback, example weights, warnings, the reason."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score, make_scorer
from sklearn.neighbors import KNeighborsClassifier

from postshift import PostShiftClassifier, PostShifter
from postshift.exceptions import LabelError, MetricError, PostshiftWarning
from postshift.metrics import from_predictions
from postshift.report.counts import class_weights, shares
from tests.estimators.data import NAMES, noisy, overlapping


def test_the_base_that_is_chosen_is_a_fallback():
    X, y = overlapping()
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    chosen = [
        PostShiftClassifier(frozen, metric="accuracy", method="best", random_state=seed).fit(X, y) for seed in range(4)
    ]
    assert any(model.fallback_ for model in chosen)
    assert all(model.fallback_ == (model.rule_.rules[0].name == "base") for model in chosen)


def test_weights_of_an_example_where_a_probability_is_zero():
    X, y = overlapping(500, 3, None)
    model = PostShiftClassifier(KNeighborsClassifier(3), metric="g_mean", method="influence").fit(X, y)
    rows = overlapping(500, 3, None, seed=3)[0]
    raised = model.example_weights(rows) * np.maximum(model.predict_proba(rows), 1e-6)
    np.testing.assert_array_equal(np.argmax(raised, axis=1), model.predict(rows))


def test_the_users_filters_hold():
    X, y = overlapping()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", module="sklearn")
        model = PostShiftClassifier(LogisticRegression(max_iter=1), method="smoothed plug-in").fit(X[:200], y[:200])
    assert [one.category.__name__ for one in caught] == ["SmallValidationWarning"]
    assert caught[0].filename == __file__
    assert model.diagnostics_.warnings == (str(caught[0].message),)


def test_the_order_of_strings_that_a_weighted_kappa_takes():
    X, codes = overlapping(600, 3, None)
    order = ["bad", "medium", "good"]
    y = np.array(order)[codes]
    how = {"method": "smoothed plug-in", "random_state": 0}
    with pytest.warns(PostshiftWarning, match="in the order 'bad' < 'good' < 'medium', the alpha") as caught:
        model = PostShiftClassifier(LogisticRegression(), metric="cohen_kappa_quadratic", **how).fit(X, y)
    assert caught[0].filename == __file__
    assert model.diagnostics_.warnings == (str(caught[0].message),)
    with_codes = PostShiftClassifier(LogisticRegression(), metric="cohen_kappa_quadratic", **how).fit(X, codes)
    ordered = make_scorer(cohen_kappa_score, weights="quadratic", labels=order)
    with_scorer = PostShiftClassifier(LogisticRegression(), metric=ordered, **how).fit(X, y)
    eta = with_codes.predict_proba(X)
    columns = PostShifter("cohen_kappa_quadratic", classes=order, **how).fit(eta, y)
    found = [order.index(label) for label in columns.predict(eta)]
    assert with_scorer.score_ == pytest.approx(with_codes.score_, abs=0.02)
    assert columns.score(eta, y) == pytest.approx(cohen_kappa_score(codes, found, weights="quadratic"))


@pytest.mark.parametrize("votes", [False, True])
@pytest.mark.parametrize("method", ["auto", "paper", "stack + influence", "smoothed plug-in"])
def test_a_class_that_is_predicted_more_is_told_to_be_raised(rare_classes, method, votes):
    eta, y = rare_classes
    shifter = PostShifter("f1_macro", method=method).fit(eta[:2500], y[:2500])
    shifter.rule_ = replace(shifter.rule_, votes=votes)
    new = eta[2500:]
    labels, weights = shifter.predict(new), shifter.example_weights(new)
    before, after = (shares(found, n_classes=4) for found in (np.argmax(new, axis=1), labels))
    assert after[0] < before[0]
    assert after[3] > before[3]
    told = class_weights(weights, new)
    assert told[0] < 1 < told[3]
    np.testing.assert_array_equal(np.argmax(weights * np.maximum(new, 1e-6), axis=1), labels)


def test_validation_rows_of_one_class(yes_or_no):
    eta, _ = yes_or_no
    with pytest.raises(LabelError, match="all 500 validation rows are of class 'yes'"):
        PostShifter("g_mean", classes=NAMES).fit(eta, np.repeat("yes", 500))


def test_probabilities_that_are_labels(yes_or_no):
    _, y = yes_or_no
    onehot = np.eye(2)[(y == "yes").astype(int)]
    with pytest.warns(PostshiftWarning, match="are 0 or 1, so there is nothing to shift"):
        PostShifter("f1", classes=NAMES, method="smoothed plug-in").fit(onehot, y)


def test_a_method_that_was_asked_for_does_not_lead(yes_or_no):
    eta, y = yes_or_no
    shifter = PostShifter("accuracy", classes=NAMES, method="inverse prior").fit(eta, y)
    assert shifter.score_ < shifter.base_score_
    reason = shifter.diagnostics_.choice.reason
    assert reason.startswith("you chose 'inverse prior': ")
    assert reason.endswith("it scores lower than the base")


def test_the_average_is_told_by_its_own_score(rare_classes):
    eta, y = rare_classes
    shifter = PostShifter("f1_macro").fit(eta[:1000], y[:1000])
    reason = shifter.diagnostics_.choice.reason
    said = f"rules: {shifter.score_:.3f} (base {shifter.base_score_:.3f}, gain "
    assert reason.startswith("weighted average of ")
    assert said in reason


@pytest.mark.slow
@settings(max_examples=10)
@given(seed=st.integers(0, 20), method=st.sampled_from(["auto", "paper", "influence", "smoothed plug-in", "stack"]))
def test_example_weights_times_probabilities_are_the_labels(seed, method):
    data = noisy(3, seed=seed % 4)
    model = PostShiftClassifier(LogisticRegression(), metric="f1_macro", method=method, random_state=seed)
    model.fit(data.X, data.y, data.X_val, data.y_val)
    weights, eta = model.example_weights(data.X_test), model.predict_proba(data.X_test)
    np.testing.assert_allclose(weights.mean(axis=1), 1)
    np.testing.assert_array_equal(np.argmax(weights * eta, axis=1), model.predict(data.X_test))
    distribution = model.predict_distribution(data.X_test)
    np.testing.assert_allclose(distribution.sum(axis=1), 1)


def test_an_error_of_the_oracle_says_where_the_answers_are_and_keeps_the_best_rule(tmp_path):
    eta = np.random.default_rng(0).dirichlet(np.ones(3), size=400)
    journal, calls = tmp_path / "run.jsonl", []

    def score(labels):
        calls.append(len(labels))
        if len(calls) == 20:
            raise ConnectionError("the line is dead")
        return float(np.mean(labels == 2))

    shifter = PostShifter(from_predictions(score, name="theirs"), budget=40, session=journal)
    with pytest.raises(MetricError, match="the line is dead") as caught:
        shifter.fit(eta)
    assert caught.value.__notes__ == [f"19 answers are kept in {journal}: call fit again to resume"]
    best = shifter.best_so_far()
    assert best.predict(eta).shape == (400,)
    shifter.fit(eta)
    assert len(calls) == shifter.n_queries_ + 1
    assert shifter.score_ >= best.score_

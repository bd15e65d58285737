"""What newcomers stumbled over: weights told the wrong way round, mistakes that were answered badly or not at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from postshift import PostShiftClassifier, PostShifter
from postshift.exceptions import BasisError, LabelError, MetricError, PostshiftWarning, SettingError, ShapeError
from postshift.metrics import from_predictions
from postshift.report.counts import class_weights, shares

NAMES = ["no", "yes"]


@pytest.fixture(scope="module")
def rare():
    """Probabilities and labels of four classes, of which the last two are rare and hardly ever predicted."""
    X, y = make_classification(
        8000, n_classes=4, n_informative=6, weights=[0.6, 0.25, 0.1, 0.05], class_sep=0.8, random_state=0
    )
    model = LogisticRegression(max_iter=500).fit(X[:3000], y[:3000])
    return model.predict_proba(X[3000:]), y[3000:]


@pytest.fixture(scope="module")
def two():
    """Probabilities, and labels that are words."""
    rng = np.random.default_rng(0)
    y = rng.random(500) < 0.3
    raised = np.clip(rng.normal(0.35 + 0.3 * y, 0.2), 0.01, 0.99)
    return np.column_stack([1 - raised, raised]), np.array(NAMES)[y.astype(int)]


class TestWeights:
    @pytest.mark.parametrize("votes", [False, True])
    @pytest.mark.parametrize("method", ["auto", "paper", "stack + influence", "smoothed plug-in"])
    def test_a_class_that_is_predicted_more_is_told_to_be_raised(self, rare, method, votes):
        eta, y = rare
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


class TestMistakes:
    def test_a_column_of_numbers_is_no_group(self):
        X = pd.DataFrame({"price": np.arange(500.0), "noise": np.random.default_rng(0).normal(size=500)})
        y = (X["noise"] > 0).to_numpy()
        model = PostShiftClassifier(LogisticRegression(), basis="col:price", method="influence")
        with pytest.raises(BasisError, match=r"basis 'price' has 500 functions for 500 rows, 1\.0 rows each.*bins"):
            model.fit(X, y)
        binned = X.assign(price=X["price"] // 50)
        assert len(model.fit(binned, y).bases_["price"].groups_) == 10

    def test_missing_labels_are_named(self, two):
        eta, y = two
        missing = y.astype(object)
        missing[[5, 9]] = None, np.nan
        with pytest.raises(LabelError, match=r"y_val is missing in 2 of 500 rows \(rows 5, 9\): drop"):
            PostShifter("f1", classes=NAMES).fit(eta, missing)
        with pytest.raises(LabelError, match="y is missing in 2 of 500 rows"):
            PostShiftClassifier(LogisticRegression()).fit(eta, missing)
        of_pandas = pd.Series(y, dtype="string")
        of_pandas[5] = pd.NA
        with pytest.raises(LabelError, match=r"y_val is missing in 1 of 500 rows \(rows 5\)"):
            PostShifter("f1", classes=NAMES).fit(eta, of_pandas)

    def test_labels_of_other_names_ask_for_the_classes(self, two):
        eta, y = two
        with pytest.raises(LabelError, match=r"e\.g\. '(no|yes)': give classes=\[\.\.\.\]"):
            PostShifter("f1").fit(eta, y)

    def test_columns_in_another_order(self, two):
        eta, y = two
        frame = pd.DataFrame(eta, columns=NAMES)
        shifter = PostShifter("f1", classes=NAMES, method="smoothed plug-in").fit(frame, y)
        with pytest.raises(ShapeError, match=r"in the order of the classes, \['no', 'yes'\]\. Got \['yes', 'no'\]"):
            shifter.predict(frame[["yes", "no"]])

    def test_validation_rows_of_one_class(self, two):
        eta, _ = two
        with pytest.raises(LabelError, match="all 500 validation rows are of class 'yes'"):
            PostShifter("g_mean", classes=NAMES).fit(eta, np.repeat("yes", 500))

    def test_one_hot_labels_and_a_word_for_groups(self, two):
        eta, y = two
        with pytest.raises(LabelError, match=r"y_val must have one value per row\. Got .*\(500, 2\).*argmax"):
            PostShifter("f1", classes=NAMES).fit(eta, np.eye(2)[(y == "yes").astype(int)])
        with pytest.raises(LabelError, match=r"groups must have one value per row\. Got an array of shape \(\)"):
            PostShifter("worst_group_accuracy", classes=NAMES).fit(eta, y, groups="age")

    def test_probabilities_that_are_labels(self, two):
        _, y = two
        onehot = np.eye(2)[(y == "yes").astype(int)]
        with pytest.warns(PostshiftWarning, match="are 0 or 1, so there is nothing to shift"):
            PostShifter("f1", classes=NAMES, method="smoothed plug-in").fit(onehot, y)

    @pytest.mark.parametrize("wrong", [{"method": "smothed plug-in"}, {"basis": "kmens:4"}, {"method": None}])
    def test_a_misspelt_name_is_told_before_the_model_is_fitted(self, two, wrong):
        class Never(LogisticRegression):
            def fit(self, *_):
                pytest.fail("the model was fitted")

        eta, y = two
        with pytest.raises((SettingError, BasisError), match=r"did you mean|must be a name"):
            PostShiftClassifier(Never(), **wrong).fit(eta, y)

    def test_a_method_over_a_basis_of_any_name_passes(self, two):
        eta, y = two
        phi = {"mine": np.ones((len(eta), 1))}
        shifter = PostShifter("f1", classes=NAMES, method="influence [mine]").fit(eta, y, phi_val=phi)
        assert shifter.rule_.rules[0].basis == "mine"

    def test_a_list_as_metric_is_told_of_cost_matrices(self, two):
        eta, y = two
        with pytest.raises(MetricError, match="ExpectedCost"):
            PostShifter([[0, 1], [5, 0]], classes=NAMES).fit(eta, y)


class TestAnswers:
    def test_answers_that_never_differ(self, two):
        eta, y = two
        told = from_predictions(lambda labels: float(np.mean(labels.astype(str) == y)), name="theirs")
        with pytest.warns(PostshiftWarning, match=r"scored the same, 0\.000, although.*classes="):
            shifter = PostShifter(told, budget=60).fit(eta)
        assert any("scored the same" in note for note in shifter.diagnostics_.choice.notes)

    def test_answers_of_another_scale(self, two):
        eta, y = two
        how = {"classes": NAMES, "budget": 60}
        profit = lambda labels: 1e6 * float(np.mean(labels == y))  # noqa: E731
        with pytest.warns(PostshiftWarning, match=r"answers are as large as .*scale="):
            PostShifter(from_predictions(profit, name="profit"), **how).fit(eta)
        PostShifter(from_predictions(profit, name="profit", scale=1e6), **how).fit(eta)


class TestReasons:
    def test_a_method_that_was_asked_for_does_not_lead(self, two):
        eta, y = two
        shifter = PostShifter("accuracy", classes=NAMES, method="inverse prior").fit(eta, y)
        assert shifter.score_ < shifter.base_score_
        reason = shifter.diagnostics_.choice.reason
        assert reason.startswith("you chose 'inverse prior': ")
        assert reason.endswith("it scores lower than the base")

    def test_the_average_is_told_by_its_own_score(self, rare):
        eta, y = rare
        shifter = PostShifter("f1_macro").fit(eta[:1000], y[:1000])
        reason = shifter.diagnostics_.choice.reason
        said = f"rules: {shifter.score_:.3f} (base {shifter.base_score_:.3f}, gain "
        assert reason.startswith("weighted average of ")
        assert said in reason

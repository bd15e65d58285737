"""The model and its labels: splits, out-of-fold probabilities, labels that cannot be used."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GroupKFold, RepeatedStratifiedKFold, ShuffleSplit, StratifiedKFold

from postshift import PostShiftClassifier, PostShifter
from postshift.exceptions import LabelError
from tests.estimators.data import NAMES, noisy, overlapping


def test_repeated_splits_do_not_make_more_rows():
    X, y = overlapping()
    splitter = RepeatedStratifiedKFold(n_splits=5, n_repeats=3, random_state=0)
    once, often = (PostShiftClassifier(LogisticRegression(), metric="f1", cv=cv).fit(X, y) for cv in (5, splitter))
    assert once.diagnostics_.n_val == often.diagnostics_.n_val == 400
    assert often.diagnostics_.choice.noise > once.diagnostics_.choice.noise / 2


@pytest.mark.slow
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
        PostShiftClassifier(LogisticRegression(), cv=cv).fit(*overlapping())


def test_splits_as_masks():
    X, y = overlapping()
    masks = [(np.arange(400) % 2 == k, np.arange(400) % 2 != k) for k in (0, 1)]
    assert (
        PostShiftClassifier(LogisticRegression(), cv=masks, method="smoothed plug-in").fit(X, y).diagnostics_.n_val
        == 400
    )


def test_missing_labels_are_named(yes_or_no):
    eta, y = yes_or_no
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


def test_labels_of_other_names_ask_for_the_classes(yes_or_no):
    eta, y = yes_or_no
    with pytest.raises(LabelError, match=r"e\.g\. '(no|yes)': give classes=\[\.\.\.\]"):
        PostShifter("f1").fit(eta, y)


def test_one_hot_labels_and_a_word_for_groups(yes_or_no):
    eta, y = yes_or_no
    with pytest.raises(LabelError, match=r"y_val must have one value per row\. Got .*\(500, 2\).*argmax"):
        PostShifter("f1", classes=NAMES).fit(eta, np.eye(2)[(y == "yes").astype(int)])
    with pytest.raises(LabelError, match=r"groups must have one value per row\. Got an array of shape \(\)"):
        PostShifter("worst_group_accuracy", classes=NAMES).fit(eta, y, groups="age")


def test_the_probabilities_of_training_rows_are_out_of_fold():
    data = noisy()
    forest = RandomForestClassifier(30, random_state=0)
    model = PostShiftClassifier(forest, metric="g_mean", method="inverse prior")
    model.fit(data.X, data.y, data.X_val, data.y_val)
    fitted = forest.fit(data.X, data.y).predict_proba(data.X).mean(axis=0)
    prior = 1 / model.coef_[0]
    assert not np.allclose(prior / prior.sum(), fitted, atol=1e-4)
    assert model.diagnostics_.n_train == len(data.y)


@pytest.mark.filterwarnings("ignore::postshift.exceptions.SmallValidationWarning")
@pytest.mark.parametrize(
    ("cv", "n_val"),
    [
        (None, 1.0),
        (3, 1.0),
        (0.25, 0.25),
        (StratifiedKFold(4), 1.0),
        (ShuffleSplit(1, test_size=0.2, random_state=0), 0.2),
    ],
)
def test_without_a_validation_sample(cv, n_val):
    data = noisy()
    model = PostShiftClassifier(LogisticRegression(), metric="g_mean", method="smoothed plug-in", cv=cv)
    model.fit(data.X, data.y)
    assert model.diagnostics_.n_train == 0
    assert model.diagnostics_.n_val == pytest.approx(n_val * len(data.y), abs=2)
    assert model.score_ > model.base_score_
    np.testing.assert_allclose(model.estimator_.coef_, LogisticRegression().fit(data.X, data.y).coef_)

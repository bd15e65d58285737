"""Classes without rows in a group: left out by the fit, the scores, the report and the metric itself alike."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

from postshift import PostShifter
from postshift.metrics import BalancedAccuracy, GMean, GroupGMean, MinRecall, Penalised, WorstGroup, maximised
from postshift.report import Facts

pytestmark = pytest.mark.filterwarnings(
    "ignore::postshift.exceptions.MissingClassWarning", "ignore::postshift.exceptions.SmallValidationWarning"
)
TIMES = 50
# Group "a" has recalls of .5 and 0 and no row of class 2; in group "b" all is right.
GROUPS = np.repeat(["a", "a", "a", "b", "b", "b"], TIMES)
TRUTH = np.repeat([0, 0, 1, 0, 1, 2], TIMES)
SHOWN = np.repeat([0, 1, 0, 0, 1, 2], TIMES)
ETA = np.eye(3)[SHOWN] * 0.7 + 0.1


def confusion_of(truth, labels, groups, *, n_groups=2):
    table = np.zeros((3 * n_groups, 3))
    np.add.at(table, (3 * groups + truth, labels), 1 / len(truth))
    return table


def by_scikit_learn(truth, labels, groups):
    with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
        scores = [balanced_accuracy_score([*truth[groups == g]], [*labels[groups == g]]) for g in np.unique(groups)]
    return min(scores)


@pytest.mark.parametrize(("inner", "expected"), [("balanced_accuracy", 0.25), ("g_mean", 0.0)])
def test_fit_score_and_value_agree(inner, expected):
    name, metric = f"worst_group_{inner}", WorstGroup(inner, n_groups=2, n_classes=3)
    shifter = PostShifter(name, method="base").fit(ETA, TRUTH, groups=GROUPS)
    codes = (GROUPS == "b").astype(int)
    assert metric.value(confusion_of(TRUTH, SHOWN, codes)) == pytest.approx(expected)
    assert shifter.score(ETA, TRUTH, groups=GROUPS) == pytest.approx(expected)
    assert shifter.score_ == shifter.base_score_ == pytest.approx(expected)
    facts = Facts.of(shifter, ETA, TRUTH)
    assert facts.verdict.before == shifter.base_score_


def test_as_scikit_learn_group_by_group():
    rng = np.random.default_rng(0)
    truth, groups = rng.integers(3, size=90), rng.integers(2, size=90)
    groups[truth == 2] = 1
    labels = np.where(groups == 1, truth, rng.integers(3, size=90))  # the worst group is the one without class 2
    shifter = PostShifter("worst_group_balanced_accuracy", method="base")
    eta = np.eye(3)[labels] * 0.7 + 0.1
    shifter.fit(eta, truth, groups=groups)
    assert shifter.score(eta, truth, groups=groups) == pytest.approx(by_scikit_learn(truth, labels, groups))


def test_an_absent_pair_does_not_change_what_is_fitted():
    """A third class of which nothing is known leaves the rule of the two others as it is without it."""
    rng = np.random.default_rng(1)
    p = rng.beta(1, 3, size=300)
    y, groups = (rng.random(300) < p).astype(int), rng.integers(2, size=300)
    two = np.column_stack([1 - p, p])
    three = np.column_stack([1 - p, p, np.zeros(300)])
    for metric in ("worst_group_balanced_accuracy", "worst_group_g_mean", "group_g_mean"):
        fits = [PostShifter(metric, method="smoothed plug-in").fit(eta, y, groups=groups) for eta in (two, three)]
        assert fits[1].base_score_ == pytest.approx(fits[0].base_score_, rel=1e-6)
        assert fits[1].score_ == pytest.approx(fits[0].score_, abs=0.02)
        assert fits[1].score(three, y, groups=groups) == pytest.approx(fits[0].score(two, y, groups=groups), abs=0.02)


METRICS = [
    BalancedAccuracy(),
    GMean(),
    MinRecall(),
    maximised(GMean()),
    WorstGroup("balanced_accuracy", n_groups=1, n_classes=3),
    GroupGMean(n_groups=1, n_classes=3),
    Penalised("balanced_accuracy", "equal_opportunity", n_groups=1, n_classes=3),
]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_class_without_rows_is_left_out_by_every_metric_of_recalls(metric):
    rng = np.random.default_rng(0)
    truth, labels = rng.integers(2, size=80), rng.integers(3, size=80)
    recalls = np.array([(labels[truth == k] == k).mean() for k in range(2)])
    expected = {"g_mean": np.sqrt(recalls.prod()), "group_g_mean": np.sqrt(recalls.prod()), "min_recall": recalls.min()}
    confusion = confusion_of(truth, labels, np.zeros(80, dtype=int), n_groups=1)
    assert metric.value(confusion) == pytest.approx(expected.get(metric.name, recalls.mean()))
    eta = np.eye(3)[labels] * 0.7 + 0.1
    groups = {"groups": np.zeros(80)} if hasattr(metric, "n_categories") else {}
    shifter = PostShifter(metric, method="base").fit(eta, truth, **groups)
    assert shifter.score(eta, truth, **groups) == pytest.approx(float(metric.value(confusion)))

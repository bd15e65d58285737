"""The problem that rules are fitted to: metrics that it takes, classes without rows."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.core.queries import without_queries
from postshift.exceptions import MetricError, MissingClassWarning
from postshift.metrics import GMean
from postshift.rules import Choice, Problem, SmoothedPlugin
from tests.rules.helpers import big, tables


def test_a_class_missing_in_a_fold_does_not_stop_the_fits():
    """Where a class has no rows its recall counts as 1: the others are still optimised."""
    problem = big(GMean(), 7, n_classes=4)
    part = problem.take(np.flatnonzero(problem.val.labels != 2))
    smoothed = without_queries(SmoothedPlugin().fit(part))
    assert not np.allclose(smoothed.mixture.members[0].alpha, 1)
    (value,) = without_queries(part.label_scores([part.val.labels]))
    assert value == pytest.approx(1)
    confusion = part.confusion(part.val.eta)
    metric = part.scoring_metric
    move = np.zeros_like(confusion)
    move[0, 0], move[0, 1] = 1e-6, -1e-6
    slope = float((metric.gradient(confusion) * move).sum()) / 1e-6
    ahead, behind = (float(metric.value(confusion + sign * move)) for sign in (1, -1))
    assert (ahead - behind) / 2e-6 == pytest.approx(slope, rel=1e-4)


def test_a_class_without_validation_rows_is_left_as_it_is():
    train, val = tables()
    kept = val.take(np.flatnonzero(val.labels != 0))
    with pytest.warns(MissingClassWarning, match="no validation row of class 0"):
        problem = Problem.labelled(train, kept, GMean())
    assert np.isfinite(without_queries(Choice().fit(problem)).record.score)


@pytest.mark.parametrize("metric", ["f1", GMean, np.mean])
def test_what_is_no_metric_is_refused_at_once(metric):
    train, val = tables()
    with pytest.raises(MetricError, match="metric must be a function of the confusion matrix"):
        Problem.labelled(train, val, metric)


def test_counting_by_group_and_class():
    """A problem that only returns scores counts rows for its constraints; without labels, by predicted class."""
    _, val = tables()
    groups, labels = np.arange(val.n_rows) % 2, np.argmax(val.eta, axis=1)
    how = {"kind": "hard", "takes_subsets": True}
    known = Problem.queried(None, val, reads_labels=True, **how).counting(groups, n_groups=2)
    blind = Problem.queried(None, val, **how).counting(groups, n_groups=2)
    assert not known.is_labelled
    shape = 2, val.n_classes, val.n_classes
    tables_ = [each.label_confusion(labels).reshape(shape) for each in (known, blind)]
    np.testing.assert_allclose(*(table.sum(axis=1) for table in tables_))
    assert tables_[0][1, 0, 1] == pytest.approx(
        np.sum(val.row_weights[(groups == 1) & (val.labels == 0) & (labels == 1)]) / val.row_weights.sum()
    )
    some = np.array([5, 2, 9])
    np.testing.assert_array_equal(known.take(some).categories, known.categories[some])


@pytest.mark.parametrize("take", [np.array([4, 1, 7]), np.array([0])])
def test_some_rows_know_their_numbers(take):
    _, val = tables()
    problem = Problem.labelled(None, val, GMean()).take(np.arange(3, 40)).take(take)
    np.testing.assert_array_equal(problem.rows, take + 3)
    assert problem.n_total == val.n_rows

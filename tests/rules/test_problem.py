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

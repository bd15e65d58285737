"""Frank-Wolfe on the counts of the classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from postshift import Mixture, Rows, fw_eg
from postshift.core.plugin import inverse_prior
from postshift.core.psi import CountSlopesMetric, count_slopes_of, gradient_of, has_count_slopes
from postshift.core.queries import without_queries
from postshift.exceptions import MetricError, MissingClassWarning
from postshift.metrics import (
    Accuracy,
    BalancedAccuracy,
    FBeta,
    GMean,
    HMean,
    Jaccard,
    MacroF1,
    MatthewsCorrelation,
    MinRecall,
    Precision,
    QMean,
    Recall,
)
from postshift.metrics.confusion import counts_of
from postshift.rules import Base, Problem
from postshift.rules.by_counts import ByCounts, Counts
from tests.rules.helpers import labelled

METRICS = [
    Accuracy(),
    BalancedAccuracy(),
    GMean(),
    HMean(),
    QMean(),
    MacroF1(),
    FBeta(2, average="macro_present"),
    FBeta(average="micro"),
    FBeta(average="weighted"),
    Precision(),
    Recall(),
    Jaccard(),
]


def one_sample(metric, seed=0):
    problem = labelled(metric, seed)
    return Problem.labelled(None, Rows.of(problem.val.eta, labels=problem.val.labels), metric)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_slopes_by_counts_are_those_of_the_matrix(metric):
    """The gradient is defined up to a constant per row: compare what moving a prediction gains."""
    confusion = np.random.default_rng(0).dirichlet(np.ones(16)).reshape(4, 4)
    slopes = gradient_of(metric, confusion)
    gains, losses = count_slopes_of(metric, *counts_of(confusion))
    by_counts = np.diag(gains) + losses
    np.testing.assert_allclose(by_counts - by_counts[:, [0]], slopes - slopes[:, [0]], atol=1e-12)


@pytest.mark.parametrize("metric", [MatthewsCorrelation(), FBeta(average="one_vs_rest", positive=1)], ids=repr)
def test_a_metric_that_is_not_one_of_all_classes_counts(metric):
    assert not has_count_slopes(metric)
    assert not ByCounts().usable(one_sample(metric))
    with pytest.raises(MetricError, match="not one of counts"):
        without_queries(ByCounts().fit(one_sample(metric)))


def test_metrics_of_counts_follow_the_protocol():
    assert all(isinstance(metric, CountSlopesMetric) and has_count_slopes(metric) for metric in METRICS)


def test_a_minimum_is_fitted_in_another_way():
    assert not ByCounts().usable(one_sample(MinRecall()))


@pytest.mark.parametrize("seed", [0, 1])
def test_without_prior_rows_it_is_the_papers_loop_with_gradients(seed):
    """The plug-in of the last iterate is the vertex that FW-EG finds in one more iteration."""
    problem = one_sample(MacroF1(), seed)
    found = without_queries(ByCounts("labels", max_iter=4, prior_rows=0).fit(problem))
    rows = problem.val
    start = Mixture.of([inverse_prior(rows.mean_eta(), n_bases=1)], [1.0])
    paper = fw_eg(rows, rows, MacroF1(), start=start, linearise="gradient", max_iter=5)
    np.testing.assert_array_equal(found.labels(rows), paper.vertices[-1].labels(rows.eta, rows.phi))


def test_prior_rows_shrink_the_rates_to_that_of_all_rows():
    counts = Counts(hits=np.array([0.3, 0.0]), true=np.array([0.5, 0.5]), predicted=np.array([1.0, 0.0]))
    found = counts.with_prior(0.1)
    np.testing.assert_allclose(found.hits, [0.33, 0.03])
    np.testing.assert_allclose(found.true, [0.6, 0.6])
    np.testing.assert_allclose(found.predicted, [1.1, 0.1])


@pytest.mark.parametrize("source", ["labels", "eta"])
def test_a_prior_row_helps_on_new_rows_if_classes_have_few_rows(source):
    rng = np.random.default_rng(0)
    n_classes, metric = 300, FBeta(average="macro_present")
    odds = rng.exponential(size=(1500, n_classes)) ** 8 / np.arange(3, n_classes + 3)
    eta = odds / odds.sum(axis=1, keepdims=True)
    labels = (rng.random((1500, 1)) > eta.cumsum(axis=1)).sum(axis=1).clip(0, n_classes - 1)
    few, new = (
        Problem.labelled(None, Rows.of(sparse.csr_array(eta[rows]), labels=labels[rows]), metric)
        for rows in (slice(500), slice(500, 1500))
    )
    rules = [ByCounts(source), ByCounts(source, prior_rows=0), Base()]
    scores = [without_queries(new.label_scores([without_queries(rule.fit(few)).labels(new.val)]))[0] for rule in rules]
    assert scores[1] < min(scores[0], scores[2]) - 0.01


@pytest.mark.parametrize("source", ["labels", "eta"])
def test_it_raises_what_it_counts(source):
    """Macro-F1 on the rows themselves, of labels or as expected, against the argmax."""
    rng = np.random.default_rng(0)
    eta = rng.dirichlet([4, 1, 0.5], size=4000)
    labels = (rng.random((4000, 1)) > eta.cumsum(axis=1)).sum(axis=1)
    problem = Problem.labelled(None, Rows.of(eta, labels=labels), MacroF1())
    found = without_queries(ByCounts(source).fit(problem)).labels(problem.val)
    ours, base = without_queries(problem.label_scores([found, eta.argmax(axis=1)]))
    assert ours > base + 0.02


def test_expected_counts_read_training_rows_without_labels():
    problem = labelled(MacroF1())
    both = replace(problem, train=replace(problem.train, labels=None))
    alone = replace(problem, train=None)
    with_train, without = (
        without_queries(ByCounts("eta").fit(each)).mixture.members[0].alpha for each in (both, alone)
    )
    assert not np.allclose(with_train, without)
    labels = [without_queries(ByCounts("labels").fit(each)).mixture.members[0].alpha for each in (both, alone)]
    np.testing.assert_array_equal(*labels)


@pytest.mark.filterwarnings("ignore", category=MissingClassWarning)
def test_sparse_problems_are_scored_by_counts():
    rng = np.random.default_rng(0)
    eta = sparse.random(40, 30, density=0.1, format="csr", rng=rng) / 30
    labels, predicted = rng.integers(30, size=(2, 40))
    for metric in METRICS:
        problem = Problem.labelled(None, Rows.of(eta, labels=labels), metric)
        (value,) = without_queries(problem.label_scores([predicted]))
        dense = Problem.labelled(None, Rows.of(np.full((40, 30), 1 / 30), labels=labels), metric)
        assert value == pytest.approx(without_queries(dense.label_scores([predicted]))[0])


@pytest.mark.filterwarnings("ignore", category=MissingClassWarning)
@pytest.mark.parametrize("metric", [MatthewsCorrelation(), MinRecall(), Recall("one_vs_rest", 1)], ids=repr)
def test_sparse_problems_refuse_other_metrics(metric):
    eta = sparse.csr_array(np.full((10, 3), 0.3))
    with pytest.raises(MetricError, match="cannot be used with sparse eta"):
        Problem.labelled(None, Rows.of(eta, labels=np.arange(10) % 3), metric)

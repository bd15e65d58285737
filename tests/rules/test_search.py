"""The plug-in search against brute force over all thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from postshift import Rows
from postshift.core.queries import without_queries
from postshift.exceptions import MetricError
from postshift.metrics import Accuracy, CohenKappa, GMean, MacroF1
from postshift.rules import PluginSearch, Problem
from postshift.rules.search import Line, _near, _searched, distinct_cuts, overtaking
from tests.rules.helpers import big, labelled, value_of

METRICS = st.sampled_from([Accuracy(), GMean(), MacroF1()])


@given(seed=st.integers(0, 10**5), metric=METRICS)
def test_plug_in_search_with_two_classes_is_the_best_of_all_thresholds(seed, metric):
    """One coordinate is all there is: brute force over every distinct threshold finds nothing better."""
    problem = labelled(metric, seed, n_classes=2)
    rule = without_queries(PluginSearch().fit(problem))
    eta, labels = problem.val.eta, problem.val.labels
    ratio = eta[:, 1] / eta[:, 0]
    cuts = np.concatenate([[0], np.sort(ratio) * (1 + 1e-12), [np.inf]])
    best = max(value_of(metric, labels, (ratio > cut).astype(int)) for cut in cuts[:-1])
    assert value_of(metric, labels, rule.labels(problem.val)) == pytest.approx(best, rel=1e-12)


@given(seed=st.integers(0, 10**5), metric=METRICS, n_classes=st.integers(3, 4))
def test_plug_in_search_is_a_coordinate_optimum(seed, metric, n_classes):
    """A fine grid along any single weight brings nothing more, and the search ends no worse than it began."""
    problem = labelled(metric, seed, n_classes=n_classes)
    search = PluginSearch(max_sweeps=20)
    rule = without_queries(search.fit(problem))
    eta, labels = problem.val.eta, problem.val.labels
    weights = rule.mixture.members[0].alpha[0]
    found = value_of(metric, labels, rule.labels(problem.val))
    assert found >= value_of(metric, labels, eta.argmax(axis=1)) - 1e-12
    for label in range(n_classes):
        for factor in np.exp(np.linspace(-4, 4, 81)):
            tried = weights.copy()
            tried[label] *= factor
            assert value_of(metric, labels, (tried * eta).argmax(axis=1)) <= found + 1e-12


@given(seed=st.integers(0, 10**5))
def test_every_cut_gives_another_prediction(seed):
    eta = np.random.default_rng(seed).dirichlet(np.ones(3), size=12)
    weights = np.array([1.0, 2.0, 0.5])
    cuts = distinct_cuts(weights, eta, 1)
    seen = set()
    for cut in cuts:
        tried = weights.copy()
        tried[1] = cut
        seen.add(tuple((tried * eta).argmax(axis=1) == 1))
    assert len(seen) == len(cuts) == 13


@given(seed=st.integers(0, 10**5))
def test_the_search_believes_what_its_weights_give(seed):
    """Probabilities in tenths: ratios that differ by rounding only are one cut."""
    rng = np.random.default_rng(seed)
    eta = rng.multinomial(10, np.ones(3) / 3, size=60) / 10
    labels = rng.integers(3, size=60)
    labels[:3] = [0, 1, 2]
    problem = Problem.labelled(None, Rows.of(eta, labels=labels), GMean())
    for label in range(3):
        weights = np.array([1.0, 1.3, 0.7])
        cuts, values = _searched(problem, eta.T, weights, label)
        for cut, value in zip(cuts, values, strict=True):
            weights[label] = cut
            assert value == pytest.approx(value_of(GMean(), labels, (weights * eta).argmax(axis=1)), abs=1e-12)


def test_probabilities_beyond_all_measure():
    eta = np.column_stack([np.full(40, 1e-200), np.linspace(1e-180, 1e-3, 40), np.ones(40)])
    eta /= eta.sum(axis=1, keepdims=True)
    problem = Problem.labelled(None, Rows.of(eta, labels=np.arange(40) % 3), GMean())
    assert np.isfinite(without_queries(PluginSearch().fit(problem)).mixture.members[0].alpha).all()


def test_a_metric_that_raises_is_named():
    class Broken(GMean):
        def value(self, confusion):  # noqa: ARG002
            raise ZeroDivisionError("no profit today")

    problem = big(Broken())
    with pytest.raises(MetricError, match="raised ZeroDivisionError: no profit today"):
        without_queries(PluginSearch().fit(problem))


@pytest.mark.parametrize("metric", [MacroF1(), GMean(), CohenKappa("quadratic")], ids=lambda metric: metric.name)
@pytest.mark.parametrize("tail", [1.0, 40.0])
def test_of_many_rows_the_cuts_near_the_best_of_a_grid_are_tried(metric, tail):
    """The best of all cuts is found, or one that is next to as good; the values told are those of the labels."""
    rng = np.random.default_rng(3)
    logits = tail * rng.normal(size=(3000, 4))
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    eta = softmax(logits - [0, 1, 2, 0], axis=1)
    problem = Problem.labelled(None, Rows.of(eta, labels=labels), metric)
    weights = np.array([1.0, 1.3, 0.7, 2.0])
    for label in range(4):
        cuts, values = _searched(problem, eta.T, weights, label)
        assert len(cuts) < 1500
        line = Line(problem, np.argmax(np.where(np.arange(4) == label, -1, weights * eta), axis=1), label)
        logs = np.log(overtaking(weights, eta, label))
        _, all_values = _near(line, logs, np.arange(3000))
        assert values.max() <= all_values.max() + 1e-12
        assert values.max() >= all_values.max() - 1e-3
        for place in (0, len(cuts) // 2, np.argmax(values)):
            tried = np.where(np.arange(4) == label, cuts[place], weights)
            found = value_of(metric, labels, (tried * eta).argmax(axis=1))
            assert values[place] == pytest.approx(found, abs=1e-9)

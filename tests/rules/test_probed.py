"""Slopes of a function that is known by its scores, from probes."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import Rows
from postshift.core.plugin import PlugIn, onehot
from postshift.core.queries import kind_named
from postshift.core.weighting import DIAGONAL
from postshift.metrics import CohenKappa
from postshift.rules.probed import Prober
from tests.rules.posteriors import drawn

REWARDS = np.array([[1.0, 0.2, -1.0], [0.0, 2.0, 0.5], [-3.0, 0.0, 1.5]])


@pytest.fixture(scope="module")
def data():
    return drawn(0, n_rows=900, n_classes=3, n_groups=2)


def probed(data, function, kind, *, phi=None, labels="own"):
    """The slopes of a function of a table (n, m), and the rule that was probed."""
    phi = np.ones((len(data.labels), 1)) if phi is None else phi
    rows = Rows.of(data.eta, phi=phi)
    rule = PlugIn(weighting=DIAGONAL, alpha=np.tile([1.0, 1.5, 1.5], (phi.shape[1], 1)), n_classes=3)
    truth = data.labels if isinstance(labels, str) else labels
    fit = Prober(rows, truth, lambda query: query).probe(rule, kind_named(kind))
    queries = next(fit)
    shown = [each.predictions for each in queries]
    tables = [onehot(each, n_classes=3) if each.ndim == 1 else each for each in shown]
    with pytest.raises(StopIteration) as done:
        fit.send([function(table) for table in tables])
    return done.value.value, rule.distribution(rows.eta, rows.phi)


def confusion(data, table):
    return onehot(data.labels, n_classes=3).T @ table / len(table)


def centred(slopes):
    """Without the constant per row, which no probe shows."""
    return slopes - slopes.mean(axis=-1, keepdims=True)


@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_a_linear_function_is_found_exactly(data, kind):
    found, table = probed(data, lambda shown: np.sum(REWARDS * confusion(data, shown)), kind)
    np.testing.assert_allclose(centred(found.slopes[0]), centred(REWARDS), atol=1e-8)
    assert found.score == pytest.approx(np.sum(REWARDS * confusion(data, table)))
    assert not found.is_flat


@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_slopes_that_differ_between_groups(data, kind):
    phi = np.eye(2)[data.groups]

    def function(table):
        by_group = [onehot(data.labels, n_classes=3).T @ (table * phi[:, [g]]) / len(table) for g in range(2)]
        return np.sum(REWARDS * by_group[0]) - np.sum(REWARDS.T * by_group[1])

    found, _ = probed(data, function, kind, phi=phi)
    np.testing.assert_allclose(centred(found.slopes), centred(np.stack([REWARDS, -REWARDS.T])), atol=1e-8)


def test_a_curved_function_is_found_nearly(data):
    metric = CohenKappa()
    found, table = probed(data, lambda shown: float(metric.value(confusion(data, shown))), "soft")
    expected = centred(metric.gradient(confusion(data, table)))
    np.testing.assert_allclose(centred(found.slopes[0]), expected, atol=0.1 * np.abs(expected).max())


def test_probabilities_take_the_place_of_labels(data):
    """With p in place of labels, a function of expected confusion is found exactly."""
    found, _ = probed(data, lambda shown: np.sum(REWARDS * (data.eta.T @ shown)) / len(shown), "soft", labels=None)
    np.testing.assert_allclose(centred(found.slopes[0]), centred(REWARDS), atol=1e-8)


def test_a_constant_function_is_flat(data):
    found, _ = probed(data, lambda _: 0.3, "hard")
    assert found.is_flat
    assert found.score == 0.3

"""Every metric of the catalogue as a constraint: the bound is between the base's value and the best that was seen."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from postshift import PostShifter
from postshift.constraints import Value
from postshift.exceptions import ConstraintWarning
from postshift.metrics import ExpectedCost, resolve_metric
from postshift.metrics.catalogue import GAPS, METRICS
from tests.rules.posteriors import drawn

N_GROUPS = 2
COST = ExpectedCost([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [4.0, 1.0, 0.0]])
LABEL = 1


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def data(request):
    """Rows, the base's labels, and labels of many plug-in rules."""
    n_classes = request.param
    found = drawn(7, n_rows=700, n_classes=n_classes, n_groups=N_GROUPS)
    rng = np.random.default_rng(1)
    weights = np.exp(rng.normal(size=(300, N_GROUPS, n_classes)))
    tried = [np.argmax(found.eta * each[found.groups], axis=1) for each in weights]
    phi = np.eye(N_GROUPS)[found.groups]
    return SimpleNamespace(**vars(found), phi=phi, tried=tried, base=np.argmax(found.eta, axis=1), n_classes=n_classes)


def confusion(data, labels, *, over_groups):
    groups = data.groups if over_groups else np.zeros_like(data.groups)
    table = np.zeros((N_GROUPS if over_groups else 1, data.n_classes, data.n_classes))
    np.add.at(table, (groups, data.labels, labels), 1 / len(labels))
    return table.reshape(-1, data.n_classes)


def check(data, constraint_of, value, *, greater, over_groups=False, metric="accuracy"):
    """The fitted rule meets the bound on the labelled rows, comes close to it, or warns with the value."""
    sign = 1 if greater else -1
    base, best = value(data.base), sign * max(sign * value(labels) for labels in data.tried)
    bound = round((base + best) / 2, 4) if sign * (best - base) > 0.01 else round(base - sign * 0.02, 4)
    shifter = PostShifter(metric, subject_to=constraint_of(bound))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConstraintWarning)
        shifter.fit(data.eta, data.labels, phi_val=data.phi, **({"groups": data.groups} if over_groups else {}))
    found = value(shifter.predict(data.eta, data.phi))
    warned = any(issubclass(each.category, ConstraintWarning) for each in caught)
    assert sign * (found - bound) >= 0 or warned
    assert sign * (found - bound) >= -0.04  # of expected labels: nearer than the noise of 700 rows
    assert warned == (not shifter.constraints_[0].holds)


@pytest.mark.slow
@pytest.mark.parametrize("name", METRICS)
def test_metrics_at_least(data, name):
    entry = METRICS[name]
    text = f"{name}[{LABEL}]" if entry.is_of_one_class else name
    n_groups = N_GROUPS if entry.is_over_groups else None
    metric = resolve_metric(text, classes=np.arange(data.n_classes), n_groups=n_groups)
    check(
        data,
        lambda bound: f"{text} >= {bound}",
        lambda labels: float(metric.value(confusion(data, labels, over_groups=entry.is_over_groups))),
        greater=True,
        over_groups=entry.is_over_groups,
        metric="balanced_accuracy" if name == "accuracy" else "accuracy",
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", GAPS)
def test_gaps_at_most(data, name):
    gap = GAPS[name](n_groups=N_GROUPS, n_classes=data.n_classes, positive=LABEL)
    check(
        data,
        lambda bound: f"{name}[{LABEL}] <= {bound}",
        lambda labels: float(gap.value(confusion(data, labels, over_groups=True))),
        greater=False,
        over_groups=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("sense", [">=", "<="])
def test_how_often_a_class_is_predicted(data, sense):
    check(
        data,
        lambda bound: f"rate[{LABEL}] {sense} {bound}",
        lambda labels: float(np.mean(labels == LABEL)),
        greater=sense == ">=",
    )


def test_a_cost_at_most(data):
    cost = ExpectedCost(COST.matrix[: data.n_classes, : data.n_classes])
    check(
        data,
        lambda bound: Value(cost) <= bound,
        lambda labels: float(cost.value(confusion(data, labels, over_groups=False))),
        greater=False,
    )

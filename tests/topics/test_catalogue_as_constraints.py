"""Every metric of the catalogue as a constraint.

The bound is between the expected value of the base and the best of many plug-in rules: constraints are imposed on
expected labels.
"""

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


def confusion(data, labels, truth, *, over_groups):
    """The confusion matrix of labels, given the chance (n, m) of each true class."""
    groups = np.eye(N_GROUPS)[data.groups] if over_groups else np.ones((len(labels), 1))
    table = np.einsum("ng,ni,nj->gij", groups, truth, np.eye(data.n_classes)[labels]) / len(labels)
    return table.reshape(-1, data.n_classes)


def check(data, constraint_of, metric_of, *, greater, over_groups=False, metric="accuracy"):
    """The fitted rule meets the bound on the labelled rows, comes close to it, or warns with the value.

    The value that decides on the warning is that of labels out of fold: those of the fitted rule differ a little.
    """
    sign = 1 if greater else -1

    def value(labels, truth):
        return float(metric_of(confusion(data, labels, truth, over_groups=over_groups)))

    base = value(data.base, data.eta)
    best = sign * max(sign * value(labels, data.eta) for labels in data.tried)
    bound = round((base + best) / 2, 4) if sign * (best - base) > 0.01 else round(base - sign * 0.02, 4)
    shifter = PostShifter(metric, subject_to=constraint_of(bound))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConstraintWarning)
        shifter.fit(data.eta, data.labels, phi_val=data.phi, **({"groups": data.groups} if over_groups else {}))
    found = value(shifter.predict(data.eta, data.phi), np.eye(data.n_classes)[data.labels])
    warned = any(issubclass(each.category, ConstraintWarning) for each in caught)
    assert sign * (found - bound) >= -0.015 or warned
    assert sign * (found - bound) >= -0.06  # three standard errors of a share of 700 rows
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
        metric.value,
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
        gap.value,
        greater=False,
        over_groups=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("sense", [">=", "<="])
def test_how_often_a_class_is_predicted(data, sense):
    check(
        data,
        lambda bound: f"rate[{LABEL}] {sense} {bound}",
        lambda table: table[:, LABEL].sum(),
        greater=sense == ">=",
    )


def test_a_cost_at_most(data):
    cost = ExpectedCost(COST.matrix[: data.n_classes, : data.n_classes])
    check(
        data,
        lambda bound: Value(cost) <= bound,
        cost.value,
        greater=False,
    )

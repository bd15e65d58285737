from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import MetricError, SettingError, ShapeError
from postshift.metrics import (
    DemographicParityGap,
    EqualizedOddsGap,
    EqualOpportunityGap,
    ExpectedCost,
    GMean,
    GroupGMean,
    Penalised,
    from_confusion,
    metric_named,
)

from .rows import slope_and_difference

KINDS = [DemographicParityGap, EqualOpportunityGap, EqualizedOddsGap]
SIZES = {"n_groups": 3, "n_classes": 3}
PENALISED = [
    Penalised("accuracy", "demographic_parity", **SIZES),
    Penalised("f1_macro", "equalized_odds", strength=0.5, **SIZES),
    Penalised(GMean(), "equal_opportunity", strength=2, positive=1, **SIZES),
    Penalised(ExpectedCost(np.arange(9.0).reshape(3, 3)), "equal_opportunity", **SIZES),
]


def names(metric):
    return f"{metric.name}-{metric.positive}"


def random_confusion(seed):
    return np.random.default_rng(seed).dirichlet(np.full(27, 3.0)).reshape(9, 3)


@pytest.mark.parametrize("metric", PENALISED, ids=names)
@given(seed=st.integers(0, 10**6))
def test_gradient_agrees_with_finite_differences(metric, seed):
    slope, difference = slope_and_difference(metric, random_confusion(seed), seed)
    assert difference == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("metric", PENALISED, ids=names)
def test_a_stack_of_matrices(metric):
    stack = np.array([[random_confusion(seed) for seed in range(4)] for _ in range(2)])
    stack[0, 0, :3] = 0
    found = metric.value(stack)
    assert found.shape == (2, 4)
    assert metric.value(stack[:0]).shape == (0, 4)
    for place in np.ndindex(2, 4):
        assert found[place] == pytest.approx(float(metric.value(stack[place])))


@pytest.mark.parametrize(
    ("metric", "inner"),
    [(PENALISED[0], "accuracy"), (PENALISED[1], "f1_macro"), (PENALISED[2], "g_mean")],
    ids=["accuracy", "f1_macro", "g_mean"],
)
def test_a_penalised_metric_is_that_of_all_rows_less_the_gap(metric, inner):
    confusion = random_confusion(0)
    pooled = confusion.reshape(3, 3, 3).sum(axis=0)
    kind = {each.name: each for each in KINDS}[metric.gap]
    gap = kind(positive=metric.positive, **SIZES).value(confusion)
    expected = metric_named(inner, n_classes=3).value(pooled) - metric.strength * gap
    assert metric.value(confusion) == pytest.approx(float(expected))


def test_what_they_are_called():
    assert [metric.name for metric in PENALISED] == [
        "accuracy - demographic_parity",
        "f1_macro - 0.5 * equalized_odds",
        "g_mean - 2 * equal_opportunity",
        "neg_expected_cost - equal_opportunity",
    ]


def test_what_a_penalised_metric_says_of_itself():
    metric = PENALISED[3]
    assert isinstance(metric, DifferentiableMetric)
    assert (metric.n_categories, metric.weighting, metric.needs_every_class) == (9, "full", False)
    assert (metric.scale, PENALISED[1].scale) == (9.0, 1.5)
    assert pickle.loads(pickle.dumps(PENALISED[1])) == PENALISED[1]  # noqa: S301


@pytest.mark.parametrize("metric", PENALISED, ids=names)
def test_a_matrix_of_other_categories(metric):
    for call in (metric.value, metric.gradient):
        with pytest.raises(ShapeError, match=r"\(9, 3\)"):
            call(np.eye(3) / 3)


@pytest.mark.parametrize(
    ("inner", "positive", "expected"),
    [("f1", 1, (1,)), ("f1[2]", 1, (2, 1)), ("recall[0]", None, (0,)), ("f1_macro", None, ())],
)
def test_the_class_of_an_inner_metric_by_name(inner, positive, expected):
    assert Penalised(inner, "equal_opportunity", positive=positive, **SIZES).positive_classes == expected


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        ("g_maen", "did you mean 'g_mean'"),
        ("group_g_mean", "there is no metric 'group_g_mean'"),
        ("accuracy[1]", "is not about one class"),
        ("f1[3]", "there is no class '3'"),
        ("f1", "is for two classes, but there are 3"),
    ],
)
def test_inner_names_that_are_wrong(inner, message):
    with pytest.raises(SettingError, match=message):
        Penalised(inner, "equalized_odds", **SIZES)


@pytest.mark.parametrize("settings", [{"gap": "parity"}, {"strength": -1}, {"strength": np.inf}, {"n_groups": 0}])
def test_settings_that_are_none(settings):
    with pytest.raises(SettingError, match=r"gap|strength|n_groups"):
        Penalised(**{"inner": "accuracy", "gap": "equalized_odds", **SIZES, **settings})


def test_a_gap_misspelt():
    with pytest.raises(SettingError, match="did you mean 'demographic_parity'"):
        Penalised("accuracy", "demografic_parity", **SIZES)


@pytest.mark.parametrize("inner", [GMean, 3, from_confusion(np.trace)])
def test_an_inner_metric_needs_a_gradient(inner):
    with pytest.raises(MetricError, match="has a gradient"):
        Penalised(inner, "equalized_odds", **SIZES)


def test_an_inner_metric_is_one_of_the_classes():
    with pytest.raises(MetricError, match="group_g_mean"):
        Penalised(GroupGMean(**SIZES), "equalized_odds", **SIZES)

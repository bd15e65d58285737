from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postshift.core.psi import DifferentiableMetric
from postshift.exceptions import SettingError, ShapeError
from postshift.metrics import (
    DemographicParityGap,
    EqualizedOddsGap,
    EqualOpportunityGap,
)

from .rows import Rows, slope_and_difference

GROUPS, CLASSES = 3, 3
KINDS = [DemographicParityGap, EqualOpportunityGap, EqualizedOddsGap]
GAPS = [kind(n_groups=GROUPS, n_classes=CLASSES, positive=positive) for kind in KINDS for positive in (None, 0, 2)]
SIZES = {"n_groups": GROUPS, "n_classes": CLASSES}


def names(metric):
    return f"{metric.name}-{metric.positive}"


def random_confusion(seed):
    return np.random.default_rng(seed).dirichlet(np.full(27, 3.0)).reshape(9, 3)


def gaps_by_hand(gap, truth, labels, weights, groups):
    """Return all the differences between groups that the gap is the largest of, row by row."""
    chosen = range(CLASSES) if gap.positive is None else [gap.positive]
    events = {
        "demographic_parity": [(np.ones(len(truth), dtype=bool), labels == j) for j in chosen],
        "equal_opportunity": [(truth == i, labels == i) for i in chosen],
        "equalized_odds": [(truth == i, labels == j) for i in range(CLASSES) for j in chosen],
    }[gap.name]
    found = []
    for given_, event in events:
        shares = [
            np.average(event[kept], weights=weights[kept])
            for kept in (given_ & (groups == group) for group in range(GROUPS))
            if kept.any()
        ]
        found.append(max(shares) - min(shares))
    return found


@pytest.mark.parametrize("soft", [False, True], ids=["hard", "randomised"])
@pytest.mark.parametrize("gap", GAPS, ids=names)
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_gaps_by_hand(gap, soft, seed):
    rows = Rows(seed, n_classes=CLASSES, soft=soft, n_groups=GROUPS)
    assert gap.value(rows.confusion) == pytest.approx(max(gaps_by_hand(gap, *rows.repeated())))


@pytest.mark.parametrize("metric", GAPS, ids=names)
@given(seed=st.integers(0, 10**6))
def test_gradient_agrees_with_finite_differences(metric, seed):
    slope, difference = slope_and_difference(metric, random_confusion(seed), seed)
    assert difference == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("metric", GAPS, ids=names)
def test_a_stack_of_matrices(metric):
    stack = np.array([[random_confusion(seed) for seed in range(4)] for _ in range(2)])
    stack[0, 0, :3] = 0
    found = metric.value(stack)
    assert found.shape == (2, 4)
    assert metric.value(stack[:0]).shape == (0, 4)
    for place in np.ndindex(2, 4):
        assert found[place] == pytest.approx(float(metric.value(stack[place])))


@pytest.mark.parametrize("gap", GAPS, ids=names)
def test_groups_without_rows_are_left_out(gap):
    confusion = random_confusion(0)
    confusion[:3] = 0
    two = type(gap)(n_groups=2, n_classes=CLASSES, positive=gap.positive)
    assert gap.value(confusion) == pytest.approx(float(two.value(confusion[3:])))
    np.testing.assert_allclose(gap.gradient(confusion)[3:], two.gradient(confusion[3:]))
    assert not gap.gradient(confusion)[:3].any()


@pytest.mark.parametrize("gap", GAPS, ids=names)
@pytest.mark.parametrize("confusion", [np.zeros((9, 3)), np.vstack([np.eye(3), np.zeros((6, 3))])])
def test_without_two_groups_there_is_no_gap(gap, confusion):
    assert gap.value(confusion) == 0
    assert not gap.gradient(confusion).any()


def test_two_classes_have_one_parity_gap():
    confusion = np.random.default_rng(0).dirichlet(np.ones(8)).reshape(4, 2)
    values = [
        float(DemographicParityGap(n_groups=2, n_classes=2, positive=positive).value(confusion))
        for positive in (None, 0, 1)
    ]
    assert values == pytest.approx(3 * values[:1])


@pytest.mark.parametrize("metric", GAPS, ids=names)
def test_gaps_are_metrics_of_pairs_that_are_better_when_less(metric):
    assert isinstance(metric, DifferentiableMetric)
    assert (metric.n_categories, metric.greater_is_better, metric.needs_every_class) == (9, False, False)


@pytest.mark.parametrize("metric", GAPS, ids=names)
def test_a_matrix_of_other_categories(metric):
    for call in (metric.value, metric.gradient):
        with pytest.raises(ShapeError, match=r"\(9, 3\)"):
            call(np.eye(3) / 3)


@pytest.mark.parametrize("positive", [3, -1, True, "yes"])
def test_a_position_that_is_none(positive):
    with pytest.raises(SettingError, match="positive"):
        EqualOpportunityGap(positive=positive, **SIZES)

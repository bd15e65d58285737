"""The chance to see a gain: simulated and by influences."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.metrics import resolve_metric
from postshift.rules.gain_chance import GainChance, gain_of, has_kinks

CELLS = np.array([[[0.5, 0.0], [0.1, 0.1]], [[0.05, 0.0], [0.15, 0.1]]])  # true class, label of the rule, of the base


def chance(metric, **more):
    return GainChance(metric=resolve_metric(metric, classes=[0, 1]), cells=CELLS, confidence=0.95, **more)


def test_the_gain_is_that_of_the_rule_over_the_base():
    metric = resolve_metric("accuracy", classes=[0, 1])
    assert gain_of(metric, CELLS) == pytest.approx((0.5 + 0.25) - (0.6 + 0.1))


def test_more_rows_and_a_larger_gain_are_seen_more_often():
    seen = chance("balanced_accuracy")
    assert seen(20) < seen(60) < seen(200)
    assert chance("balanced_accuracy", gain=0.05)(60) < seen(60)


def test_influences_and_simulation_agree():
    seen = chance("balanced_accuracy")
    assert not has_kinks(seen.metric)
    assert seen(60) == pytest.approx(seen._simulated(60, 400), abs=0.1)


def test_a_minimum_is_simulated():
    seen = chance("min_recall")
    assert has_kinks(seen.metric)
    assert seen(100, n_simulated=50) * 50 == pytest.approx(round(seen(100, n_simulated=50) * 50))

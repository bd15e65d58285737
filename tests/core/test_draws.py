"""Draws of hard labels: each alone is uniform, and all of an iteration are spread evenly."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.core.draws import drawn_labels, even_order, shared_draws
from tests.problems import make_problem


def test_each_draw_alone_is_uniform():
    ranks = even_order(make_problem(seed=0).val.eta)
    pooled = [shared_draws(ranks, seed=0, iteration=t) for t in range(2000)]
    for field in ("take", "move", "land"):
        first_row = np.array([getattr(draws, field)[0] for draws in pooled])
        np.testing.assert_allclose(np.quantile(first_row, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.04)


def test_the_draws_of_one_iteration_are_spread_evenly():
    """Any run of neighbouring rows has about its share of draws below any level: far less noise than chance."""
    n = 1000
    draws = shared_draws(np.arange(n), seed=0, iteration=0)
    for first in range(0, n, 100):
        below = (draws.move[first : first + 100] < 0.1).mean()
        assert below == pytest.approx(0.1, abs=0.021)


def test_the_same_iteration_has_the_same_draws():
    one, two, other = (shared_draws(np.arange(9), seed=1, iteration=t) for t in (4, 4, 5))
    np.testing.assert_array_equal(one.take, two.take)
    assert not np.array_equal(one.take, other.take)


def test_labels_drawn_from_a_distribution():
    table = np.array([[0.2, 0.3, 0.5]] * 5)
    np.testing.assert_array_equal(drawn_labels(table, np.array([0.0, 0.19, 0.2, 0.5, 0.999])), [0, 0, 1, 2, 2])

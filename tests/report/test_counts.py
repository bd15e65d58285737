"""The numbers behind the report: what adds up to what, and what the weights of classes mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postshift.report import counts
from postshift.rules.posterior import FLOOR


@st.composite
def samples(draw):
    n_classes, n_rows = draw(st.integers(2, 6)), draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    labels = rng.integers(n_classes, size=(3, n_rows))
    weights = rng.uniform(0.1, 4, size=n_rows) if draw(st.booleans()) else None
    return n_classes, labels, rng.dirichlet(np.ones(n_classes), size=n_rows), weights


@given(samples())
def test_confusions_sum_to_the_weights_of_the_rows(sample):
    n_classes, (codes, before, after), _, weights = sample
    cells = counts.cells(codes, before, after, n_classes=n_classes, weights=weights)
    total = len(codes) if weights is None else weights.sum()
    first, second = counts.matrices(cells, n_classes=n_classes)
    assert first.sum() == pytest.approx(total)
    assert second.sum() == pytest.approx(total)
    np.testing.assert_allclose(first.sum(axis=1), second.sum(axis=1))  # the true classes stay what they are
    np.testing.assert_allclose(first.sum(axis=1), np.bincount(codes, weights=weights, minlength=n_classes))
    np.testing.assert_array_equal(second, counts.confusion(codes, after, n_classes=n_classes, weights=weights))
    assert sum(cell.after - cell.before for cell in cells) == pytest.approx(0, abs=1e-9)


@given(samples())
def test_changes_are_counted_once(sample):
    _, (codes, before, after), eta, _ = sample
    numbers = 10 * np.arange(len(codes))
    found = counts.changes(before, after, numbers=numbers, eta=eta, codes=codes)
    assert found.n_changed == (before != after).sum() == sum(pair.n_rows for pair in found.pairs)
    assert found.n_right == sum(pair.n_right for pair in found.pairs)
    assert found.n_wrong == sum(pair.n_wrong for pair in found.pairs)
    assert found.n_right - found.n_wrong == (after == codes).sum() - (before == codes).sum()
    assert [pair.n_rows for pair in found.pairs] == sorted((pair.n_rows for pair in found.pairs), reverse=True)
    for row in found.rows:
        k = row.row // 10
        assert (row.true, row.before, row.after) == (codes[k], before[k], after[k])
        assert (row.p_before, row.p_after) == (eta[k, before[k]], eta[k, after[k]])
    hidden = counts.changes(before, after, numbers=numbers, eta=eta)
    assert hidden.n_right is None
    assert all(pair.n_wrong is None for pair in hidden.pairs)
    assert all(row.true is None for row in hidden.rows)


def test_only_the_first_rows_are_listed():
    before, after = np.zeros(200, dtype=int), np.ones(200, dtype=int)
    found = counts.changes(before, after, numbers=np.arange(200), eta=np.full((200, 2), 0.5))
    assert [row.row for row in found.rows] == list(range(counts.SHOWN_ROWS))
    assert found.n_changed == 200


def example_weights(raised, eta):
    """W as the estimators give it: mean 1 in each row, argmax W max(eta, 1e-6) being the label."""
    weights = raised / np.maximum(eta, FLOOR)
    return weights / weights.mean(axis=1, keepdims=True)


@given(samples())
def test_weights_of_an_untouched_model_are_all_1(sample):
    _, _, eta, weights = sample
    eta = np.where(eta < 0.05, 1e-9, eta)  # far below the floor: no reason to seem down-weighted
    eta /= eta.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(counts.class_weights(example_weights(eta, eta), eta, weights), 1, rtol=1e-6)


@given(samples(), st.integers(0, 10**6))
def test_weights_that_are_the_same_for_all_rows_are_found(sample, seed):
    n_classes, _, eta, weights = sample
    eta = (eta + 0.05) / (eta + 0.05).sum(axis=1, keepdims=True)
    alpha = np.random.default_rng(seed).uniform(0.2, 5, size=n_classes)
    found = counts.class_weights(example_weights(alpha * eta, eta), eta, weights)
    np.testing.assert_allclose(found / found[0], alpha / alpha[0], rtol=1e-6)
    assert np.median(np.log(found)) == pytest.approx(0, abs=1e-9)


def test_weights_where_labels_are_counted_are_finite():
    eta = np.random.default_rng(0).dirichlet([1, 1, 1], size=50)
    votes = np.eye(3)[np.zeros(50, dtype=int)]  # every rule votes for the first class
    found = counts.class_weights(example_weights(votes, eta), eta)
    assert np.isfinite(found).all()
    assert found[0] > 2 * found[1:].max()


def test_a_class_that_the_model_never_gives_has_a_weight_too():
    eta = np.column_stack([np.random.default_rng(0).dirichlet([1, 1], size=30), np.zeros(30)])
    found = counts.class_weights(example_weights(eta * [1, 3, 1], eta), eta)
    assert found[1] / found[0] == pytest.approx(3)
    assert np.isfinite(found).all()


def test_a_probability_too_small_for_a_reciprocal():
    eta = np.array([[0.4, 0.6, 5e-324], [0.7, 0.3, 1e-310], [0.5, 0.5, 3e-308]])
    votes = np.full((3, 3), 1 / 3)
    found = counts.class_weights(example_weights(votes, eta), eta)
    assert np.isfinite(found).all()


@given(samples())
def test_shares_sum_to_1(sample):
    n_classes, (codes, _, _), eta, weights = sample
    assert sum(counts.shares(codes, n_classes=n_classes, weights=weights)) == pytest.approx(1)
    assert sum(counts.mean_eta(eta, weights=weights)) == pytest.approx(1)


@given(samples())
def test_beliefs_are_means_over_the_rows_of_a_class(sample):
    n_classes, (codes, _, _), eta, weights = sample
    rows = np.ones(len(codes)) if weights is None else weights
    for belief in counts.beliefs(eta, codes, weights=weights):
        own = codes == belief.true
        means = np.average(eta[own], axis=0, weights=rows[own])
        assert belief.n_rows == own.sum()
        assert belief.mass == pytest.approx(rows[own].sum())
        assert belief.own == pytest.approx(means[belief.true])
        others = [means[k] for k in range(n_classes) if k != belief.true]
        assert belief.to_other == pytest.approx(max(others)) == pytest.approx(means[belief.other])


def test_a_class_far_below_the_floor_is_as_it_is():
    eta = np.random.default_rng(0).dirichlet([1, 1], size=30)
    eta = np.column_stack([eta * (1 - 1e-7), np.full(30, 1e-7)])
    np.testing.assert_allclose(counts.class_weights(example_weights(eta, eta), eta), 1, rtol=1e-6)

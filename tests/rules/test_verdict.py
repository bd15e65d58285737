"""The comparison with the base: its interval, its verdict, and what they rest on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from postshift import Rows
from postshift.metrics import Accuracy, FBeta, GMean
from postshift.rules import Problem
from postshift.rules.verdict import compare


def problem_of(truth, metric=None, *, n_classes=2, weights=None, groups=None):
    eta = np.full((len(truth), n_classes), 1 / n_classes)
    table = Rows.of(eta, labels=truth, weights=weights)
    return Problem.labelled(None, table, metric or Accuracy(), groups=groups)


def differing(n, right, wrong):
    """The truth, labels and base: the labels are better on so many rows, and worse on so many others."""
    truth = np.arange(n) % 2
    labels, base = truth.copy(), truth.copy()
    base[:right] = 1 - truth[:right]
    labels[right : right + wrong] = 1 - truth[right : right + wrong]
    return truth, labels, base


def test_the_interval_of_a_gain_is_that_of_paired_rows():
    """Two labellings that differ in k rows, all of them right in one: the gain is k / n, less one binomial spread."""
    n, k = 4000, 400
    truth, labels, base = differing(n, k, 0)
    found = compare(problem_of(truth), labels, base)
    spread = np.sqrt(0.1 * 0.9 / n)
    assert found.gain == pytest.approx(0.1)
    assert found.noise == pytest.approx(spread, rel=0.15)
    assert found.intervals.gain == pytest.approx((0.1 - 1.96 * spread, 0.1 + 1.96 * spread), abs=0.002)
    assert found.kind == "worth it"
    assert found.chance == 1


@pytest.mark.parametrize("right", [1, 2, 3])
def test_a_few_rows_are_no_proof(right):
    """Three heads in a row are no proof of an uneven coin: before, any lead without a row against it was."""
    truth, labels, base = differing(200, right, 0)
    found = compare(problem_of(truth), labels, base)
    assert found.kind == "may be noise"
    assert found.intervals.gain[0] < 0 < found.gain


def test_equal_labels_have_a_noise_too():
    truth, labels, base = differing(200, 0, 0)
    found = compare(problem_of(truth), labels, base)
    assert found.gain == 0
    assert found.noise > 0
    assert found.intervals.gain[0] < 0 < found.intervals.gain[1]


def test_a_perfect_score_is_inside_its_interval():
    truth = np.arange(50) % 2
    found = compare(problem_of(truth, GMean()), truth, truth)
    low, high = found.intervals.score
    assert low < 1
    assert high == found.score == 1


def test_the_other_way_round():
    truth, labels, base = differing(400, 60, 10)
    better, worse = (compare(problem_of(truth), *pair) for pair in ((labels, base), (base, labels)))
    assert better.gain == -worse.gain
    assert (better.kind, worse.kind) == ("worth it", "not worth it")
    assert better.intervals.gain == pytest.approx([-each for each in reversed(worse.intervals.gain)], abs=0.01)


def test_dependent_rows_count_less():
    """Every row ten times over: the interval is as wide as that of the rows once."""
    truth, labels, base = differing(200, 30, 10)
    once = compare(problem_of(truth), labels, base)
    often = [np.repeat(each, 10) for each in (truth, labels, base)]
    naive = compare(problem_of(often[0]), *often[1:])
    honest = compare(problem_of(often[0]), *often[1:], clusters=np.repeat(np.arange(200), 10))
    assert naive.noise < 0.5 * once.noise
    assert honest.noise == pytest.approx(once.noise, rel=0.2)


@given(st.floats(1e-6, 1e6))
def test_the_scale_of_weights_changes_nothing(scale):
    truth, labels, base = differing(60, 8, 3)
    weights = 1.0 + np.arange(60) % 3
    one = compare(problem_of(truth, weights=weights), labels, base)
    other = compare(problem_of(truth, weights=scale * weights), labels, base)
    assert one.intervals.gain == pytest.approx(other.intervals.gain)
    assert one.noise == pytest.approx(other.noise)


def test_a_judged_rule_that_is_fitted_again_has_a_wider_interval():
    truth, labels, base = differing(200, 30, 10)
    fixed, again = (compare(problem_of(truth), labels, base, refitted=refitted) for refitted in (False, True))
    assert again.noise > fixed.noise
    assert again.intervals.gain[0] < fixed.intervals.gain[0]
    assert again.intervals.base == fixed.intervals.base


# -- classes with few rows --------------------------------------------------------------------------------


def test_the_base_itself_gains_nothing_for_certain():
    truth, base, _ = differing(200, 0, 10)
    found = compare(problem_of(truth), base, base, same=True)
    assert found.intervals.gain == (0, 0)
    assert found.intervals.score == found.intervals.base


@pytest.mark.slow
def test_the_noise_of_very_many_classes_is_that_of_new_rows():
    """A class of one row has the same F1 whatever the share of its row: only missing rows show the noise."""
    rng = np.random.default_rng(0)
    n_rows, n_classes, metric = 600, 400, FBeta(average="macro_present")
    found = []
    for _ in range(30):
        truth = rng.integers(n_classes, size=n_rows)
        rule, base = (
            np.where(rng.random(n_rows) < right, truth, rng.integers(n_classes, size=n_rows)) for right in (0.6, 0.5)
        )
        rows = Rows.of(sparse.csr_array((n_rows, n_classes)), labels=truth)
        found.append(compare(Problem.labelled(None, rows, metric), rule, base))
    gains = np.array([each.gain for each in found])
    assert np.mean([each.noise for each in found]) == pytest.approx(gains.std(), rel=0.4)
    assert np.mean([each.intervals.gain[0] <= gains.mean() <= each.intervals.gain[1] for each in found]) > 0.8


def test_clusters_of_very_many_classes_are_drawn_together():
    rng = np.random.default_rng(0)
    truth, labels = rng.integers(400, size=(2, 300))
    truth, base = np.repeat(truth, 4), np.repeat(labels, 4)
    labels = np.where(np.repeat(rng.random(300) < 0.3, 4), truth, base)
    problem = Problem.labelled(None, Rows.of(sparse.csr_array((1200, 400)), labels=truth), FBeta(average="macro"))
    alone, together = (compare(problem, labels, base, clusters=each) for each in (None, np.repeat(np.arange(300), 4)))
    assert together.noise > 1.5 * alone.noise

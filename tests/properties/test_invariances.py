"""What must hold on every input: permuting classes, weighting rows, cutting blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from postshift import MemoryEngine, Rows, fw_eg
from postshift.metrics import Accuracy, GMean, MacroF1
from tests.problems import make_problem, problems

METRICS = st.sampled_from([Accuracy(), GMean(), MacroF1()])
WEIGHTINGS = st.sampled_from(["diagonal", "columns", "full"])


def permuted(sample, order):
    place = np.argsort(order)
    return Rows.of(sample.eta[:, order], phi=sample.phi, labels=place[sample.labels], weights=sample.weights)


def tie_free(mixture, sample):
    """Whether no two classes tie in a member: ties go to the first class, which a permutation changes."""
    scores = np.stack([np.sort(member.scores(sample.eta, sample.phi), axis=1) for member in mixture.members])
    return (scores[..., -1] - scores[..., -2]).min() > 1e-9


@given(problem=problems(max_bases=3), metric=METRICS, weighting=WEIGHTINGS, seed=st.integers(0, 99))
def test_permuting_the_classes_permutes_the_result(problem, metric, weighting, seed):
    order = np.random.default_rng(seed).permutation(problem.n_classes)
    one = fw_eg(problem.train, problem.val, metric, weighting=weighting, max_iter=2)
    assume(tie_free(one.mixture, problem.train) and tie_free(one.mixture, problem.val))
    two = fw_eg(permuted(problem.train, order), permuted(problem.val, order), metric, weighting=weighting, max_iter=2)
    np.testing.assert_allclose(
        two.mixture.distribution(problem.val.eta[:, order], problem.val.phi),
        one.mixture.distribution(problem.val.eta, problem.val.phi)[:, order],
        atol=1e-12,
    )
    assert two.score == pytest.approx(one.score, rel=1e-12)


@given(problem=problems(max_bases=3), metric=METRICS, weighting=WEIGHTINGS, seed=st.integers(0, 99))
def test_duplicating_rows_equals_weighting_them(problem, metric, weighting, seed):
    rng = np.random.default_rng(seed)

    def both(sample):
        times = rng.integers(1, 4, size=sample.n_rows)
        kept = {"phi": sample.phi, "labels": sample.labels}
        weighted = Rows.of(sample.eta, **kept, weights=times)
        repeated = Rows.of(
            np.repeat(sample.eta, times, axis=0), **{k: np.repeat(v, times, axis=0) for k, v in kept.items()}
        )
        return weighted, repeated

    (train_w, train_r), (val_w, val_r) = both(problem.train), both(problem.val)
    one = fw_eg(train_w, val_w, metric, weighting=weighting, max_iter=2)
    two = fw_eg(train_r, val_r, metric, weighting=weighting, max_iter=2)
    assert two.score == pytest.approx(one.score, rel=1e-11)
    np.testing.assert_allclose(
        two.mixture.distribution(problem.val.eta, problem.val.phi),
        one.mixture.distribution(problem.val.eta, problem.val.phi),
        atol=1e-12,
    )


@given(problem=problems(), weighting=WEIGHTINGS, rows=st.integers(1, 100))
def test_the_result_does_not_depend_on_the_blocks(problem, weighting, rows):
    one = fw_eg(problem.train, problem.val, MacroF1(), weighting=weighting, max_iter=2)
    engine = MemoryEngine(problem.train, block_rows=rows)
    two = fw_eg(engine, problem.val, MacroF1(), weighting=weighting, max_iter=2)
    assert two.score == pytest.approx(one.score, rel=1e-12)


def test_adding_a_constant_to_the_metric_changes_nothing():
    class Shifted(GMean):
        def value(self, confusion):
            return GMean.value(self, confusion) + 7

    problem = make_problem(seed=1, n_bases=3, basis="soft")
    one = fw_eg(problem.train, problem.val, GMean(), max_iter=5)
    two = fw_eg(problem.train, problem.val, Shifted(), max_iter=5)
    np.testing.assert_array_equal(
        one.mixture.labels(problem.val.eta, problem.val.phi), two.mixture.labels(problem.val.eta, problem.val.phi)
    )

"""Looks at an iterate: which queries they ask, and what the probes do to the matrices."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import Rows, fw_eg
from postshift.core.psi import depends_on_counts
from postshift.exceptions import MetricError
from postshift.metrics import Accuracy, GMean, MacroF1, SoftOracle
from tests.core.runs import new_run
from tests.problems import make_problem


def test_halves_need_an_oracle_that_takes_subsets():
    problem = make_problem(seed=0)
    halves = (np.arange(30), np.arange(30, 60))
    with pytest.raises(MetricError, match="leave halves out"):
        fw_eg(problem.train, problem.val, SoftOracle(np.mean), halves=halves)


def test_a_probe_that_empties_an_entry_leaves_no_negative_share():
    class Rooted(GMean):
        def value(self, confusion):
            assert (confusion >= 0).all()
            return np.sqrt(confusion).sum(axis=(-1, -2))

    for seed in range(20):
        problem = make_problem(seed=seed, basis="hard", n_bases=1 + seed % 3, weighted=True)
        for weighting in ("diagonal", "full"):
            fw_eg(problem.train, problem.val, Rooted(), radius=1.0, weighting=weighting, max_iter=3)


def test_identical_basis_functions_are_asked_about_once():
    problem = make_problem(seed=0, n_bases=1)

    def doubled(sample):
        return Rows.of(sample.eta, phi=np.repeat(sample.phi, 2, axis=1), labels=sample.labels)

    twice = type(problem)(train=doubled(problem.train), val=doubled(problem.val), radius=0.1)
    run = new_run(twice, "soft", GMean())
    assert len(run.ask()) == 1 + 3  # the base and three probes, not six


def test_halves_are_asked_about_apart():
    problem = make_problem(seed=0)
    halves = (np.arange(0, 60, 2), np.arange(1, 60, 2))
    seen = []
    fit = fw_eg(
        problem.train,
        problem.val,
        GMean(),
        halves=halves,
        linearise="gradient",
        max_iter=2,
        on_answer=lambda query, _: seen.append(query.rows.tolist()),
    )
    assert seen == [half.tolist() for half in halves] * 2 + [halves[0].tolist()]  # the last: its value only
    assert fit.n_queries == 5
    unknown = fw_eg(problem.train, problem.val, GMean(), halves=halves, max_iter=2)
    assert unknown.n_queries == 3  # unknown psi never looks at the second half


@pytest.mark.parametrize(
    ("weighting", "probes"),
    [
        *(pytest.param(name, {}, id=str(name)) for name in ("diagonal", "columns", "full", ((0, 1), (1, 1)))),
        pytest.param("diagonal", {"min_hit": 0.1, "max_leak": 0.05}, id="constrained"),
    ],
)
@pytest.mark.parametrize("kind", [MacroF1, GMean, Accuracy])
def test_gains_from_counts_are_those_of_the_matrices(kind, weighting, probes):
    class ByMatrices(kind):
        def value(self, confusion):
            return super().value(confusion)

    assert depends_on_counts(kind())
    assert not depends_on_counts(ByMatrices())
    problem = make_problem(seed=0, basis="hard")
    how = {**probes, "weighting": weighting, "max_iter": 3}
    by_counts, by_matrices = (fw_eg(problem.train, problem.val, metric, **how) for metric in (kind(), ByMatrices()))
    assert by_counts.score == pytest.approx(by_matrices.score, abs=1e-12)
    for one, other in zip(by_counts.vertices, by_matrices.vertices, strict=True):
        np.testing.assert_allclose(one.alpha, other.alpha, rtol=1e-6, atol=1e-9)

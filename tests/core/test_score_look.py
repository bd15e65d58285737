"""Hard labels: base and probe share their draws, each draw alone is uniform."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import MemoryEngine, fw_eg_session
from postshift.core.probes import ProbePlan
from postshift.core.probing import DisplacedProbes
from postshift.core.queries import kind_named
from postshift.core.score_look import ScoreLook
from postshift.core.weighting import weighting_named
from tests.problems import make_problem, newest_of


@pytest.mark.parametrize("weighting", ["diagonal", "columns", "full", [(0, 1), (2, 2)]])
def test_hard_probes_average_to_the_soft_ones_and_differ_only_where_they_moved(weighting):
    problem = make_problem(seed=1, n_val=25, n_bases=2, basis="soft")
    val, family = problem.val, weighting_named(weighting).probes
    table = np.random.default_rng(0).dirichlet(np.ones(3), size=val.n_rows)
    plan = ProbePlan(radius=0.4)
    common = {"functions": val.phi, "probes": DisplacedProbes(family=family, plan=plan), "rows": None}
    soft = ScoreLook(val, kind=kind_named("soft"), seed=0, **common)
    newest = newest_of(table)
    expected = np.stack([query.predictions for query in next(soft.at(newest, None))])
    found, moved = np.zeros_like(expected), []
    n_draws = 3000
    for seed in range(n_draws):
        hard = ScoreLook(val, kind=kind_named("hard"), seed=seed, **common)
        labels = np.stack([query.predictions for query in next(hard.at(newest, None))])
        found += np.eye(3)[labels]
        moved.append((labels[1:] != labels[0]).mean())
    np.testing.assert_allclose(found / n_draws, expected, atol=0.05)
    assert np.mean(moved) <= 0.4  # labels drawn apart would differ on about two thirds of the rows


def test_hard_queries_show_labels():
    problem = make_problem(seed=0)
    run = fw_eg_session(MemoryEngine(problem.train), problem.val, kind="hard", radius=0.5)
    for query in run.ask():
        assert query.predictions.shape == (problem.val.n_rows,)
        assert query.predictions.dtype == np.intp

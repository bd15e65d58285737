"""Oracles: errors of their functions name the query; oracles of other rows or another kind are refused."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import MemoryEngine, Rows, fw_eg, fw_eg_session
from postshift.core.sums import weighted_confusions
from postshift.exceptions import MetricError, ShapeError
from postshift.metrics import Accuracy, ConfusionOracle, GMean, HardOracle, SoftOracle
from tests.core.runs import oracle_for
from tests.problems import make_problem


@pytest.mark.parametrize("oracle", [SoftOracle, HardOracle])
def test_a_metric_that_raises_names_the_query_and_keeps_the_run(oracle):
    problem = make_problem(seed=0)
    calls = []

    def flaky(predictions):
        calls.append(len(predictions))
        if len(calls) == 3:
            raise ZeroDivisionError("no profit today")
        return float(np.asarray(predictions, dtype=float).mean()) + len(calls) / 100

    run = fw_eg_session(MemoryEngine(problem.train), problem.val, kind=oracle.kind, max_iter=1)
    asked = run.ask()
    for query in asked[:2]:
        run.tell(query.key, oracle(flaky).answer(query))
    with pytest.raises(MetricError, match=r"ZeroDivisionError at query '2/0:0\.1'.*no profit today"):
        oracle(flaky).answer(asked[2])
    assert run.n_queries == 2
    assert [query.key for query in run.ask()] == [query.key for query in asked[2:]]


def test_an_oracle_of_another_kind():
    problem = make_problem(seed=0)
    run = fw_eg_session(MemoryEngine(problem.train), problem.val, kind="soft")
    with pytest.raises(MetricError, match="answers kind 'confusion' only"):
        ConfusionOracle(problem.val.labels, n_classes=3).answer(run.ask()[0])


def test_weights_that_an_oracle_would_not_see():
    problem = make_problem(seed=0, weighted=True)
    with pytest.raises(MetricError, match="belong to the oracle"):
        fw_eg(problem.train, problem.val, SoftOracle(np.mean))


def test_an_oracle_of_other_rows():
    problem = make_problem(seed=0)
    for labels, n_classes in ((np.arange(50) % 3, 3), (np.arange(60) % 5, 5)):
        with pytest.raises(ShapeError, match=r"60 validation rows and 3 classes; this oracle holds"):
            fw_eg(problem.train, problem.val, Accuracy(), oracle=ConfusionOracle(labels, n_classes=n_classes))


def test_an_oracle_that_reuses_its_buffer():
    problem = make_problem(seed=0)
    oracle = oracle_for("confusion", problem.val, GMean())
    buffer = np.zeros((3, 3, 3))

    class Reusing:
        kind, takes_subsets = "confusion", True

        def answer(self, query):
            buffer[:] = oracle.answer(query)
            return buffer

    one = fw_eg(problem.train, problem.val, GMean(), max_iter=4)
    two = fw_eg(problem.train, problem.val, GMean(), max_iter=4, oracle=Reusing())
    assert one.trace == two.trace


def test_a_group_wise_metric_has_more_categories_than_classes():
    """Rows of the matrix are (group, class) pairs: the worst group's accuracy, by an owner of matrices."""
    problem = make_problem(seed=0, n_val=300)
    groups = np.arange(300) % 2
    pairs = groups * 3 + problem.val.labels

    class WorstGroup:
        name, weighting, n_categories = "worst_group", "diagonal", 6

        def value(self, confusion):
            by_group = confusion.reshape(*confusion.shape[:-2], 2, 3, 3)
            hits = np.trace(by_group, axis1=-2, axis2=-1) / by_group.sum(axis=(-1, -2))
            return hits.min(axis=-1)

    class Owner:
        kind, takes_subsets = "confusion", True

        def answer(self, query):
            return weighted_confusions(query.columns / 300, pairs, query.predictions, n_categories=6)

    val = Rows.of(problem.val.eta, phi=problem.val.phi)
    fit = fw_eg(problem.train, val, WorstGroup(), oracle=Owner(), max_iter=5)
    table = fit.mixture.distribution(val.eta, val.phi)
    right = table[np.arange(300), problem.val.labels]
    assert fit.score == pytest.approx(min(right[groups == g].mean() for g in (0, 1)))

"""Queries: their kinds, and answers that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import MemoryEngine, fw_eg_session
from postshift.exceptions import AnswerError, MetricError, SettingError
from postshift.metrics import GMean
from tests.core.runs import new_run, oracle_for
from tests.problems import make_problem


def test_kind_of_query():
    problem = make_problem(seed=0)
    engine = MemoryEngine(problem.train)
    with pytest.raises(SettingError, match="kind must be"):
        fw_eg_session(engine, problem.val, kind="firm")
    with pytest.raises(MetricError, match="need metric"):
        fw_eg_session(engine, problem.val, kind="confusion")
    with pytest.raises(SettingError, match="linearise='gradient' needs queries of kind 'confusion'"):
        fw_eg_session(engine, problem.val, kind="soft", linearise="gradient")


@pytest.mark.parametrize("kind", ["soft", "hard"])
@pytest.mark.parametrize(
    "answer", [float("nan"), float("inf"), "0.5", b"0.5", None, [1, 2], [[1], [2, 3]], 1 + 2j, True, 10**400]
)
def test_an_answer_that_is_no_finite_number_is_refused(kind, answer):
    problem = make_problem(seed=0)
    run = new_run(problem, kind, GMean())
    query = run.ask()[1]
    with pytest.raises(AnswerError, match=r"query '1/0:0\.0' \(the score of iterate 0 with everything to class 0"):
        run.tell(query.key, answer)
    assert run.n_queries == 0
    run.run(oracle_for(kind, problem.val, GMean()))
    assert run.result().status == "finished"


@pytest.mark.parametrize(
    "answer",
    [
        0.5,
        np.zeros((3, 3)),
        np.zeros((3, 3, 3)),
        np.full((3, 3, 3), 1.0),
        np.stack([np.eye(3) / 3, np.eye(3)[::-1] / 3, np.eye(3) / 3]),
        np.ones((3, 3, 3), dtype=bool),
        np.full((3, 3, 3), 1 / 9 + 1j),
        np.full((3, 6, 3), 1 / 18),
        np.full((3, 3, 3), np.nan),
        np.full((3, 3, 3), -1.0),
        np.zeros((2, 3, 3)),
        np.zeros((3, 3, 4)),
        "matrix",
        None,
    ],
)
def test_confusions_that_cannot_be_are_refused(answer):
    problem = make_problem(seed=0)
    run = new_run(problem, "confusion", GMean())
    with pytest.raises(AnswerError, match=r"query '0/0:0\.0' \(confusion matrices of the start\)"):
        run.tell(run.ask()[0].key, answer)
    run.run(oracle_for("confusion", problem.val, GMean()))
    assert run.result().status == "finished"

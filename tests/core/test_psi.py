"""Metrics of the confusion matrix: errors, values that are not finite, shapes, costs."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import fw_eg
from postshift.exceptions import MetricError, ShapeError
from postshift.metrics import ExpectedReward, GMean, SoftOracle
from tests.problems import make_problem


def test_a_psi_that_raises_or_is_not_finite():
    class Raising(GMean):
        def value(self, confusion):  # noqa: ARG002
            raise KeyError("profit")

    class NotANumber(GMean):
        def value(self, confusion):
            return np.full(confusion.shape[:-2], np.nan)

    class Flat(GMean):
        def value(self, confusion):  # noqa: ARG002
            return np.zeros(2)

    problem = make_problem(seed=0)
    for metric, message in ((Raising(), "raised KeyError"), (NotANumber(), "NaN"), (Flat(), r"shape \(2,\)")):
        with pytest.raises(MetricError, match=message):
            fw_eg(problem.train, problem.val, metric)


def test_a_gradient_that_is_not_there():
    class Plain:
        name, weighting = "plain", "diagonal"

        def value(self, confusion):
            return np.trace(confusion, axis1=-2, axis2=-1)

    problem = make_problem(seed=0)
    with pytest.raises(MetricError, match="has no gradient: use linearise='probes'"):
        fw_eg(problem.train, problem.val, Plain(), linearise="gradient")


@pytest.mark.parametrize("metric", ["accuracy", np.mean, None, SoftOracle])
def test_what_is_no_metric(metric):
    problem = make_problem(seed=0)
    with pytest.raises(MetricError, match=r"metric must be a function of the confusion matrix .* or an oracle"):
        fw_eg(problem.train, problem.val, metric)


def test_a_reward_matrix_of_another_size():
    problem = make_problem(seed=0)
    with pytest.raises(ShapeError, match=r"shape \(2, 2\), but there are 3 classes: make it for shape \(3, 3\)"):
        fw_eg(problem.train, problem.val, ExpectedReward(np.eye(2)))

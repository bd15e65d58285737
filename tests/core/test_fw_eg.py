"""FW-EG and PI-EW: their arguments, what they warn of and refuse, and what a run gives."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import Mixture, PlugIn, Rows, fw_eg, pi_ew
from postshift.core.fw_eg import Settings
from postshift.core.weighting import DIAGONAL
from postshift.exceptions import (
    BudgetError,
    EmptyBasisWarning,
    LabelError,
    MissingClassError,
    MissingClassWarning,
    SettingError,
    ShapeError,
)
from postshift.metrics import Accuracy, GMean, SoftOracle
from tests.core.runs import oracle_for
from tests.problems import make_problem

ETA = np.array([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8], [0.5, 0.5]])


def test_one_row():
    one = Rows.of(ETA[:1], labels=[0])
    many = Rows.of(ETA, labels=[0, 1, 1, 0])
    with pytest.raises(ShapeError, match="validation sample must have at least 2 rows"):
        fw_eg(many, one, Accuracy())
    with pytest.raises(ShapeError, match="training sample must have at least 2 rows"):
        fw_eg(one, many, Accuracy())


def test_sides_that_do_not_fit():
    problem = make_problem(seed=0)
    other = make_problem(seed=0, n_bases=3)
    with pytest.raises(
        ShapeError, match=r"3 classes and 3 basis functions in the validation rows, but 3 and 2 in the training rows"
    ):
        fw_eg(problem.train, other.val, Accuracy())


def test_a_class_without_validation_rows():
    problem = make_problem(seed=0)
    kept = problem.val.take(np.flatnonzero(problem.val.labels != 1))
    with pytest.raises(MissingClassError, match=r"class 1 .*'g_mean' needs its recall.*add rows"):
        fw_eg(problem.train, kept, GMean())
    with pytest.warns(MissingClassWarning, match="class 1"):
        fit = fw_eg(problem.train, kept, Accuracy(), max_iter=2)
    assert fit.status == "finished"


def test_a_class_without_training_rows():
    problem = make_problem(seed=0)
    kept = problem.train.take(np.flatnonzero(problem.train.labels != 1))
    with pytest.warns(MissingClassWarning, match="no training row of class 1"):
        fit = fw_eg(kept, problem.val, Accuracy(), max_iter=2)
    assert np.isfinite(fit.mixture.members[0].alpha).all()


def test_labels_that_the_metric_needs():
    problem = make_problem(seed=0)
    bare = Rows.of(problem.val.eta, phi=problem.val.phi)
    with pytest.raises(LabelError, match=r"needs validation labels.*or give an oracle"):
        fw_eg(problem.train, bare, GMean())


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"radius": 0}, r"radius must be a number in \(0, 1\]. Got 0"),
        ({"radius": 1.5}, "radius"),
        ({"radius": "0.1"}, "radius"),
        ({"radius": np.nan}, "radius"),
        ({"max_iter": 0}, "max_iter must be a whole number >= 1"),
        ({"max_iter": True}, "max_iter"),
        ({"weighting": "diag"}, r"one of \['columns', 'diagonal', 'full'\] or different pairs.*Got 'diag'"),
        ({"linearise": "slope"}, "'probes' or 'gradient'"),
        ({"min_hit": 0.1}, "given together"),
        ({"min_hit": "0.1", "max_leak": 0.01}, "min_hit must be a number"),
        ({"rcond": 1}, r"rcond must be a number in \[0, 1\)"),
        ({"ridge": np.inf}, "ridge"),
        ({"weighting": ["full"]}, "one of"),
        ({"budget": -3}, "budget"),
        ({"ridge": -1}, "ridge"),
    ],
)
def test_settings(setting, message):
    with pytest.raises(SettingError, match=message):
        Settings(**setting)


def test_a_budget_too_small_for_one_iteration():
    problem = make_problem(seed=0)
    with pytest.raises(BudgetError, match=r"budget of 5 queries.*asks up to 8"):
        fw_eg(problem.train, problem.val, SoftOracle(np.mean), budget=5)


def test_training_labels_of_one_class():
    rows = Rows.of(ETA, labels=[1, 1, 1, 1])
    val = Rows.of(ETA, labels=[0, 1, 0, 1])
    with pytest.raises(LabelError, match="all training rows have the same class"):
        fw_eg(rows, val, Accuracy())


@pytest.mark.parametrize("side", ["train", "val"])
def test_a_basis_function_without_rows_takes_the_average_weights(side):
    """Not weight 0, by which its rows would all fall to class 0."""
    problem = make_problem(seed=0, n_bases=1, n_classes=2, n_train=400, n_val=200)

    def with_group(sample, *, empty):
        group = np.zeros(sample.n_rows, dtype=int) if empty else np.arange(sample.n_rows) % 2
        return Rows.of(sample.eta, phi=np.eye(2)[group], labels=sample.labels)

    train = with_group(problem.train, empty=side == "train")
    val = with_group(problem.val, empty=side == "val")
    with pytest.warns(EmptyBasisWarning, match=r"basis functions \[1\] have no training or no validation rows"):
        fit = fw_eg(train, val, GMean(), max_iter=3)
    for member in fit.mixture.members:
        np.testing.assert_allclose(member.alpha[1], member.alpha[0])
    assert fit.mixture.predict([[0.01, 0.99]], [[0.0, 1.0]]) == [1]


@pytest.mark.parametrize(
    "halves",
    [
        (np.arange(30), np.arange(29, 60)),
        (np.arange(30), np.arange(30, 61)),
        (np.arange(-1, 30), np.arange(30, 60)),
        (np.array([0, 0, 1]), np.arange(30, 60)),
        (np.arange(30.0), np.arange(30.0, 60)),
        (np.arange(0), np.arange(60)),
        (np.arange(60),),
        (np.zeros((2, 2), dtype=int), np.arange(30, 60)),
        7,
        "ab",
    ],
)
def test_halves(halves):
    problem = make_problem(seed=0)
    with pytest.raises(ShapeError, match=r"halves must be two arrays of distinct row numbers in 0\.\.59"):
        fw_eg(problem.train, problem.val, Accuracy(), halves=halves)


def test_a_class_missing_from_a_half():
    problem = make_problem(seed=0)
    first = np.flatnonzero(problem.val.labels != 1)
    second = np.flatnonzero(problem.val.labels == 1)
    with pytest.raises(MissingClassError, match="needs its recall"):
        fw_eg(problem.train, problem.val, GMean(), halves=(first, second))


def test_pi_ew_takes_no_max_iter():
    problem = make_problem(seed=0)
    with pytest.raises(SettingError, match="one iteration"):
        pi_ew(problem.train, problem.val, Accuracy(), max_iter=7)


def test_a_start_that_is_no_mixture():
    problem = make_problem(seed=0)
    rule = PlugIn(weighting="diagonal", alpha=np.ones((2, 3)), n_classes=3)
    with pytest.raises(SettingError, match=r"start must be a Mixture: Mixture\.of"):
        fw_eg(problem.train, problem.val, Accuracy(), start=rule)


def test_pi_ew_is_one_plug_in_and_the_start_has_no_share():
    problem = make_problem(seed=0)
    fit = pi_ew(problem.train, problem.val, GMean())
    assert len(fit.mixture.members) == 1
    assert fit.trace[0].step == 1.0
    assert fit.n_queries == 2


def test_a_start_of_ones_own():
    problem = make_problem(seed=0)
    rule = PlugIn(weighting=DIAGONAL, alpha=np.array([[1.0, 2, 3], [3.0, 2, 1]]), n_classes=3)
    start = Mixture.of([rule], [1.0])
    fit = fw_eg(problem.train, problem.val, SoftOracle(lambda _: 1.0), start=start)
    assert fit.mixture.members[0].alpha.tobytes() == rule.alpha.tobytes()


@pytest.mark.parametrize("scale", [1e-14, 1e14])
def test_the_scale_of_the_metric_does_not_matter(scale):
    class Scaled(GMean):
        def value(self, confusion):
            return scale * GMean.value(self, confusion)

    problem = make_problem(seed=0)
    fit = fw_eg(problem.train, problem.val, Scaled(), max_iter=4)
    assert fit.status == "finished"
    assert fit.score == pytest.approx(scale * fw_eg(problem.train, problem.val, GMean(), max_iter=4).score)


def test_a_metric_with_noise_and_hard_labels_still_improves():
    problem = make_problem(seed=2, n_train=3000, n_val=1500, n_bases=2)
    oracle = oracle_for("hard", problem.val, Accuracy())
    fit = fw_eg(problem.train, problem.val, oracle, radius=0.4, max_iter=10)
    exact = fw_eg(problem.train, problem.val, Accuracy(), radius=0.4, max_iter=10)
    assert fit.score > exact.score - 0.03

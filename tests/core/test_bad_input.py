"""Bad input gets a typed error that says what is wrong and what to do, and leaves no half-fitted object."""

from __future__ import annotations

import numpy as np
import pytest

from postshift import MemoryEngine, PlugIn, Rows, fw_eg, fw_eg_session, pi_ew
from postshift.core.elicit import solve
from postshift.core.fw_eg import Settings
from postshift.exceptions import (
    BasisError,
    BudgetError,
    EmptyBasisWarning,
    LabelError,
    MetricError,
    MissingClassError,
    MissingClassWarning,
    PostshiftError,
    ProbabilityError,
    SettingError,
    ShapeError,
    SingularProbesError,
    WeightError,
)
from postshift.metrics import Accuracy, ConfusionOracle, ExpectedReward, GMean, HardOracle, SoftOracle
from tests.problems import make_problem

ETA = np.array([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8], [0.5, 0.5]])


def changed(table, place, value):
    table = np.array(table, dtype=float)
    table[place] = value
    return table


@pytest.mark.parametrize(
    ("eta", "error", "message"),
    [
        (changed(ETA, (1, 0), np.nan), ProbabilityError, r"1 of 4 rows with NaN.*rows 1\).*repair"),
        (changed(ETA, (1, 0), np.inf), ProbabilityError, "infinite"),
        (changed(ETA, (2, 0), -0.2), ProbabilityError, r"negative.*rows 2\).*softmax"),
        (ETA * 2, ProbabilityError, r"row 0 sums to 2.*divide each row by its sum"),
        (ETA[:, :1], ProbabilityError, "at least 2 classes.*predict_proba"),
        (ETA[:, 0], ShapeError, r"two dimensions.*\(4,\)"),
        (ETA[:0], ShapeError, "at least one row"),
        ([["a", "b"]], ShapeError, "real numbers"),
        ([[0.5, 0.5], [1.0]], ShapeError, "rows of equal length"),
        (ETA * 1j, ShapeError, "real numbers"),
        (np.ma.masked_array(ETA, mask=ETA < 0.3), ShapeError, "must not be masked"),
    ],
)
def test_eta(eta, error, message):
    with pytest.raises(error, match=message) as caught:
        Rows.of(eta)
    assert isinstance(caught.value, PostshiftError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("phi", "error", "message"),
    [
        (np.ones((4, 0)), BasisError, "no basis function.*phi=None"),
        (np.ones((3, 1)), ShapeError, "3 rows for 4"),
        (np.ones(4), ShapeError, "two dimensions"),
        (np.full((4, 1), 1.5), BasisError, r"outside \[0, 1\]"),
        (np.full((4, 1), np.nan), BasisError, r"outside \[0, 1\]"),
        (changed(np.ones((4, 1)), (3, 0), 0), BasisError, r"rows 3\).*append the complement"),
    ],
)
def test_phi(phi, error, message):
    with pytest.raises(error, match=message):
        Rows.of(ETA, phi=phi)


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([0, 1, 2, 0], LabelError, r"outside 0\.\.1.*e\.g\. .*2"),
        ([0, 1, -1, 0], LabelError, r"outside 0\.\.1"),
        ([0, 1, 0.5, 0], LabelError, r"outside 0\.\.1"),
        ([0, 1, np.nan, 0], LabelError, r"outside 0\.\.1"),
        (["a", "b", "a", "b"], LabelError, "encode class names"),
        ([0, 1, 0], ShapeError, r"shape \(4,\)"),
    ],
)
def test_labels(labels, error, message):
    with pytest.raises(error, match=message):
        Rows.of(ETA, labels=labels)


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        ([1, 1, 1], ShapeError),
        ([1, -1, 1, 1], WeightError),
        ([0, 0, 0, 0], WeightError),
        ([1, np.nan, 1, 1], WeightError),
        ([1e308] * 4, WeightError),
        ("heavy", ShapeError),
    ],
)
def test_weights(weights, error):
    with pytest.raises(error, match="weights"):
        Rows.of(ETA, weights=weights)


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
    with pytest.raises(ShapeError, match=r"3 classes and 3 basis functions, the training rows 3 and 2"):
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


def test_labels_that_the_metric_needs():
    problem = make_problem(seed=0)
    bare = Rows.of(problem.val.eta, phi=problem.val.phi)
    with pytest.raises(LabelError, match=r"needs validation labels.*or give an oracle"):
        fw_eg(problem.train, bare, GMean())


def test_halves_need_a_oracle_that_takes_subsets():
    problem = make_problem(seed=0)
    halves = (np.arange(30), np.arange(30, 60))
    with pytest.raises(MetricError, match="cannot be split"):
        fw_eg(problem.train, problem.val, SoftOracle(np.mean), halves=halves)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"radius": 0}, r"radius must be a number in \(0, 1\]. Got 0"),
        ({"radius": 1.5}, "radius"),
        ({"radius": "0.1"}, "radius"),
        ({"radius": np.nan}, "radius"),
        ({"max_iter": 0}, "max_iter must be a whole number >= 1"),
        ({"max_iter": True}, "max_iter"),
        ({"weighting": "diag"}, r"one of \['columns', 'diagonal', 'full'\]. Got 'diag'"),
        ({"linearise": "slope"}, "'probes' or 'gradient'"),
        ({"min_hit": 0.1}, "given together"),
        ({"min_hit": "0.1", "max_leak": 0.01}, "min_hit must be a number"),
        ({"rcond": 1}, r"rcond must be a number in \[0, 1\)"),
        ({"ridge": np.inf}, "ridge"),
        ({"weighting": ["full"]}, "one of"),
        ({"min_hit": 0.1, "max_leak": 0.01, "weighting": "full"}, "constrained probes need weighting 'diagonal'"),
        ({"budget": -3}, "budget"),
        ({"ridge": -1}, "ridge"),
    ],
)
def test_settings(setting, message):
    with pytest.raises(SettingError, match=message):
        Settings(**setting)


@pytest.mark.parametrize(("gamma", "omega"), [(0.1, 0.2), (0.1, 0.1), (1.0, 0.1)])
def test_gamma_and_omega(gamma, omega):
    problem = make_problem(seed=0)
    with pytest.raises(SettingError, match="0 < max_leak < min_hit < 1"):
        fw_eg(problem.train, problem.val, Accuracy(), min_hit=gamma, max_leak=omega)


@pytest.mark.parametrize("basis", ["soft", "overlapping"])
def test_constrained_probes_need_disjoint_groups(basis):
    problem = make_problem(seed=0, basis=basis)
    with pytest.raises(BasisError, match=r"disjoint groups.*fixed probes"):
        fw_eg(problem.train, problem.val, Accuracy(), min_hit=0.1, max_leak=0.01)


def test_a_group_that_lacks_a_class():
    problem = make_problem(seed=0)
    inside = (problem.train.phi[:, 1] == 1) & (problem.train.labels == 2)
    with pytest.raises(BasisError, match="group 1 has no training row of class 2"):
        fw_eg(problem.train.take(np.flatnonzero(~inside)), problem.val, Accuracy(), min_hit=0.1, max_leak=0.01)


def test_a_budget_too_small_for_one_iteration():
    problem = make_problem(seed=0)
    with pytest.raises(BudgetError, match=r"budget of 5 queries.*asks up to 8"):
        fw_eg(problem.train, problem.val, SoftOracle(np.mean), budget=5)


def test_kind_of_query():
    problem = make_problem(seed=0)
    engine = MemoryEngine(problem.train)
    with pytest.raises(SettingError, match="kind must be"):
        fw_eg_session(engine, problem.val, kind="firm")
    with pytest.raises(MetricError, match="need metric"):
        fw_eg_session(engine, problem.val, kind="confusion")
    with pytest.raises(SettingError, match="linearise='gradient' needs queries of kind 'confusion'"):
        fw_eg_session(engine, problem.val, kind="soft", linearise="gradient")


def test_an_oracle_of_another_kind():
    problem = make_problem(seed=0)
    run = fw_eg_session(MemoryEngine(problem.train), problem.val, kind="soft")
    with pytest.raises(MetricError, match="answers kind 'confusion' only"):
        ConfusionOracle(problem.val.labels, n_classes=3).answer(run.ask()[0])


def test_probes_that_change_nothing():
    with pytest.raises(SingularProbesError, match=r"none of the 2 probes.*rank 0.*give one that covers them"):
        solve(np.zeros((2, 2)), np.ones(2), n_bases=1)


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


@pytest.mark.parametrize("metric", ["accuracy", np.mean, None, SoftOracle])
def test_what_is_no_metric(metric):
    problem = make_problem(seed=0)
    with pytest.raises(MetricError, match=r"metric must be a function of the confusion matrix .* or an oracle"):
        fw_eg(problem.train, problem.val, metric)


def test_weights_that_a_oracle_would_not_see():
    problem = make_problem(seed=0, weighted=True)
    with pytest.raises(MetricError, match="belong to the oracle"):
        fw_eg(problem.train, problem.val, SoftOracle(np.mean))


def test_pi_ew_takes_no_max_iter():
    problem = make_problem(seed=0)
    with pytest.raises(SettingError, match="one iteration"):
        pi_ew(problem.train, problem.val, Accuracy(), max_iter=7)


def test_a_start_that_is_no_mixture():
    problem = make_problem(seed=0)
    rule = PlugIn(weighting="diagonal", alpha=np.ones((2, 3)), n_classes=3)
    with pytest.raises(SettingError, match=r"start must be a Mixture: Mixture\.of"):
        fw_eg(problem.train, problem.val, Accuracy(), start=rule)


def test_an_oracle_of_other_rows():
    problem = make_problem(seed=0)
    for labels, n_classes in ((np.arange(50) % 3, 3), (np.arange(60) % 5, 5)):
        with pytest.raises(ShapeError, match=r"60 validation rows and 3 classes; this oracle holds"):
            fw_eg(problem.train, problem.val, Accuracy(), oracle=ConfusionOracle(labels, n_classes=n_classes))


def test_a_reward_matrix_of_another_size():
    problem = make_problem(seed=0)
    with pytest.raises(ShapeError, match=r"shape \(2, 2\), but there are 3 classes: make it for shape \(3, 3\)"):
        fw_eg(problem.train, problem.val, ExpectedReward(np.eye(2)))


@pytest.mark.parametrize(
    ("alpha", "weighting"),
    [
        (np.ones((1, 1)), "diagonal"),
        (np.full((1, 3), np.nan), "diagonal"),
        (np.full((1, 3), 1e200), "diagonal"),  # scores would overflow
        (np.ones((1, 3)), "full"),
        (np.ones((0, 3)), "diagonal"),
    ],
)
def test_coefficients_that_are_no_rule(alpha, weighting):
    with pytest.raises(ShapeError, match="alpha must hold finite numbers"):
        PlugIn(weighting=weighting, alpha=alpha, n_classes=3)


def test_nobody_can_change_what_others_rely_on():
    """A metric that writes into what it is shown writes into its own copy, and the run is unharmed."""
    problem = make_problem(seed=0)

    def polite(table):
        return table[problem.val.labels == 0, 0].mean() * table[problem.val.labels == 1, 1].mean()

    def rude(table):
        found = polite(table)
        table[:] = 0
        return found

    class Rude(GMean):
        def value(self, confusion):
            found = GMean.value(self, confusion)
            confusion /= confusion.sum(axis=-1, keepdims=True) + 1
            return found

    for first, second in ((SoftOracle(polite), SoftOracle(rude)), (GMean(), Rude())):
        one, two = (fw_eg(problem.train, problem.val, metric, max_iter=3) for metric in (first, second))
        np.testing.assert_array_equal(
            one.mixture.distribution(problem.val.eta, problem.val.phi),
            two.mixture.distribution(problem.val.eta, problem.val.phi),
        )


def test_a_probe_that_empties_an_entry_leaves_no_negative_share():
    class Rooted(GMean):
        def value(self, confusion):
            assert (confusion >= 0).all()
            return np.sqrt(confusion).sum(axis=(-1, -2))

    for seed in range(20):
        problem = make_problem(seed=seed, basis="hard", n_bases=1 + seed % 3, weighted=True)
        for weighting in ("diagonal", "full"):
            fw_eg(problem.train, problem.val, Rooted(), radius=1.0, weighting=weighting, max_iter=3)


def test_predicting_with_another_shape():
    rule = PlugIn(weighting="diagonal", alpha=np.ones((2, 2)), n_classes=2)
    with pytest.raises(ShapeError, match=r"shapes \(n, 2\) and \(n, 2\)"):
        rule.labels(ETA, np.ones((4, 1)))

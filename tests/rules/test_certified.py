"""Rules with a guarantee: the walk, the rows that test, what is refused, and how often a certificate is wrong."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from postshift import Rows
from postshift.constraints import Constraint, Value
from postshift.constraints.p_values import proportion_p_value
from postshift.constraints.pieces import resolve_constraint
from postshift.core.queries import without_queries
from postshift.core.rows import CONSTANT
from postshift.exceptions import MetricError, NotCertifiedError, WeightError
from postshift.metrics import Accuracy, ExpectedCost, Precision, Recall, from_confusion
from postshift.metrics.over_groups import PooledMetric
from postshift.rules import Problem
from postshift.rules.certified import (
    Certificate,
    Evidence,
    Given,
    Unlabelled,
    certified_rule,
    certify,
    check_certifiable,
    make_path,
)
from postshift.rules.constrained_program import ConstrainedProgram, Expectation, RateObjective
from postshift.rules.posterior import Identity
from tests.rules.posteriors import drawn

PRECISION, RECALL = Precision(average="binary"), Recall(average="binary")


def limits(*texts, n_classes=2, n_groups=None):
    return [
        resolve_constraint(
            Constraint.read(each) if isinstance(each, str) else each, classes=np.arange(n_classes), n_groups=n_groups
        )
        for each in texts
    ]


def some(data, rows):
    return SimpleNamespace(eta=data.eta[rows], labels=data.labels[rows], groups=data.groups[rows])


def rows_of(data, *, with_groups=False, labelled=True):
    bases = {"phi": np.eye(2)[data.groups]} if with_groups else None
    return Rows.of(data.eta, bases=bases, labels=data.labels if labelled else None)


def problem_of(data, metric, *, with_groups=False):
    if with_groups:
        metric = PooledMetric(inner=metric, n_groups=2, n_classes=data.eta.shape[1])
    groups = data.groups if with_groups else None
    return Problem.labelled(None, rows_of(data, with_groups=with_groups), metric, groups=groups)


def path_of(data, metric, constraints, *, n_rows, delta, with_groups=False):
    """A path made from rows without their labels."""
    if with_groups:
        metric = PooledMetric(inner=metric, n_groups=2, n_classes=data.eta.shape[1])
    basis = "phi" if with_groups else CONSTANT
    rows = rows_of(data, with_groups=with_groups, labelled=False).over(basis)
    expectation = Expectation.of(rows, data.groups if with_groups else None, n_groups=2 if with_groups else 1)
    program = ConstrainedProgram(expectation, RateObjective.of(metric), constraints)
    return make_path(program, basis=basis, posterior=Identity(), n_rows=n_rows, delta=delta)


def warped(data, *, odds=1.0):
    """The model's probabilities are wrong: its odds of the last class are multiplied."""
    eta = data.eta * np.array([1.0] * (data.eta.shape[1] - 1) + [odds])
    return SimpleNamespace(eta=eta / eta.sum(axis=1, keepdims=True), labels=data.labels, groups=data.groups)


def violations(population, metric, constraints, *, n_rows, delta, n_draws=300, with_groups=False, seed=0):
    """How often a rule is certified that violates a constraint on the whole population; and how often one is."""
    rng = np.random.default_rng(seed)
    path = path_of(
        some(population, slice(0, 2000)), metric, constraints, n_rows=n_rows, delta=delta, with_groups=with_groups
    )
    whole = problem_of(population, metric, with_groups=with_groups)
    holds = {
        id(each.rule): max(limit.miss(whole.label_confusion(each.rule.labels(whole.val))) for limit in constraints) <= 0
        for each in path
    }
    assert not all(holds.values())  # the path has rules that must not be accepted
    wrong = certified = 0
    for _ in range(n_draws):
        drawn_rows = rng.integers(len(population.eta), size=n_rows)
        try:
            rule, _ = certify(path, Evidence(problem=whole.take(drawn_rows)), constraints, confidence=1 - delta)
        except NotCertifiedError:
            continue
        certified += 1
        wrong += not holds[id(rule)]
    return wrong, certified


CELLS = {
    "recall": (drawn(0, n_rows=6000), PRECISION, ["recall[1] >= 0.8"], 1.0),
    "precision, the model is wrong": (drawn(1, n_rows=6000), RECALL, ["precision[1] >= 0.6"], 4.0),
    "rate, the model is wrong": (drawn(2, n_rows=6000), Accuracy(), ["rate[1] <= 0.2"], 3.0),
    "two constraints": (drawn(3, n_rows=6000), Accuracy(), ["recall[1] >= 0.7", "precision[1] >= 0.5"], 1.0),
    "three classes": (drawn(4, n_rows=6000, n_classes=3), Accuracy(), ["recall[2] >= 0.6"], 0.5),
    "f1": (drawn(5, n_rows=6000), RECALL, ["f1[1] >= 0.6"], 1.0),
    "cost": (drawn(6, n_rows=6000), PRECISION, [Value(ExpectedCost([[0.0, 1.0], [4.0, 0.0]])) <= 0.6], 1.0),
}


@pytest.mark.parametrize("cell", CELLS)
def test_a_certificate_is_wrong_at_most_as_often_as_it_says(cell):
    data, metric, texts, odds = CELLS[cell]
    n_classes = data.eta.shape[1]
    constraints, population = limits(*texts, n_classes=n_classes), warped(data, odds=odds)
    delta, n_draws = 0.1, 300
    wrong, certified = violations(population, metric, constraints, n_rows=300, delta=delta, n_draws=n_draws)
    assert stats.binomtest(wrong, n_draws, delta, alternative="greater").pvalue > 0.001
    assert certified > 0


def test_a_gap_is_certified_wrongly_about_as_often_as_it_says():
    """The test of a gap is asymptotic."""
    population = drawn(7, n_rows=6000, n_groups=2)
    constraints = limits("demographic_parity <= 0.1", n_groups=2)
    wrong, certified = violations(
        population, Accuracy(), constraints, n_rows=600, delta=0.1, n_draws=300, with_groups=True
    )
    assert stats.binomtest(wrong, 300, 0.12, alternative="greater").pvalue > 0.001
    assert certified > 30


@pytest.fixture(scope="module")
def certified():
    data, constraints = drawn(10, n_rows=1500), limits("recall[1] >= 0.7")
    problem = problem_of(data, PRECISION)
    unlabelled = Unlabelled(rows=rows_of(drawn(11, n_rows=2000), labelled=False))
    rule, certificate = certified_rule(
        problem, constraints, basis=CONSTANT, confidence=0.95, unlabelled=unlabelled, seed=0
    )
    return SimpleNamespace(
        data=data, constraints=constraints, problem=problem, unlabelled=unlabelled, rule=rule, certificate=certificate
    )


def test_the_certificate(certified):
    found, data = certified.certificate, certified.data
    labels = certified.rule.labels(certified.problem.val)
    hits, n_rows = int(np.sum((labels == 1) & (data.labels == 1))), int(np.sum(data.labels == 1))
    (test,) = found.tests
    assert (found.confidence, found.constraints, found.is_exact) == (0.95, ("recall[1] >= 0.7",), True)
    assert (test.n_rows, test.value) == (n_rows, pytest.approx(hits / n_rows))
    assert test.p_value == found.p_value == proportion_p_value(hits, n_rows, bound=0.7, at_least=True)
    assert found.p_value <= 0.05
    assert (found.n_rows, found.n_unlabelled) == (1500, 0)  # a recall needs labels
    assert 1 <= found.n_accepted <= found.n_tested <= found.n_path
    assert found.n_tested - found.n_accepted <= 1
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301


def test_the_same_seed_gives_the_same_rule(certified):
    again, certificate = certified_rule(
        certified.problem, certified.constraints, basis=CONSTANT, confidence=0.95, unlabelled=certified.unlabelled
    )
    assert certificate == certified.certificate
    np.testing.assert_array_equal(again.labels(certified.problem.val), certified.rule.labels(certified.problem.val))


def test_the_walk_stops_at_the_first_rule_that_is_not_accepted(certified):
    path = path_of(drawn(11, n_rows=1000), PRECISION, certified.constraints, n_rows=1500, delta=0.05)
    evidence = Evidence(problem=certified.problem)
    tested = [evidence.tested(each, certified.constraints) for each in path]
    passes = [each.p_value <= 0.05 for each in tested]
    n_accepted = passes.index(False) if False in passes else len(passes)
    rule, certificate = certify(path, evidence, certified.constraints, confidence=0.95)
    assert certificate.n_accepted == n_accepted
    assert rule is max(tested[:n_accepted], key=lambda each: each.value).rule
    # A refused rule in front stops it, whatever comes after.
    refused = [each for each, fine in zip(path, passes, strict=True) if not fine]
    assert refused
    with pytest.raises(NotCertifiedError):
        certify([refused[0], *path], evidence, certified.constraints, confidence=0.95)


def test_a_path_goes_from_cautious_to_bold(certified):
    path = path_of(drawn(12, n_rows=1000), PRECISION, certified.constraints, n_rows=300, delta=0.1)
    assert len(path) > 3
    assert [each.caution for each in path] == sorted((each.caution for each in path), reverse=True)
    values = [float(PRECISION.value(each.confusion)) for each in path]
    assert values == sorted(values)


def test_a_path_reaches_far_enough_for_a_model_that_is_badly_wrong():
    """Many rows have small standard errors: a few of them are not enough if the model is far too sure."""
    data, constraints = drawn(13, n_rows=6000), limits("precision[1] >= 0.8")
    logits = np.log(data.eta)
    wrong = SimpleNamespace(eta=softmax(3 * logits + [0.0, 3.0], axis=1), labels=data.labels, groups=data.groups)
    path = path_of(some(wrong, slice(0, 2000)), RECALL, constraints, n_rows=4000, delta=0.05)
    problem = problem_of(some(wrong, slice(2000, None)), RECALL)
    rule, certificate = certify(path, Evidence(problem=problem), constraints, confidence=0.95)
    assert certificate.n_tested < len(path)
    assert constraints[0].miss(problem.label_confusion(rule.labels(problem.val))) < 0


def test_labels_of_the_rows_that_test_do_not_make_the_path(certified):
    """Other labels of the same rows: another walk on the same rules."""
    other = Problem.labelled(None, replace(certified.problem.val, labels=1 - certified.problem.val.labels), PRECISION)
    try:
        rule, _ = certified_rule(
            other, certified.constraints, basis=CONSTANT, confidence=0.95, unlabelled=certified.unlabelled
        )
    except NotCertifiedError as error:
        rule = error.rule
    known = path_of(
        some(drawn(11, n_rows=2000), np.sort(np.random.default_rng(0).permutation(2000)[:1000])),
        PRECISION,
        certified.constraints,
        n_rows=1500,
        delta=1 - 0.95,
    )
    alphas = {member.alpha.tobytes() for each in known for member in each.rule.mixture.members}
    assert {each.mixture.members[0].alpha.tobytes() for each in (rule, certified.rule)} <= alphas


def test_without_other_rows_a_fifth_of_the_labelled_rows_makes_the_path(certified):
    _, certificate = certified_rule(certified.problem, certified.constraints, basis=CONSTANT, confidence=0.9)
    assert certificate.n_rows == 1200
    assert certificate.n_unlabelled == 0


def test_nothing_can_be_certified(certified):
    problem = certified.problem.take(np.arange(60))
    with pytest.raises(
        NotCertifiedError, match=r"nothing can be certified at confidence 0\.99 with 60 labelled rows"
    ) as e:
        certified_rule(
            problem, limits("recall[1] >= 0.9"), basis=CONSTANT, confidence=0.99, unlabelled=certified.unlabelled
        )
    error = e.value
    assert error.rule.labels(problem.val).shape == (60,)
    assert 0.01 < error.p_value <= 1
    assert error.rows_needed is None or error.rows_needed > 60
    assert f"p = {error.p_value:.3f}" in str(error)
    if error.rows_needed:
        assert f"{error.rows_needed:,} labelled rows" in str(error)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert str(again) == str(error)
    assert (again.p_value, again.rows_needed) == (error.p_value, error.rows_needed)


def test_a_rule_without_room_asks_for_no_rows():
    data = drawn(13, n_rows=2000)
    with pytest.raises(NotCertifiedError, match=r"relax"):
        certified_rule(
            problem_of(data, Accuracy()),
            limits("recall[1] >= 0.95", "precision[1] >= 0.95"),
            basis=CONSTANT,
            confidence=0.9,
        )


def test_a_class_without_labelled_rows_is_not_certified():
    """No row says how a class fares that has none, so nothing is promised about it."""
    data = drawn(14, n_rows=3000, n_classes=3)
    unlabelled = Unlabelled(rows=rows_of(data, labelled=False))
    few = some(data, data.labels != 2)
    with pytest.warns(match="class"):
        problem = problem_of(few, Accuracy())
    for text in ("min_recall >= 0.1", "recall[2] >= 0.1"):
        with pytest.raises(NotCertifiedError, match="on 0 rows") as caught:
            certified_rule(problem, limits(text, n_classes=3), basis=CONSTANT, confidence=0.9, unlabelled=unlabelled)
        assert caught.value.p_value == 1
        assert caught.value.rows_needed is None


def test_a_group_without_labelled_rows_is_not_certified():
    data = drawn(15, n_rows=2000, n_groups=2)
    problem = problem_of(data, Accuracy(), with_groups=True).take(np.flatnonzero(data.groups == 0))
    unlabelled = Unlabelled(rows=rows_of(data, with_groups=True, labelled=False), groups=data.groups, may_test=False)
    for text in ("demographic_parity <= 0.5", "equal_opportunity <= 0.5", "worst_group_accuracy >= 0.1"):
        with pytest.raises(NotCertifiedError) as caught:
            certified_rule(
                problem,
                limits(text, n_groups=2),
                basis="phi",
                confidence=0.9,
                unlabelled=unlabelled,
                n_groups=2,
            )
        assert caught.value.p_value == 1


def test_rows_without_labels_certify_a_rate(certified):
    few = certified.problem.take(np.arange(80))
    many = Unlabelled(rows=rows_of(drawn(16, n_rows=4000), labelled=False))
    rule, certificate = certified_rule(few, limits("rate[1] <= 0.2"), basis=CONSTANT, confidence=0.95, unlabelled=many)
    (test,) = certificate.tests
    assert (certificate.n_rows, certificate.n_unlabelled, test.n_rows) == (80, 2000, 2000)
    assert not test.name.startswith("recall")
    both, certificate = certified_rule(
        certified.problem,
        limits("rate[1] <= 0.5", "recall[1] >= 0.5"),
        basis=CONSTANT,
        confidence=0.95,
        unlabelled=many,
    )
    assert [test.n_rows for test in certificate.tests] == [2000, int(np.sum(certified.data.labels == 1))]
    assert rule.labels(few.val).shape == both.labels(few.val).shape


def test_rows_of_another_source_do_not_test(certified):
    other = Unlabelled(rows=rows_of(drawn(17, n_rows=6000), labelled=False), may_test=False)
    _, certificate = certified_rule(
        certified.problem, limits("rate[1] <= 0.3"), basis=CONSTANT, confidence=0.95, unlabelled=other
    )
    assert (certificate.n_unlabelled, certificate.tests[0].n_rows) == (0, 1500)


def test_fewer_rows_without_labels_than_with_them_do_not_test(certified):
    few = Unlabelled(rows=rows_of(drawn(18, n_rows=400), labelled=False))
    _, certificate = certified_rule(
        certified.problem, limits("rate[1] <= 0.3"), basis=CONSTANT, confidence=0.95, unlabelled=few
    )
    assert (certificate.n_unlabelled, certificate.tests[0].n_rows) == (0, 1500)


@pytest.mark.parametrize("with_groups", [True, False])
def test_gaps_and_rows_without_labels(with_groups):
    data, new = drawn(19, n_rows=1200, n_groups=2), drawn(20, n_rows=6000, n_groups=2)
    unlabelled = Unlabelled(
        rows=rows_of(new, with_groups=True, labelled=False), groups=new.groups if with_groups else None
    )
    _, certificate = certified_rule(
        problem_of(data, Accuracy(), with_groups=True),
        limits("demographic_parity <= 0.15", n_groups=2),
        basis="phi",
        confidence=0.9,
        unlabelled=unlabelled,
        n_groups=2,
    )
    assert not certificate.is_exact
    assert certificate.n_unlabelled == (3000 if with_groups else 0)
    assert certificate.n_rows == (1200 if with_groups else 960)  # without their groups, they cannot make the path
    sizes = np.bincount(new.groups) if with_groups else np.bincount(data.groups)
    assert all(test.n_rows < sizes.min() for test in certificate.tests)


def test_weights_are_refused(certified):
    weighted = replace(certified.problem, val=replace(certified.problem.val, weights=np.ones(1500)))
    with pytest.raises(WeightError, match="a guarantee needs validation rows without weights"):
        check_certifiable(weighted, certified.constraints)


NO_TEST = ("g_mean >= 0.5", "f1_macro >= 0.5", "balanced_accuracy >= 0.5", "matthews_corrcoef >= 0.1")


@pytest.mark.parametrize("constraint", [*NO_TEST, Value(from_confusion(lambda c: c[0, 0], name="own")) >= 0.1])
def test_constraints_without_a_test_are_refused(certified, constraint):
    with pytest.raises(
        MetricError, match=r"has no test and cannot be certified: leave confidence=\.\.\. out, or bound one of"
    ):
        certified_rule(certified.problem, limits(constraint), basis=CONSTANT, confidence=0.9)


@pytest.mark.parametrize("n_rows", [4, 8, 15])
def test_very_few_rows(n_rows):
    data = drawn(21, n_rows=60)
    rows = np.concatenate([np.flatnonzero(data.labels == k)[: n_rows // 2] for k in (0, 1)])
    with pytest.raises(NotCertifiedError):
        certified_rule(
            problem_of(some(data, rows), Accuracy()), limits("recall[1] >= 0.9"), basis=CONSTANT, confidence=0.95
        )


def test_a_rule_that_is_given(certified):
    given = Given(rule=certified.rule)
    assert (given.name, given.bound(certified.problem), given.usable(certified.problem)) == (
        "certified [constant]",
        0,
        True,
    )
    assert without_queries(given.fit(certified.problem)) is certified.rule
    assert isinstance(certified.certificate, Certificate)

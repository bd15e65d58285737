"""Each rule against something independent: a closed form, brute force, enumeration, the transcription."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from sklearn.linear_model import LogisticRegression

from postshift import Rows, fw_eg
from postshift.core.plugin import onehot
from postshift.core.queries import without_queries
from postshift.exceptions import NotFinishedError, SettingError
from postshift.metrics import Accuracy, ExpectedReward, GMean, MacroF1, MinRecall
from postshift.rules import (
    Base,
    ExpectedUtility,
    Influence,
    InversePrior,
    Paper,
    PluginSearch,
    Problem,
    SmoothedPlugin,
    Stacked,
    menu,
    rule_named,
)
from postshift.rules.posterior import centred_logs
from postshift.rules.search import _values_at, distinct_cuts
from postshift.rules.soft_weights import _expected_objective, _labelled_objective, softened
from tests.rules.helpers import answered, labelled, tables, value_of

METRICS = st.sampled_from([Accuracy(), GMean(), MacroF1()])


def test_base_is_the_argmax():
    problem = labelled(GMean())
    rule = without_queries(Base().fit(problem))
    np.testing.assert_array_equal(rule.labels(problem.val), problem.val.eta.argmax(axis=1))
    np.testing.assert_allclose(rule.scores(problem.val), problem.val.eta)


def test_inverse_prior_is_its_closed_form():
    problem = labelled(GMean())
    rule = without_queries(InversePrior().fit(problem))
    expected = (problem.val.eta / problem.train.eta.mean(axis=0)).argmax(axis=1)
    np.testing.assert_array_equal(rule.labels(problem.val), expected)


@given(seed=st.integers(0, 10**5), metric=METRICS)
def test_plug_in_search_with_two_classes_is_the_best_of_all_thresholds(seed, metric):
    """One coordinate is all there is: brute force over every distinct threshold finds nothing better."""
    problem = labelled(metric, seed, n_classes=2)
    rule = without_queries(PluginSearch().fit(problem))
    eta, labels = problem.val.eta, problem.val.labels
    ratio = eta[:, 1] / eta[:, 0]
    cuts = np.concatenate([[0], np.sort(ratio) * (1 + 1e-12), [np.inf]])
    best = max(value_of(metric, labels, (ratio > cut).astype(int)) for cut in cuts[:-1])
    assert value_of(metric, labels, rule.labels(problem.val)) == pytest.approx(best, rel=1e-12)


@given(seed=st.integers(0, 10**5), metric=METRICS, n_classes=st.integers(3, 4))
def test_plug_in_search_is_a_coordinate_optimum(seed, metric, n_classes):
    """A fine grid along any single weight brings nothing more, and the search ends no worse than it began."""
    problem = labelled(metric, seed, n_classes=n_classes)
    search = PluginSearch(max_sweeps=20)
    rule = without_queries(search.fit(problem))
    eta, labels = problem.val.eta, problem.val.labels
    weights = rule.mixture.members[0].alpha[0]
    found = value_of(metric, labels, rule.labels(problem.val))
    assert found >= value_of(metric, labels, eta.argmax(axis=1)) - 1e-12
    for label in range(n_classes):
        for factor in np.exp(np.linspace(-4, 4, 81)):
            tried = weights.copy()
            tried[label] *= factor
            assert value_of(metric, labels, (tried * eta).argmax(axis=1)) <= found + 1e-12


@given(seed=st.integers(0, 10**5))
def test_every_cut_gives_another_prediction(seed):
    eta = np.random.default_rng(seed).dirichlet(np.ones(3), size=12)
    weights = np.array([1.0, 2.0, 0.5])
    cuts = distinct_cuts(weights, eta, 1)
    seen = set()
    for cut in cuts:
        tried = weights.copy()
        tried[1] = cut
        seen.add(tuple((tried * eta).argmax(axis=1) == 1))
    assert len(seen) == len(cuts) == 13


@given(seed=st.integers(0, 10**5))
def test_the_search_believes_what_its_weights_give(seed):
    """Probabilities in tenths: ratios that differ by rounding only are one cut."""
    rng = np.random.default_rng(seed)
    eta = rng.multinomial(10, np.ones(3) / 3, size=60) / 10
    labels = rng.integers(3, size=60)
    labels[:3] = [0, 1, 2]
    problem = Problem.labelled(None, Rows.of(eta, labels=labels), GMean())
    for label in range(3):
        weights = np.array([1.0, 1.3, 0.7])
        cuts = distinct_cuts(weights, eta, label)
        values = without_queries(_values_at(problem, weights, label, cuts))
        for cut, value in zip(cuts, values, strict=True):
            weights[label] = cut
            assert value == pytest.approx(value_of(GMean(), labels, (weights * eta).argmax(axis=1)), abs=1e-12)


def test_probabilities_beyond_all_measure():
    eta = np.column_stack([np.full(40, 1e-200), np.linspace(1e-180, 1e-3, 40), np.ones(40)])
    eta /= eta.sum(axis=1, keepdims=True)
    problem = Problem.labelled(None, Rows.of(eta, labels=np.arange(40) % 3), GMean())
    assert np.isfinite(without_queries(PluginSearch().fit(problem)).mixture.members[0].alpha).all()


@pytest.mark.parametrize("objective", [_labelled_objective, _expected_objective])
@pytest.mark.parametrize("metric", [Accuracy(), GMean(), MacroF1(), MinRecall()])
def test_soft_weights_have_the_right_gradient(objective, metric):
    problem = labelled(metric, 3)
    value = objective(problem)
    theta = np.array([0.3, -0.2, 0.1])
    expected = approx_fprime(theta, lambda point: value(point)[0], 1e-6)
    np.testing.assert_allclose(value(theta)[1], expected, atol=1e-5)


def test_smoothed_plug_in_beats_a_grid_of_softened_weights():
    problem = labelled(GMean(), 4, n_classes=2)
    rule = without_queries(SmoothedPlugin().fit(problem))
    weights = np.log(rule.mixture.members[0].alpha[0])
    found = value_of(GMean(), problem.val.labels, softened(problem.val.eta, weights))
    for shift in np.linspace(-3, 3, 121):
        theta = np.array([-shift / 2, shift / 2])
        assert value_of(GMean(), problem.val.labels, softened(problem.val.eta, theta)) <= found + 1e-6


def test_expected_utility_against_enumeration():
    """Four rows: the expected confusion matrix is the mean over all labellings drawn from the posterior."""
    eta = np.array([[0.7, 0.3], [0.2, 0.8], [0.55, 0.45], [0.9, 0.1]])
    val = Rows.of(eta, labels=[0, 1, 1, 0])
    problem = Problem.labelled(None, val, ExpectedReward([[1.0, 0.0], [0.2, 3.0]]))
    theta = np.array([0.1, -0.1])
    table = softened(eta, theta)
    expected = 0.0
    for labels in product(range(2), repeat=4):
        chance = np.prod(eta[np.arange(4), labels])
        expected += chance * float(problem.metric.value(onehot(np.array(labels), n_classes=2).T @ table / 4))
    assert _expected_objective(problem)(theta)[0] == pytest.approx(expected)


def test_expected_utility_of_a_linear_metric_is_close_to_the_bayes_rule():
    """For a diagonal reward the best plug-in weights are the rewards; only rows at the border may differ."""
    rng = np.random.default_rng(0)
    eta = rng.dirichlet(np.ones(3), size=4000)
    labels = np.array([rng.choice(3, p=row) for row in eta])
    reward = np.array([1.0, 2.0, 4.0])
    problem = Problem.labelled(None, Rows.of(eta, labels=labels), ExpectedReward(np.diag(reward)))
    rule = without_queries(ExpectedUtility().fit(problem))
    assert (rule.labels(problem.val) == (reward * eta).argmax(axis=1)).mean() > 0.95


def test_the_stack_is_scikit_learns_regression():
    problem = labelled(GMean(), 5, n_val=200)
    rule = without_queries(Stacked().fit(problem))
    model = LogisticRegression(C=1.0, max_iter=5000, tol=1e-8).fit(centred_logs(problem.val.eta), problem.val.labels)
    expected = model.predict_proba(centred_logs(problem.train.eta))
    np.testing.assert_allclose(rule.scores(problem.train), expected, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_stack_with_a_class_unseen_in_validation(n_classes):
    train, val = tables(6, n_classes=n_classes + 1)
    kept = val.take(np.flatnonzero(val.labels != 1))
    with pytest.warns(UserWarning, match="class 1"):
        problem = Problem.labelled(train, kept, Accuracy())
    rule = without_queries(Stacked().fit(problem))
    assert (rule.scores(train)[:, 1] == 0).all()
    np.testing.assert_allclose(rule.scores(train).sum(axis=1), 1)


@pytest.mark.parametrize("basis", ["constant", "user"])
def test_the_paper_rule_is_the_paper_method(basis):
    problem = labelled(GMean(), 7, n_val=300)
    rule = without_queries(Paper(basis).fit(problem))
    fit = fw_eg(problem.train.over(basis), problem.val.over(basis), GMean())
    known = np.stack([member.alpha for member in fit.mixture.members])
    for member in rule.mixture.members:  # the sums of rows at hand are added in another order
        assert np.isclose(known, member.alpha, rtol=1e-9).all(axis=(1, 2)).any()
    assert len(rule.mixture.members) in (1, len(fit.mixture.members))  # all of them, or the best one for labels


def test_names():
    problem = labelled(GMean())
    assert rule_named("stack + influence [user]", problem) == Stacked(Influence("user"))
    assert rule_named("PI-EW [constant]", problem) == Paper(max_iter=1)
    with pytest.raises(SettingError, match="there is no method 'stuck'"):
        rule_named("stuck", problem)


def test_the_menu_with_and_without_labels():
    problem = labelled(GMean())
    assert [rule.name for rule in menu(problem)] == [
        "base",
        "inverse prior",
        "smoothed plug-in",
        "stack",
        "stack + smoothed plug-in",
        "stack + expected utility",
        "influence [constant]",
        "stack + influence [constant]",
        "influence [user]",
        "stack + influence [user]",
    ]
    for kind, names in (("soft", 4), ("hard", 3)):
        queried = Problem.queried(problem.train, problem.val, kind=kind)
        assert len(menu(queried)) == names


def test_a_fit_that_must_ask():
    train, val = tables()
    queried = Problem.queried(train, val, kind="soft")
    with pytest.raises(NotFinishedError, match="run it in a Session"):
        without_queries(Influence().fit(queried))


ASKING = [PluginSearch(), SmoothedPlugin(), Influence("user", 3), Paper("user", max_iter=3)]


def test_smoothed_plug_ins_need_the_value_of_soft_predictions():
    train, val = tables()
    assert not SmoothedPlugin().usable(Problem.queried(train, val, kind="hard"))


@pytest.mark.parametrize(
    ("rule", "kind"),
    [*((rule, "soft") for rule in ASKING), *((rule, "hard") for rule in ASKING if rule != SmoothedPlugin())],
)
def test_by_queries_alone_within_the_bound(rule, kind):
    train, val = tables(8, n_val=200)
    queried = Problem.queried(train, val, kind=kind)
    assert rule.usable(queried)
    found, session = answered(lambda: rule.fit(queried), GMean(), val.labels)
    assert session.n_queries <= rule.bound(queried)
    base = value_of(GMean(), val.labels, val.eta.argmax(axis=1))
    assert value_of(GMean(), val.labels, found.labels(val)) > base - 0.05


def test_influence_by_soft_queries_equals_influence_by_confusion_matrices():
    problem = labelled(GMean(), 9)
    queried = Problem.queried(problem.train, problem.val, kind="soft")
    rule = Influence("user", 4)
    one = without_queries(rule.fit(problem))
    two, _ = answered(lambda: rule.fit(queried), GMean(), problem.val.labels)
    if len(one.mixture.members) == len(two.mixture.members):  # the same way to labels was chosen
        np.testing.assert_allclose(one.mixture.members[-1].alpha, two.mixture.members[-1].alpha, rtol=1e-6)
    np.testing.assert_array_equal(
        one.mixture.members[0].labels(problem.val.eta, problem.val.bases["user"]).shape, problem.val.labels.shape
    )

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from postshift import Mixture, PlugIn, Rows
from postshift.core.queries import without_queries
from postshift.exceptions import ExportError, ShapeError
from postshift.metrics import GMean, MacroF1, MinRecall
from postshift.persistence import phi_inputs, rule_to_onnx
from postshift.rules import Choice, FittedRule, rule_named
from postshift.rules.choice import AveragedRule
from tests.persistence.helpers import averaged_rules, random_stack, random_table, run, run_rule, short_menu
from tests.rules.helpers import labelled

MANY = 10_000


def alone(rule):
    return AveragedRule(rules=(rule,), weights=np.ones(1))


def plug_in(alpha, *, weighting="diagonal", n_classes=3, **rest):
    member = PlugIn(weighting=weighting, alpha=alpha, n_classes=n_classes)
    return FittedRule(name="given", mixture=Mixture.of([member], [1.0]), **rest)


def assert_same(rule, table):
    classes = np.arange(table.n_classes) * 10
    found = run_rule(rule, table, classes)
    np.testing.assert_array_equal(found["label"], classes[rule.labels(table)])
    np.testing.assert_allclose(found["distribution"], rule.distribution(table), rtol=0, atol=1e-12)


@settings(max_examples=150, deadline=None)
@given(averaged_rules())
def test_graph_of_any_rule_labels_as_numpy_does(drawn):
    rule, rng = drawn
    assert_same(rule, random_table(rng, 300, rule.rules[0].mixture.n_classes))


@pytest.mark.parametrize(
    ("metric", "how"), [(GMean(), "average"), (MacroF1(), "best"), (MinRecall(), "average")], ids=str
)
def test_chosen_rule_on_many_rows(metric, how):
    problem = labelled(metric, basis="overlapping", n_bases=2)
    rule = without_queries(Choice(how=how, entries=short_menu(), n_folds=2).fit(problem)).rule
    rng = np.random.default_rng(1)
    eta = rng.dirichlet(np.ones(3), size=MANY)
    assert_same(rule, Rows.of(eta, bases={"user": np.column_stack([np.ones(MANY), rng.random(MANY) < 0.5])}))


@pytest.mark.parametrize("name", ["base", "stack", "influence [user]", "stack + influence [user]", "FW-EG [user]"])
def test_single_rules_on_many_rows(name):
    problem = labelled(GMean(), basis="overlapping", n_bases=3)
    rule = alone(without_queries(rule_named(name, problem).fit(problem)))
    rng = np.random.default_rng(2)
    phi = np.column_stack([np.ones(MANY), rng.random((MANY, 2)) < 0.5])
    assert_same(rule, Rows.of(rng.dirichlet(np.ones(3), size=MANY), bases={"user": phi}))


def test_ties_go_to_the_first_class():
    eta = np.array([[0.25, 0.5, 0.25], [0.5, 0.25, 0.25], [0.25, 0.375, 0.375], [0.0, 0.5, 0.5]])
    table = Rows.of(eta, bases={"user": np.array([[1.0, 0], [0, 1], [0.5, 0.5], [0.25, 0.75]])})
    rules = [
        plug_in([[2.0, 1.0, 2.0]]),
        plug_in([[1.0, 1.0, 1.0, 0.25, 0.0, 0.25]], weighting="columns"),
        plug_in(np.ones((1, 9)), weighting="full"),
        plug_in(np.ones((2, 9)), weighting="full", basis="user"),
        plug_in([[1.0, 1.0, 2.0], [2.0, 1.0, 1.0]], basis="user"),
    ]
    for rule in rules:
        assert_same(alone(rule), table)
    members = [plug_in(alpha).mixture.members[0] for alpha in ([[4.0, 1.0, 1.0]], [[1.0, 1.0, 9.0]])]
    halves = Mixture.of(members, [0.5, 0.5])
    assert_same(alone(replace(rules[0], mixture=halves)), table)
    assert_same(AveragedRule(rules=tuple(rules), weights=np.full(5, 0.2)), table)


def test_rows_without_any_weight_get_even_scores():
    rules = (plug_in([[0.0, 0.0, 1.0]]), plug_in([[0.0, 1.0, 1.0]]))
    table = Rows.of(np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]))
    assert_same(AveragedRule(rules=rules, weights=np.array([0.5, 0.5])), table)


def test_label_of_a_row_does_not_depend_on_its_company():
    rng = np.random.default_rng(3)
    rules = (plug_in([[-1.0, 2.0, 1.0], [3.0, 1.0, 1.0], [1.0, 1.0, 1.0]], basis="user"), plug_in([[1.0, 1.0, 1.0]]))
    rule = AveragedRule(rules=rules, weights=np.array([0.6, 0.4]))
    table = random_table(rng, 40, 3)
    together = run_rule(rule, table, [0, 1, 2])["label"]
    apart = [run_rule(rule, table.take(np.array([row])), [0, 1, 2])["label"][0] for row in range(40)]
    np.testing.assert_array_equal(together, apart)


def test_phi_is_divided_by_its_row_sums_inside():
    rng = np.random.default_rng(4)
    table = random_table(rng, 50, 3)
    rule = alone(plug_in(rng.uniform(size=(4, 6)), weighting="columns", basis="soft one"))
    model = rule_to_onnx(rule, [0, 1, 2])
    raised = {"eta": table.eta, "phi_soft_one": 2 * table.functions("soft one")}
    np.testing.assert_array_equal(run(model, raised)["label"], rule.labels(table))


@pytest.mark.parametrize(
    ("classes", "kind"),
    [(["a", "b", "ü"], str), (np.array(["x", "y", "z"], dtype=object), str), ([5, 7, 9], int), ([0.5, 1, 2], float)],
)
def test_labels_are_the_users_classes(classes, kind):
    table = Rows.of(np.eye(3))
    found = run_rule(alone(plug_in([[1.0, 1, 1]])), table, classes)["label"].tolist()
    assert found == list(classes)
    assert all(isinstance(value, kind) for value in found)


def test_names_of_bases_are_made_safe_and_stay_apart():
    rules = tuple(plug_in(np.ones((2, 3)), basis=name) for name in ("a b", "a/b", "a b", "a_b_1"))
    rule = AveragedRule(rules=rules, weights=np.full(4, 0.25))
    names = phi_inputs(rule)
    assert list(names) == ["a b", "a/b", "a_b_1"]
    assert len(set(names.values())) == 3
    assert [each.name for each in rule_to_onnx(rule, [0, 1, 2]).graph.input] == ["eta", *names.values()]


def test_stack_shared_by_rules_is_computed_once():
    stack = random_stack(np.random.default_rng(0), 3, 2)
    rules = tuple(plug_in([[1.0, weight, 1.0]], posterior=stack) for weight in (1.0, 2.0))
    model = rule_to_onnx(AveragedRule(rules=rules, weights=np.array([0.5, 0.5])), [0, 1, 2])
    assert sum(node.op_type == "Log" for node in model.graph.node) == 1


def test_what_has_no_graph_is_refused():
    with pytest.raises(ExportError, match="posterior function has no ONNX graph"):
        rule_to_onnx(alone(plug_in([[1.0, 1, 1]], posterior=lambda eta: eta)), [0, 1, 2])
    with pytest.raises(ExportError, match="strings or numbers"):
        rule_to_onnx(alone(plug_in([[1.0, 1, 1]])), np.array(["2020", "2021", "2022"], dtype="datetime64"))
    with pytest.raises(ShapeError, match="3 classes"):
        rule_to_onnx(alone(plug_in([[1.0, 1, 1]])), [0, 1])

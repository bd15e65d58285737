"""Random rules and tables, and what a graph makes of a table."""

from __future__ import annotations

import numpy as np
import onnxruntime
from hypothesis import strategies as st

from postshift import Mixture, PlugIn, Rows
from postshift.core.weighting import weighting_named
from postshift.persistence import phi_inputs, rule_to_onnx
from postshift.rules import Base, FittedRule, Influence, SmoothedPlugin, Stacked
from postshift.rules.choice import AveragedRule
from postshift.rules.posterior import Identity, Stack

SIZES = {"constant": 1, "user": 3, "soft one": 4}


def short_menu():
    """Entries of every kind, few iterations each."""
    loops = (Influence("constant", 6), Stacked(Influence("user", 6)))
    return (Base(), SmoothedPlugin(), Stacked(SmoothedPlugin()), *loops)


def run(model, feeds):
    """The outputs of a graph, by name."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    wanted = {each.name for each in session.get_inputs()}
    return dict(zip(names, session.run(names, {k: v for k, v in feeds.items() if k in wanted}), strict=True))


def run_rule(rule, table, classes):
    """The outputs of a rule's graph for a table."""
    feeds = {name: table.functions(basis) for basis, name in phi_inputs(rule).items()}
    return run(rule_to_onnx(rule, classes), {"eta": table.eta, **feeds})


def random_table(rng, n_rows, n_classes):
    """Probabilities, some of them 0, over a hard and a soft basis."""
    eta = rng.dirichlet(np.full(n_classes, 0.7), size=n_rows)
    eta[rng.random(n_rows) < 0.1] = np.eye(n_classes)[0]
    hard = np.eye(3)[rng.integers(3, size=n_rows)]
    return Rows.of(eta, bases={"user": hard, "soft one": rng.uniform(0.3, 1, size=(n_rows, 4))})


def random_stack(rng, n_classes, n_seen):
    seen = np.sort(rng.choice(n_classes, size=n_seen, replace=False))
    return Stack(rng.normal(size=(n_classes, n_seen)), rng.normal(size=n_seen), seen)


@st.composite
def fitted_rules(draw, rng, n_classes):
    """A rule of any posterior, weighting, basis, labelling and sign."""
    weighting = draw(st.sampled_from(["diagonal", "columns", "full", "entries 0-1 1-1"]))
    basis = draw(st.sampled_from(list(SIZES)))
    n_members = draw(st.integers(1, 4))
    shape = (SIZES[basis], weighting_named(weighting).n_terms(n_classes))
    alphas = [rng.normal(size=shape) for _ in range(n_members)]
    if draw(st.booleans()):
        alphas = [np.abs(alpha) for alpha in alphas]
    members = [PlugIn(weighting=weighting, alpha=alpha, n_classes=n_classes) for alpha in alphas]
    n_seen = draw(st.integers(0, n_classes))
    return FittedRule(
        name="drawn",
        mixture=Mixture.of(members, rng.dirichlet(np.ones(n_members))),
        posterior=random_stack(rng, n_classes, n_seen) if n_seen else Identity(),
        basis=basis,
        labelling=draw(st.sampled_from(["votes", "scores"])),
        scales=draw(st.sampled_from([None, rng.uniform(0.1, 2, size=n_members)])),
    )


@st.composite
def averaged_rules(draw):
    """An average of one to three rules, and the generator it was drawn with."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n_classes, n_rules = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    rules = tuple(draw(fitted_rules(rng, n_classes)) for _ in range(n_rules))
    return AveragedRule(rules=rules, weights=rng.dirichlet(np.ones(n_rules)), votes=draw(st.booleans())), rng

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from postshift import Mixture, PlugIn, Rows
from postshift.basis import TreeBasis
from postshift.core.queries import without_queries
from postshift.exceptions import ExportError, PostshiftWarning
from postshift.metrics import GMean
from postshift.persistence import phi_inputs, to_onnx
from postshift.rules import Base, Choice, FittedRule, Influence, Problem, SmoothedPlugin, Stacked
from postshift.rules.choice import AveragedRule
from tests.persistence.helpers import run

NAMES = np.array(["low", "middle", "top"])
MANY = 10_000
MENU = (Base(), SmoothedPlugin(), Stacked(SmoothedPlugin()), Influence("constant", 6))


def data(n_classes=3):
    return make_classification(
        n_samples=MANY + 600, n_features=6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=0
    )


def table_of(fitted, X, y=None):
    bases = {name: basis.transform(X) for name, basis in fitted.bases_.items()}
    return Rows.of(fitted.estimator_.predict_proba(X), bases=bases, labels=y)


def fitted(estimator, *, bases=None, entries=None, n_classes=3):
    """What an estimator has after fit, and rows it has not seen."""
    X, y = data(n_classes)
    model = clone(estimator).fit(X[:400], NAMES[y[:400]])
    made = SimpleNamespace(estimator_=model, bases_=bases or {}, classes_=NAMES[:n_classes])
    for basis in made.bases_.values():
        basis.fit(X[:400], y[:400])
    rows = slice(400, 600)
    problem = Problem.labelled(table_of(made, X[:400]), table_of(made, X[rows], y[rows]), GMean())
    made.rule_ = without_queries(Choice(entries=entries or MENU, n_folds=2).fit(problem)).rule
    return made, X[600:]


def assert_same(made, X, found, *, share=1.0):
    table = table_of(made, X)
    same = found["label"] == made.classes_[made.rule_.labels(table)]
    assert same.mean() >= share
    if share == 1:
        np.testing.assert_allclose(found["distribution"], made.rule_.distribution(table), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(MinMaxScaler(), GaussianNB()),
        MLPClassifier(max_iter=300, random_state=0, tol=1e-2),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_graph_from_features_labels_as_the_model_does(estimator, n_classes):
    made, X = fitted(estimator, n_classes=n_classes)
    graph = to_onnx(made)
    assert [each.name for each in graph.graph.input] == ["X"]
    assert_same(made, X, run(graph, {"X": X}))


def test_frozen_model_is_converted():
    made, X = fitted(LogisticRegression())
    made.estimator_ = FrozenEstimator(made.estimator_)
    assert_same(made, X, run(to_onnx(made), {"X": X}))


def test_columns_of_the_model_are_put_in_the_places_of_all_classes():
    X, y = data(2)
    model = LogisticRegression().fit(X[:400], NAMES[y[:400] + 1])
    rng = np.random.default_rng(0)
    mixture = Mixture.of([PlugIn(weighting="full", alpha=rng.normal(size=(1, 9)), n_classes=3)], [1.0])
    rule = AveragedRule(rules=(FittedRule(name="given", mixture=mixture),), weights=np.ones(1))
    found = run(to_onnx(SimpleNamespace(estimator_=model, classes_=NAMES, rule_=rule)), {"X": X})
    eta = np.column_stack([np.zeros(len(X)), model.predict_proba(X)])
    np.testing.assert_array_equal(found["label"], NAMES[rule.labels(Rows.of(eta))])
    with pytest.warns(PostshiftWarning, match="not among"):
        to_onnx(SimpleNamespace(estimator_=model, classes_=np.array(["low", "middle", "high"]), rule_=rule))


def test_basis_that_is_not_there_stays_an_input():
    made, X = fitted(LogisticRegression(), bases={"leaves": TreeBasis()}, entries=(Influence("leaves"),))
    assert [each.name for each in to_onnx(made, X).graph.input] == ["X"]
    phi = made.bases_.pop("leaves").transform(X)
    with pytest.warns(PostshiftWarning, match=r"an input 'phi_leaves'.*bases_\['leaves'\].transform"):
        graph = to_onnx(made, X)
    table = Rows.of(made.estimator_.predict_proba(X), bases={"leaves": phi})
    found = run(graph, {"X": X, "phi_leaves": phi})
    np.testing.assert_array_equal(found["label"], made.classes_[made.rule_.labels(table)])


def test_basis_with_a_graph_is_joined_too():
    made, X = fitted(LogisticRegression())
    made.bases_ = {"scaled": MinMaxScaler(clip=True).fit(X)}
    rng = np.random.default_rng(0)
    mixture = Mixture.of([PlugIn(weighting="full", alpha=rng.normal(size=(6, 9)), n_classes=3)], [1.0])
    rule = FittedRule(name="given", mixture=mixture, basis="scaled")
    made.rule_ = AveragedRule(rules=(rule,), weights=np.ones(1))
    graph = to_onnx(made, X)
    assert [each.name for each in graph.graph.input] == ["X"]
    assert_same(made, X, run(graph, {"X": X}))


@pytest.mark.parametrize(
    ("estimator", "n_classes", "why"),
    [
        (LGBMClassifier(n_estimators=3, verbose=-1), 3, "LGBMClassifier"),
        (LinearDiscriminantAnalysis(), 2, "differs by .*, more than the tolerance"),
        (RandomForestClassifier(5, random_state=0), 3, "single precision"),
    ],
    ids=["unknown", "wrong", "rounded"],
)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_model_that_has_no_good_graph_leaves_one_from_eta(estimator, n_classes, why):
    made, X = fitted(estimator, n_classes=n_classes)
    with pytest.warns(PostshiftWarning, match=f"begins with eta.*{why}"):
        graph = to_onnx(made, X[:500])
    table = table_of(made, X)
    feeds = {name: table.functions(basis) for basis, name in phi_inputs(made.rule_).items()}
    assert_same(made, X, run(graph, {"eta": table.eta, **feeds}))


@pytest.mark.parametrize(
    "estimator",
    [RandomForestClassifier(5, random_state=0), GradientBoostingClassifier(n_estimators=5)],
    ids=["rf", "gb"],
)
def test_trees_pass_with_a_tolerance_for_single_precision(estimator):
    made, X = fitted(estimator)
    graph = to_onnx(made, X, tolerance=1e-6)
    assert [each.name for each in graph.graph.input] == ["X"]
    assert_same(made, X, run(graph, {"X": X}), share=0.999)


def test_data_frame_with_names_and_strings_has_an_input_per_column():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 9, 900), "city": rng.choice(["a", "b", "c"], 900)})
    y = np.where(frame["age"] + 10 * (frame["city"] == "a") + rng.normal(0, 5, 900) > 45, 20, 10)
    columns = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(sparse_output=False), ["city"]))
    model = make_pipeline(columns, LogisticRegression()).fit(frame, y)
    mixture = Mixture.of([PlugIn(weighting="diagonal", alpha=[[1.0, 3.0]], n_classes=2)], [1.0])
    rule = AveragedRule(rules=(FittedRule(name="given", mixture=mixture),), weights=np.ones(1))
    made = SimpleNamespace(estimator_=model, bases_={}, classes_=np.array([10, 20]), rule_=rule)
    graph = to_onnx(made, frame)
    feeds = {"age": frame[["age"]].to_numpy(), "city": frame[["city"]].to_numpy().astype(object)}
    assert_same(made, frame, run(graph, feeds))
    with pytest.warns(PostshiftWarning, match="number of features|tested on these rows"):
        to_onnx(made)
    renamed = SimpleNamespace(**{**vars(made), "estimator_": model})
    with pytest.warns(PostshiftWarning, match=r"\['label'\] are reserved in the graph"):
        to_onnx(renamed, frame.rename(columns={"age": "label"}))


class Odd(TransformerMixin, BaseEstimator):
    """A model without a number of features."""

    classes_ = NAMES


def test_model_that_does_not_say_its_features_needs_rows():
    made, _ = fitted(LogisticRegression())
    made.estimator_ = Odd()
    with pytest.warns(PostshiftWarning, match="give some rows as X"):
        to_onnx(made)


def test_arrays_only_give_the_rules_graph_and_what_is_not_fitted_is_refused():
    made, _ = fitted(LogisticRegression())
    arrays_only = SimpleNamespace(classes_=made.classes_, rule_=made.rule_)
    assert [each.name for each in to_onnx(arrays_only).graph.input] == ["eta"]
    with pytest.raises(ExportError, match="fit it first"):
        to_onnx(LogisticRegression())

"""The estimators themselves: what comes back from a file, and what a graph gives, on rows they have not seen."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree._tree import Tree

from postshift import PostShiftClassifier, PostShifter
from postshift.basis import GroupBasis, RBFBasis, TreeBasis, UnionBasis
from postshift.constraints import Recall
from postshift.exceptions import ArchiveError, ExportError, PostshiftWarning, UntrustedError
from postshift.persistence import dump, load, to_onnx
from tests.estimators.data import noisy
from tests.persistence.helpers import run

MANY = 10_000
NAMES = np.array(["low", "middle", "top"])
DATA = noisy(3)
ROWS = np.random.default_rng(0).normal(scale=2, size=(MANY, DATA.X.shape[1]))
SUFFIXES = ("skops", "joblib")
PLACES = np.arange(3)
QUICK = "influence [groups]"


def fitted(estimator=None, *, names=PLACES, X=DATA.X, X_val=DATA.X_val, **settings):
    model = PostShiftClassifier(LogisticRegression() if estimator is None else estimator, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PostshiftWarning)
        return model.fit(X, names[DATA.y], X_val, names[DATA.y_val])


@pytest.fixture(scope="module")
def models():
    return {
        "default": fitted(),
        "paper": fitted(method="paper"),
        "strings": fitted(names=NAMES, metric="g_mean", method="best"),
        "tree alone": fitted(names=NAMES, metric="min_recall", method="influence [tree]"),
    }


every_model = pytest.mark.parametrize("name", ["default", "paper", "strings", "tree alone"])


def assert_same(again, model, *rows):
    np.testing.assert_array_equal(again.predict(*rows), model.predict(*rows))
    np.testing.assert_array_equal(again.predict_distribution(*rows), model.predict_distribution(*rows))


def assert_graph_agrees(found, model, *rows):
    np.testing.assert_array_equal(found["label"], model.predict(*rows))
    np.testing.assert_allclose(found["distribution"], model.predict_distribution(*rows), rtol=0, atol=1e-12)


def inputs(graph):
    return [each.name for each in graph.graph.input]


# -- the classifier -------------------------------------------------------------------------------------------


@every_model
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_classifier_comes_back(models, tmp_path, name, suffix):
    path = tmp_path / f"model.{suffix}"
    dump(models[name], path)
    again = load(path, trust=suffix == "joblib")  # no types need be trusted
    assert_same(again, models[name], ROWS)
    assert again.diagnostics_ == models[name].diagnostics_
    assert again.history_ == models[name].history_
    assert again.history_.to_frame().equals(models[name].history_.to_frame())


@every_model
def test_graph_of_the_classifier_begins_with_features(models, tmp_path, name):
    path = tmp_path / "model.onnx"
    dump(models[name], path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == ["X"]
    outputs = [each.name for each in session.get_outputs()]
    assert_graph_agrees(dict(zip(outputs, session.run(None, {"X": ROWS}), strict=True)), models[name], ROWS)


def test_pickle_is_not_read_without_trust(models, tmp_path):
    dump(models["paper"], tmp_path / "model.joblib")
    with pytest.raises(ArchiveError, match=r"is a pickle, and loading it runs any code.*trust=True.*\.skops"):
        load(tmp_path / "model.joblib")


# -- data frames ----------------------------------------------------------------------------------------------


def towns(X):
    """Two columns of numbers and two of text, one of them with holes."""
    return pd.DataFrame(
        {
            "age": X[:, 0],
            "town": np.array(["hull", "leeds", "york"])[np.digitize(X[:, 1], [-1, 1])],
            "size": X[:, 2],
            "road": np.where(X[:, 3] > 0, None, "high street"),
        }
    )


def town_model(texts):
    columns = make_column_transformer(
        (StandardScaler(), ["age", "size"]), (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts)
    )
    return make_pipeline(columns, LogisticRegression())


@pytest.fixture(scope="module")
def town_classifier():
    return fitted(town_model(["town", "road"]), X=towns(DATA.X), X_val=towns(DATA.X_val), names=NAMES)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_classifier_of_a_frame_with_text_comes_back(town_classifier, tmp_path, suffix):
    assert any(rule.basis == "tree" for rule in town_classifier.rule_.rules)
    path = tmp_path / f"model.{suffix}"
    dump(town_classifier, path)
    again = load(path, trust=suffix == "joblib")
    assert again.bases_["tree"].texts_ == {1: ["hull", "leeds", "york"], 3: ["high street"]}
    assert_same(again, town_classifier, towns(ROWS))


def test_graph_of_a_frame_with_text_keeps_its_basis_as_an_input():
    train, val, rows = (towns(X).drop(columns="road") for X in (DATA.X, DATA.X_val, ROWS))
    model = fitted(town_model(["town"]), X=train, X_val=val, method="influence [tree]")
    with pytest.warns(PostshiftWarning, match=r"an input 'phi_tree': it reads columns of text.*bases_\['tree'\]"):
        graph = to_onnx(model, train)
    assert inputs(graph) == ["age", "town", "size", "phi_tree"]
    feeds = {name: rows[[name]].to_numpy().astype(object if name == "town" else float) for name in rows}
    assert_graph_agrees(run(graph, {**feeds, "phi_tree": model.bases_["tree"].transform(rows)}), model, rows)


def test_graph_of_a_frame_of_numbers():
    def frame(X):
        return pd.DataFrame(X, columns=[f"number {place}" for place in range(X.shape[1])])

    model = fitted(X=frame(DATA.X), X_val=frame(DATA.X_val), method="influence [tree]")
    for graph in (to_onnx(model), to_onnx(model, frame(DATA.X))):
        assert inputs(graph) == ["X"]
        assert_graph_agrees(run(graph, {"X": ROWS}), model, frame(ROWS))


def test_graph_of_columns_by_name_makes_leaves_of_them():
    def frame(X):
        return pd.DataFrame(X[:, :4], columns=["a", "b", "c", "d"])

    scaled = make_column_transformer((StandardScaler(), ["d", "b"]), remainder="passthrough")
    model = fitted(
        make_pipeline(scaled, LogisticRegression()),
        X=frame(DATA.X),
        X_val=frame(DATA.X_val),
        method="influence [tree]",
    )
    graph = to_onnx(model, frame(DATA.X))
    assert inputs(graph) == ["a", "b", "c", "d"]
    feeds = {name: column.to_numpy()[:, None] for name, column in frame(ROWS).items()}
    assert_graph_agrees(run(graph, feeds), model, frame(ROWS))


# -- bases ----------------------------------------------------------------------------------------------------


def signs(X):
    """The table with columns 6 and 7 rounded to few values."""
    return np.column_stack([X[:, :6], np.sign(X[:, 6]), np.clip(X[:, 7].round(), -2, 2) / 3])


@pytest.mark.parametrize(
    "basis",
    [
        GroupBasis(6, unseen=True),
        GroupBasis([7, 6], unseen="average"),
        GroupBasis(7, values=[0.0, 1 / 3, 1 / 3, 5.0]),
        GroupBasis(6, values=[5.0]),
    ],
    ids=["rest", "average", "values", "rest only"],
)
def test_graph_of_groups_of_numbers(basis):
    model = fitted(X=signs(DATA.X), X_val=signs(DATA.X_val), basis=basis, method=QUICK)
    graph = to_onnx(model)
    assert inputs(graph) == ["X"]
    rows = signs(ROWS)
    rows[::50, 6:] = 0.123  # none of the groups
    assert_graph_agrees(run(graph, {"X": rows}), model, rows)


def first_sign(X):
    return np.sign(np.asarray(X)[:, 0])


@pytest.mark.parametrize(
    ("basis", "why"),
    [
        (GroupBasis(by=lambda X: X[:, 0] > 0), "its groups are given by a function"),
        (GroupBasis(by=first_sign), "its groups are given by a function"),
        (GroupBasis(6), "a graph cannot reject groups that were not seen in fit"),
        (RBFBasis(max_points=3), "RBFBasis cannot be converted to a graph"),
        (UnionBasis({"a": TreeBasis(), "b": GroupBasis(6)}), "UnionBasis cannot be converted to a graph"),
    ],
    ids=["lambda", "function", "refusing", "rbf", "union"],
)
def test_basis_without_a_graph_stays_an_input(basis, why):
    model = fitted(X=signs(DATA.X), X_val=signs(DATA.X_val), basis={"mine": basis}, method="influence [mine]")
    with pytest.warns(PostshiftWarning, match=rf"an input 'phi_mine': {why}.*Feed it with bases_\['mine'\].transform"):
        graph = to_onnx(model)
    assert inputs(graph) == ["X", "phi_mine"]
    rows = signs(ROWS)
    assert_graph_agrees(run(graph, {"X": rows, "phi_mine": model.bases_["mine"].transform(rows)}), model, rows)


def test_model_without_a_graph_leaves_one_from_eta_and_phi():
    model = fitted(LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1), method="influence [tree]")
    with pytest.warns(PostshiftWarning, match=r"begins with eta.*LGBMClassifier.*predict_proba as 'eta'"):
        graph = to_onnx(model)
    assert inputs(graph) == ["eta", "phi_tree"]
    feeds = {"eta": model.predict_proba(ROWS), "phi_tree": model.bases_["tree"].transform(ROWS)}
    assert_graph_agrees(run(graph, feeds), model, ROWS)


# -- what no file can hold ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_lambda_as_metric_or_group_is_named(tmp_path, suffix):
    by_metric = fitted(metric=lambda y_true, y_pred: np.mean(y_true == y_pred))
    by_group = fitted(basis=GroupBasis(by=lambda X: X[:, 0] > 0), method=QUICK)
    path = tmp_path / f"model.{suffix}"
    path.write_bytes(b"old")
    for model, place in ((by_metric, "metric"), (by_group, "basis.by")):
        with pytest.raises(ExportError, match=f"^{place} is a lambda and cannot be saved: define it in a module"):
            dump(model, path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"old"
    assert_graph_agrees(run(to_onnx(by_metric), {"X": ROWS}), by_metric, ROWS)


# Stated in docs/api/persistence.md.
TRUSTED = {
    "RandomForestClassifier": ("sklearn.tree._tree.Tree",),
    "LGBMClassifier": ("collections.OrderedDict", "lightgbm.basic.Booster", "lightgbm.sklearn.LGBMClassifier"),
    "XGBClassifier": ("xgboost.core.Booster", "xgboost.sklearn.XGBClassifier"),
}


def model_of_trees(name):
    if name == "XGBClassifier":
        xgboost = pytest.importorskip("xgboost", reason="no package of postshift's needs xgboost")
        return xgboost.XGBClassifier(n_estimators=3, n_jobs=1)
    if name == "LGBMClassifier":
        return LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1)
    return RandomForestClassifier(5, random_state=0)


@pytest.mark.parametrize("name", TRUSTED)
def test_models_of_trees_come_back_where_their_types_are_trusted(tmp_path, name):
    path = tmp_path / "model.skops"
    model = fitted(model_of_trees(name), method="smoothed plug-in")
    dump(model, path)
    with pytest.raises(UntrustedError, match=f"not trusted: {', '.join(TRUSTED[name])}. If you know them") as caught:
        load(path)
    assert caught.value.names == TRUSTED[name]
    assert_same(load(path, trusted=TRUSTED[name]), model, ROWS)


def test_types_are_trusted_by_themselves_too(tmp_path):
    model = fitted(RandomForestClassifier(5, random_state=0), method="smoothed plug-in")
    dump(model, tmp_path / "model.skops")
    assert_same(load(tmp_path / "model.skops", trusted=[Tree]), model, ROWS)


def test_documentation_states_what_models_of_trees_need():
    text = (Path(__file__).parents[2] / "docs" / "api" / "persistence.md").read_text()
    for name, types in TRUSTED.items():
        assert f"| `{name}` | `{list(types)}` |".replace("'", '"') in text


# -- the shifter ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shifter():
    def phi(X):
        return np.column_stack([np.ones(len(X)), X[:, 0] > 0, X[:, 1] > 1]).astype(float)

    source = LogisticRegression().fit(DATA.X, DATA.y)
    model = PostShifter("min_recall", classes=NAMES)
    model.fit(source.predict_proba(DATA.X_val), NAMES[DATA.y_val], phi_val={"north / south": phi(DATA.X_val)})
    return model, source.predict_proba(ROWS), phi(ROWS)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_shifter_comes_back(shifter, tmp_path, suffix):
    model, eta, phi = shifter
    dump(model, tmp_path / f"model.{suffix}")
    assert_same(load(tmp_path / f"model.{suffix}", trust=suffix == "joblib"), model, eta, {"north / south": phi})


def test_graph_of_the_shifter(shifter, tmp_path):
    model, eta, phi = shifter
    dump(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == ["eta", "phi_north___south"]
    found = session.run(["label", "distribution"], {"eta": eta, "phi_north___south": phi})
    assert_graph_agrees(dict(zip(["label", "distribution"], found, strict=True)), model, eta, {"north / south": phi})


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("confidence", [None, 0.9])
def test_constraints_and_their_certificate_come_back(confidence, suffix, tmp_path):
    limits = [Recall(2) >= 0.2, "rate[2] <= 0.9"]
    model = fitted(metric="accuracy", basis="constant", subject_to=limits, confidence=confidence)
    dump(model, tmp_path / f"model.{suffix}")
    again = load(tmp_path / f"model.{suffix}", trust=suffix == "joblib")
    assert len(again.constraints_) == 2
    assert again.constraints_ == model.constraints_
    assert again.certificate_ == model.certificate_
    assert (again.certificate_ is None) == (confidence is None)
    assert list(map(str, again.subject_to)) == list(map(str, limits))
    assert_same(again, model, ROWS)

"""PostShifter and PostShiftClassifier on Dask collections: as on arrays, with nothing of their size in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("distributed")

import dask
import dask.dataframe as dd
from distributed import Client
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from postshift import PostShiftClassifier, PostShifter
from postshift.core.rows import Rows
from postshift.core.sums import Engine
from postshift.engines import DaskEngine
from postshift.estimators import dask_rows
from postshift.exceptions import InputError, LabelError, ProbabilityError, SettingError, ShapeError
from tests.engines.dask_clusters import local_cluster
from tests.estimators.dask_data import N_TRAIN, N_VAL, halves, in_blocks, some_rows


@pytest.fixture(scope="module", autouse=True)
def client():
    with local_cluster() as address, Client(address) as client:
        yield client


@pytest.fixture
def few_drawn(monkeypatch):
    """A draw so small that most rows are with the workers only."""
    monkeypatch.setattr(dask_rows, "DRAWN_ROWS", 800)


@pytest.fixture
def made(monkeypatch):
    """The engines over all rows that a fit makes, by the number of their rows."""
    engines = []
    before = DaskEngine.__init__

    def init(self, *given, **how):
        before(self, *given, **how)
        engines.append(self.n_rows)

    monkeypatch.setattr(DaskEngine, "__init__", init)
    return engines


@pytest.fixture(scope="module")
def rows():
    return some_rows()


METHODS = ["influence [phi]", "stack + influence [phi]", "inverse prior"]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("few_drawn")
def test_the_rule_that_is_left_is_fitted_to_all_rows(method, rows, made):
    model, X, y, X_val, y_val = rows
    eta, eta_val = model.predict_proba(X), model.predict_proba(X_val)
    shifter = PostShifter("g_mean", method=method, classes=model.classes_)
    val = {"phi_val": halves(X_val)}
    memory = PostShifter("g_mean", method=method, classes=model.classes_)
    memory.fit(eta_val, y_val, eta, y, **val, phi_train=halves(X))
    shifter.fit(eta_val, y_val, in_blocks(eta), in_blocks(y), **val, phi_train=in_blocks(halves(X)))
    assert made == [N_TRAIN]
    np.testing.assert_allclose(shifter.coef_, memory.coef_, rtol=1e-6)
    np.testing.assert_array_equal(shifter.predict(eta_val, halves(X_val)), memory.predict(eta_val, halves(X_val)))
    assert (shifter.diagnostics_.n_train, shifter.diagnostics_.n_drawn) == (N_TRAIN, 800)
    assert memory.diagnostics_.n_drawn is None


@pytest.mark.slow
@pytest.mark.usefixtures("few_drawn")
def test_an_average_is_fitted_to_the_draw(rows, made):
    model, X, y, X_val, y_val = rows
    eta, eta_val = model.predict_proba(X), model.predict_proba(X_val)
    shifter = PostShifter("f1_macro", classes=model.classes_)
    shifter.fit(eta_val, y_val, in_blocks(eta), in_blocks(y))
    assert len(shifter.rule_.rules) > 1
    assert set(made) <= {N_TRAIN}
    assert shifter.score_ >= shifter.base_score_


def test_few_rows_are_as_good_as_in_memory(rows, made):
    model, X, y, X_val, y_val = rows
    eta, eta_val = model.predict_proba(X), model.predict_proba(X_val)
    weights = np.random.default_rng(0).uniform(0.5, 2, size=N_TRAIN)
    found = PostShifter("f1_macro", method="influence", classes=model.classes_)
    found.fit(eta_val, y_val, in_blocks(eta), in_blocks(y), sample_weight_train=in_blocks(weights))
    expected = PostShifter("f1_macro", method="influence", classes=model.classes_)
    expected.fit(eta_val, y_val, eta, y, sample_weight_train=weights)
    assert made == []
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.diagnostics_.n_train == N_TRAIN


@pytest.mark.parametrize("kind", ["array", "frame"])
@pytest.mark.usefixtures("few_drawn")
def test_a_classifier_with_a_basis_that_is_fitted_to_the_draw(kind, rows, made):
    _, X, y, X_val, y_val = rows
    model = LogisticRegression().fit(_as(kind, X[:500]), y[:500])
    collections = (
        (in_blocks(X), in_blocks(y))
        if kind == "array"
        else (dd.from_pandas(_as(kind, X), npartitions=4), dd.from_pandas(pd.Series(y), npartitions=4))
    )
    classifier = PostShiftClassifier(FrozenEstimator(model), metric="g_mean", method="influence [tree]", basis="tree")
    classifier.fit(*collections, _as(kind, X_val), y_val)
    assert made == [N_TRAIN]
    assert classifier.diagnostics_.n_drawn == 800
    assert classifier.n_features_in_ == X.shape[1]
    assert classifier.bases_["tree"].transform(_as(kind, X_val)).shape == (N_VAL, 4)
    for name in ("predict", "predict_proba", "predict_distribution", "example_weights"):
        lazy = getattr(classifier, name)(collections[0])
        assert dask.is_dask_collection(lazy)
        expected = getattr(classifier, name)(_as(kind, X))
        assert lazy.dtype == expected.dtype
        if name == "predict":
            np.testing.assert_array_equal(lazy.compute(), expected)
        else:  # a product of few rows may round otherwise than one of all
            np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-12, atol=1e-14)
    assert classifier.score(*collections) == pytest.approx(classifier.score(_as(kind, X), y))


def _as(kind, X):
    return X if kind == "array" else pd.DataFrame(X, columns=[f"x{place}" for place in range(X.shape[1])])


@pytest.mark.usefixtures("few_drawn")
def test_partitions_of_unknown_length_and_without_rows(rows):
    _, X, y, X_val, y_val = rows
    model = LogisticRegression().fit(_as("frame", X[:500]), y[:500])
    frame = dd.from_pandas(_as("frame", X).assign(y=y, place=np.arange(N_TRAIN)), npartitions=4)
    frame = frame[(frame.place < 700) | (frame.place >= 1600)].drop(columns="place")  # the second partition is empty
    features = frame.drop(columns="y")
    classifier = PostShiftClassifier(FrozenEstimator(model), metric="g_mean", method="influence", basis="kmeans:3")
    classifier.fit(features, frame.y, _as("frame", X_val), y_val)
    assert classifier.diagnostics_.n_train == N_TRAIN - 900
    expected = classifier.predict(_as("frame", np.delete(X, np.arange(700, 1600), axis=0)))
    np.testing.assert_array_equal(classifier.predict(features).compute(), expected)


def test_a_validation_side_in_dask(rows, monkeypatch):
    model, _, _, X_val, y_val = rows
    eta_val = model.predict_proba(X_val)
    lazy = PostShifter("g_mean", method="smoothed plug-in", classes=model.classes_)
    lazy.fit(in_blocks(eta_val), in_blocks(y_val))
    expected = PostShifter("g_mean", method="smoothed plug-in", classes=model.classes_).fit(eta_val, y_val)
    np.testing.assert_array_equal(lazy.coef_, expected.coef_)
    assert lazy.score(in_blocks(eta_val), in_blocks(y_val)) == expected.score(eta_val, y_val)
    monkeypatch.setattr(dask_rows, "SMALL_ROWS", 599)
    with pytest.raises(InputError, match="eta_val has 600 rows, but must fit into memory: give at most 599"):
        lazy.fit(in_blocks(eta_val), in_blocks(y_val))
    frame = dd.from_pandas(pd.DataFrame(eta_val), npartitions=2)
    with pytest.raises(InputError, match="eta_val has 600 rows"):
        lazy.fit(frame, in_blocks(y_val))


def test_what_a_classifier_needs(rows):
    model, X, y, X_val, y_val = rows
    with pytest.raises(SettingError, match="FrozenEstimator"):
        PostShiftClassifier(LogisticRegression()).fit(in_blocks(X), in_blocks(y), X_val, y_val)
    frozen = PostShiftClassifier(FrozenEstimator(model))
    with pytest.raises(SettingError, match="give y and X_val"):
        frozen.fit(in_blocks(X), in_blocks(y))
    with pytest.raises(SettingError, match="y must be a Dask array"):
        frozen.fit(in_blocks(X), y, X_val, y_val)


@pytest.mark.usefixtures("few_drawn")
def test_errors_name_the_partition(rows):
    model, X, y, X_val, y_val = rows
    eta, eta_val = np.array(model.predict_proba(X)), model.predict_proba(X_val)
    shifter = PostShifter("g_mean", method="influence", classes=model.classes_)
    eta[-1, 0] = np.nan
    with pytest.raises(ProbabilityError, match=r"partition 4: eta_train has 1 of .* rows with NaN"):
        shifter.fit(eta_val, y_val, in_blocks(eta), in_blocks(y))
    odd = y.astype(object)
    odd[-1] = "what"
    with pytest.raises(LabelError, match="partition 4: y has 1 values that are not among the 3 classes"):
        PostShiftClassifier(FrozenEstimator(model), method="influence", basis="constant").fit(
            in_blocks(X), in_blocks(odd.astype(str)), X_val, y_val
        )
    with pytest.raises(ShapeError, match="eta_train must have 3 columns"):
        shifter.fit(eta_val, y_val, in_blocks(model.predict_proba(X)[:, :2]), in_blocks(y))


def test_shares_of_partitions():
    for sizes in ([5, 0, 7], [1_000_000, 3, 999_999, 0, 250_000]):
        counts = dask_rows.shares(np.array(sizes), 200_000)
        assert counts.sum() == min(sum(sizes), 200_000)
        assert (counts <= sizes).all()


def test_tables_with_rows_elsewhere_go_to_other_processes_without_them():
    class Nowhere:
        n_rows = 7

        def engine(self, basis) -> Engine:
            raise AssertionError(basis)

    table = Rows(eta=np.full((3, 2), 0.5), bases={}, whole=Nowhere())
    assert table.n_total == 7
    assert table.in_memory().n_total == table.take(np.arange(3)).n_total == 3
    assert "whole" not in table.__getstate__()

"""PostShifter with eta as a SciPy sparse matrix: fit, predict, score, save; memory; and what is refused."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import f1_score

from postshift import PostShiftClassifier, PostShifter, frontier
from postshift.exceptions import (
    BasisError,
    ExportError,
    LabelError,
    MetricError,
    SettingError,
    ShapeError,
)
from postshift.metrics import from_labels, from_predictions
from postshift.persistence import dump, load, to_onnx
from postshift.report import Facts

pytestmark = pytest.mark.filterwarnings("ignore::postshift.exceptions.PostshiftWarning")
METHODS = ["base", "inverse prior", "expected counts", "label counts"]


def draw(n_rows, n_classes, seed=0, n_stored=6):
    """The top few probabilities of each row; a few classes are common, most are rare."""
    rng = np.random.default_rng(seed)
    prior = np.cumsum(1 / (np.arange(n_classes) + 3))
    classes = np.searchsorted(prior, prior[-1] * rng.random((n_rows, n_stored)))
    shares = rng.exponential(size=(n_rows, n_stored)) ** 2
    shares /= shares.sum(axis=1, keepdims=True)
    chosen = (rng.random((n_rows, 1)) > shares.cumsum(axis=1)).sum(axis=1).clip(0, n_stored - 1)
    rows = np.repeat(np.arange(n_rows), n_stored)
    eta = sparse.csr_array((shares.ravel(), (rows, classes.ravel())), shape=(n_rows, n_classes))
    return eta, classes[np.arange(n_rows), chosen]


ETA, Y = draw(600, 40)
NEW, NEW_Y = draw(600, 40, seed=1)


@pytest.fixture(scope="module")
def shifter():
    return PostShifter("f1_macro").fit(ETA, Y)


def test_auto_takes_the_best_of_the_rules_that_read_sparse_rows(shifter):
    record = shifter.diagnostics_.choice
    assert [entry.name for entry in record.entries] == METHODS
    assert record.how == "best"
    assert sorted(entry.weight for entry in record.entries) == [0, 0, 0, 1]
    assert shifter.score(NEW, NEW_Y) >= PostShifter("f1_macro", method="base").fit(ETA, Y).score(NEW, NEW_Y)
    assert shifter.score(NEW, NEW_Y) == pytest.approx(
        f1_score(NEW_Y, shifter.predict(NEW), labels=range(40), average="macro", zero_division=0)
    )


@pytest.mark.slow
def test_the_gain_is_that_of_new_rows():
    eta, y = draw(4000, 3000)
    new, new_y = draw(20_000, 3000, seed=1)
    scores = {name: PostShifter("f1_macro_present", method=name).fit(eta, y).score(new, new_y) for name in METHODS}
    assert scores["expected counts"] > scores["base"] + 0.01
    assert PostShifter("f1_macro_present").fit(eta, y).score(new, new_y) > scores["base"] + 0.01


def test_the_base_is_kept_where_nothing_is_gained():
    """The accuracy of true probabilities."""
    found = PostShifter("accuracy").fit(ETA, Y)
    np.testing.assert_array_equal(found.predict(NEW), NEW.toarray().argmax(axis=1))


@pytest.mark.parametrize("metric", ["g_mean", "balanced_accuracy", "precision_macro", "jaccard_weighted"])
def test_other_metrics(metric):
    eta, y = draw(500, 4, n_stored=3)
    found = PostShifter(metric).fit(eta, y)
    assert found.score_ >= 0
    assert found.predict(NEW[:, :4]).shape == (600,)


def test_class_names_weights_and_training_rows():
    names = np.array([f"class {place:02d}" for place in range(40)])
    found = PostShifter("f1_macro", method="expected counts", classes=names).fit(
        ETA, names[Y], NEW, sample_weight_val=np.linspace(1, 2, 600), sample_weight_train=np.linspace(2, 1, 600)
    )
    assert set(found.predict(NEW)) <= set(names)
    other = PostShifter("f1_macro", method="expected counts", classes=names).fit(ETA, names[Y])
    assert not np.allclose(found.coef_, other.coef_)


def test_rows_without_entries_get_the_class_with_the_largest_shift(shifter):
    empty = sparse.csr_array((3, 40))
    np.testing.assert_array_equal(shifter.predict(empty), np.argmax(shifter.coef_[0, 40:]))
    np.testing.assert_array_equal(PostShifter(method="base").fit(ETA, Y).predict(empty), 0)


def test_dense_rows_can_be_predicted_too(shifter):
    dense = NEW.toarray()
    np.testing.assert_array_equal(shifter.predict(dense), shifter.predict(NEW))
    assert shifter.predict_distribution(dense).shape == (600, 40)


@pytest.mark.parametrize("suffix", ["joblib", "skops"])
def test_saved_and_loaded(shifter, suffix, tmp_path):
    pytest.importorskip("skops")
    dump(shifter, tmp_path / f"a.{suffix}")
    again = load(tmp_path / f"a.{suffix}", trust=suffix == "joblib")
    np.testing.assert_array_equal(again.predict(NEW), shifter.predict(NEW))
    assert again.score_ == shifter.score_


def test_memory_is_that_of_the_stored_entries_and_a_few_numbers_of_each_class():
    """A table of these rows and classes would take 400 MB, a matrix of the classes 80 GB."""
    eta, y = draw(500, 100_000)
    PostShifter("f1_macro_present").fit(ETA, Y)
    tracemalloc.start()
    try:
        found = PostShifter("f1_macro_present").fit(eta, y)
        found.score(eta, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50e6


REFUSED = {
    "a rule": ({"method": "paper"}, {}, SettingError, "rule 'paper' needs dense rows"),
    "the stack": ({"method": "stack + influence"}, {}, SettingError, "choose from 'base', 'inverse prior'"),
    "constraints": ({"subject_to": "recall[1] >= 0.5"}, {}, SettingError, "subject_to cannot be used with a sparse"),
    "a budget": ({"budget": 7}, {}, SettingError, "budget cannot be used"),
    "a basis": ({}, {"phi_val": np.ones((600, 2))}, BasisError, "only the constant basis"),
    "dense training rows": ({}, {"eta_train": NEW.toarray()}, SettingError, "a dense eta_train cannot be used"),
    "other columns": ({}, {"eta_train": NEW[:, :7]}, ShapeError, "eta_train must have 40 columns"),
    "a correlation": ({"metric": "matthews_corrcoef"}, {}, MetricError, "cannot be used with sparse eta"),
    "a minimum": ({"metric": "min_recall"}, {}, MetricError, "cannot be used with sparse eta"),
    "one class": ({"metric": "f1[3]"}, {}, MetricError, "cannot be used with sparse eta"),
    "a function of labels": (
        {"metric": from_labels(lambda y, labels: np.mean(y == labels))},
        {},
        MetricError,
        "cannot be used with sparse eta",
    ),
    "an oracle": (
        {"metric": from_predictions(lambda labels: float(labels[0]))},
        {},
        MetricError,
        "cannot be used with sparse eta",
    ),
}


@pytest.mark.parametrize(("settings", "given", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_needs_dense_rows_is_refused_by_name(settings, given, error, words):
    with pytest.raises(error, match=words):
        PostShifter(**{"metric": "f1_macro", **settings}).fit(ETA, Y, **given)


def test_sparse_training_rows_need_sparse_validation_rows():
    with pytest.raises(ShapeError, match="both be sparse or both be dense"):
        PostShifter("f1_macro").fit(ETA.toarray(), Y, ETA, Y)


def test_a_rule_of_dense_rows_does_not_read_sparse_ones():
    eta, y = draw(200, 3)
    found = PostShifter("f1_macro", method="stack").fit(eta.toarray(), y)
    with pytest.raises(SettingError, match="fitted to dense rows needs dense rows"):
        found.predict(eta)


def test_tables_of_all_classes_are_refused(shifter):
    for name in ("predict_distribution", "example_weights"):
        with pytest.raises(SettingError, match=f"{name} needs dense rows.*predict takes sparse ones"):
            getattr(shifter, name)(NEW)
    with pytest.raises(SettingError, match="the report needs dense rows"):
        Facts.of(shifter, NEW, NEW_Y)


def test_other_entrances_say_who_takes_sparse_matrices(shifter):
    with pytest.raises(ShapeError, match="sparse matrices are for the probabilities of PostShifter only"):
        shifter.predict(NEW.toarray(), NEW)
    with pytest.raises(ShapeError, match="sparse matrices are for the probabilities of PostShifter only"):
        frontier(None, NEW, NEW_Y, metric="f1_macro", subject_to="recall[1] >= 0.1")


def test_a_graph_is_for_fewer_classes():
    pytest.importorskip("onnx")
    eta, y = draw(300, 5000)
    with pytest.raises(ExportError, match=r"at most 4,096 classes\. Got 5,000"):
        to_onnx(PostShifter("f1_macro", method="inverse prior").fit(eta, y))


def test_labels_outside_the_columns():
    with pytest.raises(LabelError, match="y_val has 1 values that are not among the 40"):
        PostShifter("f1_macro").fit(ETA, np.append(Y[1:], 40))


def test_a_model_that_gives_sparse_probabilities():
    class Model(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):  # noqa: ARG002
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, X):
            return sparse.csr_array(np.full((len(X), len(self.classes_)), 1 / len(self.classes_)))

    with pytest.raises(ShapeError, match="must be a dense array here"):
        PostShiftClassifier(Model(), metric="f1_macro", cv=0.5).fit(np.ones((600, 2)), Y % 3)

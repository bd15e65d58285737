"""PostShifter: arrays of probabilities, and nothing else."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from postshift import PostShiftClassifier, PostShifter
from postshift.exceptions import BasisError, LabelError, PostshiftWarning, ProbabilityError, ShapeError
from postshift.metrics import from_predictions
from tests.estimators.data import NAMES, noisy


@pytest.fixture(scope="module")
def rows():
    data = noisy(3)
    base = LogisticRegression().fit(data.X, data.y)
    data.eta, data.eta_val, data.eta_test = (base.predict_proba(X) for X in (data.X, data.X_val, data.X_test))
    return data


def test_it_is_the_classifier_on_arrays(rows):
    from sklearn.frozen import FrozenEstimator

    base = FrozenEstimator(LogisticRegression().fit(rows.X, rows.y))
    model = PostShiftClassifier(base, metric="f1_macro", basis="constant").fit(rows.X, rows.y, rows.X_val, rows.y_val)
    shifter = PostShifter("f1_macro").fit(rows.eta_val, rows.y_val, rows.eta, rows.y)
    np.testing.assert_array_equal(shifter.predict(rows.eta_test), model.predict(rows.X_test))
    np.testing.assert_array_equal(shifter.predict_distribution(rows.eta_test), model.predict_distribution(rows.X_test))
    np.testing.assert_array_equal(shifter.example_weights(rows.eta_test), model.example_weights(rows.X_test))
    assert shifter.score_ == model.score_
    assert shifter.score(rows.eta_test, rows.y_test) == model.score(rows.X_test, rows.y_test)


def test_validation_rows_alone_suffice(rows):
    shifter = PostShifter("g_mean", method="smoothed plug-in").fit(rows.eta_val, rows.y_val)
    assert shifter.score_ > shifter.base_score_
    assert shifter.diagnostics_.n_train == 0


def test_labels_of_ones_own(rows):
    names = np.array(["oak", "ash", "birch"])  # in the order of the columns, not of the alphabet
    plain = PostShifter("g_mean").fit(rows.eta_val, rows.y_val)
    named = PostShifter("g_mean", classes=names).fit(rows.eta_val, names[rows.y_val])
    np.testing.assert_array_equal(named.predict(rows.eta_test), names[plain.predict(rows.eta_test)])


def test_bases_as_arrays(rows):
    phi, phi_val, phi_test = (np.column_stack([X[:, 0] > 0, X[:, 0] <= 0]) for X in (rows.X, rows.X_val, rows.X_test))
    one = PostShifter("g_mean", method="influence").fit(rows.eta_val, rows.y_val, rows.eta, rows.y, phi_val, phi)
    assert one.rule_.rules[0].name == "influence [phi]"
    two = PostShifter("g_mean", method="influence [side]")
    two.fit(rows.eta_val, rows.y_val, rows.eta, rows.y, {"side": phi_val}, {"side": phi})
    np.testing.assert_array_equal(one.predict(rows.eta_test, phi_test), two.predict(rows.eta_test, {"side": phi_test}))
    with pytest.raises(BasisError, match="the rule uses basis 'phi': give phi"):
        one.predict(rows.eta_test)
    with pytest.raises(ShapeError, match="phi must have 2 columns"):
        one.predict(rows.eta_test, np.ones((len(rows.eta_test), 1)))


def test_somebody_who_tells_a_number(rows):
    metric = from_predictions(lambda labels: np.mean(labels == rows.y_val), name="hidden accuracy")
    shifter = PostShifter(metric, budget=400).fit(rows.eta_val, eta_train=rows.eta)
    assert 0 < shifter.n_queries_ <= 400
    assert shifter.score_ >= shifter.base_score_


def test_it_never_normalises_silently(rows):
    with pytest.raises(ProbabilityError, match="a sum other than 1"):
        PostShifter().fit(2 * rows.eta_val, rows.y_val)
    shifter = PostShifter(method="base").fit(rows.eta_val, rows.y_val)
    with pytest.raises(ProbabilityError, match="negative values"):
        shifter.predict(rows.eta_test - 0.5)
    given = rows.eta_val.copy()
    PostShifter(method="stack").fit(given, rows.y_val)
    np.testing.assert_array_equal(given, rows.eta_val)


def test_clone_params_repr_and_pickle(rows):
    shifter = PostShifter("g_mean", method="stack", random_state=4)
    again = clone(shifter).set_params(metric="accuracy")
    assert again.get_params()["random_state"] == 4
    assert "method='stack'" in repr(again)
    assert "PostShifter" in shifter._repr_html_()
    fitted = shifter.fit(rows.eta_val, rows.y_val)
    loaded = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_array_equal(loaded.predict(rows.eta_test), fitted.predict(rows.eta_test))
    with pytest.raises(NotFittedError):
        again.predict(rows.eta_test)


def test_what_it_refuses(rows):
    with pytest.raises(ShapeError, match="belong to eta_train"):
        PostShifter().fit(rows.eta_val, rows.y_val, y_train=rows.y)
    with pytest.raises(LabelError, match="3 distinct labels"):
        PostShifter(classes=["a", "b"]).fit(rows.eta_val, rows.y_val)
    with pytest.raises(LabelError, match="not among the 3 classes"):
        PostShifter().fit(rows.eta_val, rows.y_val + 1)
    with pytest.raises(ShapeError, match="eta_train must have 3 columns"):
        PostShifter().fit(
            rows.eta_val, rows.y_val, rows.eta[:, :2] / rows.eta[:, :2].sum(axis=1, keepdims=True), rows.y
        )
    with pytest.raises(LabelError, match="needs validation labels"):
        PostShifter("g_mean").fit(rows.eta_val)
    fitted = PostShifter(method="base").fit(rows.eta_val, rows.y_val)
    with pytest.raises(ShapeError, match="must have 3 columns"):
        fitted.predict([[0.5, 0.5]])


def test_a_method_over_a_basis_of_any_name_passes(yes_or_no):
    eta, y = yes_or_no
    phi = {"mine": np.ones((len(eta), 1))}
    shifter = PostShifter("f1", classes=NAMES, method="influence [mine]").fit(eta, y, phi_val=phi)
    assert shifter.rule_.rules[0].basis == "mine"


def test_answers_that_never_differ(yes_or_no):
    eta, y = yes_or_no
    told = from_predictions(lambda labels: float(np.mean(labels.astype(str) == y)), name="theirs")
    with pytest.warns(PostshiftWarning, match=r"scored the same, 0\.000, although.*classes="):
        shifter = PostShifter(told, budget=60).fit(eta)
    assert any("scored the same" in note for note in shifter.diagnostics_.choice.notes)


def test_answers_of_another_scale(yes_or_no):
    eta, y = yes_or_no
    how = {"classes": NAMES, "budget": 60}
    profit = lambda labels: 1e6 * float(np.mean(labels == y))  # noqa: E731
    with pytest.warns(PostshiftWarning, match=r"scores are as large as .*scale="):
        PostShifter(from_predictions(profit, name="profit"), **how).fit(eta)
    PostShifter(from_predictions(profit, name="profit", scale=1e6), **how).fit(eta)

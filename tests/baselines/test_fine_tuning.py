"""Fine-tuning: against the optimum that others find, and against its own start."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from postshift.baselines.fine_tuning import FineTuned
from postshift.baselines.softmax import SoftmaxRegression
from postshift.exceptions import InputError, SettingError, ShapeError
from tests.estimators.data import noisy


def sides(data):
    return data.X, data.y, data.X_val, data.y_val


def rotated(n_classes=2):
    """Return rows whose training labels follow the features in another order."""
    data = noisy(n_classes)
    data.X = data.X[:, ::-1].copy()
    return data


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", [SoftmaxRegression(), LogisticRegression()])
def test_with_all_rows_and_patience_it_ends_at_the_optimum(model, n_classes):
    data = rotated(n_classes)
    tuned = FineTuned(model, held_out=0, patience=np.inf, max_epochs=1000).fit(*sides(data))
    best = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(data.X_val, data.y_val)
    np.testing.assert_allclose(tuned.predict_proba(data.X_test), best.predict_proba(data.X_test), atol=1e-4)
    assert (np.diff(tuned.tuning_losses_) <= 1e-15).all()
    np.testing.assert_array_equal(tuned.tuning_losses_, tuned.stopping_losses_)
    np.testing.assert_allclose(tuned.tuning_losses_[-1], log_loss(data.y_val, best.predict_proba(data.X_val)))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_losses_are_those_of_the_models(n_classes):
    data = rotated(n_classes)
    tuned = FineTuned(LogisticRegression(), max_epochs=200).fit(*sides(data))
    base = LogisticRegression().fit(data.X, data.y)
    stopping = np.zeros(len(data.y_val), dtype=bool)
    stopping[tuned.stopping_rows_] = True
    for rows, losses in ((~stopping, tuned.tuning_losses_), (stopping, tuned.stopping_losses_)):
        for model, epoch in ((base, 0), (tuned, tuned.best_epoch_)):
            p = model.predict_proba(data.X_val[rows])
            np.testing.assert_allclose(losses[epoch], log_loss(data.y_val[rows], p), rtol=1e-10)
    assert (np.diff(tuned.tuning_losses_) < 0).all()
    assert tuned.stopping_losses_[tuned.best_epoch_] == tuned.stopping_losses_.min() < tuned.stopping_losses_[0]
    assert tuned.score(data.X_test, data.y_test) > base.score(data.X_test, data.y_test) + 0.1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("learning_rate", [None, 0.01, 50.0])
def test_never_worse_on_the_stopping_rows_than_the_start(seed, learning_rate):
    data = noisy(3, seed=seed)
    tuned = FineTuned(LogisticRegression(), learning_rate=learning_rate, max_epochs=100, random_state=seed).fit(
        *sides(data)
    )
    rows = tuned.stopping_rows_
    before = LogisticRegression().fit(data.X, data.y).predict_proba(data.X_val[rows])
    after = tuned.predict_proba(data.X_val[rows])
    assert log_loss(data.y_val[rows], after) <= log_loss(data.y_val[rows], before) + 1e-12


def test_a_model_that_is_best_as_it_is_stays():
    data = noisy()
    everything = np.vstack([data.X_val] * 3), np.concatenate([data.y_val] * 3)
    tuned = FineTuned(SoftmaxRegression(C=np.inf), held_out=0).fit(*everything, data.X_val, data.y_val)
    start = LogisticRegression(C=np.inf, tol=1e-10).fit(data.X_val, data.y_val)
    np.testing.assert_allclose(tuned.predict_proba(data.X), start.predict_proba(data.X), atol=1e-5)
    unchanged = FineTuned(LogisticRegression(), max_epochs=0).fit(*sides(data))
    assert unchanged.best_epoch_ == 0
    trained = LogisticRegression().fit(data.X, data.y)
    np.testing.assert_allclose(unchanged.predict_proba(data.X), trained.predict_proba(data.X), atol=1e-12)


def test_patience():
    data = noisy()
    tuned = FineTuned(LogisticRegression(), patience=3, max_epochs=5000, random_state=1).fit(*sides(data))
    assert len(tuned.stopping_losses_) == tuned.best_epoch_ + 4 < 5000


def test_the_split():
    data = noisy(3)
    first, again, other = (
        FineTuned(LogisticRegression(), held_out=0.2, max_epochs=1, random_state=seed).fit(*sides(data))
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.stopping_rows_, again.stopping_rows_)
    assert set(first.stopping_rows_) != set(other.stopping_rows_)
    shares = np.bincount(data.y_val[first.stopping_rows_]) / np.bincount(data.y_val)
    np.testing.assert_allclose(shares, 0.2, atol=0.02)
    few = FineTuned(LogisticRegression()).fit(data.X, data.y, data.X_val[:2], [0, 1])  # no class has two rows
    assert len(few.stopping_rows_) == 1


@pytest.mark.parametrize("frozen", [False, True])
def test_pipelines_and_frozen_models(frozen):
    data = rotated()
    model = make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False), LogisticRegression())
    given = FrozenEstimator(clone(model).fit(data.X, data.y)) if frozen else model
    n_rows = 10 if frozen else len(data.y)  # a frozen model looks at none
    tuned = FineTuned(given, max_epochs=40).fit(data.X[:n_rows], data.y[:n_rows], data.X_val, data.y_val)
    head = clone(model[:-1]).fit(data.X)
    inside = FineTuned(LogisticRegression(), max_epochs=40).fit(
        head.transform(data.X), data.y, head.transform(data.X_val), data.y_val
    )
    np.testing.assert_allclose(
        tuned.predict_proba(data.X_test), inside.predict_proba(head.transform(data.X_test)), atol=1e-10
    )
    assert tuned.best_epoch_ > 0


def test_a_frozen_model_is_not_changed():
    data = rotated()
    fitted = LogisticRegression().fit(data.X, data.y)
    before = fitted.coef_.copy()
    tuned = FineTuned(FrozenEstimator(fitted), max_epochs=10).fit(*sides(data))
    assert tuned.best_epoch_ > 0
    np.testing.assert_array_equal(fitted.coef_, before)


def test_a_class_the_training_rows_lack_is_learnt():
    data = noisy(3)
    known = data.y != 2
    tuned = FineTuned(LogisticRegression()).fit(data.X[known], data.y[known], data.X_val, data.y_val)
    assert tuned.predict_proba(data.X_test).shape == (len(data.X_test), 3)
    recall = np.mean(tuned.predict(data.X_test)[data.y_test == 2] == 2)
    assert recall > 0.5
    known = data.y_val != 2
    tuned = FineTuned(LogisticRegression()).fit(data.X, data.y, data.X_val[known], data.y_val[known])
    assert tuned.predict_proba(data.X_test)[:, 2].min() > 0


def test_names_frames_and_sparse_rows():
    data = rotated(3)
    plain = FineTuned(SoftmaxRegression(), max_epochs=50).fit(*sides(data))
    names = np.array(["a", "b", "c"])
    frames = [pd.DataFrame(X).add_prefix("x") for X in (data.X, data.X_val, data.X_test)]
    named = FineTuned(SoftmaxRegression(), max_epochs=50).fit(frames[0], names[data.y], frames[1], names[data.y_val])
    np.testing.assert_array_equal(named.predict(frames[2]), names[plain.predict(data.X_test)])
    sparse = FineTuned(SoftmaxRegression(), max_epochs=50).fit(
        csr_matrix(data.X), data.y, csr_matrix(data.X_val), data.y_val
    )
    np.testing.assert_allclose(sparse.predict_proba(csr_matrix(data.X_test)), plain.predict_proba(data.X_test))


def test_without_validation_rows_and_clone():
    data = noisy()
    model = clone(FineTuned(LogisticRegression(), held_out=0.5, patience=7)).set_params(estimator__C=0.1)
    assert (model.held_out, model.patience, model.estimator.C) == (0.5, 7, 0.1)
    assert len(model.fit(data.X, data.y).stopping_rows_) == round(np.ceil(len(data.y) / 5) / 2)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"learning_rate": 0}, SettingError, r"learning_rate must be a number in \(0, inf\)"),
        ({"max_epochs": -1}, SettingError, "max_epochs must be a whole number >= 0"),
        ({"patience": 0}, SettingError, r"patience must be a number in \[1, inf\]"),
        ({"held_out": 1}, SettingError, r"held_out must be a number in \[0, 1\)"),
        ({"held_out": 0.999}, ShapeError, r"held_out=0.999 of 350 validation rows leaves no row for tuning"),
        ({"estimator": RandomForestClassifier(2)}, InputError, "is not a softmax model"),
    ],
)
def test_errors(params, error, message):
    with pytest.raises(error, match=message):
        FineTuned(**{"estimator": LogisticRegression(), **params}).fit(*sides(noisy()))

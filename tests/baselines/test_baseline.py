"""What every baseline promises: one call, labels of the user's own, settings kept, clear refusals."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from postshift import baselines
from postshift.baselines._baseline import best_epoch
from postshift.exceptions import LabelError, SettingError, ShapeError
from postshift.persistence import dump, load

NAMES = np.array(["ant", "bee", "cow"])


def model():
    return LogisticRegression(max_iter=500)


METHODS = {
    "adaptive surrogates": lambda: baselines.AdaptiveSurrogates(n_outer=3, n_inner=3, n_perturbations=20),
    "coordinate plug-in": lambda: baselines.CoordinatePlugin(model(), metric="f1_macro"),
    "coordinate plug-in, grid": lambda: baselines.CoordinatePlugin(model(), metric="f1_macro", spacing=0.05),
    "cross-entropy on train": lambda: baselines.CrossEntropyOnTrain(model()),
    "cross-entropy on validation": lambda: baselines.CrossEntropyOnValidation(model()),
    "direct search": lambda: baselines.DirectSearch(model(), metric="f1_macro", max_queries=60),
    "fine-tuning": lambda: baselines.FineTuned(model(), max_epochs=20),
    "forward correction": baselines.ForwardCorrection,
    "importance weights": lambda: baselines.ImportanceWeighting(model()),
    "kernel mean matching": lambda: baselines.KernelMeanMatching(model()),
    "learn to reweight": lambda: baselines.LearnToReweight(n_epochs=2),
    "opt-metric": lambda: baselines.OptMetric(model(), metric="f1_macro"),
    "prior correction": lambda: baselines.PriorCorrection(model()),
    "softmax regression": lambda: baselines.CrossEntropyOnTrain(baselines.SoftmaxRegression()),
}
pytestmark = pytest.mark.filterwarnings("ignore::postshift.exceptions.PostshiftWarning")


def rows(seed=0, n=240):
    """Three classes along two axes, a fifth of the labels wrong."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = np.eye(3)[y][:, :2] * 2 + rng.normal(size=(n, 2)) * 0.7
    noisy = np.where(rng.random(n) < 0.2, rng.integers(3, size=n), y)
    return X, NAMES[noisy], NAMES[y]


@pytest.fixture(params=METHODS)
def method(request):
    return METHODS[request.param]()


def test_every_method_is_here():
    used = {type(make()).__name__ for make in METHODS.values()}
    assert used | {"NetworkClassifier", "SoftmaxRegression"} == set(baselines.__all__)


def test_fitted_with_validation_rows(method):
    X, noisy, _ = rows()
    X_val, _, y_val = rows(1, n=90)
    X_test, _, y_test = rows(2, n=200)
    fitted = method.fit(X, noisy, X_val, y_val)
    assert fitted is method
    np.testing.assert_array_equal(fitted.classes_, NAMES)
    assert fitted.n_features_in_ == 2
    labels = fitted.predict(X_test)
    assert labels.shape == (200,)
    assert labels.dtype.kind == "U"
    assert np.mean(labels == y_test) > 0.6
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X_test), labels)  # noqa: S301
    if hasattr(fitted, "predict_proba"):
        table = fitted.predict_proba(X_test)
        np.testing.assert_allclose(table.sum(axis=1), 1)
        np.testing.assert_array_equal(NAMES[np.argmax(table, axis=1)], labels)


def test_comes_back_from_a_file_that_needs_no_trust(method, tmp_path):
    X, noisy, _ = rows()
    X_val, _, y_val = rows(1, n=90)
    fitted = method.fit(X, noisy, X_val, y_val)
    dump(fitted, tmp_path / "model.skops")
    np.testing.assert_array_equal(load(tmp_path / "model.skops").predict(X), fitted.predict(X))


def test_the_same_fit_gives_the_same_labels(method):
    X, noisy, _ = rows()
    X_val, _, y_val = rows(1, n=90)
    first, second = (clone(method).fit(X, noisy, X_val, y_val).predict(X_val) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_without_validation_rows_some_are_held_out(method):
    X, noisy, clean = rows()
    assert np.mean(method.fit(X, noisy).predict(X) == clean) > 0.6


def test_settings_are_kept(method):
    before = method.get_params(deep=False)
    X, noisy, _ = rows()
    method.fit(X, noisy)
    after = clone(method).get_params(deep=False)
    assert {name: repr(value) for name, value in after.items()} == {name: repr(each) for name, each in before.items()}


def test_refusals(method):
    X, noisy, clean = rows()
    if not isinstance(method, baselines.PriorCorrection):  # which reads no label of a validation row
        with pytest.raises(ShapeError, match="belong together"):
            method.fit(X, noisy, X)
    with pytest.raises(LabelError, match="one class"):
        method.fit(X, np.full(len(X), "ant"))
    with pytest.raises(ValueError, match="features"):
        method.fit(X, noisy, X[:, :1], clean)
    with pytest.raises(SettingError, match="profit"):
        method.fit(X, noisy, X, clean, profit=np.ones(len(X)))
    with pytest.raises(ValueError, match="features"):
        clone(method).fit(X, noisy).predict(X[:, :1])


def test_the_best_epoch_has_the_least_stopping_loss():
    losses = [(5.0, 3.0), (4.0, 2.0), (3.0, 2.5), (2.0, 2.0), (1.0, 1.0)]
    number, best, seen = best_epoch(zip("abcde", losses, strict=True), patience=2)
    assert (number, best) == (1, "b")  # epoch 3 is no better, and epoch 4 comes too late
    np.testing.assert_array_equal(seen, losses[:4])
    number, best, seen = best_epoch(zip("abcde", losses, strict=True), patience=np.inf)
    assert (number, best, len(seen)) == (4, "e", 5)
    assert best_epoch([("a", (1.0, 1.0))], patience=1)[:2] == (0, "a")

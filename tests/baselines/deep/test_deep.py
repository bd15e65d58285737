"""NetworkClassifier: what it takes, what it gives, what it refuses."""

from __future__ import annotations

import doctest
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from postshift import PostShiftClassifier
from postshift.baselines import _training, deep
from postshift.baselines.deep import NetworkClassifier
from postshift.exceptions import LabelError, SettingError, ShapeError, WeightError
from tests.baselines.deep.problems import digits, normalised, same_weights, small

torch = pytest.importorskip("torch")

EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "rows are drawn into batches, whatever they weigh",
}
IN_FLOAT32 = "check_methods_subset_invariance"  # to 1e-7; see test_the_probabilities_do_not_depend_on_the_block


@parametrize_with_checks(
    [NetworkClassifier("small", epochs=12, batch_size=32)], expected_failed_checks=lambda _: EXPECTED
)
def test_scikit_learns_checks(estimator, check):
    if IN_FLOAT32 in str(check):
        pytest.skip("numbers are of 32 bits")
    check(estimator)


# -- what it gives -------------------------------------------------------------------------------------------


def test_it_learns_digits():
    X, y = digits(1000)
    model = small(epochs=12, batch_size=64).fit(X[:700], y[:700])
    assert model.score(X[700:], y[700:]) > 0.8
    assert len(model.losses_) == 12
    assert model.losses_[-1] < 0.3 * model.losses_[0]


def test_resnet14_is_trained_on_images_and_goes_down():
    X, y = digits(64)
    model = NetworkClassifier(epochs=4, batch_size=16, learning_rate=0.05).fit(X, y)
    assert model.losses_[-1] < 0.7 * model.losses_[0]
    assert model.embeddings(X).shape == (64, 64)


def test_the_same_seed_gives_the_same_weights():
    X, y = digits(80)
    one, two, other = (small(network=normalised, augment=True, random_state=seed).fit(X, y) for seed in (5, 5, 6))
    assert same_weights(one.weights_, two.weights_)
    assert not same_weights(one.weights_, other.weights_)
    drawn = small(random_state=np.random.RandomState(3)).fit(X, y)
    assert np.array_equal(drawn.predict(X), drawn.predict(X))


def test_probabilities_sum_to_one_and_name_the_label():
    X, y = digits(100)
    names = np.array([f"digit {k}" for k in range(10)])
    model = small().fit(X, names[y])
    eta = model.predict_proba(X)
    np.testing.assert_allclose(eta.sum(axis=1), 1, rtol=0, atol=1e-14)
    assert np.array_equal(model.classes_, names)
    assert np.array_equal(model.predict(X), names[eta.argmax(axis=1)])


@pytest.mark.parametrize("network", ["small", normalised])
def test_the_probabilities_do_not_depend_on_the_block(network, monkeypatch):
    X, y = digits(100)
    model = small(network=network).fit(X, y)
    together = model.predict_proba(X)
    for rows in (1, 7, 99):
        monkeypatch.setattr(_training, "BLOCK", rows)
        np.testing.assert_allclose(model.predict_proba(X), together, atol=1e-5)
    np.testing.assert_allclose(model.set_params(batch_size=3).predict_proba(X[50:60]), together[50:60], atol=1e-5)


def test_embeddings_are_what_the_last_layer_sees():
    X, y = digits(100, flat=True)
    model = small().fit(X, y)
    weights = model.weights_
    hidden = np.maximum(X @ weights["0.weight"].T + weights["0.bias"], 0)
    np.testing.assert_allclose(model.embeddings(X), hidden, atol=1e-5)
    logits = model.embeddings(X) @ weights["2.weight"].T + weights["2.bias"]
    assert np.array_equal(logits.argmax(axis=1), model.predict(X))


def test_running_averages_are_learnt_and_used():
    X, y = digits(100)
    model = small(network=normalised).fit(X + 5, y)
    assert model.weights_["1.running_mean"].any()
    assert model.weights_["1.num_batches_tracked"] == 4 * 4
    one_by_one = np.concatenate([model.predict_proba(row[None] + 5) for row in X[:5]])
    np.testing.assert_allclose(one_by_one, model.predict_proba(X + 5)[:5], atol=1e-5)


def test_a_frame_a_pipeline_and_cross_validation():
    X, y = digits(200, flat=True, n_classes=3)
    frame = pd.DataFrame(X, columns=[f"pixel {k}" for k in range(64)])
    model = small().fit(frame, y)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert np.array_equal(model.predict(frame), small().fit(X, y).predict(X))
    constant = StandardScaler(with_std=False)
    assert cross_val_score(make_pipeline(constant, small(epochs=8)), frame, y, cv=3).min() > 0.9


def test_the_library_shifts_a_network():
    X, y = digits(300, flat=True, n_classes=3)
    shifted = PostShiftClassifier(small(), metric="g_mean", method="smoothed plug-in")
    with pytest.warns(UserWarning, match="validation rows"):
        shifted.fit(X[:200], y[:200], X[200:], y[200:])
    assert shifted.score(X[200:], y[200:]) > 0.8
    assert CalibratedClassifierCV(small(), cv=2).fit(X, y).predict_proba(X[:5]).shape == (5, 3)


def test_clone_and_params():
    model = small(transition=np.eye(10), initial_weights={"a": np.ones(2)}, learning_rate=0.1)
    again = clone(model)
    assert again.get_params().keys() == model.get_params().keys()
    assert again.get_params()["learning_rate"] == 0.1
    assert np.array_equal(again.transition, np.eye(10))
    assert not hasattr(clone(small(epochs=0).fit(*digits(30))), "weights_")


def test_a_fitted_classifier_is_pickled_without_torch():
    X, y = digits(60)
    model = small(network=normalised).fit(X, y)
    stored = pickle.dumps(model)
    assert b"torch" not in stored
    again = pickle.loads(stored)  # noqa: S301
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert same_weights(again.weights_, model.weights_)


def test_weights_of_another_fit_are_gone_on_with():
    X, y = digits(200)
    first = small(epochs=6).fit(X, y)
    again = small(epochs=1, learning_rate=0.01, initial_weights=first.weights_).fit(X, y)
    anew = small(epochs=1, learning_rate=0.01).fit(X, y)
    assert again.losses_[0] < 1.2 * first.losses_[-1] < 0.5 * anew.losses_[0]
    still = small(epochs=0, initial_weights=first.weights_).fit(X, y)
    assert same_weights(still.weights_, first.weights_)


def test_rows_without_weight_do_not_count():
    X, y = digits(120)
    wrong = np.r_[y[:60], (y[60:] + 1) % 10]
    model = small(epochs=15).fit(X, wrong, sample_weight=np.r_[np.ones(60), np.zeros(60)])
    assert model.score(X[:60], y[:60]) > 0.9
    assert model.score(X[60:], wrong[60:]) < 0.3


def test_every_epoch_is_told():
    X, y = digits(60)
    told = []
    model = small(progress=told.append).fit(X, y)
    assert [(each.number, each.n_epochs) for each in told] == [(k, 4) for k in range(1, 5)]
    assert [each.loss for each in told] == model.losses_


def test_torchs_threads_stay_as_they_were():
    before = torch.get_num_threads()
    seen = []
    small(n_threads=before + 1, progress=lambda _: seen.append(torch.get_num_threads())).fit(*digits(60))
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


def test_rows_that_may_not_be_written_are_read():
    X, y = digits(60)
    X.flags.writeable = False
    assert small().fit(X, y).predict(X).shape == (60,)


# -- what it refuses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"epochs": -1}, "epochs must be a whole number >= 0. Got -1"),
        ({"batch_size": 0}, "batch_size must be a whole number >= 1"),
        ({"batch_size": 1, "n_processes": 2}, "batch_size must be a whole number >= 2"),
        ({"learning_rate": -0.1}, r"learning_rate must be a number in \[0, inf\)"),
        ({"weight_decay": "a"}, "weight_decay must be a number"),
        ({"n_threads": 0}, "n_threads must be a whole number >= 1"),
        ({"n_processes": 1.5}, "n_processes must be a whole number >= 1"),
        ({"random_state": -1}, "random_state must be a whole number >= 0"),
        ({"augment": True}, r"augment=True is for images \(n, channels, height, width\). Got rows \(64,\)"),
    ],
)
def test_parameters_out_of_range_are_refused(params, message):
    X, y = digits(40, flat=True)
    with pytest.raises(SettingError, match=message):
        small(**params).fit(X, y)


def test_rows_and_labels_that_do_not_fit_are_refused():
    X, y = digits(40)
    with pytest.raises(LabelError, match=r"at least two classes. Got one class, \[1\]"):
        small().fit(X, np.ones(40, int))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        small().fit(X, y[:-1])
    with pytest.raises(WeightError, match="negative or non-finite"):
        small().fit(X, y, sample_weight=-np.ones(40))
    with pytest.raises(ValueError, match="NaN"):
        small().fit(np.where(X > 0.5, np.nan, X), y)
    model = small().fit(X, y)
    with pytest.raises(ShapeError, match=r"rows must have shape \(1, 8, 8\), as in the fit. Got \(1, 8, 7\) instead"):
        model.predict(X[:, :, :, 1:])
    with pytest.raises(NotFittedError):
        small().predict(X)


def test_weights_of_another_network_are_refused():
    X, y = digits(40)
    weights = small().fit(X, y).weights_
    with pytest.raises(ShapeError, match=r"2 arrays do not fit, e.g. '6.bias' of shape \(10,\), which must be \(9,\)"):
        small(initial_weights=weights).fit(X, np.minimum(y, 8))
    with pytest.raises(
        ShapeError, match=r"1 arrays do not fit, e.g. '6.weight' of shape none, which must be \(10, 64\)"
    ):
        small(initial_weights={name: each for name, each in weights.items() if name != "6.weight"}).fit(X, y)
    with pytest.raises(ShapeError, match=r"e.g. '7.weight' of shape \(1,\), which must be none"):
        small(initial_weights=weights | {"7.weight": np.ones(1)}).fit(X, y)


def test_a_training_that_diverges_says_so_and_leaves_nothing_behind():
    X, y = digits(40, flat=True)
    model = small().fit(X, y)
    with pytest.raises(FloatingPointError, match=r"diverged in epoch 1 .* lower learning_rate \(1e\+15\), or scale X"):
        model.set_params(learning_rate=1e15).fit(1e15 * X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_the_example_of_the_docstring_runs():
    source = deep.NetworkClassifier.__doc__.replace("# doctest: +SKIP", "")
    example = doctest.DocTestParser().get_doctest(source, vars(deep).copy(), "example", None, None)
    assert len(example.examples) == 5
    assert doctest.DocTestRunner().run(example).failed == 0

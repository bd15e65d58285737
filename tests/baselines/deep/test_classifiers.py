"""FineTuned, LearnToReweight, ForwardCorrection and the others, with a network as their model."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from postshift.baselines.cross_entropy import CrossEntropyOnTrain, CrossEntropyOnValidation
from postshift.baselines.deep_methods import fine_tune, learn_to_reweight
from postshift.baselines.fine_tuning import FineTuned
from postshift.baselines.forward_correction import ForwardCorrection
from postshift.baselines.learn_to_reweight import LearnToReweight
from postshift.exceptions import InputError, LabelError, SettingError
from tests.baselines.deep.problems import digits, linear, noisy_blobs, normalised, same_weights, small

torch = pytest.importorskip("torch")

NAMES = np.array(["a", "b", "c"])
LINEAR = {"network": linear, "epochs": 15, "learning_rate": 0.3}


def sides(rows):
    return rows.X, NAMES[rows.y], rows.X_val, NAMES[rows.y_val]


@pytest.mark.parametrize("method", [FineTuned, LearnToReweight, ForwardCorrection])
@pytest.mark.parametrize("head", [None, StandardScaler()])
def test_a_network_learns_the_clean_labels(method, head):
    rows, clean = noisy_blobs(flip=0.65)
    network = small(epochs=10)
    model = method(network if head is None else make_pipeline(head, network)).fit(*sides(rows))
    plain = clone(network).fit(rows.X, NAMES[rows.y])
    assert plain.score(rows.X, NAMES[clean]) < 0.85
    assert model.score(rows.X, NAMES[clean]) > 0.93
    np.testing.assert_allclose(model.predict_proba(rows.X[:9]).sum(axis=1), 1)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert np.array_equal(again.predict(rows.X), model.predict(rows.X))
    assert not hasattr(network, "weights_")


@pytest.mark.parametrize(
    "method",
    [
        partial(FineTuned, max_epochs=3),
        LearnToReweight,
        ForwardCorrection,
        CrossEntropyOnTrain,
        CrossEntropyOnValidation,
    ],
)
def test_images_go_through_whole(method):
    X, y = digits(400)
    model = method(small(network=normalised, augment=True, epochs=2)).fit(X[:200], y[:200], X[200:], y[200:])
    assert model.predict_proba(X).shape == (400, 10)
    held_out = method(small(network=normalised, epochs=1)).fit(X, y)
    assert held_out.predict(X[:3]).shape == (3,)


def test_fine_tuned_calls_fine_tune():
    rows, _ = noisy_blobs()
    model = FineTuned(small(**LINEAR), learning_rate=0.05, max_epochs=12, patience=4, held_out=0.4, random_state=3)
    model.fit(*sides(rows))
    tuning, stopping = model._parts(rows.y_val)
    assert len(stopping) == 60
    assert np.array_equal(stopping, model.stopping_rows_)
    how = {"learning_rate": 0.05, "max_epochs": 12, "patience": 4}
    epoch, tuned, losses = fine_tune(small(**LINEAR), rows, classes=NAMES, tuning=tuning, stopping=stopping, **how)
    assert same_weights(model.estimator_.weights_, tuned.weights_)
    assert np.array_equal(np.column_stack([model.tuning_losses_, model.stopping_losses_]), losses)
    assert model.best_epoch_ == epoch


def test_learn_to_reweight_calls_learn_to_reweight():
    rows, _ = noisy_blobs()
    model = LearnToReweight(small(**LINEAR), batch_size=20).fit(*sides(rows))
    done = learn_to_reweight(small(**LINEAR), rows, classes=NAMES, val_batch_size=20)
    assert same_weights(model.estimator_.weights_, done.weights_)
    assert not hasattr(model, "example_weights_")


def test_forward_correction_trains_with_the_transition():
    rows, _ = noisy_blobs()
    model = ForwardCorrection(small(**LINEAR), percentile=90).fit(*sides(rows))
    expected = small(**LINEAR, transition=model.transition_).fit(rows.X, NAMES[rows.y])
    assert same_weights(model.estimator_.weights_, expected.weights_)
    known = ForwardCorrection(small(**LINEAR), transition=model.transition_).fit(*sides(rows))
    assert same_weights(known.estimator_.weights_, expected.weights_)
    assert known.noisy_estimator_ is None
    told = []
    by_rows = ForwardCorrection(small(**LINEAR, progress=told.append), transition="validation").fit(*sides(rows))
    assert len(told) == 2 * 15
    np.testing.assert_allclose(by_rows.transition_, [[1, 0, 0], [0.6, 0.4, 0], [0, 0, 1]], atol=0.15)


def test_a_known_transition_recovers_the_clean_classes():
    rows, clean = noisy_blobs(2000, 3, flip=0.6)
    transition = np.array([[1.0, 0, 0], [0.6, 0.4, 0], [0, 0, 1]])
    model = ForwardCorrection(small(**LINEAR), transition=transition).fit(*sides(rows))
    ideal = small(**LINEAR).fit(rows.X, NAMES[clean])
    plain = small(**LINEAR).fit(rows.X, NAMES[rows.y])
    assert plain.score(rows.X, NAMES[clean]) < 0.85
    assert model.score(rows.X, NAMES[clean]) > ideal.score(rows.X, NAMES[clean]) - 0.01
    # the probabilities too are those of the clean labels
    assert np.abs(model.predict_proba(rows.X) - ideal.predict_proba(rows.X)).mean() < 0.03
    assert np.array_equal(model.transition_, transition)


def test_the_transition_is_estimated_from_the_networks_own_predictions():
    rows, clean = noisy_blobs(1500, 3, flip=0.6)
    noisy = small(epochs=10).fit(rows.X, NAMES[rows.y])
    model = ForwardCorrection(small(epochs=10), percentile=97).fit(*sides(rows))
    eta = noisy.predict_proba(rows.X)
    anchors = [np.argsort(eta[:, k], kind="stable")[int(0.97 * 1499)] for k in range(3)]
    np.testing.assert_allclose(model.transition_, eta[anchors])
    np.testing.assert_allclose(model.transition_, [[1, 0, 0], [0.6, 0.4, 0], [0, 0, 1]], atol=0.12)
    assert model.score(rows.X, NAMES[clean]) > 0.95
    again = ForwardCorrection(FrozenEstimator(noisy), percentile=97).fit(*sides(rows))
    assert same_weights(again.estimator_.weights_, model.estimator_.weights_)


def test_both_trainings_have_a_checkpoint(tmp_path):
    rows, _ = noisy_blobs(60, 3)
    seen = []
    network = small(network=linear, epochs=2, checkpoint=tmp_path, progress=seen.append)
    first, again = (ForwardCorrection(network).fit(*sides(rows)) for _ in range(2))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["corrected.npz", "training.npz"]
    assert len(seen) == 4
    assert same_weights(first.estimator_.weights_, again.estimator_.weights_)


@pytest.mark.parametrize("whole", [True, False])
def test_a_frozen_network_is_not_trained_again(whole):
    rows, _ = noisy_blobs()
    scaler = StandardScaler().fit(rows.X)
    told = []
    network = small(**LINEAR, progress=told.append).fit(scaler.transform(rows.X), NAMES[rows.y])
    told.clear()
    pipeline = make_pipeline(scaler, network)
    frozen = FrozenEstimator(pipeline) if whole else make_pipeline(scaler, FrozenEstimator(network))
    tuned = FineTuned(frozen, max_epochs=0).fit(*sides(rows))
    np.testing.assert_allclose(tuned.predict_proba(rows.X), pipeline.predict_proba(rows.X), atol=1e-6)
    assert not told
    corrected = ForwardCorrection(frozen).fit(*sides(rows))
    assert len(told) == 15  # once, with the corrected loss
    np.testing.assert_allclose(
        corrected.noisy_estimator_.predict_proba(rows.X), pipeline.predict_proba(rows.X), atol=1e-6
    )
    with pytest.raises(InputError, match="learning to reweight trains the model itself: give one that is not frozen"):
        LearnToReweight(frozen).fit(*sides(rows))


def test_a_frame_and_a_class_on_one_side_alone():
    rows, _ = noisy_blobs(flip=1.0)  # class b is in the validation rows alone
    X, X_val = (pd.DataFrame(each, columns=["u", "v"]) for each in (rows.X, rows.X_val))
    model = FineTuned(small(**LINEAR), learning_rate=0.1, max_epochs=60).fit(X, NAMES[rows.y], X_val, NAMES[rows.y_val])
    assert model.score(X_val, NAMES[rows.y_val]) > 0.95
    reweighted = LearnToReweight(small(**LINEAR)).fit(X, NAMES[rows.y], X_val, NAMES[rows.y_val])
    assert reweighted.predict_proba(X).shape == (600, 3)


def test_what_is_refused():
    rows, _ = noisy_blobs(60, 30)
    fitted = small(network=linear).fit(rows.X, rows.y)
    with pytest.raises(LabelError, match="give a network fitted to the same classes"):
        FineTuned(FrozenEstimator(fitted)).fit(*sides(rows))
    told = []
    own = small(network=linear, transition=np.eye(3), progress=told.append)
    for method in (ForwardCorrection, LearnToReweight):
        with pytest.raises(SettingError, match="must have transition=None"):
            method(own).fit(*sides(rows))
    assert not told  # before anything is trained

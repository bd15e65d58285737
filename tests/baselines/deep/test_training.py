"""The training against NumPy written out: the loss, the steps, the schedule, the augmentation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from postshift.baselines._processes import Member
from postshift.baselines._training import CrossEntropy, Recipe, TensorRows, Training, augmented, row_losses
from postshift.exceptions import ProbabilityError, ShapeError
from tests.baselines.deep.problems import digits, linear, normalised, same_weights, small, smooth

torch = pytest.importorskip("torch")


def recipe(**changes):
    common = {"network": "small", "n_classes": 3, "input_shape": (2,), "epochs": 10, "batch_size": 8, "seed": 0}
    return Recipe(**{**common, "learning_rate": 0.2, "weight_decay": 0.0, **changes})


def test_the_rate_goes_up_in_a_line_and_down_along_a_cosine():
    rates = np.array([recipe().rate(step, 999) for step in range(999)])
    assert rates.argmax() == 149
    assert rates.max() == pytest.approx(0.2)
    np.testing.assert_allclose(rates[:150], 0.2 * np.arange(1, 151) / 150)
    np.testing.assert_allclose(rates[149:], 0.1 + 0.1 * np.cos(np.pi * np.arange(850) / 850), atol=1e-12)
    assert 0 < rates[-1] < 1e-6
    assert {recipe(cyclic=False).rate(step, 999) for step in range(999)} == {0.2}


def test_training_is_nesterovs_descent_written_out():
    X, y = digits(60, flat=True)
    params = {"network": linear, "epochs": 30, "batch_size": 60, "learning_rate": 0.05, "weight_decay": 0.01}
    begin = small(**params | {"epochs": 0}).fit(X, y).weights_
    weights = np.arange(60) % 3 + 1.0
    model = small(**params).fit(X, y, sample_weight=weights)

    theta = np.column_stack([begin["weight"], begin["bias"]]).astype(float)
    design, targets = np.column_stack([X, np.ones(60)]).astype(float), np.eye(10)[y]
    momentum, losses = 0, []
    for step in range(30):
        scores = design @ theta.T
        losses.append(-(weights / weights.sum()) @ (targets * log_softmax(scores, axis=1)).sum(axis=1))
        residuals = softmax(scores, axis=1) - targets
        slope = (residuals * (weights / weights.sum())[:, None]).T @ design + 0.01 * theta
        momentum = slope if step == 0 else 0.9 * momentum + slope
        time = (step + 1) / 31
        rate = 0.05 * (time / 0.15 if time < 0.15 else (1 + math.cos(math.pi * (time - 0.15) / 0.85)) / 2)
        theta = theta - rate * (slope + 0.9 * momentum)
    np.testing.assert_allclose(model.weights_["weight"], theta[:, :-1], atol=2e-5)
    np.testing.assert_allclose(model.weights_["bias"], theta[:, -1], atol=2e-5)
    np.testing.assert_allclose(model.losses_, losses, rtol=1e-4)


def test_every_row_is_seen_once_in_an_epoch():
    n_rows = 29
    sample = TensorRows(
        X=np.arange(n_rows, dtype=np.float32)[:, None] * np.ones(2, np.float32), y=np.zeros(n_rows, np.int64)
    )
    seen = []

    class Noting(CrossEntropy):
        def __call__(self, network, batch, rng):
            seen.append(batch.X[:, 0].numpy().copy())
            return super().__call__(network, batch, rng)

    training = Training(recipe())
    for _ in range(2):
        training.run_epoch(sample, Noting(), Member())
    assert [len(each) for each in seen] == [8, 7, 7, 7] * 2
    first, second = np.concatenate(seen[:4]), np.concatenate(seen[4:])
    assert sorted(first) == sorted(second) == list(range(n_rows))
    assert not np.array_equal(first, second)


class Echo(Member):
    """A process whose fellows have nothing to add."""

    def summed(self, vector):
        return vector


def test_a_process_without_a_row_of_a_batch_adds_nothing():
    X, y = digits(3)
    training = Training(recipe(n_classes=10, input_shape=(1, 8, 8), batch_size=1, augment=True))
    before = training.weights
    training.run_epoch(TensorRows(X=X, y=y), CrossEntropy(), Echo(1, 2))
    assert training.losses == [0.0]
    assert same_weights(training.weights, before)


@pytest.mark.parametrize("member", [Member(), Echo(0, 2)])
def test_layers_that_are_not_to_be_trained_stay_as_they_are(member):
    def half_fixed(n_classes, input_shape):
        network = smooth(n_classes, input_shape)
        network[0].requires_grad_(requires_grad=False)
        return network

    training = Training(recipe(network=half_fixed, weight_decay=0.1))
    before = training.weights
    training.run_epoch(TensorRows(X=np.ones((8, 2), np.float32), y=np.arange(8) % 3), CrossEntropy(), member)
    changed = {name for name, array in training.weights.items() if not np.array_equal(array, before[name])}
    assert changed == {"2.weight", "2.bias"}


# -- the loss ------------------------------------------------------------------------------------------------


def test_the_corrected_loss_is_minus_the_logarithm_of_the_noisy_probability():
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(20, 4)), rng.integers(4, size=20)
    transition = rng.dirichlet(np.ones(4), size=4)
    expected = -np.log((softmax(logits, axis=1) @ transition)[np.arange(20), y])
    found = row_losses(torch.tensor(logits), torch.tensor(y), np.log(transition))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    plain = row_losses(torch.tensor(logits), torch.tensor(y))
    np.testing.assert_allclose(plain.numpy(), -log_softmax(logits, axis=1)[np.arange(20), y], rtol=1e-12)


def test_a_probability_that_rounds_to_nothing_still_has_a_loss():
    logits = torch.tensor([[500.0, 0.0, 0.0]])
    transition = np.array([[1.0, 0, 0], [0, 0.5, 0.5], [0, 0, 1]])
    with np.errstate(divide="ignore"):
        loss = row_losses(logits, torch.tensor([1]), np.log(transition))
    assert loss.item() == pytest.approx(500 - math.log(0.5), rel=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_identity_as_transition_is_no_transition_bit_for_bit(weighted):
    X, y = digits(96)
    weights = np.linspace(0.5, 2, 96) if weighted else None
    params = {"network": normalised, "augment": True, "random_state": 3}
    plain = small(**params).fit(X, y, sample_weight=weights)
    corrected = small(**params, transition=np.eye(10)).fit(X, y, sample_weight=weights)
    assert same_weights(plain.weights_, corrected.weights_)
    assert plain.losses_ == corrected.losses_


@pytest.mark.parametrize(
    ("transition", "error", "message"),
    [
        (np.eye(3), ShapeError, r"transition must have shape \(10, 10\). Got \(3, 3\)"),
        (np.full((10, 10), 0.5), ProbabilityError, "transition has 10 of 10 rows with a sum other than 1"),
        (np.eye(10)[np.r_[:9, 8]], ProbabilityError, r"no class ever gets label 9 \(column 9 is zero\)"),
    ],
)
def test_what_is_no_transition_is_refused(transition, error, message):
    X, y = digits(60)
    with pytest.raises(error, match=message):
        small(transition=transition).fit(X, y)


# -- augmentation --------------------------------------------------------------------------------------------


def test_augmentation_is_a_crop_of_the_padded_image_maybe_mirrored():
    rng = np.random.default_rng(0)
    images = rng.normal(size=(9, 2, 6, 5)).astype(np.float32)
    offsets, flips = rng.integers(9, size=(9, 2)), rng.random(9) < 0.5
    found = augmented(torch.tensor(images), offsets, flips).numpy()
    for image, (line, column), flip, after in zip(images, offsets, flips, found, strict=True):
        padded = np.pad(image, ((0, 0), (4, 4), (4, 4)))
        crop = padded[:, line : line + 6, column : column + 5]
        assert np.array_equal(after, crop[:, :, ::-1] if flip else crop)
    still = augmented(torch.tensor(images), np.full((9, 2), 4), np.zeros(9, bool)).numpy()
    assert np.array_equal(still, images)


def test_augmentation_moves_anew_in_each_epoch_and_mirrors_about_half():
    images = np.zeros((400, 1, 9, 9), np.float32)
    images[:, 0, 4, 3] = 1  # one column left of the middle
    sample = TensorRows(X=images, y=np.zeros(400, np.int64))
    places = []

    class Noting(CrossEntropy):
        def __call__(self, network, batch, rng):
            places.append(np.argwhere(batch.X[:, 0].numpy())[:, 1:])
            return super().__call__(network, batch, rng)

    training = Training(recipe(input_shape=(1, 9, 9), augment=True, batch_size=400))
    for _ in range(2):
        training.run_epoch(sample, Noting(), Member())
    assert not np.array_equal(places[0], places[1])
    for place in places:
        assert set(place[:, 0]) == set(range(9))
        assert len(place) < 400  # some points were moved out, those at column 3 + 4 + 1 mirrored
        assert 0.4 < (place[:, 1] > 4).sum() / len(place) < 0.65

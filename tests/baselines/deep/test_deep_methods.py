"""Fine-tuning and learning to reweight of networks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from postshift.baselines._baseline import BothSides
from postshift.baselines.deep_methods import (
    example_weights,
    fine_tune,
    learn_to_reweight,
    meta_gradient,
    trained,
)
from postshift.exceptions import LabelError, SettingError, ShapeError
from tests.baselines.deep.problems import digits, linear, noisy_blobs, normalised, same_weights, small, smooth

torch = pytest.importorskip("torch")

NAMES = np.array(["a", "b", "c"])
LINEAR = {"network": linear, "epochs": 15, "learning_rate": 0.3}


def halves(rows):
    numbers = np.arange(len(rows.y_val))
    return {"classes": NAMES, "tuning": numbers[::2], "stopping": numbers[1::2]}


def tensors(n_rows, *, seed, n_features=4, n_classes=3):
    rng = np.random.default_rng(seed)
    return torch.tensor(rng.normal(size=(n_rows, n_features))), torch.tensor(rng.integers(n_classes, size=n_rows))


def loss_of(network, x, y):
    return -torch.log_softmax(network(x), dim=1)[torch.arange(len(y)), y]


# -- learning to reweight ------------------------------------------------------------------------------------


def val_loss_after_step(network, batch, val, eps):
    """Return the validation loss after the step of weights eps, made on a copy, by autograd and subtraction alone."""
    state = {name: each.clone() for name, each in network.state_dict().items()}
    gradients = torch.autograd.grad((eps * loss_of(network, *batch)).sum(), list(network.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(network.parameters(), gradients, strict=True):
            parameter.sub_(gradient)
        value = loss_of(network, *val).mean().item()
    network.load_state_dict(state)
    return value


def test_the_meta_gradient_is_that_of_finite_differences():
    torch.manual_seed(0)
    network = smooth(3, (4,)).double()
    batch, val = tensors(8, seed=1), tensors(6, seed=2)
    found = meta_gradient(network, batch, val).numpy()
    radius = 1e-4
    for row, each in enumerate(np.eye(8)):
        ahead, behind = (
            val_loss_after_step(network, batch, val, torch.tensor(sign * radius * each)) for sign in (1, -1)
        )
        assert found[row] == pytest.approx((ahead - behind) / (2 * radius), abs=1e-7)
    assert np.abs(found).max() > 0.01


def test_the_meta_gradient_of_a_linear_network_has_a_closed_form():
    torch.manual_seed(0)
    network = linear(3, (4,)).double()
    batch, val = tensors(10, seed=3), tensors(7, seed=4)
    weight, bias = (parameter.detach().numpy() for parameter in network.parameters())

    def residuals(x, y):
        return softmax(x.numpy() @ weight.T + bias, axis=1) - np.eye(3)[y.numpy()]

    alike = batch[0].numpy() @ val[0].numpy().T + 1
    expected = -(alike * (residuals(*batch) @ residuals(*val).T)).mean(axis=1)
    np.testing.assert_allclose(meta_gradient(network, batch, val).numpy(), expected, atol=1e-12)


def test_the_meta_gradient_is_that_of_differentiating_through_the_step():
    torch.manual_seed(0)
    network = torch.nn.Sequential(*list(normalised(3, (1, 6, 6)))[:3], torch.nn.Flatten(), torch.nn.Linear(144, 3))
    network = network.double().train()
    generator = torch.Generator().manual_seed(1)
    batch, val = (
        (torch.randn(n, 1, 6, 6, generator=generator, dtype=torch.float64), torch.arange(n) % 3) for n in (9, 5)
    )
    before = {name: each.clone() for name, each in network.state_dict().items()}
    found = meta_gradient(network, batch, val)
    assert all(torch.equal(each, before[name]) for name, each in network.state_dict().items())

    eps = torch.zeros(9, dtype=torch.float64, requires_grad=True)
    parameters = dict(network.named_parameters())
    slopes = torch.autograd.grad((eps * loss_of(network, *batch)).sum(), list(parameters.values()), create_graph=True)
    moved = {name: each - slope for (name, each), slope in zip(parameters.items(), slopes, strict=True)}
    after = loss_of(lambda x: torch.func.functional_call(network, moved, (x,)), *val).mean()
    torch.testing.assert_close(found, torch.autograd.grad(after, eps)[0], rtol=1e-9, atol=1e-11)


def test_layers_that_are_not_to_be_trained_do_not_count():
    torch.manual_seed(0)
    network = smooth(3, (4,)).double()
    batch, val = tensors(8, seed=1), tensors(6, seed=2)
    network[0].requires_grad_(requires_grad=False)
    hidden = [(network[1](network[0](x)), y) for x, y in (batch, val)]
    torch.testing.assert_close(meta_gradient(network, batch, val), meta_gradient(network[2], *hidden))


def test_the_weights_are_the_part_that_helps_and_sum_to_one():
    gradient = torch.tensor([-3.0, 1.0, 0.0, -1.0])
    assert example_weights(gradient).tolist() == [0.75, 0, 0, 0.25]
    assert example_weights(torch.tensor([1.0, 0.0])).tolist() == [0, 0]


def test_a_step_is_made_with_these_weights():
    rows, _ = noisy_blobs(40, 12)
    one_step = {"network": linear, "epochs": 1, "batch_size": 40, "weight_decay": 0.0, "learning_rate": 0.1}
    begin = small(**one_step | {"epochs": 0}).fit(rows.X, NAMES[rows.y]).weights_
    model = learn_to_reweight(small(**one_step), rows, classes=NAMES, val_batch_size=500)
    network = linear(3, (2,))
    network.load_state_dict({name: torch.tensor(each) for name, each in begin.items()})
    batch, val = ((torch.tensor(X), torch.tensor(y)) for X, y in [(rows.X, rows.y), (rows.X_val, rows.y_val)])
    weights = example_weights(meta_gradient(network, batch, val))
    loss = (weights * loss_of(network, *batch)).sum()
    loss.backward()
    assert weights.sum().item() == pytest.approx(1)
    assert model.losses_ == [pytest.approx(loss.item(), rel=1e-5)]
    # the first step of Nesterov's method is 1.9 gradients, at the rate of time 1 / 2
    rate = 0.1 * 1.9 * (1 + np.cos(np.pi * 0.35 / 0.85)) / 2
    for name, parameter in network.named_parameters():
        expected = begin[name] - rate * parameter.grad.numpy()
        np.testing.assert_allclose(model.weights_[name], expected, atol=1e-6)


def test_reweighting_finds_the_clean_labels():
    rows, clean = noisy_blobs(flip=0.7)
    plain = small(**LINEAR).fit(rows.X, rows.y)
    model = learn_to_reweight(small(**LINEAR), rows, classes=NAMES)
    assert plain.score(rows.X, clean) < 0.85
    assert model.score(rows.X, NAMES[clean]) > 0.95
    assert np.array_equal(model.classes_, NAMES)


# -- fine-tuning ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learning_rate", [None, 1e-3, 0.3, 3.0])
def test_the_tuned_network_is_never_worse_on_the_rows_it_is_stopped_by(learning_rate):
    rows, _ = noisy_blobs()
    parts = halves(rows)
    start = trained(small(network=smooth), rows, classes=NAMES)
    best_epoch, tuned, losses = fine_tune(start, rows, **parts, learning_rate=learning_rate, max_epochs=20, patience=5)

    def loss(model, part):
        eta = model.predict_proba(rows.X_val[part])
        return -np.log(eta[np.arange(len(part)), rows.y_val[part]]).mean()

    assert losses[0, 0] == pytest.approx(loss(start, parts["tuning"]), rel=1e-6)
    assert losses[0, 1] == pytest.approx(loss(start, parts["stopping"]), rel=1e-6)
    assert losses[best_epoch, 1] == pytest.approx(loss(tuned, parts["stopping"]), rel=1e-6)
    assert best_epoch == np.argmin(losses[:, 1])
    assert loss(tuned, parts["stopping"]) <= loss(start, parts["stopping"])
    assert len(losses) - 1 == min(20, best_epoch + 5)


def test_tuning_corrects_noisy_labels_and_does_not_change_the_start():
    rows, clean = noisy_blobs(flip=0.7)
    start = trained(small(**LINEAR), rows, classes=NAMES)
    before = {name: each.copy() for name, each in start.weights_.items()}
    best_epoch, tuned, _ = fine_tune(start, rows, **halves(rows), max_epochs=60)
    assert same_weights(start.weights_, before)
    assert start.score(rows.X, NAMES[clean]) < 0.85
    assert tuned.score(rows.X, NAMES[clean]) > 0.95
    assert best_epoch > 0


def test_a_network_that_gets_worse_stays_as_it_was():
    rows, _ = noisy_blobs(flip=0.0)
    wrong = replace(rows, y_val=np.where(np.arange(150) % 2, rows.y_val, (rows.y_val + 1) % 3))  # tuned by nonsense
    start = trained(small(**LINEAR), rows, classes=NAMES)
    best_epoch, tuned, losses = fine_tune(start, wrong, **halves(rows), max_epochs=9, patience=3)
    assert best_epoch == 0
    assert len(losses) == 4
    assert same_weights(tuned.weights_, start.weights_)


def test_a_network_that_is_not_fitted_is_trained_first():
    X, y = digits(150)
    rows = BothSides(X=X[:90], y=y[:90], X_val=X[90:], y_val=y[90:], n_classes=10)
    how = {"classes": np.arange(10), "tuning": np.arange(30), "stopping": np.arange(30, 60), "max_epochs": 3}
    model = small(network=normalised, augment=True)
    _, one, losses = fine_tune(model, rows, **how)
    _, two, again = fine_tune(model.fit(X[:90], y[:90]), rows, **how)
    assert same_weights(one.weights_, two.weights_)
    assert np.array_equal(losses, again)


def test_a_class_without_training_rows_is_learnt_by_tuning():
    rows, _ = noisy_blobs(flip=1.0)  # class 1 is never seen
    _, tuned, _ = fine_tune(small(**LINEAR), rows, **halves(rows), learning_rate=0.1, max_epochs=60)
    stopping = halves(rows)["stopping"]
    assert tuned.score(rows.X_val[stopping], NAMES[rows.y_val[stopping]]) > 0.95


def test_a_fitted_network_of_other_classes_is_refused():
    rows, clean = noisy_blobs()
    model = small(network=linear).fit(rows.X, clean)
    with pytest.raises(LabelError, match=r"fitted to the classes \[0, 1, 2\], and the rows have \['a', 'b', 'c'\]"):
        fine_tune(model, rows, **halves(rows))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"patience": 0}, r"patience must be a number in \[1, inf\]"),
        ({"max_epochs": -1}, "max_epochs must be a whole number >= 0"),
        ({"learning_rate": -1.0}, "learning_rate must be a number"),
    ],
)
def test_parameters_of_tuning_out_of_range_are_refused(params, message):
    rows, _ = noisy_blobs(40, 20)
    with pytest.raises(SettingError, match=message):
        fine_tune(small(network=linear, epochs=0), rows, **halves(rows), **params)


# -- what both refuse ----------------------------------------------------------------------------------------


def test_a_transition_of_the_networks_own_is_refused():
    rows, _ = noisy_blobs(40, 20)
    model = small(network=linear, transition=np.eye(3))
    with pytest.raises(SettingError, match="the network of learning to reweight must have transition=None"):
        learn_to_reweight(model, rows, classes=NAMES)


def test_validation_rows_of_another_shape_are_refused():
    X, y = digits(60)
    rows = BothSides(X=X[:40], y=y[:40], X_val=X[40:, :, 1:], y_val=y[40:], n_classes=10)
    with pytest.raises(ShapeError, match=r"rows must have shape \(1, 8, 8\), as in the fit. Got \(1, 7, 8\)"):
        learn_to_reweight(small(), rows, classes=np.arange(10))
    parts = {"tuning": np.arange(10), "stopping": np.arange(10, 20)}
    with pytest.raises(ShapeError, match=r"Got \(1, 7, 8\)"):
        fine_tune(small(), rows, classes=np.arange(10), **parts)

"""The networks: sizes counted by hand, a forward pass written out, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from postshift.baselines.deep import NetworkClassifier
from postshift.baselines.networks import build_network, last_linear, resnet14, small_network
from postshift.exceptions import SettingError, ShapeError
from tests.baselines.deep.problems import digits, small

torch = pytest.importorskip("torch")
functional = torch.nn.functional


def conv(before, after, size=3):
    return before * after * size * size


def norm(channels):
    return 2 * channels


def count(network):
    return sum(parameter.numel() for parameter in network.parameters())


def test_the_number_of_weights_of_resnet14_is_that_counted_by_hand():
    stem = conv(3, 16) + norm(16)
    first = [conv(16, 16) + norm(16) + conv(16, 16), 2 * (norm(16) + conv(16, 16))]
    second = [norm(16) + conv(16, 32) + norm(32) + conv(32, 32) + conv(16, 32, 1), 2 * (norm(32) + conv(32, 32))]
    third = [norm(32) + conv(32, 64) + norm(64) + conv(64, 64) + conv(32, 64, 1), 2 * (norm(64) + conv(64, 64))]
    end = norm(64) + 64 * 10 + 10
    assert count(resnet14(10)) == stem + sum(first) + sum(second) + sum(third) + end == 175_066
    assert count(resnet14(7, n_channels=1)) == 175_066 - conv(2, 16) - 3 * 65


def test_resnet14_has_fourteen_layers_and_three_sizes():
    network = resnet14(10)
    layers = [each for each in network.modules() if isinstance(each, torch.nn.Conv2d) and each.kernel_size == (3, 3)]
    assert len(layers) + 1 == 14
    sizes = []
    for layer in layers:
        layer.register_forward_hook(lambda _, __, out: sizes.append(tuple(out.shape[1:])))
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert sizes == [(16, 32, 32)] * 5 + [(32, 16, 16)] * 4 + [(64, 8, 8)] * 4


def test_resnet14_is_the_network_written_out():
    network = resnet14(10).eval()
    generator = torch.Generator().manual_seed(0)
    for buffer in network.buffers():  # running averages that are not 0 and 1
        if buffer.dtype.is_floating_point:
            buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
    left = list(network.state_dict().values())
    x = torch.randn(2, 3, 32, 32, generator=generator)

    def convolved(value, stride=1):
        weight = left.pop(0)
        return functional.conv2d(value, weight, stride=stride, padding=weight.shape[-1] // 2)

    def activated(value):
        scale, shift, mean, variance, _ = (left.pop(0) for _ in range(5))
        scaled = (value - mean[:, None, None]) / torch.sqrt(variance + 1e-5)[:, None, None]
        return torch.clamp(scaled * scale[:, None, None] + shift[:, None, None], min=0)

    with torch.inference_mode():
        h = activated(convolved(x))
        for number, stride in enumerate([1, 1, 2, 1, 2, 1]):
            inner = convolved(h if number == 0 else activated(h), stride)
            inner = convolved(activated(inner))
            h = (convolved(h, 2) if stride == 2 else h) + inner
        pooled = activated(h).mean(dim=(2, 3))
        weight, bias = left
        torch.testing.assert_close(network(x), pooled @ weight.T + bias, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(5,), (1, 8, 8), (3, 9, 7)])
def test_the_small_network_takes_rows_and_images(shape):
    network = build_network("small", 4, shape)
    assert network(torch.zeros(3, *shape)).shape == (3, 4)
    assert count(network) < 5000
    assert count(small_network(4, shape)) == count(network)


def test_a_function_builds_a_network_of_ones_own():
    made = build_network(lambda n_classes, shape: torch.nn.Linear(shape[0], n_classes), 3, (7,))
    assert made.weight.shape == (3, 7)
    assert last_linear(made) is made


@pytest.mark.parametrize(
    ("network", "error", "message"),
    [
        ("resnet41", SettingError, "there is no network 'resnet41'; did you mean 'resnet14'"),
        ("transformer", SettingError, "choose from 'resnet14', 'small', or give a function that builds one"),
        ("resnet14", ShapeError, r"takes images \(n, channels, height, width\). Got rows of shape \(64,\) instead"),
        (lambda *_: 3, SettingError, "network must return a torch.nn.Module. Got 3 instead"),
    ],
)
def test_what_is_no_network_is_refused(network, error, message):
    X, y = digits(30, flat=True)
    with pytest.raises(error, match=message):
        NetworkClassifier(network, epochs=1).fit(X, y)


def test_embeddings_need_a_linear_layer():
    def without(n_classes, _):
        return torch.nn.Sequential(torch.nn.Conv2d(1, n_classes, 8), torch.nn.Flatten())

    X, y = digits(30)
    model = small(network=without).fit(X, y)
    assert model.predict_proba(X).shape == (30, 10)
    with pytest.raises(SettingError, match=r"last torch.nn.Linear layer, but this network has no such layer"):
        model.embeddings(X)


def test_the_seed_draws_the_first_weights_and_torchs_own_numbers_stay_as_they_were():
    X, y = digits(30)
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    first = [small(epochs=0, random_state=seed).fit(X, y).weights_["0.weight"] for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(3), expected)
    assert np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], first[2])

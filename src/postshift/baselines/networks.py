"""Networks for images and for tables; torch is imported when the first one is built."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from postshift._installing import install
from postshift._validation import unknown
from postshift.exceptions import SettingError, ShapeError

Build = Callable[[int, tuple[int, ...]], Any]

STAGES = (16, 32, 64)  # channels of ResNet-14
BLOCKS = 2  # of each stage
HIDDEN = 32  # units of the small network
MAPS = 8  # channels of the small network


def torch_module() -> Any:
    """Import torch; the error says how to install it."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise SettingError(f"networks need torch: {install('deep')}") from error


def resnet14(n_classes: int, n_channels: int = 3) -> Any:
    """Return the residual network of 14 layers that the paper trains on CIFAR-10 (Section 7.1).

    As in Patrini et al. (2017): a 3x3 convolution, three stages of two blocks with 16, 32 and 64 channels, global
    average pooling, and a linear layer. The second and the third stage halve height and width. Each block normalises
    before it convolves; the shortcut is a 1x1 convolution where the number of channels changes. The network maps images
    (n, channels, height, width) to logits (n, classes).
    """
    nn = torch_module().nn
    residual = _residual_class()
    layers = [*_convolution(n_channels, STAGES[0]), *_activation(STAGES[0])]
    width = STAGES[0]
    for stage, channels in enumerate(STAGES):
        for block in range(BLOCKS):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(residual(width, channels, stride=stride, activate=stage + block > 0))
            width = channels
    layers += [*_activation(width), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, n_classes)]
    return _initialised(nn.Sequential(*layers))


def small_network(n_classes: int, input_shape: tuple[int, ...]) -> Any:
    """Return a tiny network: one hidden layer for rows ``(features,)``, two convolutions for images.

    The shape of an image is ``(channels, height, width)``. The network maps rows to logits (n, classes).
    """
    nn = torch_module().nn
    if len(input_shape) == 1:
        return _initialised(nn.Sequential(nn.Linear(input_shape[0], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_classes)))
    first, second = _convolution(_channels(input_shape, "small"), MAPS), _convolution(MAPS, 2 * MAPS, stride=2)
    pooled = [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(8 * MAPS, n_classes)]
    return _initialised(nn.Sequential(*first, nn.ReLU(), *second, nn.ReLU(), *pooled))


def build_network(network: str | Build, n_classes: int, input_shape: tuple[int, ...]) -> Any:
    """Return a new network, by name or from a function, for rows of a shape."""
    module = torch_module().nn.Module
    if callable(network):
        built = network(n_classes, input_shape)
        if not isinstance(built, module):
            raise SettingError(f"network must return a torch.nn.Module. Got {built!r} instead")
        return built
    if network == "resnet14":
        return resnet14(n_classes, _channels(input_shape, network))
    if network == "small":
        return small_network(n_classes, input_shape)
    raise SettingError(unknown(network, ["resnet14", "small"], what="network") + ", or give a function that builds one")


def last_linear(network: Any) -> Any:
    """Return the last linear layer of a network; its input is the embedding of a row."""
    linear = torch_module().nn.Linear
    found = [layer for layer in network.modules() if isinstance(layer, linear)]
    if not found:
        raise SettingError(
            "embeddings are the input of the last torch.nn.Linear layer, but this network has no such layer: add one"
        )
    return found[-1]


def _channels(input_shape: tuple[int, ...], network: str) -> int:
    """Return the number of channels of images; raise for rows of another shape."""
    if len(input_shape) != 3:
        raise ShapeError(
            f"network {network!r} takes images (n, channels, height, width). Got rows of shape {input_shape} instead: "
            "reshape X, or use network='small' for rows of features"
        )
    return input_shape[0]


def _convolution(before: int, after: int, *, stride: int = 1) -> list[Any]:
    """Return a 3x3 convolution that keeps height and width, or halves them."""
    return [torch_module().nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)]


def _activation(channels: int) -> list[Any]:
    """Return a normalisation and a rectifier."""
    nn = torch_module().nn
    return [nn.BatchNorm2d(channels), nn.ReLU()]


def _residual_class() -> Any:
    """Return the class of the blocks; its base class needs torch."""
    nn = torch_module().nn

    class Residual(nn.Module):  # type: ignore[name-defined]  # torch may be missing where types are checked
        """Two convolutions with a shortcut."""

        def __init__(self, before: int, after: int, *, stride: int, activate: bool) -> None:
            super().__init__()
            entry = _activation(before) if activate else []
            middle = [*_convolution(before, after, stride=stride), *_activation(after)]
            self.body = nn.Sequential(*entry, *middle, *_convolution(after, after))
            same = before == after and stride == 1
            self.shortcut = nn.Identity() if same else nn.Conv2d(before, after, 1, stride=stride, bias=False)

        def forward(self, x: Any) -> Any:
            return self.shortcut(x) + self.body(x)

    return Residual


def _initialised(network: Any) -> Any:
    """Return the network with weights after He et al. (2015) and biases of 0."""
    nn = torch_module().nn
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return network

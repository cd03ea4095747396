"""The networks of the registered models as ``torch.nn.Module``; needs the extra ``torch``.

None of them draws or gathers anything while training: normalisation is by groups of channels.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import gcd
from typing import Any

from airfeel._extras import missing

try:
    import torch
    from torch import nn
except ImportError as error:
    raise missing("torch", "this model needs") from error

GROUPS = 8  # of channels that are normalised together


def small_cnn(outputs: int = 10, shape: tuple[int, int] = (28, 28), channels: int = 1) -> Any:
    """Return a convolutional network of about 20,000 parameters (for 28 x 28 images and 10 classes)."""
    height, width = (-(-side // 4) for side in shape)  # two strides of 2, rounded up
    return nn.Sequential(
        nn.Conv2d(channels, 8, kernel_size=5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, kernel_size=3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * height * width, 24),
        nn.ReLU(),
        nn.Linear(24, outputs),
    )


def wide_cnn(outputs: int, shape: tuple[int, int] = (32, 32), channels: int = 3) -> Any:
    """Return two convolutions without margins, one pooling, one hidden layer, all drawn as Glorot has it."""
    height, width = ((side - 4) // 2 for side in shape)
    layers = nn.Sequential(
        nn.Conv2d(channels, 32, kernel_size=3),
        nn.ReLU(),
        nn.Conv2d(32, 64, kernel_size=3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * height * width, 128),
        nn.ReLU(),
        nn.Linear(128, outputs),
    )
    for name, parameter in layers.named_parameters():
        if name.endswith("weight"):
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.zeros_(parameter)
    return layers


def perceptron(outputs: int, features: int, hidden: Sequence[int]) -> Any:
    """Return fully connected layers with ReLU between them."""
    sizes = [features, *hidden, outputs]
    layers: list[Any] = [nn.Flatten()]
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def resnet(outputs: int, blocks: int, channels: int = 3, width: int = 16) -> Any:
    """Return a residual network of 6 ``blocks`` + 2 layers (He et al., 2016, Section 4.2) with GroupNorm.

    Three stages of ``blocks`` residual blocks with ``width``, 2 ``width`` and 4 ``width`` channels, each at
    half the resolution of the one before; images may have any size.
    """
    layers: list[Any] = [_convolution(channels, width), _norm(width), nn.ReLU()]
    for stage in range(3):
        for block in range(blocks):
            wide = width * 2**stage
            first = stage > 0 and block == 0
            layers.append(_Residual(wide // 2 if first else wide, wide, stride=2 if first else 1))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, outputs))


class NextToken(nn.Module):  # type: ignore[misc]
    """Numbers for each token, a recurrent layer over them, and a score for every token that may follow.

    From (n, length) to (n, tokens, length).
    """

    def __init__(self, tokens: int, width: int, embedding: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, embedding)
        self.recurrent = nn.GRU(embedding, width, batch_first=True)
        self.scores = nn.Linear(width, tokens)

    def forward(self, inputs: Any) -> Any:
        """Return the scores."""
        found, _ = self.recurrent(self.embedding(inputs))
        return self.scores(found).transpose(1, 2)


class _Residual(nn.Module):  # type: ignore[misc]
    """x + f(x) with two convolutions in f; one of a single pixel fits x to another number of channels."""

    def __init__(self, channels: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            _convolution(channels, outputs, stride),
            _norm(outputs),
            nn.ReLU(),
            _convolution(outputs, outputs),
            _norm(outputs),
        )
        self.shortcut = nn.Identity()
        if stride > 1 or channels != outputs:
            self.shortcut = nn.Conv2d(channels, outputs, kernel_size=1, stride=stride, bias=False)

    def forward(self, inputs: Any) -> Any:
        """Return the block's output."""
        return torch.relu(self.shortcut(inputs) + self.residual(inputs))


def _convolution(channels: int, outputs: int, stride: int = 1) -> Any:
    return nn.Conv2d(channels, outputs, kernel_size=3, stride=stride, padding=1, bias=False)


def _norm(channels: int) -> Any:
    return nn.GroupNorm(gcd(GROUPS, channels), channels)

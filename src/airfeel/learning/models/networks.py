"""Networks in PyTorch: fully connected, convolutional, residual; PyTorch is an extra, and slow to import."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from operator import methodcaller
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from airfeel import _checks
from airfeel.learning.models import LOCAL_STEPS, ImageShape
from airfeel.learning.tasks import DataShape, Task
from airfeel.ranges import Count, Sizes
from airfeel.registry import MODELS, fixed, option


@MODELS.register("mlp", place=10)
@dataclass(frozen=True)
class Mlp:
    """Fully connected layers with ReLU between them, for samples of any shape (needs PyTorch)."""

    hidden: Sizes = option((100,), "sizes of the hidden layers")
    device: Annotated[str, Field(min_length=1)] = option("cpu", "where PyTorch computes")

    tuned: ClassVar[Mapping[str, Any]] = LOCAL_STEPS | {"devices.learning_rate": 0.5}

    def __call__(self, data: DataShape) -> Task:
        """Return the task for samples of this shape."""
        from airfeel.learning.modules import perceptron
        from airfeel.learning.torch_task import for_data

        build = partial(perceptron, features=prod(data.shape), hidden=self.hidden)
        return for_data(data, build, transform=methodcaller("float"), device=self.device)


@MODELS.register("cnn", place=20)
@dataclass(frozen=True)
class SmallCnn:
    """Convolutional network of about 20,000 parameters (needs PyTorch)."""

    device: Annotated[str, Field(min_length=1)] = option("cpu", "where PyTorch computes")
    preset: bool = option(False, "fill keys that are not given with values that train this model well")

    # Not taken unless asked for: configurations of version 0.1, which had no presets, keep their results.
    tuned: ClassVar[Mapping[str, Any]] = LOCAL_STEPS | {"devices.learning_rate": 0.3}

    def __call__(self, data: DataShape) -> Task:
        """Return the task for grey or colour images of this shape."""
        from airfeel.learning.modules import small_cnn
        from airfeel.learning.torch_task import for_data

        image = ImageShape.of(data.shape)
        build = partial(small_cnn, shape=(image.height, image.width), channels=image.channels)
        return for_data(data, build, transform=image.channels_first, device=self.device)


@MODELS.register("wide_cnn", place=25)
@dataclass(frozen=True)
class WideCnn:
    """Two convolutions and a hidden layer, 1,626,442 parameters for CIFAR-10 (needs PyTorch).

    It is the small network by which simulators of federated learning are compared, without its dropout.
    """

    device: Annotated[str, Field(min_length=1)] = option("cpu", "where PyTorch computes")

    tuned: ClassVar[Mapping[str, Any]] = {
        "devices.learning_rate": 0.1,
        "devices.batch_size": 10,
        "devices.local_epochs": 1,
    }

    def __call__(self, data: DataShape) -> Task:
        """Return the task for grey or colour images of this shape, pixels from -2 to 2."""
        from airfeel.learning.modules import wide_cnn
        from airfeel.learning.torch_task import for_data

        image = ImageShape.of(data.shape)
        build = partial(wide_cnn, shape=(image.height, image.width), channels=image.channels)
        return for_data(
            data, build, transform=lambda images: 4 * image.channels_first(images) - 2, device=self.device
        )


@MODELS.register("resnet8", place=30)
@dataclass(frozen=True)
class ResNet8:
    """Residual network of 8 layers with group normalisation, 77,850 parameters (needs PyTorch)."""

    width: Count = option(16, "channels of the first stage")
    device: Annotated[str, Field(min_length=1)] = option("cpu", "where PyTorch computes")
    blocks: int = fixed(1)

    tuned: ClassVar[Mapping[str, Any]] = {
        "devices.count": 10,
        "devices.samples": 5000,
        "devices.learning_rate": 0.05,
        "devices.momentum": 0.9,
        "devices.batch_size": 50,
        "devices.local_steps": 8,
    }

    def __call__(self, data: DataShape) -> Task:
        """Return the task for grey or colour images of this shape."""
        from airfeel.learning.modules import resnet
        from airfeel.learning.torch_task import for_data

        image = ImageShape.of(data.shape)
        build = partial(resnet, blocks=self.blocks, channels=image.channels, width=self.width)
        return for_data(data, build, transform=image.channels_first, device=self.device)


@MODELS.register("resnet20", place=31)
@dataclass(frozen=True)
class ResNet20(ResNet8):
    """Residual network of 20 layers with group normalisation, 272,282 parameters (needs PyTorch)."""

    blocks: int = fixed(3)

    tuned: ClassVar[Mapping[str, Any]] = {**ResNet8.tuned, "devices.learning_rate": 0.02}


@MODELS.register("gru", place=40)
@dataclass(frozen=True)
class Gru:
    """Gated recurrent network that tells the next of every token, for texts (needs PyTorch)."""

    width: Count = option(64, "numbers that it carries from token to token")
    device: Annotated[str, Field(min_length=1)] = option("cpu", "where PyTorch computes")

    def __call__(self, data: DataShape) -> Task:
        """Return the task for sequences of tokens with as many labels."""
        if data.classes is None or len(data.shape) != 1 or data.dtype.kind not in "iu":
            found = f"{data.dtype} of shape {data.shape}"
            raise _checks.reject("sample", found, "must be a sequence of tokens, whole numbers")
        if data.label_shape != data.shape or data.dtype == np.uint8:
            rule = f"must be {data.shape}, one for each token; and tokens must be no uint8, which are pixels"
            raise _checks.reject("shape of a label", data.label_shape, rule)
        from airfeel.learning.modules import NextToken
        from airfeel.learning.torch_task import TorchTask

        return TorchTask(partial(NextToken, data.classes, width=self.width), device=self.device)

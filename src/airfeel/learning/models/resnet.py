"""Residual networks for small images."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import Field

from airfeel.learning.models import ImageShape
from airfeel.learning.tasks import DataShape, Task
from airfeel.ranges import Count
from airfeel.registry import MODELS, fixed, option


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
        from airfeel.learning.modules import resnet  # PyTorch is an extra, and slow to import
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

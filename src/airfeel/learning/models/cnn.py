"""A small convolutional network."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import Field

from airfeel.learning.models import LOCAL_STEPS, ImageShape
from airfeel.learning.tasks import DataShape, Task
from airfeel.registry import MODELS, option


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
        from airfeel.learning.modules import small_cnn  # PyTorch is an extra, and slow to import
        from airfeel.learning.torch_task import for_data

        image = ImageShape.of(data.shape)
        build = partial(small_cnn, shape=(image.height, image.width), channels=image.channels)
        return for_data(data, build, transform=image.channels_first, device=self.device)

"""A small convolutional network."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import Field

from airfeel.learning.tasks import DataShape, Task
from airfeel.registry import MODELS, option


@MODELS.register("cnn", place=20)
@dataclass(frozen=True)
class SmallCnn:
    """Convolutional network of about 20,000 parameters (needs PyTorch)."""

    device: Annotated[str, Field(min_length=1)] = option("cpu", "where PyTorch computes")

    def __call__(self, data: DataShape) -> Task:
        """Return the task for grey images of this shape."""
        from airfeel.learning.torch_task import (
            TorchTask,
            small_cnn,
        )  # PyTorch is an extra, and slow to import

        height, width = data.shape
        return TorchTask(partial(small_cnn, data.classes, (height, width)), device=self.device)

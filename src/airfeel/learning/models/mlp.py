"""Fully connected layers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from operator import methodcaller
from typing import Annotated, Any, ClassVar

from pydantic import Field

from airfeel.learning.models import LOCAL_STEPS
from airfeel.learning.tasks import DataShape, Task
from airfeel.ranges import Sizes
from airfeel.registry import MODELS, option


@MODELS.register("mlp", place=10)
@dataclass(frozen=True)
class Mlp:
    """Fully connected layers with ReLU between them, for samples of any shape (needs PyTorch)."""

    hidden: Sizes = option((100,), "sizes of the hidden layers")
    device: Annotated[str, Field(min_length=1)] = option("cpu", "where PyTorch computes")

    tuned: ClassVar[Mapping[str, Any]] = LOCAL_STEPS | {"devices.learning_rate": 0.5}

    def __call__(self, data: DataShape) -> Task:
        """Return the task for samples of this shape."""
        from airfeel.learning.modules import perceptron  # PyTorch is an extra, and slow to import
        from airfeel.learning.torch_task import for_data

        build = partial(perceptron, features=prod(data.shape), hidden=self.hidden)
        return for_data(data, build, transform=methodcaller("float"), device=self.device)

"""The models, and the way from whatever stands for a model to a task that fits the data."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from airfeel import _checks, _foreign
from airfeel.learning.tasks import DataShape, Task

LOCAL_STEPS = {"devices.batch_size": 50, "devices.local_steps": 10}  # that train small networks well
MOST_CHANNELS = 4  # of an image
ModelLike = Task | Callable[..., Any]
NEEDS: _foreign.Needs = {
    "size": None,
    "init": ("seed",),
    "prepare": ("inputs", "labels"),
    "gradient": ("theta", "samples"),
    "evaluate": ("theta", "samples"),
}


def fitted(model: ModelLike, data: DataShape, name: str, device: str = "cpu") -> Task:
    """Return the task that fits the data.

    A model is a task; or what makes one from the shape of the data; or what makes a ``torch.nn.Module``, such
    as its class, with or without that shape. ``name`` is what messages call it, ``device`` where a bare
    module is computed.
    """
    if hasattr(model, "gradient") and not isinstance(model, type):
        return _checked(model, name)
    if not callable(model):
        rule = "must be a task, or a class or a function that makes a module or a task"
        raise _checks.reject("model.kind", name, rule)
    if _is_module(getattr(model, "func", model)):
        rule = "is a module: must be its class, or a function that builds it, as every thread has its own"
        raise _checks.reject("model.kind", name, rule)
    rule = f"cannot make a model for samples of shape {data.shape}"
    with _foreign.explained(_checks.reject("model.kind", name, rule)):
        build = partial(model, data) if _foreign.wants_something(model) else model
        made = build()
        if _is_module(made):  # cross-entropy, or the squared error where data have no classes
            from airfeel.learning.torch_task import TorchTask, squared_error

            return TorchTask(build, squared_error if data.classes is None else None, device=device)
    if callable(made) and not hasattr(made, "gradient"):  # an object that makes models in its turn
        return fitted(made, data, name, device)
    return _checked(made, name)


def _is_module(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


def _checked(task: Any, name: str) -> Task:
    if rule := _foreign.unfit(task, NEEDS):
        raise _checks.reject("model.kind", name, rule)
    found: Task = task
    return found


@dataclass(frozen=True, slots=True)
class ImageShape:
    """Size of an image, its number of channels, and the axis of a sample that counts them: found here, once.

    ``axis`` is 0 for channels first, 2 for channels last, None for grey images without such an axis.

    >>> ImageShape.of((32, 32, 3)).channels, ImageShape.of((28, 28)).axis
    (3, None)
    """

    height: int
    width: int
    channels: int = 1
    axis: int | None = None

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> "ImageShape":
        """Read a sample's shape: (h, w), (channels, h, w) or (h, w, channels) with up to 4 channels."""
        if len(shape) == 2:
            return cls(shape[0], shape[1])
        first, last = (len(shape) == 3 and shape[axis] <= MOST_CHANNELS for axis in (0, 2))
        if first == last:
            rule = "must be (height, width), (channels, height, width) or (height, width, channels), "
            rule += f"with at most {MOST_CHANNELS} channels and larger images; 'mlp' takes any shape"
            raise _checks.reject("shape of a sample", shape, rule)
        axis = 0 if first else 2
        height, width = shape[1:] if first else shape[:2]
        return cls(height, width, shape[axis], axis)

    def channels_first(self, images: Any) -> Any:
        """Return a tensor of images (n, ...) as (n, channels, height, width)."""
        if self.axis is None:
            return images.unsqueeze(1)
        return images if self.axis == 0 else images.permute(0, 3, 1, 2).contiguous()

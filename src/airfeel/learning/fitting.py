"""From whatever stands for a model to a task that fits the data.

A model is a task; or what makes one from the shape of the data; or what makes a ``torch.nn.Module``, such as
its class, with or without that shape.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from airfeel import _checks, _foreign
from airfeel.learning.tasks import DataShape, Task

ModelLike = Task | Callable[..., Any]
NEEDS: _foreign.Needs = {
    "size": None,
    "init": ("seed",),
    "prepare": ("inputs", "labels"),
    "gradient": ("theta", "samples"),
    "evaluate": ("theta", "samples"),
}


def fitted(model: ModelLike, data: DataShape, name: str, device: str = "cpu") -> Task:
    """Return the task; ``name`` is what messages call the model, ``device`` where a bare module is computed.

    Raises
    ------
    ValueError
        With the reason why it cannot be one.
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
        if _is_module(made):
            return _wrapped(build, data, device)
    if callable(made) and not hasattr(made, "gradient"):  # an object that makes models in its turn
        return fitted(made, data, name, device)
    return _checked(made, name)


def _wrapped(build: Callable[[], Any], data: DataShape, device: str) -> Task:
    """Return the task of a bare module: cross-entropy, or the squared error where data have no classes."""
    from airfeel.learning.torch_task import TorchTask, squared_error

    return TorchTask(build, squared_error if data.classes is None else None, device=device)


def _is_module(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


def _checked(task: Any, name: str) -> Task:
    if rule := _foreign.unfit(task, NEEDS):
        raise _checks.reject("model.kind", name, rule)
    found: Task = task
    return found

"""From whatever stands for a model to a task that fits the data.

A model is a task; or what makes one from the shape of the data; or what makes a ``torch.nn.Module``, such as
its class, with or without that shape.
"""

import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from airfeel import _checks, _foreign
from airfeel.learning.tasks import DataShape, Task

ModelLike = Task | Callable[..., Any]
NEEDED = ("size", "init", "prepare", "gradient", "evaluate")


def fitted(model: ModelLike, data: DataShape, name: str, device: str = "cpu") -> Task:
    """Return the task; ``name`` is what messages call the model, ``device`` where a bare module is computed.

    Raises
    ------
    ValueError
        With the reason why it cannot be one.
    """
    if hasattr(model, "gradient"):
        return _checked(model, name)
    if not callable(model):
        rule = "must be a task, or a class or a function that makes a module or a task"
        raise _checks.reject("model.kind", name, rule)
    if _is_module(getattr(model, "func", model)):
        rule = "is a module: must be its class, or a function that builds it, as every thread has its own"
        raise _checks.reject("model.kind", name, rule)
    try:
        build = partial(model, data) if _takes_data(model) else model
        made = build()
        return _wrapped(build, data, device) if _is_module(made) else _checked(made, name)
    except MemoryError:
        raise
    except Exception as error:  # somebody's function that was not written for this
        if _foreign.is_ours(error):
            raise
        rule = f"cannot make a model for samples of shape {data.shape} ({_foreign.told(error)})"
        raise _checks.reject("model.kind", name, rule) from error


def _wrapped(build: Callable[[], Any], data: DataShape, device: str) -> Task:
    """Return the task of a bare module: cross-entropy, or the squared error where data have no classes."""
    from airfeel.learning.torch_task import TorchTask, squared_error

    return TorchTask(build, squared_error if data.classes is None else None, device=device)


def _takes_data(model: Any) -> bool:
    """Whether a function or class must be given something, which then is the shape of the data."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(model).parameters.values()
    return any(p.kind in kinds and p.default is p.empty for p in parameters)


def _is_module(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


def _checked(task: Any, name: str) -> Task:
    missing = [need for need in NEEDED if not hasattr(task, need)]
    if missing:
        rule = f"must have {', '.join(NEEDED)}, but has no {', '.join(missing)}"
        raise _checks.reject("model.kind", name, rule)
    found: Task = task
    return found

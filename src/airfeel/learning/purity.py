"""Which modules can be trained here: a gradient must be a function of parameters and samples alone.

Needs the extra ``torch``.
"""

from collections.abc import Callable
from typing import Any

from airfeel._extras import missing

try:
    import torch
    from torch.nn.modules.lazy import LazyModuleMixin
except ImportError as error:
    raise missing("torch", "this model needs") from error

_TYPES = (torch.float16, torch.float32, torch.float64)  # what NumPy has too


def trainable(module: Any) -> dict[str, Any]:
    """Return the parameters that are trained, by name: frozen ones stay as they were built."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def refuse_impure(module: Any) -> None:
    """Raise for parts that draw random numbers or gather statistics, and for parameters of several types."""
    for name, part in module.named_modules():
        rule = _impurity(part)
        if rule:
            raise ValueError(f"build() has {type(part).__name__} at {name!r}: {rule}")
    types = {p.dtype for p in trainable(module).values()}
    if len(types) != 1:
        found = f"parameters of types {', '.join(sorted(map(str, types)))}" if types else "no parameters"
        raise ValueError(f"build() has {found}: must have parameters of exactly one type to be trained")
    if not types <= set(_TYPES):
        rule = f"must be one of {', '.join(map(str, _TYPES))}, which NumPy knows too"
        raise ValueError(f"build() has parameters of {types.pop()}: {rule}")


def called_purely(module: Any, call: Callable[[], Any]) -> Any:
    """Return what a call of the module returns, and raise if the call has drawn or changed anything.

    This finds what is no part of the module but a function in its ``forward``, such as
    ``torch.nn.functional.dropout``; only draws from torch's generator of the CPU are seen.
    """
    generator, buffers = torch.get_rng_state(), [buffer.clone() for buffer in module.buffers()]
    outcome = call()
    if not torch.equal(generator, torch.get_rng_state()):
        rule = "must not; functional dropout takes p = 0, devices.weight_decay regularises instead"
        raise ValueError(f"the module or its loss draws random numbers: {rule}")
    for (name, after), before in zip(module.named_buffers(), buffers, strict=True):
        if not torch.equal(before, after):
            raise ValueError(f"the module changes its buffer {name!r} in every pass: must leave it as it is")
    return outcome


def _impurity(part: Any) -> str:
    """Say what a part of a module must not do and what to take instead; empty if it does nothing of the kind.

    Recurrent and attention layers keep their share of dropped values in ``dropout``.
    """
    kind = type(part).__name__
    drops = part.p if "Dropout" in kind else getattr(part, "dropout", 0)
    if isinstance(drops, int | float) and drops > 0:
        return "must not draw anything while training; set it to 0, devices.weight_decay regularises instead"
    if "BatchNorm" in kind or getattr(part, "track_running_stats", False):
        return "must not gather statistics while training; GroupNorm or LayerNorm does not"
    if isinstance(part, LazyModuleMixin):
        return f"must know its sizes when it is built; {kind.removeprefix('Lazy')} does"
    return "must not draw anything while training; LeakyReLU does not" if kind == "RReLU" else ""

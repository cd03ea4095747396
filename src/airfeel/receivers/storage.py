"""Receiver states as named arrays, and as ``.npz`` files without pickle."""

import dataclasses
import io
import os
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from airfeel import _files
from airfeel.receivers.base import Size
from airfeel.receivers.tsaga import TSAGAState

Arrays = dict[str, NDArray[Any]]

KINDS: dict[str, type] = {"TSAGAState": TSAGAState, "Size": Size}


def pack_state(state: Any) -> Arrays:
    """Return a receiver's state as named arrays, which :func:`unpack_state` turns back bit for bit."""
    kind = type(state).__name__
    if kind not in KINDS:
        raise ValueError(f"state = {state!r}: must be a receiver's state, one of {', '.join(KINDS)}")
    return {"kind": np.array(kind), **_flatten("state", state)}


def unpack_state(arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return the state that :func:`pack_state` took apart."""
    kind = str(arrays["kind"]) if "kind" in arrays else "missing"
    if kind not in KINDS:
        raise ValueError(f"kind = {kind!r}: must be one of {', '.join(KINDS)}; this is no receiver's state")
    return _build("state", KINDS[kind], arrays)


def save_state(path: str | os.PathLike[str], state: Any) -> None:
    """Write a receiver's state to ``path`` (``.npz``), whole or not at all.

    >>> import airfeel as af, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "state.npz")
    >>> af.save_state(path, af.TSAGA(activity=0.1).init(100))
    >>> af.load_state(path).size
    100
    """
    content = io.BytesIO()
    np.savez(content, **pack_state(state))  # type: ignore[arg-type]
    _files.write_atomically(Path(path), content.getvalue())


def load_state(path: str | os.PathLike[str]) -> Any:
    """Read a state written by :func:`save_state`; the receiver goes on from it bit for bit."""
    return unpack_state(_files.read_arrays(path))


def _flatten(name: str, value: Any) -> Arrays:
    """Walk through nested dataclasses and tuples; None is simply left out."""
    if value is None:
        return {}
    if dataclasses.is_dataclass(value):
        parts = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    elif isinstance(value, tuple):
        parts = [(str(i), item) for i, item in enumerate(value)]
    else:
        return {name: np.asarray(value)}
    return {key: array for part, item in parts for key, array in _flatten(f"{name}.{part}", item).items()}


def _build(name: str, kind: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Rebuild a value of type ``kind`` from the arrays whose names begin with ``name``."""
    below = any(key.startswith(f"{name}.") for key in arrays)
    if get_origin(kind) in (Union, types.UnionType):
        if name not in arrays and not below:
            return None
        kind = next(option for option in get_args(kind) if option is not type(None))
    if get_origin(kind) is tuple:
        count = len({key[len(name) + 1 :].split(".")[0] for key in arrays if key.startswith(f"{name}.")})
        return tuple(_build(f"{name}.{i}", get_args(kind)[0], arrays) for i in range(count))
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(
            **{f.name: _build(f"{name}.{f.name}", hints[f.name], arrays) for f in dataclasses.fields(kind)}
        )  # type: ignore[operator]
    if name not in arrays:
        raise ValueError(f"{name} is missing: the state is not complete")
    return arrays[name].item() if kind in (int, float, str) else arrays[name]

"""What a user gives: keys and parts of their own, and a configuration that names these in a run folder."""

import hashlib
import inspect
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from airfeel import _checks
from airfeel.config import Config, ConfigLike, build_config, mistakes, opened
from airfeel.learning.models import ModelLike
from airfeel.radio.link import Channel
from airfeel.registry import SEAMS, Part, Registry
from airfeel.registry.options import has_fields
from airfeel.simulation.assembly import DataLike, Own, find_data
from airfeel.uplink.scheme import Scheme


def given(
    config: ConfigLike | None,
    scheme: str | Scheme[Any] | None,
    task: str | ModelLike | None,
    dataset: DataLike | None,
    channel: str | Mapping[str, Any] | Channel | None,
    keys: Mapping[str, Any],
) -> tuple[Config, Own]:
    """Return what people write as a configuration and parts of their own.

    A name, a path or a table is a key of the configuration, as all of ``keys`` are; they win over ``config``.
    """
    found: dict[str, Any] = {"scheme": scheme, "model.kind": task, "dataset": dataset, "channel": channel}
    by_name = {key: part for key, part in found.items() if isinstance(part, str | Path | Mapping)}
    own = Own(*(None if key in by_name else part for key, part in found.items()))
    if isinstance(config, Config) and not keys and not by_name:
        return config, own
    tree, source = opened(config)
    return build_config(tree, {**keys, **by_name}, source, by="keyword"), own


def named(config: Config, own: Own) -> Config:
    """Return the configuration in which ``own`` stands by name: qualified names with their options.

    Raises
    ------
    ValueError
        For a part that cannot be described so: one that is not at the top of a module, or whose options are
        neither numbers nor texts. :func:`airfeel.train` takes any.
    """
    flat = mistakes.flatten(config.model_dump(exclude_none=True))
    for seam, part in (("scheme", own.scheme), ("channel", own.channel), ("model", own.task)):
        if part is not None:
            read = [key for key, (owner, _) in config.chosen.keys.items() if owner == seam]
            flat = {key: value for key, value in flat.items() if key not in read} | _described(seam, part)
    if own.task is not None:
        flat["model.preset"] = False  # an object takes the model's place, not that of other keys
    if own.dataset is not None:
        flat["dataset"] = _data_name(config, own.dataset)
    return build_config(mistakes.nest(flat), source="own parts")


def _described(seam: str, part: Any) -> dict[str, Any]:
    """Return the keys that name one part and its options."""
    registry = SEAMS[seam]
    kind, given = _opened(part)
    found = Part(registry.name_of(kind), kind)
    if not _leads_to(registry, found):
        rule = "must be of a class at the top of a module for a run folder, or a function there"
        raise _checks.reject(registry.key, part, rule)
    bare = kind is type(part) and not has_fields(kind)
    if bare and (isinstance(part, str | partial) or found.options):
        rule = "must be a dataclass, whose fields a run folder can name, or the function that makes it"
        raise _checks.reject(registry.key, part, f"{rule}, with arguments by name; af.train takes any object")
    keys: dict[str, Any] = {registry.key: found.name}
    for key, option in registry.keys(found).items():
        value = (
            given.get(option.name, option.default) if kind is not type(part) else getattr(part, option.name)
        )
        if not _plain(value):
            rule = "must be a number, a text, true or false, or a list of these, to be kept in a run folder"
            raise _checks.reject(f"{kind.__qualname__}.{option.name}", value, rule)
        if value is not None:
            keys[key] = value
    return keys


def _leads_to(registry: Registry, part: Part) -> bool:
    """Whether a name leads back to its part: that of a method or of something local does not."""
    try:
        return bool(registry.get(part.name).target == part.target)
    except ValueError:
        return False


def _opened(part: Any) -> tuple[Any, dict[str, Any]]:
    """Return the class or function of a part, with the options that are given apart from it."""
    if isinstance(part, partial) and not part.args:
        return part.func, part.keywords
    return (part if inspect.isroutine(part) or isinstance(part, type) else type(part)), {}


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_plain(entry) for entry in value)
    return value is None or isinstance(value, str | bool | int | float)


def _data_name(config: Config, data: DataLike) -> str:
    """Return a name for data, with a digest of the arrays."""
    found = find_data(config, data)
    digest = hashlib.sha256()
    for array in (found.train_inputs, found.train_labels, found.test_inputs, found.test_labels):
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return f"{found.name}@{digest.hexdigest()[:16]}"

"""Put what is known about several streams into common arrays, one row per stream, and take it apart again."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")


def stack(items: Sequence[Item]) -> Item:
    """Return one item whose arrays hold those of ``items`` as rows; a single item stays as it is.

    An item is an array, None, or a dataclass of such; all are alike.
    """
    first: Any = items[0]
    if len(items) == 1 or first is None:
        return items[0]
    if isinstance(first, np.ndarray):
        joined: Any = np.concatenate(items)  # type: ignore[arg-type]
        return joined.reshape(len(items), -1)  # type: ignore[no-any-return]
    names = [field.name for field in fields(first)]
    return type(first)(*(stack([getattr(item, name) for item in items]) for name in names))  # type: ignore[no-any-return]


def unstack(item: Any, count: int) -> list[Any]:
    """Undo :func:`stack` for ``count`` items; their arrays are rows of the common ones, not copies."""
    if count == 1 or item is None:
        return [item] * count
    if isinstance(item, np.ndarray):
        return list(item)
    rows = [unstack(getattr(item, field.name), count) for field in fields(item)]
    return [type(item)(*row) for row in zip(*rows, strict=True)]

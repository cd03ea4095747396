"""What devices keep of what they had: the rule for error memories, written once for all schemes."""

from typing import Any

import numpy as np

from airfeel.schemes.base import Array, Plan, Scheme, Sent
from airfeel.schemes.blocks import Mean, Room, Rows


class Kept:
    """The next error memories, and x, the weighted mean of what is not in them: block by block."""

    def __init__(self, weights: Array, whole: float, room: Room | None) -> None:
        self.memory, self.truth = Rows(len(weights), room), Mean(weights, whole)

    def put(self, rows: slice, accumulated: Array, memory: Array) -> None:
        """Take what some devices had, and what they keep of it."""
        self.memory.put(rows, memory)
        self.truth.put(rows, accumulated - memory)


def remember(scheme: Scheme[Any], plan: Plan, accumulated: Array, sent: Sent, delivered: Array) -> Array:
    """Return the next error memories of some devices: the remainder if heard, everything if not.

    ``delivered`` in [0, 1] says what part of a device's signal arrived, (rows,); or what part of each symbol,
    (rows, s), for a scheme that can tell what a symbol stands for.
    """
    if delivered.ndim == 2:
        kept = np.asarray(scheme.remember(plan, accumulated, sent, delivered))  # type: ignore[attr-defined]
        return np.where((delivered > 0).any(axis=1, keepdims=True), kept, accumulated)
    if (delivered == 1).all():
        return sent.remainder
    kept = np.where(delivered[:, None] != 0, sent.remainder, accumulated)
    part = (delivered > 0) & (delivered < 1)
    if part.any():
        missed = (1 - delivered[part, None]).astype(accumulated.dtype)
        kept[part] += missed * (accumulated[part] - sent.remainder[part])
    return kept


def coordinates(scheme: Scheme[Any]) -> bool:
    """Whether a symbol that a device leaves out can stay in its memory; else symbols are mixtures."""
    return hasattr(scheme, "remember")

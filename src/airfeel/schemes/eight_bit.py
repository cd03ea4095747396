"""The plain digital rival: whole updates in eight bits, rounded without bias (QSGD, Alistarh)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.registry import SCHEMES
from airfeel.schemes.error_free import RoundedUpdates
from airfeel.streams import bits
from airfeel.uplink.packing import Arrays, lengthen, named, require, require_scales, shorten
from airfeel.uplink.scheme import Array, Plan, Sent

BLOCK = 256  # coefficients that share a scale
LEVELS = 126  # on each side of zero; one of 127 is left free, as scales are rounded too


@SCHEMES.register("eight_bit", place=3)
@dataclass(frozen=True)
class EightBit(RoundedUpdates):
    """Whole updates in eight bits a coefficient, as messages without radio; nobody carries anything.

    A device divides each block of 256 coefficients by a scale of 16 bits, a 126th of the largest, and rounds
    up or down by chance, so that the mean is right. The server takes those it heard for all.
    """

    def encode(self, plan: Plan, memory: Any, update: Array) -> Sent:
        """Round every row by numbers of its own."""
        rows, size = update.shape
        blocks = -(-size // BLOCK)
        padded = np.zeros((rows, blocks, BLOCK), np.float32)
        padded.reshape(rows, -1)[:, :size] = update
        scales = shorten(np.abs(padded).max(axis=2) / np.float32(LEVELS))
        steps = lengthen(scales)[:, :, None]
        counts = padded / np.where(steps == 0, np.float32(1), steps)
        for row, place in zip(counts, plan["places"], strict=True):
            raw = bits(plan["seed"], "rounding", device=int(place)).random_raw(blocks * BLOCK // 2)
            row += raw.astype("<u8").view("<u4").reshape(row.shape) * 2.0**-32
        np.floor(counts, out=counts)
        signal = (counts * steps).reshape(rows, -1)[:, :size]
        return Sent(signal, message=(counts.reshape(rows, -1)[:, :size], scales))

    def pack(self, sent: Sent) -> dict[str, NDArray[Any]]:
        """Return whole numbers of eight bits, and scales of sixteen."""
        counts, scales = sent.message
        return {"counts": counts[0].astype(np.int8), "scales": scales[0]}

    def unpack(self, plan: Plan, arrays: Arrays, length: int) -> NDArray[np.float32]:
        """Return counts times scales; refuse what no device can have sent."""
        counts, scales = named(arrays, "counts", "scales")
        counts = require(counts, np.int8, (length,))
        steps = require_scales(lengthen(require(scales, np.uint16, (-(-length // BLOCK),))))
        return counts.astype(np.float32) * np.repeat(steps, BLOCK)[:length]

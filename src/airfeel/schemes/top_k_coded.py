"""The sparse digital rival: the largest entries in eight bits, with coded places and an error memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.registry import SCHEMES
from airfeel.schemes.error_free import ErrorFree
from airfeel.schemes.sparsification import largest
from airfeel.units import count
from airfeel.uplink.packing import Arrays, pack_sparse, unpack_sparse
from airfeel.uplink.scheme import Array, Plan, Sent

LEVELS = 127  # on each side of zero


@SCHEMES.register("top_k_coded", place=8)
@dataclass(frozen=True)
class TopKCoded(ErrorFree):
    """The k largest entries in eight bits each, as messages; the rest waits in an error memory.

    Of e = update + memory a device keeps the k entries of largest size, sends their places, coded by the gaps
    between them, and each as a whole number of steps, a 127th of the largest. What rounding takes away waits
    with all other entries.
    """

    def compress(self, plan: Plan, accumulated: Array) -> Sent:
        """Send whole numbers of steps at k places, and keep the rest."""
        sizes = np.abs(accumulated)
        chosen = largest(sizes, count(self.sparsity, accumulated.shape[1]))
        most = np.minimum(sizes.max(axis=1, keepdims=True), np.finfo(np.float32).max)
        steps = (most / LEVELS).astype(np.float32)
        wide = steps.astype(accumulated.dtype)
        # In float64: of subnormal steps NumPy 1.26 says that they overflow.
        counts = np.rint(np.divide(accumulated, np.where(wide == 0, 1, wide), dtype=np.float64))
        counts = np.where(chosen, np.clip(counts, -LEVELS, LEVELS), 0).astype(accumulated.dtype)
        signal = counts * wide
        return Sent(signal, accumulated - signal, message=(chosen, counts.astype(np.int8), steps[:, 0]))

    def pack(self, sent: Sent) -> dict[str, NDArray[Any]]:
        """Return the step, eight bits for every value, and the places."""
        chosen, counts, steps = (part[0] for part in sent.message)
        places = np.flatnonzero(chosen)
        values = np.unpackbits(counts[places].view(np.uint8)[:, None], axis=1)
        return pack_sparse(steps, values, places, len(chosen))

    def unpack(self, plan: Plan, arrays: Arrays, length: int) -> NDArray[np.float32]:
        """Return counts times steps; refuse what no device can have sent."""
        step, values, places = unpack_sparse(arrays, 8, count(self.sparsity, length), length)
        signal = np.zeros(length, np.float32)
        signal[places] = np.packbits(values, axis=1)[:, 0].view(np.int8).astype(np.float32) * step
        return signal

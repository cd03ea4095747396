"""Sparse ternary compression: few signs and an error memory (Sattler and others, IEEE TNNLS 31, 2020)."""

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


@SCHEMES.register("stc", place=7)
@dataclass(frozen=True)
class Stc(ErrorFree):
    """Signs of the k largest entries with one scale, as messages; the rest waits in an error memory.

    STC: of e = update + memory a device keeps the k entries of largest size, sends their places, coded by the
    gaps between them, their signs, and the mean of their sizes in single precision.
    """

    def compress(self, plan: Plan, accumulated: Array) -> Sent:
        """Send sign times mean size at k places, and keep the rest."""
        rows, size = accumulated.shape
        keep = count(self.sparsity, size)
        chosen = largest(np.abs(accumulated), keep)
        means = np.abs(accumulated[chosen]).reshape(rows, keep).mean(axis=1, dtype=np.float64)
        scales = np.minimum(means, np.finfo(np.float32).max).astype(np.float32)
        spread = scales.astype(accumulated.dtype)[:, None]
        signal = np.where(chosen, np.where(accumulated >= 0, spread, -spread), accumulated.dtype.type(0))
        return Sent(signal, accumulated - signal, message=(chosen, accumulated >= 0, scales))

    def pack(self, sent: Sent) -> dict[str, NDArray[Any]]:
        """Return the scale, a bit for every sign, and the places."""
        chosen, positive, scales = (part[0] for part in sent.message)
        places = np.flatnonzero(chosen)
        return pack_sparse(scales, positive[places][:, None], places, len(chosen))

    def unpack(self, plan: Plan, arrays: Arrays, length: int) -> NDArray[np.float32]:
        """Return signs times scale; refuse what no device can have sent."""
        scale, positive, places = unpack_sparse(arrays, 1, count(self.sparsity, length), length)
        signal = np.zeros(length, np.float32)
        signal[places] = np.where(positive[:, 0], scale, -scale)
        return signal

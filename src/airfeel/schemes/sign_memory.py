"""The one-bit rival with an error memory (Karimireddy, Rebjock, Stich and Jaggi, ICML 2019)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.receivers.base import Estimate
from airfeel.registry import SCHEMES
from airfeel.uplink.packing import Arrays, named, require, require_scales
from airfeel.uplink.scheme import Array, ErrorFeedback, Heard, Plan, Sent, Setting, Shapes, size_of

Ends = NDArray[np.int64]  # where each tensor ends


@SCHEMES.register("sign_memory", place=5)
@dataclass(frozen=True)
class SignMemory(ErrorFeedback[Ends]):
    """Signs of whole updates with one scale per tensor, as messages; the rest waits in an error memory.

    EF-signSGD: of e = update + memory a device sends the sign of every entry and the mean of their sizes in
    each tensor, in single precision, and keeps what these do not say.
    """

    uses_radio, exact = False, True

    def init(self, shapes: Shapes, setting: Setting) -> Ends:
        """Remember where tensors end."""
        sizes = [size_of({name: shape}) for name, shape in shapes.items()]
        return np.cumsum([size for size in sizes if size], dtype=np.int64)

    def plan(self, state: Ends, seed: int, round: int) -> Plan:
        """Announce where tensors end."""
        return {"ends": state}

    def compress(self, plan: Plan, accumulated: Array) -> Sent:
        """Send sign times mean size, and keep the rest."""
        sizes = _sizes(plan, accumulated.shape[1])
        starts = np.cumsum(sizes) - sizes
        scales = (np.add.reduceat(np.abs(accumulated), starts, axis=1) / sizes).astype(np.float32)
        positive = accumulated >= 0
        spread = np.repeat(scales, sizes, axis=1).astype(accumulated.dtype)
        signal = np.where(positive, spread, -spread)
        return Sent(signal, accumulated - signal, message=(positive, scales))

    def decode(self, state: Ends, plan: Plan, heard: Heard) -> tuple[Estimate, Ends]:
        """Take the weighted mean of the messages for what it is."""
        return Estimate(heard.observation), state

    def pack(self, sent: Sent) -> dict[str, NDArray[Any]]:
        """Return a bit for every sign, and the scales."""
        positive, scales = sent.message
        return {"signs": np.packbits(positive[0]), "scales": scales[0]}

    def unpack(self, plan: Plan, arrays: Arrays, length: int) -> NDArray[np.float32]:
        """Return signs times scales; refuse what no device can have sent."""
        (signs, scales), sizes = named(arrays, "signs", "scales"), _sizes(plan, length)
        signs = require(signs, np.uint8, (-(-length // 8),))
        scales = require_scales(require(scales, np.float32, sizes.shape))
        spread = np.repeat(scales, sizes)
        return np.where(np.unpackbits(signs, count=length).astype(np.bool_), spread, -spread)


def _sizes(plan: Plan, size: int) -> NDArray[np.int64]:
    """Return the sizes of the tensors, which must make up the whole vector."""
    ends = np.asarray(plan["ends"], np.int64)
    sizes = np.diff(ends, prepend=0)
    if not len(ends) or ends[-1] != size or (sizes < 1).any():
        raise _checks.reject("ends", ends, f"must rise to {size}, the number of parameters")
    return sizes

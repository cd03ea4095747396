"""The digital rival that rotates, rounds and rescales: EDEN (Vargaftik and others, ICML 2022)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from airfeel.registry import SCHEMES, option
from airfeel.schemes.error_free import RoundedUpdates
from airfeel.uplink.packing import Arrays, named, require, require_scales, rotate, signs
from airfeel.uplink.scheme import Array, Plan, Sent

LARGEST = 1024  # coefficients that are rotated together
POSITIVE = {  # levels with the least squared error for a standard normal number, by the bits they take
    1: (0.7979,),
    2: (0.4528, 1.5104),
    4: (0.1284, 0.3881, 0.6568, 0.9424, 1.2562, 1.6181, 2.0690, 2.7326),
}


@SCHEMES.register("eden", place=6)
@dataclass(frozen=True)
class Eden(RoundedUpdates):
    """Whole updates in one, two or four bits a coefficient, as messages; nobody carries anything.

    A device rotates blocks of 1024 coefficients by z = H D x, H the orthonormal Hadamard matrix and D random
    signs of its own. Such z are nearly normal: each is rounded to the nearest of the levels q that are best
    for a normal number. The server reads S D H q, with the scale ``S = |x|^2 / <z, q>`` of the block, for
    which the estimate has no bias. At one bit this is DRIVE (Vargaftik and others, NeurIPS 2021).
    """

    bits: Literal[1, 2, 4] = option(1, "of a coefficient")

    def encode(self, plan: Plan, memory: Any, update: Array) -> Sent:
        """Rotate and round every row by signs of its own."""
        rows, size = update.shape
        side, count = _blocks(size)
        levels, limits = self._levels()
        signal, messages = np.zeros((rows, size), np.float32), []
        for told, row, place in zip(signal, update, plan["places"], strict=True):
            blocks = np.zeros((count, side), np.float32)
            blocks.reshape(-1)[:size] = row
            most = np.abs(blocks).max(axis=1, keepdims=True)
            blocks /= np.where(most == 0, np.float32(1), most)
            turned = rotate(blocks * signs(plan["seed"], place, blocks.shape))
            square = np.einsum("ij,ij->i", turned, turned)[:, None]
            normal = turned * np.sqrt(side / np.where(square == 0, np.float32(1), square))
            chosen = np.searchsorted(limits, normal).astype(np.uint8)
            match = np.einsum("ij,ij->i", turned, levels[chosen])[:, None]
            scales = most * (square / np.where(match == 0, np.float32(1), match))
            messages.append((chosen, scales[:, 0].astype(np.float32)))
            told[:] = self._read(plan, place, *messages[-1], size)
        return Sent(signal, message=messages)

    def pack(self, sent: Sent) -> dict[str, NDArray[Any]]:
        """Return the numbers of the levels in so many bits each, behind the scales in single precision."""
        chosen, scales = sent.message[0]
        places = np.unpackbits(chosen.reshape(-1, 1), axis=1)[:, 8 - self.bits :]
        return {"message": np.concatenate((scales.astype("<f4").view(np.uint8), np.packbits(places)))}

    def unpack(self, plan: Plan, arrays: Arrays, length: int) -> NDArray[np.float32]:
        """Return what stands in such bytes; refuse what no device can have sent."""
        (place,), (message,), (side, count) = plan["places"], named(arrays, "message"), _blocks(length)
        size = 4 * count + -(-side * count * self.bits // 8)
        require(message, np.uint8, (size,))
        scales = require_scales(message[: 4 * count].view("<f4"))
        places = np.unpackbits(message[4 * count :], count=side * count * self.bits).reshape(-1, self.bits)
        chosen = np.packbits(places, axis=1) >> np.uint8(8 - self.bits)
        return self._read(plan, place, chosen.reshape(count, side), scales, length)

    def _levels(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the levels, rising, and the limits half-way between them."""
        half = np.array(POSITIVE[self.bits], np.float32)
        levels = np.concatenate((-half[::-1], half))
        return levels, (levels[1:] + levels[:-1]) / np.float32(2)

    def _read(
        self, plan: Plan, place: int, chosen: NDArray[np.uint8], scales: NDArray[np.float32], size: int
    ) -> NDArray[np.float32]:
        """Return S D H q of the coefficients in a message."""
        turned = rotate(self._levels()[0][chosen]) * signs(plan["seed"], place, chosen.shape)
        return (turned * scales[:, None]).reshape(-1)[:size]


def _blocks(size: int) -> tuple[int, int]:
    """Return the side of a block, a power of two, and how many blocks there are.

    >>> _blocks(620), _blocks(20466)
    ((1024, 1), (1024, 20))
    """
    side = min(LARGEST, max(8, 1 << (size - 1).bit_length()))
    return side, -(-size // side)

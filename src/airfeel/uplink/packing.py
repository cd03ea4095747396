"""Signals as arrays that travel in a message, and back: the other side may send anything."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.streams import bits
from airfeel.uplink import rice

Arrays = Mapping[str, NDArray[Any]]

LARGEST = np.array([0x7F7F], np.uint16)  # the largest finite number of 16 bits
BLOCK = 256  # values that are rotated together and share a scale
AT_ONCE = 256  # blocks that are rotated at once: they stay in the processor's cache
STEPS = {2: 0.9957, 4: 0.3352, 8: 0.0308, 16: 2.0**-11}  # of a normal variable (Max), by bits


@dataclass(frozen=True, slots=True)
class Rounding:
    """Values in few bits: blocks of 256, rotated by random signs and a Hadamard matrix, share a scale.

    A block x, the last one filled up with zeros, becomes z = H D x. What travels are odd numbers q of so many
    bits, z over half a step to the nearest, and the scale sigma = sum of z^2 / sum of z q, which makes
    D H (sigma q) right in the mean over all rotations (EDEN, Vargaftik). Over those by random signs alone
    something is left where few values of a block are large: with three values and 253 zeros 19 % of the
    energy with one bit, 1 % with two; with a heavy tail 5 % with one bit, and nothing to speak of with two.
    The signs follow from ``seed`` and ``device``: errors of devices are independent, and both sides know
    them.

    >>> rounding = Rounding(bits=2, seed=1, device=0)
    >>> message = rounding.write(np.linspace(-1, 1, 300, dtype=np.float32))
    >>> message.shape, np.round(rounding.read(message, 300)[:2])
    ((2, 66), array([-1., -1.], dtype=float32))
    """

    bits: int
    seed: int
    device: int

    def width(self) -> int:
        """Return the bytes of a block."""
        return BLOCK * self.bits // 8 + self._scale.itemsize

    @property
    def _scale(self) -> np.dtype[Any]:
        return np.dtype("<u2" if self.bits < 8 else "<f4")  # as exact as the numbers are

    def write(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return values in bytes, (blocks, width)."""
        blocks = np.zeros((-(-len(values) // BLOCK), BLOCK), np.float32)
        blocks.reshape(-1)[: len(values)] = values
        message, own = np.empty((len(blocks), self.width()), np.uint8), self._signs(blocks)
        for part in _parts(len(blocks)):
            message[part] = self._written(rotate(blocks[part] * own[part]))
        return message

    def read(self, message: NDArray[Any], count: int) -> NDArray[np.float32]:
        """Undo :meth:`write`, but for what was rounded; refuse other bytes than those of so many values."""
        require(message, np.uint8, (-(-count // BLOCK), self.width()))
        wide = self._scale.itemsize
        scales = np.ascontiguousarray(message[:, -wide:]).view(self._scale)
        scales = lengthen(scales) if wide == 2 else scales.astype(np.float32)
        require_scales(scales)
        blocks = np.empty((len(message), BLOCK), np.float32)
        own = self._signs(blocks)
        for part in _parts(len(blocks)):
            turned = rotate(scales[part] * self._numbers(message[part, :-wide]))
            np.multiply(turned, own[part], out=blocks[part])
        return blocks.reshape(-1)[:count]

    def _signs(self, blocks: NDArray[np.float32]) -> NDArray[np.int8]:
        return signs(self.seed, self.device, blocks.shape)

    def _written(self, rotated: NDArray[np.float32]) -> NDArray[np.uint8]:
        if self.bits == 1:
            packed, total = np.packbits(rotated >= 0, axis=1), np.abs(rotated).sum(axis=1, keepdims=True)
        else:
            codes = self._codes(rotated)
            odd = 2 * codes.astype(np.float32) - np.float32(2**self.bits - 1)
            packed, total = self._joined(codes), (rotated * odd).sum(axis=1, keepdims=True)
        shares = rotated / np.where(total == 0, np.float32(1), total)
        scales = np.einsum("ij,ij->i", rotated, shares)[:, None]
        told = shorten(scales).astype("<u2") if self.bits < 8 else scales.astype("<f4")
        return np.concatenate((packed, told.view(np.uint8)), axis=1)

    def _codes(self, rotated: NDArray[np.float32]) -> NDArray[np.uint16]:
        """Return the numbers of the nearest odd numbers, from the lowest one on."""
        top, half = np.abs(rotated).max(axis=1, keepdims=True), 2 ** (self.bits - 1)
        steps = rotated / np.where(top == 0, np.float32(1), top)
        steps /= np.float32(STEPS[self.bits]) * np.sqrt(np.mean(steps**2, axis=1, keepdims=True) + (top == 0))
        return np.asarray(np.clip(np.floor(steps) + half, 0, 2 * half - 1), np.uint16)

    def _joined(self, codes: NDArray[np.uint16]) -> NDArray[np.uint8]:
        """Return codes as bytes, the first one in the highest bits."""
        if self.bits == 16:
            return codes.astype("<u2").view(np.uint8)
        found = np.zeros((len(codes), BLOCK * self.bits // 8), np.uint8)
        for place in range(8 // self.bits):
            found |= (codes[:, place :: 8 // self.bits] << (8 - (place + 1) * self.bits)).astype(np.uint8)
        return found

    def _numbers(self, packed: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the odd numbers q that stand in bytes."""
        if self.bits < 8:
            return np.take(_numbers_of_bytes(self.bits), packed, axis=0).reshape(-1, BLOCK)
        codes = np.ascontiguousarray(packed).view("<u2" if self.bits == 16 else np.uint8)
        return 2 * codes.astype(np.float32) - np.float32(2**self.bits - 1)


@lru_cache
def _numbers_of_bytes(bits: int) -> NDArray[np.float32]:
    """Return the odd numbers that stand in each of the 256 bytes, (256, 8 / bits)."""
    shifts = np.arange(8 - bits, -1, -bits)
    codes = np.arange(256)[:, None] >> shifts & (2**bits - 1)
    return np.asarray(2 * codes - (2**bits - 1), np.float32)


def value_bits(argument: str, value: Any) -> int:
    """Return a number of bits in which values can travel: those of a rounding, or 32 for all they have."""
    if isinstance(value, bool) or value not in (1, *STEPS, 32):
        raise _checks.reject(argument, value, "must be 1, 2, 4, 8, 16 or 32")
    return int(value)


def signs(seed: int, device: int, shape: tuple[int, ...]) -> NDArray[np.int8]:
    """Return the random signs D of a device, (blocks, length)."""
    size = prod(shape)
    raw = bits(seed, "signs", device=int(device)).random_raw(-(-size // 64))
    drawn = np.unpackbits(raw.astype("<u8").view(np.uint8), count=size).reshape(shape).view(np.int8)
    return 2 * drawn - np.int8(1)


def rotate(blocks: NDArray[np.float32]) -> NDArray[np.float32]:
    """Multiply each row, of a power of two, by the orthonormal Hadamard matrix, which undoes itself.

    Sums and differences in a fixed order: every machine finds the same bits.
    """
    (count, side), half = blocks.shape, 1
    turned = np.array(blocks.T, order="C")
    other = np.empty_like(turned)
    while half < side:
        pairs, found = (part.reshape(side // (2 * half), 2, half * count) for part in (turned, other))
        np.add(pairs[:, 0], pairs[:, 1], out=found[:, 0])
        np.subtract(pairs[:, 0], pairs[:, 1], out=found[:, 1])
        turned, other, half = other, turned, 2 * half
    rotated = np.ascontiguousarray(turned.T)
    rotated /= np.float32(side**0.5)
    return rotated


def _parts(blocks: int) -> list[slice]:
    return [slice(start, start + AT_ONCE) for start in range(0, blocks, AT_ONCE)]


def pack(signal: NDArray[np.float32], rounding: Rounding | None = None) -> dict[str, NDArray[Any]]:
    """Return a signal as arrays: as it is, or where most of it is zero, one bit for each place and the rest.

    With ``rounding`` values are in its bits.

    >>> sorted(pack(np.array([0, 0, 3] + [0] * 61, dtype=np.float32)))
    ['places', 'values']
    """
    there = signal != 0
    write, wide = (rounding.write, rounding.bits) if rounding is not None else (np.asarray, 32)
    if signal.size + wide * np.count_nonzero(there) < wide * signal.size:
        return {"places": np.packbits(there), "values": write(signal[there])}
    return {"signal": write(signal)}


def named(arrays: Arrays, *names: str) -> list[NDArray[Any]]:
    """Return the arrays of a signal, which must have these names; refuse others in a sentence."""
    if set(arrays) != set(names):
        raise ValueError(f"its signal has the arrays {sorted(arrays)}: must be {' and '.join(names)}")
    return [arrays[name] for name in names]


def unpack(arrays: Arrays, length: int, rounding: Rounding | None = None) -> NDArray[np.float32]:
    """Undo :func:`pack` for a signal of known length; refuse everything else in a sentence."""

    def read(array: NDArray[Any], count: int) -> NDArray[np.float32]:
        return require(array, np.float32, (count,)) if rounding is None else rounding.read(array, count)

    if set(arrays) == {"signal"}:
        return read(arrays["signal"], length)
    if set(arrays) != {"places", "values"}:
        raise ValueError(f"its signal has the arrays {sorted(arrays)}: must be signal, or places and values")
    there = require(arrays["places"], np.uint8, (-(-length // 8),))
    there = np.unpackbits(there, count=length).astype(np.bool_)
    found = np.zeros(length, dtype=np.float32)
    found[there] = read(arrays["values"], int(np.count_nonzero(there)))
    return found


def require(array: NDArray[Any], dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the array of a signal; refuse one of another type or shape."""
    if array.dtype != dtype or array.shape != shape:
        held = f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"its signal is {held}: must be {np.dtype(dtype)} of shape {shape}")
    return array


def require_scales(scales: NDArray[Any]) -> NDArray[np.float32]:
    """Return the scales of a signal in single precision; refuse what no device can have sent."""
    if not ((scales >= 0) & (scales <= 1e36)).all():
        raise ValueError("its signal has a scale that is not between 0 and 1e36")
    return scales.astype(np.float32)


def shorten(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round to the 16 bits that begin a number in single precision: all of its range, three digits.

    >>> lengthen(shorten(np.array([1.0, 1e-30, 3.4e38], np.float32)))
    array([1.0000000e+00, 9.9840208e-31, 3.3895314e+38], dtype=float32)
    """
    whole = np.minimum(values, lengthen(LARGEST), dtype=np.float32).view(np.uint32)
    return ((whole + 0x7FFF + ((whole >> 16) & 1)) >> 16).astype(np.uint16)


def lengthen(halves: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Undo :func:`shorten`, but for what was rounded."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


def pack_sparse(
    scale: Any, values: NDArray[Any], places: NDArray[np.intp], length: int
) -> dict[str, NDArray[Any]]:
    """Return one array of bytes: a scale in single precision, the bits (count, width) of values, and places.

    Places rise, and the gaps between them are in Rice's code: about log2(length / count) + 1.5 bits for a
    place.
    """
    gaps = rice.code(rice.gaps(places), _low_bits(len(places), length))
    coded = np.concatenate((values.astype(np.uint8).reshape(-1), gaps))
    return {"message": np.concatenate((np.array([scale], "<f4").view(np.uint8), np.packbits(coded)))}


def unpack_sparse(
    arrays: Arrays, width: int, count: int, length: int
) -> tuple[np.float32, NDArray[np.bool_], NDArray[np.intp]]:
    """Undo :func:`pack_sparse` for so many values; refuse everything else in a sentence."""
    (message,), low = named(arrays, "message"), _low_bits(count, length)
    fixed = count * (width + low)
    most = 4 + -(-(fixed + (length >> low) + count) // 8)
    if message.dtype != np.uint8 or message.ndim != 1 or not 4 < message.size <= most:
        held = f"{message.dtype} of shape {message.shape}"
        raise ValueError(f"its signal is {held}: must be uint8 of at most {most}")
    scale = require_scales(message[:4].view("<f4"))[0]
    coded = np.unpackbits(message[4:]).astype(np.bool_)
    values, gaps = coded[: count * width], rice.decode(coded[count * width :], low, count, "its signal")
    places = rice.places_of(gaps)
    if places[-1] >= length:
        raise ValueError(f"its signal has a value at place {places[-1]}: must be below {length}")
    return scale, values.reshape(count, width), places


def _low_bits(count: int, length: int) -> int:
    """Return how many bits of a gap are written as they are: about the logarithm of the mean gap."""
    return (length // count).bit_length() - 1
